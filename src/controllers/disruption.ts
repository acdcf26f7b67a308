/**
 * Counts for each PodDisruptionBudget how many of its pods are ready, how many should be, and so how many may be evicted. It evicts
 * nothing: who asks for an eviction spends what was counted here.
 */
import { messageOf } from '../base/errors.ts';
import { Timers } from '../base/timers.ts';
import type { PodDisruptionBudget } from '../kube/kinds/policy/pod-disruption-budget.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import {
  counted,
  disruptionLastsMs,
  expectedPods,
  needsScale,
  podMatcher,
  uncounted,
} from '../kube/references/disruptions.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import type { OwnerReference } from '../kube/schema/meta.ts';
import { type Cluster, type ControllerDeps, coreKind, kindNamed, updateSame } from './cluster/cluster.ts';
import { ControllerEvents } from './cluster/events.ts';
import { WorkQueue } from './cluster/work-queue.ts';

const controller = 'disruption-controller';

export async function runDisruption(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const pods = coreKind(cluster, 'Pod');
  const budgets = kindNamed(cluster, 'policy/v1', 'PodDisruptionBudget');
  await cluster.ready([pods, budgets]);
  const queue = new WorkQueue(controller, deps);
  const timers = new Timers(deps.clock);
  const counter = new DisruptionCounter(cluster, new ControllerEvents('controllermanager', deps, cluster), deps);
  const stops = [
    cluster.watch(budgets, ({ key, type, object }) => {
      counter.budgetChanged(key, type === 'put' ? object : undefined);
      if (type === 'put') queue.touch(key);
    }),
    cluster.watch(pods, ({ key, type, object }) => {
      for (const touched of counter.podChanged(key, object as Pod, type === 'delete')) queue.touch(touched);
    }),
  ];
  const look = async (key: string): Promise<void> => {
    const again = await counter.count(key);
    if (again !== undefined) timers.at(again, () => queue.touch(key));
  };
  try {
    await Promise.all([queue.run(look, signal), timers.run(signal)]);
  } finally {
    for (const stop of stops) stop();
  }
}

interface KnownBudget {
  readonly namespace: string;
  readonly budget: PodDisruptionBudget;
  readonly matches: (pod: Pick<Pod, 'metadata'>) => boolean;
}

class DisruptionCounter {
  readonly #cluster: Cluster;
  readonly #events: ControllerEvents;
  readonly #clock: ControllerDeps['clock'];
  readonly #budgets = new Map<string, KnownBudget>();
  /** By namespace and key; what of a pod matters here is little, and pods are many. */
  readonly #pods = new Map<string, Map<string, Pod>>();

  constructor(cluster: Cluster, events: ControllerEvents, { clock }: Pick<ControllerDeps, 'clock'>) {
    this.#cluster = cluster;
    this.#events = events;
    this.#clock = clock;
  }

  budgetChanged(key: string, budget: PodDisruptionBudget | undefined): void {
    if (budget === undefined) this.#budgets.delete(key);
    else {
      const { namespace = '' } = budget.metadata;
      this.#budgets.set(key, { namespace, budget, matches: podMatcher(budget) });
    }
  }

  /** The budgets that it is or was in. */
  podChanged(key: string, { metadata, status }: Pod, isGone: boolean): readonly string[] {
    const { namespace = '', name, uid, labels, ownerReferences, deletionTimestamp } = metadata;
    const pods = this.#pods.get(namespace) ?? new Map<string, Pod>();
    this.#pods.set(namespace, pods);
    const before = pods.get(key);
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    const kept = {
      metadata: {
        name,
        namespace,
        ...(uid && { uid }),
        ...(labels && { labels }),
        ...(ownerReferences && { ownerReferences }),
        ...(deletionTimestamp && { deletionTimestamp }),
      },
      spec: { containers: [] },
      status: { conditions: ready === undefined ? [] : [{ type: ready.type, status: ready.status }] },
    };
    if (isGone) pods.delete(key);
    else pods.set(key, kept);
    if (!isGone && JSON.stringify(before) === JSON.stringify(kept)) return [];
    return [...this.#budgets]
      .filter(([, one]) => one.namespace === namespace)
      .filter(([, { matches }]) => matches(kept) || (before !== undefined && matches(before)))
      .map(([budget]) => budget);
  }

  /** When to count again although nothing changes: a pod that was given up may stay after all. */
  async count(key: string): Promise<number | undefined> {
    const known = this.#budgets.get(key);
    if (known === undefined || known.budget.metadata.deletionTimestamp !== undefined) return undefined;
    const { namespace, budget, matches } = known;
    const pods = [...(this.#pods.get(namespace)?.values() ?? [])].filter(matches);
    const now = this.#clock.now();
    try {
      const scale = needsScale(budget) ? await this.#scaleOf(budget, pods) : 0;
      const expected = expectedPods(budget, scale, pods.length);
      await this.#write(key, budget, (current) => counted(current, pods, expected, now));
    } catch (error) {
      const message = messageOf(error);
      if (error instanceof NoControllerError) await this.#record(budget, 'CalculateExpectedPodCountFailed', message);
      await this.#write(key, budget, (current) => uncounted(current, message, now));
      throw error;
    }
    const times = Object.values(budget.status?.disruptedPods ?? {}).map((time) => Date.parse(time) + disruptionLastsMs);
    const next = Math.min(...times.filter((time) => time > now));
    return Number.isFinite(next) ? next : undefined;
  }

  /** What came between is seen: the status is counted from the budget as it is when it is written. */
  #write(
    key: string,
    budget: PodDisruptionBudget,
    change: (current: PodDisruptionBudget) => PodDisruptionBudget,
  ): Promise<void> {
    return updateSame<PodDisruptionBudget>(this.#cluster, key, budget, change, 'status');
  }

  /** What the owners of these pods ask for together. */
  async #scaleOf(budget: PodDisruptionBudget, pods: readonly Pod[]): Promise<number> {
    const scales = new Map<string, number>();
    const unmanaged: string[] = [];
    for (const { metadata } of pods) {
      const owner = metadata.ownerReferences?.find((one) => one.controller === true);
      if (owner === undefined) unmanaged.push(metadata.name);
      else if (!scales.has(owner.uid)) {
        const top = await this.#replicasOf(owner, metadata.namespace ?? '');
        const own = pods.filter((pod) => pod.metadata.ownerReferences?.some(({ uid }) => uid === owner.uid)).length;
        if (top === 'missing') throw new NoControllerError(`found no controllers for pod "${metadata.name}"`);
        scales.set(owner.uid, top ?? own);
      }
    }
    if (unmanaged.length > 0) {
      const message =
        'Some pods of this PodDisruptionBudget have no owner that says how many of them there should be, so they are not counted. ' +
        'Set ".spec.minAvailable" to a whole number to count them.';
      await this.#record(budget, 'UnmanagedPods', message);
    }
    return [...scales.values()].reduce((sum, scale) => sum + scale, 0);
  }

  /** Of a Deployment rather than of its ReplicaSet. Undefined where the owner's kind asks for no number, or is unknown here. */
  async #replicasOf(owner: OwnerReference, namespace: string): Promise<number | 'missing' | undefined> {
    const kind = this.#cluster.kindOf(owner.apiVersion, owner.kind);
    if (kind === undefined) return undefined;
    const found = await this.#cluster.get(this.#cluster.keyOf(kind, namespace, owner.name));
    if (found === undefined || found.metadata.uid !== owner.uid) return 'missing';
    const above = found.metadata.ownerReferences?.find((one) => one.controller === true);
    const ofOwner = above === undefined ? undefined : await this.#replicasOf(above, namespace);
    if (typeof ofOwner === 'number') return ofOwner;
    const { spec } = found as KubeObject & { readonly spec?: { readonly replicas?: unknown } };
    return typeof spec?.replicas === 'number' ? spec.replicas : undefined;
  }

  #record(budget: PodDisruptionBudget, reason: string, message: string): Promise<void> {
    const kind = kindNamed(this.#cluster, 'policy/v1', 'PodDisruptionBudget');
    return this.#events.record(kind, budget, { type: 'Warning', reason, message });
  }
}

class NoControllerError extends Error {}
