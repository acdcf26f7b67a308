/** Whether a pod may run on a node, in the words of Kubernetes' scheduler where it may not. Pure. */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { selectsNode, tolerates } from '../../kube/references/node-affinity.ts';
import { collide } from '../../kube/references/pod-room.ts';
import { isHugePages, isNativeResource } from '../../kube/values/quantity.ts';
import type { PodNeeds, Room } from './node-rooms.ts';

/** Why a pod may not run here: what the first of the rules says that it breaks, which may be several things. */
export function misfits(pod: Pod, needs: PodNeeds, room: Room): readonly string[] {
  const problem = placeProblem(pod, room) ?? portProblem(needs, room);
  return problem === undefined ? shortages(needs, room) : [problem];
}

function placeProblem({ spec: pod }: Pod, { node }: Room): string | undefined {
  const { metadata, spec, status } = node;
  const names = namedNodes(pod);
  if (names !== undefined && !names.has(metadata.name)) return "node(s) didn't satisfy plugin(s) [NodeAffinity]";
  const tolerations = pod.tolerations ?? [];
  const cordon = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' };
  if (spec?.unschedulable === true && !tolerations.some((one) => tolerates(one, cordon))) {
    return 'node(s) were unschedulable';
  }
  const taint = (spec?.taints ?? [])
    .filter(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute')
    .find((one) => !tolerations.some((toleration) => tolerates(toleration, one)));
  if (taint !== undefined) return `node(s) had untolerated taint {${taint.key}: ${taint.value ?? ''}}`;
  if (!selectsNode(pod, metadata)) return "node(s) didn't match Pod's node affinity/selector";
  const ready = (status?.conditions ?? []).find(({ type }) => type === 'Ready');
  return ready?.status === 'True' ? undefined : 'node(s) were not ready';
}

/** The nodes that required affinity gives by name, as for pods of a DaemonSet; undefined where one of its terms names none. */
function namedNodes({ affinity }: Pod['spec']): ReadonlySet<string> | undefined {
  const terms = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  const names = new Set<string>();
  for (const { matchFields = [] } of terms) {
    const lists = matchFields.filter(({ key, operator }) => key === 'metadata.name' && operator === 'In');
    const [first, ...others] = lists.map(({ values = [] }) => values);
    if (first === undefined) return undefined;
    for (const name of first) if (others.every((list) => list.includes(name))) names.add(name);
  }
  return terms.length === 0 ? undefined : names;
}

function portProblem({ ports }: PodNeeds, room: Room): string | undefined {
  if (ports.length === 0) return undefined;
  for (const used of room.ports.values()) {
    if (used.some((other) => ports.some((port) => collide(port, other)))) {
      return "node(s) didn't have free ports for the requested pod ports";
    }
  }
  return undefined;
}

function shortages({ requests }: PodNeeds, { allocatable, used }: Room): readonly string[] {
  const found: string[] = [];
  for (const [name, requested] of requests) {
    // A node that does not say how much cpu, memory, disk or pods it has takes what comes; devices it has to name.
    const capacity = allocatable.get(name) ?? (counts(name) ? 0n : undefined);
    if (capacity === undefined || requested === 0n || requested + (used.get(name) ?? 0n) <= capacity) continue;
    found.push(name === 'pods' ? 'Too many pods' : `Insufficient ${name}`);
  }
  return found;
}

function counts(name: string): boolean {
  return !isNativeResource(name) || isHugePages(name);
}

/** `0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.` */
export function unschedulableMessage(problems: readonly (readonly string[])[]): string {
  if (problems.length === 0) return 'no nodes available to schedule pods';
  const counted = new Map<string, number>();
  for (const reason of problems.flat()) counted.set(reason, (counted.get(reason) ?? 0) + 1);
  const texts = [...counted].map(([reason, count]) => `${count} ${reason}`).sort();
  return `${noneOf(problems.length)}${texts.join(', ')}.`;
}

/** Where what is wrong has nothing to do with nodes. */
export function unschedulableAnywhere(nodes: number, reason: string): string {
  return nodes === 0 ? unschedulableMessage([]) : `${noneOf(nodes)}${reason}.`;
}

function noneOf(nodes: number): string {
  return `0/${nodes} nodes are available: `;
}
