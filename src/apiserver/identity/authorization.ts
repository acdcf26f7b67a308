/**
 * Decides whether a user may do what they ask for. Members of `system:masters` may do anything, nodes what
 * `node-authorization.ts` grants, and every user what the roles allow that they are bound to.
 */
import type { PolicyRule } from '../../kube/kinds/access/role.ts';
import type { SelfSubjectRulesReview } from '../../kube/kinds/reviews.ts';
import { type Decision, authorizeNode } from './node-authorization.ts';
import type { NodeRelations } from './node-graph.ts';
import { ruleAllows } from './policy-rules.ts';
import { type RoleIndex, describeHolding, missingRole } from './role-index.ts';
import { type RequestAttributes, type User, nodeNameOf, wellKnownGroups } from './user.ts';

export interface AuthorizerSettings {
  /** `alwaysAllow` is for one trusted user on one machine; with `rbac`, whatever nothing allows is refused. */
  readonly mode: 'rbac' | 'alwaysAllow';
}

interface AuthorizerDeps {
  readonly relations: NodeRelations;
  readonly roles: Pick<RoleIndex, 'heldBy'>;
}

type RulesReview = NonNullable<SelfSubjectRulesReview['status']>;

interface HeldRules {
  readonly rules: readonly PolicyRule[];
  /** Why there may be more of them. */
  readonly problems: readonly string[];
}

const everything: readonly PolicyRule[] = [
  { verbs: ['*'], apiGroups: ['*'], resources: ['*'] },
  { verbs: ['*'], nonResourceURLs: ['*'] },
];

/** Whoever looks after the server may ask how it is, also before there are any roles. */
const alwaysAllowed = new Set(['/healthz', '/livez', '/readyz']);

export class Authorizer {
  readonly #deps: AuthorizerDeps;
  readonly #mode: AuthorizerSettings['mode'];

  constructor(deps: AuthorizerDeps, { mode }: AuthorizerSettings) {
    this.#deps = deps;
    this.#mode = mode;
  }

  authorize(user: User, request: RequestAttributes): Decision {
    if (this.#mayAll(user)) return { allowed: true, reason: '' };
    if (request.kind === 'path' && alwaysAllowed.has(request.path)) return { allowed: true, reason: '' };
    const node = nodeNameOf(user);
    const decision = node === undefined ? undefined : authorizeNode(node, user.name, request, this.#deps.relations);
    if (decision?.allowed === true) return decision;
    const missing = new Set<string>();
    for (const held of this.#deps.roles.heldBy(user, namespaceOf(request))) {
      if (held.rules === undefined) missing.add(missingRole(held.binding));
      else if (held.rules.some((rule) => ruleAllows(rule, request))) {
        return { allowed: true, reason: `RBAC: allowed by ${describeHolding(held)}` };
      }
    }
    const reasons = [decision?.reason ?? '', missing.size === 0 ? '' : `RBAC: ${together([...missing])}`];
    return { allowed: false, reason: reasons.filter((reason) => reason !== '').join('\n') };
  }

  /** All that roles allow the user, everywhere and in the namespace. */
  rulesHeldBy(user: User, namespace: string): HeldRules {
    if (this.#mayAll(user)) return { rules: everything, problems: [] };
    const held = [...this.#deps.roles.heldBy(user, namespace)];
    const missing = new Set(held.filter(({ rules }) => rules === undefined).map(({ binding }) => missingRole(binding)));
    return {
      // Several bindings may give the same role.
      rules: [...new Set(held.map(({ rules = [] }) => rules))].flat(),
      problems: missing.size === 0 ? [] : [together([...missing])],
    };
  }

  /** The relations of a node cannot be written as rules, so a node's answer is marked as incomplete. */
  rulesFor(user: User, namespace: string): RulesReview {
    const { rules, problems } = this.rulesHeldBy(user, namespace);
    const isNode = nodeNameOf(user) !== undefined;
    const errors = [...(isNode ? ['node authorizer does not support user rule resolution'] : []), ...problems];
    return {
      resourceRules: rules
        .filter(({ resources = [] }) => resources.length > 0)
        .map(({ verbs, apiGroups = [], resources = [], resourceNames = [] }) => ({
          verbs,
          apiGroups,
          resources,
          ...(resourceNames.length > 0 && { resourceNames }),
        })),
      nonResourceRules: rules
        .filter(({ nonResourceURLs = [] }) => nonResourceURLs.length > 0)
        .map(({ verbs, nonResourceURLs = [] }) => ({ verbs, nonResourceURLs })),
      incomplete: isNode,
      ...(errors.length > 0 && { evaluationError: together(errors) }),
    };
  }

  #mayAll(user: User): boolean {
    return this.#mode === 'alwaysAllow' || user.groups.includes(wellKnownGroups.masters);
  }
}

function namespaceOf(request: RequestAttributes): string {
  return request.kind === 'path' ? '' : request.namespace;
}

/** Several errors as one, as Go prints them. */
function together(errors: readonly string[]): string {
  return errors.length === 1 ? errors.join() : `[${errors.join(', ')}]`;
}
