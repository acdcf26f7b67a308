/**
 * Nobody grants what they do not hold: who writes a role must hold all that it allows, and who binds one all that the role allows.
 * Exempt are those who may `escalate` or `bind` the role, and members of `system:masters`.
 */
import {
  type RoleBinding,
  type RoleRef,
  clusterRoleBindingKind,
  roleBindingKind,
} from '../../kube/kinds/access/role-binding.ts';
import {
  type ClusterRole,
  type PolicyRule,
  accessGroup,
  clusterRoleKind,
  roleKind,
} from '../../kube/kinds/access/role.ts';
import { coverage } from '../../kube/kinds/access/rule-coverage.ts';
import { isRecord } from '../../kube/schema/equality.ts';
import { compareByteOrder, goQuote } from '../../kube/values/go-text.ts';
import type { Authorizer } from '../identity/authorization.ts';
import { type User, wellKnownGroups } from '../identity/user.ts';
import type { KubeObject } from '../model/resource.ts';
import { notFound, resourceName } from '../model/status.ts';
import { objectKey, parseStored } from '../model/stored-objects.ts';
import type { Store } from '../store/store.ts';
import { type AdmissionRequest, type AdmissionStep, refuse } from './admission.ts';

interface EscalationDeps {
  readonly store: Pick<Store, 'get'>;
  /** What the writer holds. */
  readonly authorizer: Pick<Authorizer, 'authorize' | 'rulesHeldBy'>;
}

const roleKinds = new Map([roleKind, clusterRoleKind].map((kind) => [kind.kind, kind]));
const bindingKinds = new Set([roleBindingKind.kind, clusterRoleBindingKind.kind]);
const fullAuthority: readonly PolicyRule[] = [
  { verbs: ['*'], apiGroups: ['*'], resources: ['*'] },
  { verbs: ['*'], nonResourceURLs: ['*'] },
];

export function escalationAdmission({ store, authorizer }: EscalationDeps): AdmissionStep {
  const may = (request: AdmissionRequest, verb: string, plural: string, name: string): boolean => {
    const what = { group: accessGroup, version: '*', resource: plural, subresource: '', name, fieldEquals: {} };
    const { user, namespace } = request;
    return authorizer.authorize(user, { kind: 'resource', verb, namespace, ...what }).allowed;
  };
  const lacking = ({ user, namespace }: AdmissionRequest, wanted: readonly PolicyRule[]): string | undefined => {
    const { rules, problems } = authorizer.rulesHeldBy(user, namespace);
    const { missing, isCut } = coverage(rules, wanted);
    if (missing.length === 0 && !isCut) return undefined;
    return lackingText(user, missing, isCut, problems);
  };
  const checkRole = (request: AdmissionRequest, role: ClusterRole, old?: ClusterRole): void => {
    // A creation is not of a name yet, as rules see it.
    const name = request.operation === 'CREATE' ? '' : request.name;
    if (may(request, 'escalate', request.resource.plural, name)) return;
    const text = lacking(request, role.rules ?? []);
    if (text !== undefined) throw refuse(request, text);
    const aggregates = [role, old].some((one) => (one?.aggregationRule?.clusterRoleSelectors ?? []).length > 0);
    if (aggregates && lacking(request, fullAuthority) !== undefined) {
      throw refuse(request, 'must have cluster-admin privileges to use the aggregationRule');
    }
  };
  const checkBinding = (request: AdmissionRequest, { kind, name }: RoleRef): void => {
    const role = roleKinds.get(kind);
    // Validation refuses it.
    if (role === undefined || name === '' || (role.namespaced && !request.resource.namespaced)) return;
    if (may(request, 'bind', role.plural, name)) return;
    const stored = store.get(objectKey(role, role.namespaced ? request.namespace : '', name));
    if (stored === undefined) throw notFound(resourceName(role), name);
    const text = lacking(request, (parseStored(stored.value) as ClusterRole).rules ?? []);
    if (text !== undefined) throw refuse(request, text);
  };
  return {
    admit(request) {
      const { operation, resource, object, old, user } = request;
      if (resource.group !== accessGroup || operation === 'DELETE' || object === undefined) return undefined;
      if (user.groups.includes(wellKnownGroups.masters)) return undefined;
      if (old !== undefined && isSameGrant(object, old)) return undefined;
      if (roleKinds.has(resource.kind)) checkRole(request, object, old);
      else if (bindingKinds.has(resource.kind)) checkBinding(request, (object as RoleBinding).roleRef);
      return undefined;
    },
  };
}

/** It differs at most in what the garbage collector changes. */
function isSameGrant(object: KubeObject, old: KubeObject): boolean {
  const content = ({ metadata, ...rest }: KubeObject): string => {
    const { ownerReferences: _owners, finalizers: _finalizers, managedFields: _fields, ...kept } = metadata;
    return JSON.stringify(sorted({ ...rest, metadata: kept }));
  };
  return content(object) === content(old);
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isRecord(value)) return value;
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return Object.fromEntries(
    entries.toSorted(([a], [b]) => compareByteOrder(a, b)).map(([key, item]) => [key, sorted(item)]),
  );
}

/** A role of a few kilobytes may lack millions of rights, and each of their words may be long. */
const linesMax = 200;
const verbsMax = 100;
const textLengthMax = 64 * 1024;

function lackingText(user: User, missing: readonly PolicyRule[], isCut: boolean, problems: readonly string[]): string {
  const lines = missingLines(missing);
  let left = textLengthMax;
  const told = lines.slice(0, linesMax).filter((line) => (left -= line.length) >= 0);
  const head = `user ${goQuote(user.name)} (groups=${goList(user.groups)}) is attempting to grant RBAC permissions not currently held:`;
  const isMore = isCut || told.length < lines.length;
  const more = isMore ? ['and more, too many to list'] : [];
  const end = problems.length === 0 ? '' : `; resolution errors: [${problems.join(' ')}]`;
  return [head, ...told.toSorted(compareByteOrder), ...more].join('\n') + end;
}

/** One for each resource and name, with the verbs that are missing of it, and one for each verb on a path. */
function missingLines(missing: readonly PolicyRule[]): readonly string[] {
  const verbsOf = new Map<string, string[]>();
  const add = (key: string, verbs: readonly string[]): boolean => {
    const known = verbsOf.get(key) ?? [];
    if (known.length < verbsMax) verbsOf.set(key, [...known, ...verbs.slice(0, verbsMax)]);
    return verbsOf.size <= linesMax;
  };
  missing.every((rule) => eachWhat(rule, add));
  return [...verbsOf].map(([key, verbs]) => `${key}, Verbs:${goList(verbs)}}`);
}

/** False when `add` has had enough. */
function eachWhat(rule: PolicyRule, add: (key: string, verbs: readonly string[]) => boolean): boolean {
  const { apiGroups = [], resources = [], resourceNames = [], nonResourceURLs = [], verbs } = rule;
  const names = resourceNames.length === 0 ? [''] : resourceNames.map((name) => `, ResourceNames:${goList([name])}`);
  for (const group of apiGroups) {
    for (const resource of resources) {
      const key = `{APIGroups:${goList([group])}, Resources:${goList([resource])}`;
      if (!names.every((name) => add(key + name, verbs))) return false;
    }
  }
  return nonResourceURLs.every((path) => add(`{NonResourceURLs:${goList([path])}`, verbs));
}

/** `["a" "b"]` */
function goList(items: readonly string[]): string {
  return `[${items.map(goQuote).join(' ')}]`;
}
