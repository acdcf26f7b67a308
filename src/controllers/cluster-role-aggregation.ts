/** Writes the rules of aggregated ClusterRoles: those of all others that their selectors select, over whatever is there. */
import { isDeepStrictEqual } from 'node:util';
import { type ClusterRole, type PolicyRule, accessGroup } from '../kube/kinds/access/role.ts';
import { compareByteOrder } from '../kube/values/go-text.ts';
import { labelMatcher, requirementsOf } from '../kube/values/labels.ts';
import { type ControllerDeps, kindNamed, unlessRefused } from './cluster/cluster.ts';
import { WorkQueue } from './cluster/work-queue.ts';

const controller = 'clusterrole-aggregation-controller';

export async function runClusterRoleAggregation(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const kind = kindNamed(cluster, `${accessGroup}/v1`, 'ClusterRole');
  await cluster.ready([kind]);
  const queue = new WorkQueue(controller, deps);
  const roles = new Map<string, ClusterRole>();
  const stop = cluster.watch(kind, ({ key, type, object }) => {
    const before = roles.get(key);
    // Nothing follows from other changes, and it is much work to find that out for each.
    if (type === 'put' && before !== undefined && aggregatesAlike(before, object)) return;
    if (type === 'delete') roles.delete(key);
    else roles.set(key, object);
    // Which of them it concerns is as much work to find out as to look at them all.
    for (const [one, { aggregationRule }] of roles) if (aggregationRule !== undefined) queue.touch(one);
  });
  const look = async (key: string): Promise<void> => {
    const role = roles.get(key);
    if (role?.aggregationRule === undefined) return;
    const rules = aggregatedRules(role, [...roles.values()]);
    if (isDeepStrictEqual(rules, role.rules ?? [])) return;
    await unlessRefused(
      cluster.update(key, (current) => withRules(current, rules)),
      404,
    );
  };
  try {
    await queue.run(look, signal);
  } finally {
    stop();
  }
}

function aggregatesAlike(one: ClusterRole, other: ClusterRole): boolean {
  const parts = ({ rules, aggregationRule, metadata }: ClusterRole): unknown => [
    rules,
    aggregationRule,
    metadata.labels,
  ];
  return isDeepStrictEqual(parts(one), parts(other));
}

function withRules(role: ClusterRole, rules: readonly PolicyRule[]): ClusterRole {
  return role.aggregationRule === undefined || isDeepStrictEqual(role.rules ?? [], rules) ? role : { ...role, rules };
}

/** Each rule once: by selector, then by the names of the roles. */
export function aggregatedRules(role: ClusterRole, all: readonly ClusterRole[]): readonly PolicyRule[] {
  const others = all
    .filter(({ metadata }) => metadata.name !== role.metadata.name)
    .toSorted((one, other) => compareByteOrder(one.metadata.name, other.metadata.name));
  const selectors = role.aggregationRule?.clusterRoleSelectors ?? [];
  const rules = selectors.flatMap((selector) => {
    const matches = labelMatcher(requirementsOf(selector));
    return others.filter(({ metadata }) => matches(metadata.labels ?? {})).flatMap((other) => other.rules ?? []);
  });
  const seen = new Map(rules.map((rule) => [identityOf(rule), rule]));
  return [...seen.values()];
}

function identityOf({ verbs, apiGroups, resources, resourceNames, nonResourceURLs }: PolicyRule): string {
  return JSON.stringify([verbs, apiGroups, resources, resourceNames, nonResourceURLs].map((list = []) => list));
}
