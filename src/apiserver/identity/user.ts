/** Who a request comes from, and the names that Kubernetes reserves for groups and kinds of users. */
export interface User {
  readonly name: string;
  /** Empty where the credentials have none. */
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

export const wellKnownGroups = {
  /** May do everything. */
  masters: 'system:masters',
  nodes: 'system:nodes',
  authenticated: 'system:authenticated',
  unauthenticated: 'system:unauthenticated',
  serviceAccounts: 'system:serviceaccounts',
} as const;

export const anonymousUser: User = {
  name: 'system:anonymous',
  uid: '',
  groups: [wellKnownGroups.unauthenticated],
  extra: {},
};

/** `system:node:` and the node's name, and only together with the nodes' group. The name may turn out empty. */
export function nodeNameOf({ name, groups }: User): string | undefined {
  const prefix = 'system:node:';
  return name.startsWith(prefix) && groups.includes(wellKnownGroups.nodes) ? name.slice(prefix.length) : undefined;
}

export function serviceAccountUserName(namespace: string, name: string): string {
  return `system:serviceaccount:${namespace}:${name}`;
}

export function serviceAccountGroups(namespace: string): readonly string[] {
  return [wellKnownGroups.serviceAccounts, `${wellKnownGroups.serviceAccounts}:${namespace}`];
}
