/** On which nodes a DaemonSet's pods belong, and which pods to create and to delete there, from set, nodes and pods alone. */
import type { Node } from '../../kube/kinds/node.ts';
import type { PodSpec } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod, PodTemplateSpec } from '../../kube/kinds/pod/pod.ts';
import type { DaemonSet } from '../../kube/kinds/workloads/daemon-set.ts';
import { partOf } from '../../kube/kinds/workloads/workload.ts';
import { isOver } from '../../kube/references/claims.ts';
import { selectsNode, tolerates } from '../../kube/references/node-affinity.ts';
import { isAvailable, isReady } from './pod-state.ts';

export const hashLabel = 'controller-revision-hash';

export interface DaemonView {
  readonly set: DaemonSet;
  readonly nodes: readonly Node[];
  readonly pods: readonly Pod[];
  /** Of the newest revision. */
  readonly hash: string;
  readonly nowMs: number;
}

interface DaemonPlan {
  /** Names of nodes. */
  readonly create: readonly string[];
  readonly remove: readonly Pod[];
  /** Pods that failed: each is deleted after a pause that grows. */
  readonly failed: readonly Pod[];
}

const toleratedEffects: readonly (readonly [string, string])[] = [
  ['not-ready', 'NoExecute'],
  ['unreachable', 'NoExecute'],
  ['disk-pressure', 'NoSchedule'],
  ['memory-pressure', 'NoSchedule'],
  ['pid-pressure', 'NoSchedule'],
  ['unschedulable', 'NoSchedule'],
];

/** A daemon stays on a node that fails, and comes to one that is closed to other pods. */
function daemonTolerations({ tolerations = [], hostNetwork }: PodSpec): NonNullable<PodSpec['tolerations']> {
  const network = hostNetwork === true ? [['network-unavailable', 'NoSchedule'] as const] : [];
  const added = [...toleratedEffects, ...network].map(([name, effect]) => {
    return { key: `node.kubernetes.io/${name}`, operator: 'Exists', effect };
  });
  const isGiven = (one: (typeof added)[number]): boolean =>
    tolerations.some(({ key, operator, effect }) => key === one.key && operator === 'Exists' && effect === one.effect);
  return [...tolerations, ...added.filter((one) => !isGiven(one))];
}

/** The template for one node: which node it is stands in its affinity, and the scheduler does the rest. */
export function templateFor(template: PodTemplateSpec, node: string): PodTemplateSpec {
  const { spec } = template;
  const nodeSelectorTerms = [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }];
  const nodeAffinity = {
    ...spec.affinity?.nodeAffinity,
    requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms },
  };
  const affinity = { ...spec.affinity, nodeAffinity };
  return { ...template, spec: { ...spec, tolerations: daemonTolerations(spec), affinity } };
}

/** The node a pod is on, or was made for. */
export function nodeOf({ spec: { nodeName = '', affinity } }: Pod): string {
  if (nodeName !== '') return nodeName;
  const required = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const fields = (required?.nodeSelectorTerms ?? []).flatMap(({ matchFields = [] }) => matchFields);
  return fields.find(({ key }) => key === 'metadata.name')?.values?.[0] ?? '';
}

interface Fit {
  readonly shouldRun: boolean;
  /** A pod that is there already stays. */
  readonly mayStay: boolean;
}

export function fitOf({ spec: { template } }: DaemonSet, { metadata, spec }: Node): Fit {
  const pod = template.spec;
  const isOther = (pod.nodeName ?? '') !== '' && pod.nodeName !== metadata.name;
  if (isOther || !selectsNode(pod, metadata)) return { shouldRun: false, mayStay: false };
  const tolerations = daemonTolerations(pod);
  const unschedulable = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' };
  const taints = [...(spec?.taints ?? []), ...(spec?.unschedulable === true ? [unschedulable] : [])];
  const refused = taints.filter((taint) => !tolerations.some((one) => tolerates(one, taint)));
  const mayStay = !refused.some(({ effect }) => effect === 'NoExecute');
  return { shouldRun: mayStay && !refused.some(({ effect }) => effect === 'NoSchedule'), mayStay };
}

interface NodeWork {
  readonly fit: Fit;
  readonly pods: readonly Pod[];
}

export function planDaemonSet(view: DaemonView): DaemonPlan {
  const { set, nodes, pods } = view;
  const byNode = podsByNode(pods);
  const work = new Map(
    nodes.map((node): [string, NodeWork] => {
      return [node.metadata.name, { fit: fitOf(set, node), pods: byNode.get(node.metadata.name) ?? [] }];
    }),
  );
  const create = new Set<string>();
  // Pods that no node ever took, for nodes that are gone.
  const lost = pods.filter(
    (pod) => (pod.spec.nodeName ?? '') === '' && !work.has(nodeOf(pod)) && pod.metadata.deletionTimestamp === undefined,
  );
  const remove = new Set<Pod>(lost);
  const failed: Pod[] = [];
  for (const [name, { fit, pods: all }] of work) {
    const living = all.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    if (!fit.mayStay) for (const pod of living) remove.add(pod);
    else {
      failed.push(...living.filter(({ status }) => status?.phase === 'Failed'));
      for (const pod of living) if (pod.status?.phase === 'Succeeded') remove.add(pod);
      const running = living.filter((pod) => !isOver(pod));
      const isMissing = surges(set) ? living.length === 0 : all.length === 0;
      if (fit.shouldRun && isMissing) create.add(name);
      for (const pod of superfluous(view, running)) remove.add(pod);
    }
  }
  const isRolling = set.spec.updateStrategy?.type === 'RollingUpdate';
  const rolled = !isRolling ? { create: [], remove: [] } : surges(set) ? surge(view, work) : replace(view, work);
  for (const pod of rolled.remove) remove.add(pod);
  for (const node of rolled.create) create.add(node);
  return { create: [...create], remove: [...remove], failed };
}

function podsByNode(pods: readonly Pod[]): ReadonlyMap<string, readonly Pod[]> {
  const groups = new Map<string, Pod[]>();
  for (const pod of pods) groups.set(nodeOf(pod), [...(groups.get(nodeOf(pod)) ?? []), pod]);
  return groups;
}

/** A new pod comes beside the old one, which goes when the new one is available. */
function surges(set: DaemonSet): boolean {
  return limitsOf(set, 100).surge > 0;
}

function limitsOf({ spec }: DaemonSet, nodes: number): { readonly surge: number; readonly unavailable: number } {
  const { type, rollingUpdate } = spec.updateStrategy ?? {};
  if (type !== 'RollingUpdate') return { surge: 0, unavailable: 0 };
  const above = partOf(nodes, rollingUpdate?.maxSurge ?? 0, 'up');
  const below = partOf(nodes, rollingUpdate?.maxUnavailable ?? 1, 'up');
  return { surge: above, unavailable: above + below === 0 ? 1 : below };
}

function isNew(pod: Pod, hash: string): boolean {
  return pod.metadata.labels?.[hashLabel] === hash;
}

/** Those with a node first, then the oldest. */
function inOrder(pods: readonly Pod[]): readonly Pod[] {
  const rank = ({ spec }: Pod): number => ((spec.nodeName ?? '') === '' ? 1 : 0);
  const key = ({ metadata }: Pod): string => `${metadata.creationTimestamp ?? ''} ${metadata.name}`;
  return pods.toSorted((a, b) => rank(a) - rank(b) || (key(a) < key(b) ? -1 : 1));
}

/** More than one on a node; while a new one comes up beside an old one, more than one of each. */
function superfluous({ set, hash, nowMs }: DaemonView, running: readonly Pod[]): readonly Pod[] {
  const ordered = inOrder(running);
  if (!surges(set)) return ordered.slice(1);
  const [newest, ...newer] = ordered.filter((pod) => isNew(pod, hash));
  const [oldest, ...older] = ordered.filter((pod) => !isNew(pod, hash));
  const isReplaced =
    newest !== undefined &&
    oldest !== undefined &&
    (!isReady(oldest) || isAvailable(newest, set.spec.minReadySeconds ?? 0, nowMs));
  return [...newer, ...older, ...(isReplaced ? [oldest] : [])];
}

type Rolled = Pick<DaemonPlan, 'create' | 'remove'>;
type Work = ReadonlyMap<string, NodeWork>;

interface Pair {
  readonly old: Pod | undefined;
  readonly now: Pod | undefined;
  /** More than one of either. */
  readonly isCrowded: boolean;
}

function pairOn(pods: readonly Pod[], hash: string): Pair {
  const living = pods.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const [now, ...newer] = living.filter((pod) => isNew(pod, hash));
  const [old, ...older] = living.filter((pod) => !isNew(pod, hash));
  return { old, now, isCrowded: newer.length + older.length > 0 };
}

/** Deletes old pods, so many that no more nodes than allowed are without an available one; those that are not available anyway. */
function replace({ set, hash, nowMs }: DaemonView, work: Work): Rolled {
  const minReady = set.spec.minReadySeconds ?? 0;
  const broken: Pod[] = [];
  const sound: Pod[] = [];
  let unavailable = 0;
  for (const { pods } of work.values()) {
    if (pods.length === 0) continue;
    const { old, now, isCrowded } = pairOn(pods, hash);
    if (isCrowded || (old === undefined) === (now === undefined)) unavailable += 1;
    else if (now !== undefined) unavailable += isAvailable(now, minReady, nowMs) ? 0 : 1;
    else if (old !== undefined && isAvailable(old, minReady, nowMs)) sound.push(old);
    else if (old !== undefined) {
      broken.push(old);
      unavailable += 1;
    }
  }
  const room = limitsOf(set, wantedOn(work)).unavailable - unavailable;
  return { create: [], remove: [...broken, ...sound.slice(0, Math.max(0, room))] };
}

/** Creates new pods beside old ones; which old ones go is decided where there are two on a node. */
function surge({ set, hash, nowMs }: DaemonView, work: Work): Rolled {
  const minReady = set.spec.minReadySeconds ?? 0;
  const urgent: string[] = [];
  const candidates: string[] = [];
  const leaving: Pod[] = [];
  let surging = 0;
  let available = 0;
  for (const [name, { fit, pods }] of work) {
    const { old, now, isCrowded } = pairOn(pods, hash);
    if (isCrowded) surging += 1;
    const shown = old ?? now;
    if (shown !== undefined && isAvailable(shown, minReady, nowMs)) available += 1;
    if (isCrowded || old === undefined) continue;
    if (now !== undefined) surging += isAvailable(now, minReady, nowMs) ? 0 : 1;
    else if (!fit.shouldRun) leaving.push(old);
    else if (isAvailable(old, minReady, nowMs)) candidates.push(name);
    else urgent.push(name);
  }
  const wanted = wantedOn(work);
  const room = Math.max(0, limitsOf(set, wanted).surge - surging);
  const unused = leaving.filter((pod) => !isAvailable(pod, minReady, nowMs));
  // Where it should not run any more its pod stays until enough others are available.
  const spare = leaving.filter((pod) => !unused.includes(pod)).slice(0, Math.max(0, available - wanted));
  return { create: [...urgent, ...candidates.slice(0, room)], remove: [...unused, ...spare] };
}

function wantedOn(work: Work): number {
  return [...work.values()].filter(({ fit }) => fit.shouldRun).length;
}

export function daemonSetStatus({ set, nodes, pods, hash, nowMs }: DaemonView): NonNullable<DaemonSet['status']> {
  const byNode = podsByNode(pods);
  const minReady = set.spec.minReadySeconds ?? 0;
  const counts = { desired: 0, current: 0, misscheduled: 0, ready: 0, available: 0, updated: 0 };
  for (const node of nodes) {
    const [oldest, ...others] = inOrder(byNode.get(node.metadata.name) ?? []);
    const { shouldRun } = fitOf(set, node);
    if (!shouldRun) counts.misscheduled += oldest === undefined ? 0 : 1;
    else {
      counts.desired += 1;
      if (oldest === undefined) continue;
      counts.current += 1;
      const all = [oldest, ...others].filter(({ metadata }) => metadata.deletionTimestamp === undefined);
      counts.ready += all.some(isReady) ? 1 : 0;
      counts.available += all.some((pod) => isAvailable(pod, minReady, nowMs)) ? 1 : 0;
      // Beside an old pod a new one does not count yet.
      counts.updated += isNew(oldest, hash) ? 1 : 0;
    }
  }
  const { observedGeneration: _observed, ...before } = set.status ?? {};
  return {
    ...before,
    desiredNumberScheduled: counts.desired,
    currentNumberScheduled: counts.current,
    numberMisscheduled: counts.misscheduled,
    numberReady: counts.ready,
    updatedNumberScheduled: counts.updated,
    numberAvailable: counts.available,
    numberUnavailable: counts.desired - counts.available,
    observedGeneration: set.metadata.generation ?? 0,
  };
}
