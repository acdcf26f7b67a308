/**
 * The best of the nodes that a pod fits on: the emptiest, where its cpu and memory are used alike, that the pod prefers and that
 * does not prefer to be left alone. The weights are those of Kubernetes' scheduler. Pure.
 */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { nodeSelectorMatches, tolerates } from '../../kube/references/node-affinity.ts';
import { type PodNeeds, type Room, usualOf } from './node-rooms.ts';

const weights = { taints: 3, affinity: 2, emptiness: 1, balance: 1 };

/** Of nodes that are equally good the next by name after `last`: they take turns. Undefined where there are none. */
export function chooseNode<T extends Room>(
  pod: Pod,
  needs: PodNeeds,
  rooms: readonly T[],
  last: string,
): T | undefined {
  const preferences = rooms.map((room) => preferenceOf(pod, room));
  const nuisances = rooms.map((room) => nuisanceOf(pod, room));
  const [preferenceMax, nuisanceMax] = [Math.max(1, ...preferences), Math.max(1, ...nuisances)];
  const scores = rooms.map((room, index) => {
    const fractions = fractionsOf(needs, room);
    return Math.round(
      (weights.affinity * 100 * (preferences[index] ?? 0)) / preferenceMax +
        weights.taints * 100 * (1 - (nuisances[index] ?? 0) / nuisanceMax) +
        weights.emptiness * emptiness(fractions) +
        weights.balance * balance(fractions),
    );
  });
  const best = Math.max(...scores);
  const equals = rooms
    .filter((_room, index) => scores[index] === best)
    .toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  return equals.find((room) => nameOf(room) > last) ?? equals[0];
}

function nameOf({ node }: Room): string {
  return node.metadata.name;
}

/** What the preferences of the pod weigh that hold here. One that selects nothing holds everywhere. */
function preferenceOf({ spec }: Pod, { node }: Room): number {
  const preferred = spec.affinity?.nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
  const { name, labels = {} } = node.metadata;
  return preferred
    .filter(({ preference }) => {
      const { matchExpressions = [], matchFields = [] } = preference;
      if (matchExpressions.length + matchFields.length === 0) return true;
      return nodeSelectorMatches({ nodeSelectorTerms: [preference] }, { name, labels });
    })
    .reduce((sum, { weight }) => sum + weight, 0);
}

/** How many reasons the node has not to want the pod. */
function nuisanceOf({ spec }: Pod, { node }: Room): number {
  const taints = (node.spec?.taints ?? []).filter(({ effect }) => effect === 'PreferNoSchedule');
  return taints.filter((taint) => !spec.tolerations?.some((one) => tolerates(one, taint))).length;
}

/** How much of cpu and memory would be used, 0 to 1; of what the node does not say it has, nothing. */
function fractionsOf(needs: PodNeeds, { allocatable, usual }: Room): readonly number[] {
  return [...usualOf(needs)].flatMap(([name, amount]) => {
    const capacity = Number(allocatable.get(name) ?? 0n);
    return capacity === 0 ? [] : [Math.min(1, Number(amount + (usual.get(name) ?? 0n)) / capacity)];
  });
}

function emptiness(fractions: readonly number[]): number {
  if (fractions.length === 0) return 0;
  return 100 * (1 - fractions.reduce((sum, one) => sum + one, 0) / fractions.length);
}

function balance(fractions: readonly number[]): number {
  if (fractions.length === 0) return 0;
  return 100 * (1 - (Math.max(...fractions) - Math.min(...fractions)) / 2);
}
