/**
 * Decides whether a user may do what they ask for. Members of `system:masters` may do anything, nodes what
 * `node-authorization.ts` grants, and every user what their roles allow. There is no RBAC API: roles come from settings.
 */
import { type Decision, authorizeNode } from './node-authorization.ts';
import type { NodeRelations } from './node-graph.ts';
import { type PathRule, type ResourceRule, type Role, builtInRoles, holds, roleAllows } from './roles.ts';
import { type RequestAttributes, type User, nodeNameOf, wellKnownGroups } from './user.ts';

export interface AuthorizerSettings {
  /** `alwaysAllow` is for one trusted user on one machine; with `node`, whatever nothing allows is refused. */
  readonly mode: 'node' | 'alwaysAllow';
  /** Beside those that every API server has. */
  readonly roles: readonly Role[];
}

/** What a SelfSubjectRulesReview answers. */
interface RulesReview {
  readonly resourceRules: readonly ResourceRule[];
  readonly nonResourceRules: readonly PathRule[];
  readonly incomplete: boolean;
  readonly evaluationError?: string;
}

const everything: Omit<RulesReview, 'incomplete'> = {
  resourceRules: [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }],
  nonResourceRules: [{ verbs: ['*'], nonResourceURLs: ['*'] }],
};

export class Authorizer {
  readonly #relations: NodeRelations;
  readonly #mode: AuthorizerSettings['mode'];
  readonly #roles: readonly Role[];

  constructor({ relations }: { readonly relations: NodeRelations }, { mode, roles }: AuthorizerSettings) {
    this.#relations = relations;
    this.#mode = mode;
    this.#roles = [...builtInRoles, ...roles];
  }

  authorize(user: User, request: RequestAttributes): Decision {
    if (this.#mayAll(user)) return { allowed: true, reason: '' };
    const node = nodeNameOf(user);
    const decision = node === undefined ? undefined : authorizeNode(node, user.name, request, this.#relations);
    if (decision?.allowed === true) return decision;
    const allowed = this.#rolesOf(user).some((role) => roleAllows(role, request));
    return { allowed, reason: allowed ? '' : (decision?.reason ?? '') };
  }

  /** The relations of a node cannot be written as rules, so a node's answer is marked as incomplete. */
  rulesFor(user: User, namespace: string): RulesReview {
    if (this.#mayAll(user)) return { ...everything, incomplete: false };
    const roles = this.#rolesOf(user);
    const here = roles.filter((role) => role.namespace === undefined || role.namespace === namespace);
    const rules = {
      resourceRules: here.flatMap(({ resourceRules }) => resourceRules),
      nonResourceRules: roles.flatMap(({ pathRules }) => pathRules),
    };
    if (nodeNameOf(user) === undefined) return { ...rules, incomplete: false };
    return { ...rules, incomplete: true, evaluationError: 'node authorizer does not support user rule resolution' };
  }

  #mayAll(user: User): boolean {
    return this.#mode === 'alwaysAllow' || user.groups.includes(wellKnownGroups.masters);
  }

  #rolesOf(user: User): readonly Role[] {
    return this.#roles.filter((role) => holds(user, role));
  }
}
