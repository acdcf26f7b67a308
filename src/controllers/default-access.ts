/**
 * Keeps the roles and bindings that every cluster has: at each start those that are missing are made, and what is missing of the
 * others is added. What somebody added stays, and so does all of an object that says it is not to be updated.
 */
import { isDeepStrictEqual } from 'node:util';
import {
  autoUpdateAnnotation,
  defaultClusterRoleBindings,
  defaultClusterRoles,
  defaultRoleBindings,
  defaultRoles,
} from '../kube/kinds/access/default-roles.ts';
import type { RoleBinding, Subject } from '../kube/kinds/access/role-binding.ts';
import { type ClusterRole, accessGroup } from '../kube/kinds/access/role.ts';
import { coverage } from '../kube/kinds/access/rule-coverage.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import { aggregatedRules } from './cluster-role-aggregation.ts';
import { type Cluster, ensureObject, kindNamed, unlessRefused } from './cluster/cluster.ts';

export async function ensureDefaultAccess(cluster: Cluster): Promise<void> {
  const keep = async <T extends KubeObject>(
    kindName: string,
    wanted: T,
    repair: (current: T, expected: T) => T,
    created: T = wanted,
  ): Promise<void> => {
    const kind = kindNamed(cluster, `${accessGroup}/v1`, kindName);
    const guarded = (current: KubeObject): KubeObject =>
      current.metadata.annotations?.[autoUpdateAnnotation] === 'false' ? current : repair(current as T, wanted);
    await ensureObject(cluster, kind, wanted.metadata.namespace ?? '', created, guarded);
  };
  const keepBinding = async (kindName: string, wanted: RoleBinding): Promise<void> => {
    const kind = kindNamed(cluster, `${accessGroup}/v1`, kindName);
    const key = cluster.keyOf(kind, wanted.metadata.namespace ?? '', wanted.metadata.name);
    const current = (await cluster.get(key)) as RoleBinding | undefined;
    const isOther = current !== undefined && !isDeepStrictEqual(current.roleRef, wanted.roleRef);
    // The role of a binding cannot be changed: it is made again.
    if (isOther && current.metadata.annotations?.[autoUpdateAnnotation] !== 'false') {
      await unlessRefused(cluster.delete(key), 404);
    }
    await keep(kindName, wanted, repairedBinding);
  };
  await Promise.all([
    ...completedClusterRoles().map(([role, created]) => keep('ClusterRole', role, repairedRole, created)),
    ...defaultClusterRoleBindings.map((binding) => keepBinding('ClusterRoleBinding', binding)),
    ...defaultRoles.map((role) => keep('Role', role, repairedRole)),
    ...defaultRoleBindings.map((binding) => keepBinding('RoleBinding', binding)),
  ]);
}

/** Each default role, and as it is made: the aggregated ones with the rules that the controller will find for them. */
function completedClusterRoles(): readonly (readonly [wanted: ClusterRole, created: ClusterRole])[] {
  const complete: ClusterRole[] = [];
  // In an order in which those that are part of others come first.
  for (const role of defaultClusterRoles) {
    complete.push(role.aggregationRule === undefined ? role : { ...role, rules: aggregatedRules(role, complete) });
  }
  return defaultClusterRoles.map((role, index) => [role, complete[index] ?? role]);
}

/** The role with what it lacks of the other; itself if it lacks nothing. */
function repairedRole(current: ClusterRole, wanted: ClusterRole): ClusterRole {
  const { missing } = coverage(current.rules ?? [], wanted.rules ?? []);
  const selectors = current.aggregationRule?.clusterRoleSelectors ?? [];
  const missingSelectors = (wanted.aggregationRule?.clusterRoleSelectors ?? []).filter(
    (selector) => !selectors.some((one) => isDeepStrictEqual(one, selector)),
  );
  const metadata = repairedMetadata(current, wanted);
  const { aggregationRule, ...rest } = current;
  const isExtra = aggregationRule !== undefined && wanted.aggregationRule === undefined;
  if (missing.length + missingSelectors.length === 0 && metadata === current.metadata && !isExtra) return current;
  return {
    ...rest,
    metadata,
    rules: [...(current.rules ?? []), ...missing],
    ...(wanted.aggregationRule && { aggregationRule: { clusterRoleSelectors: [...selectors, ...missingSelectors] } }),
  };
}

/** The same for the subjects of a binding. */
function repairedBinding(current: RoleBinding, wanted: RoleBinding): RoleBinding {
  const { subjects = [] } = current;
  const missing = (wanted.subjects ?? []).filter((subject) => !subjects.some((one) => isSameSubject(one, subject)));
  const metadata = repairedMetadata(current, wanted);
  if (missing.length === 0 && metadata === current.metadata) return current;
  return { ...current, metadata, subjects: [...subjects, ...missing] };
}

function isSameSubject(one: Subject, other: Subject): boolean {
  return one.kind === other.kind && one.name === other.name && (one.namespace ?? '') === (other.namespace ?? '');
}

/** What somebody set to another value stays. */
function repairedMetadata({ metadata }: KubeObject, { metadata: wanted }: KubeObject): KubeObject['metadata'] {
  const annotations = { ...wanted.annotations, ...metadata.annotations };
  const labels = { ...wanted.labels, ...metadata.labels };
  const isSame =
    isDeepStrictEqual(annotations, metadata.annotations ?? {}) && isDeepStrictEqual(labels, metadata.labels ?? {});
  return isSame ? metadata : { ...metadata, annotations, labels };
}
