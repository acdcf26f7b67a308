/** Roles: lists of what their holders may do. Those that every API server has, and those that settings add. */
import { type RequestAttributes, type User, wellKnownGroups } from './user.ts';

/** `*` stands for all; `pods/log` is a subresource, and `*\/status` that of any resource. */
export interface ResourceRule {
  readonly verbs: readonly string[];
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  /** Absent: any name. */
  readonly resourceNames?: readonly string[];
}

/** A path that ends with `*` stands for all that begin like it. */
export interface PathRule {
  readonly verbs: readonly string[];
  readonly nonResourceURLs: readonly string[];
}

export interface Role {
  /** Any of these hold it. */
  readonly users: readonly string[];
  readonly groups: readonly string[];
  /** Where its resource rules hold; absent means everywhere, cluster-wide objects included. */
  readonly namespace?: string;
  readonly resourceRules: readonly ResourceRule[];
  readonly pathRules: readonly PathRule[];
}

export function holds(user: User, { users, groups }: Role): boolean {
  return users.includes(user.name) || groups.some((group) => user.groups.includes(group));
}

export function roleAllows(role: Role, request: RequestAttributes): boolean {
  if (request.kind === 'path') return role.pathRules.some((rule) => pathRuleAllows(rule, request.verb, request.path));
  if (role.namespace !== undefined && role.namespace !== request.namespace) return false;
  return role.resourceRules.some((rule) => resourceRuleAllows(rule, request));
}

export function resourceRuleAllows(
  { verbs, apiGroups, resources, resourceNames = [] }: ResourceRule,
  { verb, group, resource, subresource, name }: Extract<RequestAttributes, { kind: 'resource' }>,
): boolean {
  const full = subresource === '' ? resource : `${resource}/${subresource}`;
  return (
    includesOrAll(verbs, verb) &&
    includesOrAll(apiGroups, group) &&
    (includesOrAll(resources, full) || (subresource !== '' && resources.includes(`*/${subresource}`))) &&
    (resourceNames.length === 0 || resourceNames.includes(name))
  );
}

function pathRuleAllows({ verbs, nonResourceURLs }: PathRule, verb: string, path: string): boolean {
  const matches = (pattern: string): boolean =>
    pattern === path || (pattern.endsWith('*') && path.startsWith(pattern.slice(0, -1)));
  return includesOrAll(verbs, verb) && nonResourceURLs.some(matches);
}

function includesOrAll(list: readonly string[], item: string): boolean {
  return list.includes('*') || list.includes(item);
}

const publicPaths = ['/healthz', '/livez', '/readyz', '/version', '/version/'];

export const builtInRoles: readonly Role[] = [
  {
    users: [],
    groups: [wellKnownGroups.authenticated, wellKnownGroups.unauthenticated],
    resourceRules: [],
    pathRules: [{ verbs: ['get'], nonResourceURLs: publicPaths }],
  },
  {
    users: [],
    groups: [wellKnownGroups.authenticated],
    resourceRules: [
      {
        verbs: ['create'],
        apiGroups: ['authorization.k8s.io'],
        resources: ['selfsubjectaccessreviews', 'selfsubjectrulesreviews'],
      },
      { verbs: ['create'], apiGroups: ['authentication.k8s.io'], resources: ['selfsubjectreviews'] },
    ],
    pathRules: [
      {
        verbs: ['get'],
        nonResourceURLs: ['/api', '/api/*', '/apis', '/apis/*', '/openapi', '/openapi/*', ...publicPaths],
      },
    ],
  },
  {
    users: [],
    groups: [wellKnownGroups.serviceAccounts],
    resourceRules: [],
    pathRules: [
      {
        verbs: ['get'],
        nonResourceURLs: [
          '/.well-known/openid-configuration',
          '/.well-known/openid-configuration/',
          '/openid/v1/jwks',
          '/openid/v1/jwks/',
        ],
      },
    ],
  },
];
