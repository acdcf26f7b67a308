/**
 * ReplicaSets and ReplicationControllers, by one loop: as many pods as the spec says, made of its template, the cheapest deleted when
 * there are too many, and a status that counts them. Pods that have ended are replaced and left to the collector of ended pods.
 */
import { messageOf } from '../../base/errors.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { ReplicaSet } from '../../kube/kinds/workloads/replica-set.ts';
import type { ReplicationController } from '../../kube/kinds/workloads/replication-controller.ts';
import { isRecord } from '../../kube/schema/equality.ts';
import { canonicalJson } from '../../kube/schema/equality.ts';
import type { LabelSelector } from '../../kube/schema/meta.ts';
import { controllerOf } from '../../kube/schema/meta.ts';
import { timestamp } from '../../kube/values/times.ts';
import { type Cluster, type ControllerDeps, kindNamed, updateSame } from '../cluster/cluster.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import type { ObjectTable, WorkloadView } from './object-table.ts';
import { type Owner, claimObjects, followOwned, selecting } from './ownership.ts';
import { PodControl, slowStart } from './pod-control.ts';
import { cheapestPods, isActive, isAvailable, isReady, isTerminating, nextAvailableAtMs } from './pod-state.ts';

type Replicated = ReplicaSet | ReplicationController;
type ReplicaStatus = NonNullable<ReplicaSet['status']>;

interface ReplicatedKind {
  readonly apiVersion: string;
  readonly kind: string;
  /** What it writes as. */
  readonly controller: string;
  /** What its Events are from. */
  readonly component: string;
  readonly countsTerminating: boolean;
}

/** In one look; the rest is left to the next. */
const burst = 500;

export async function runReplicaSets(deps: ControllerDeps, view: WorkloadView, signal: AbortSignal): Promise<void> {
  const names = { controller: 'replicaset-controller', component: 'replicaset-controller' };
  await run({ ...names, apiVersion: 'apps/v1', kind: 'ReplicaSet', countsTerminating: true }, deps, view, signal);
}

export async function runReplicationControllers(
  deps: ControllerDeps,
  view: WorkloadView,
  signal: AbortSignal,
): Promise<void> {
  const names = { controller: 'replicationcontroller-controller', component: 'replication-controller' };
  await run(
    { ...names, apiVersion: 'v1', kind: 'ReplicationController', countsTerminating: false },
    deps,
    view,
    signal,
  );
}

async function run(what: ReplicatedKind, deps: ControllerDeps, view: WorkloadView, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(what.controller, signal);
  const owners = view.table<Replicated>(kindNamed(cluster, what.apiVersion, what.kind));
  const pods = view.table<Pod>(kindNamed(cluster, 'v1', 'Pod'));
  const queue = new WorkQueue(what.controller, deps);
  owners.follow((key) => queue.touch(key));
  followOwned(pods, owners, selectorOf, (key) => queue.touch(key));
  const loop = new ReplicaLoop(what, deps, cluster, owners, pods, queue);
  await queue.run((key) => loop.look(key), signal);
}

/** A ReplicationController has labels, a ReplicaSet a selector. */
function selectorOf({ spec: { selector } }: Replicated): LabelSelector | undefined {
  if (selector === undefined) return undefined;
  const isSelector = isRecord(selector['matchLabels']) || Array.isArray(selector['matchExpressions']);
  return isSelector ? selector : { matchLabels: selector as Readonly<Record<string, string>> };
}

interface Failure {
  readonly reason: 'FailedCreate' | 'FailedDelete';
  readonly error: unknown;
}

class ReplicaLoop {
  readonly #what: ReplicatedKind;
  readonly #deps: ControllerDeps;
  readonly #cluster: Cluster;
  readonly #owners: ObjectTable<Replicated>;
  readonly #pods: ObjectTable<Pod>;
  readonly #queue: WorkQueue;
  readonly #control: PodControl;

  constructor(
    what: ReplicatedKind,
    deps: ControllerDeps,
    cluster: Cluster,
    owners: ObjectTable<Replicated>,
    pods: ObjectTable<Pod>,
    queue: WorkQueue,
  ) {
    this.#what = what;
    this.#deps = deps;
    this.#cluster = cluster;
    this.#owners = owners;
    this.#pods = pods;
    this.#queue = queue;
    this.#control = new PodControl(what.component, deps, cluster, pods);
  }

  async look(key: string): Promise<void> {
    const object = this.#owners.get(key);
    if (object === undefined) return;
    const owner: Owner<Replicated> = { kind: this.#owners.kind, object };
    const selects = selecting(selectorOf(object));
    const claimed = await claimObjects(this.#cluster, this.#pods, owner, selects);
    const isEnding = object.metadata.deletionTimestamp !== undefined;
    const failure = isEnding ? undefined : await this.#adjust(owner, claimed.filter(isActive));
    // Counted anew, with what has just been created and deleted.
    const mine = this.#pods.controlledBy(object.metadata.uid ?? '').filter(selects);
    await this.#writeStatus(key, object, mine, failure);
    const { minReadySeconds = 0 } = object.spec;
    const next = nextAvailableAtMs(mine.filter(isActive), minReadySeconds, this.#deps.clock.now());
    if (next !== undefined) this.#queue.touchAt(key, next);
    if (failure !== undefined) throw failure.error;
  }

  /** Creates what is missing, or deletes what is too much. */
  async #adjust(owner: Owner<Replicated>, active: readonly Pod[]): Promise<Failure | undefined> {
    const { replicas = 1, template } = owner.object.spec;
    const missing = replicas - active.length;
    if (missing > 0 && template !== undefined) {
      const { error } = await slowStart(Math.min(missing, burst), () => this.#control.create(owner, template));
      return error === undefined ? undefined : { reason: 'FailedCreate', error };
    }
    if (missing >= 0) return undefined;
    const chosen = cheapestPods(active, Math.min(-missing, burst), this.#related(owner.object), this.#deps.clock.now());
    const outcomes = await Promise.allSettled(chosen.map((pod) => this.#control.delete(owner, pod)));
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    return failed === undefined ? undefined : { reason: 'FailedDelete', error: failed.reason };
  }

  /** The pods of all that have the same controller: a node with many of a Deployment's pods can do without one of them. */
  #related({ metadata }: Replicated): readonly Pod[] {
    const controller = controllerOf(metadata);
    const uids =
      controller === undefined
        ? [metadata.uid]
        : this.#owners.controlledBy(controller.uid).map((sibling) => sibling.metadata.uid);
    return uids.flatMap((uid = '') => this.#pods.controlledBy(uid));
  }

  async #writeStatus(
    key: string,
    object: Replicated,
    mine: readonly Pod[],
    failure: Failure | undefined,
  ): Promise<void> {
    const now = this.#deps.clock.now();
    const counts = countsOf(object, mine, now, this.#what.countsTerminating);
    const next = (status: ReplicaStatus | undefined): ReplicaStatus => ({
      ...counts,
      ...withConditions(status?.conditions ?? [], failure, now),
    });
    // Most looks change nothing, which needs no request.
    if (canonicalJson(next(object.status)) === canonicalJson(object.status)) return;
    let written: Replicated | undefined;
    await updateSame<Replicated>(
      this.#cluster,
      key,
      object,
      (current) => {
        const status = next(current.status);
        written = undefined;
        const isOld = (current.status?.observedGeneration ?? 0) > (status.observedGeneration ?? 0);
        if (isOld || canonicalJson(status) === canonicalJson(current.status)) return current;
        written = { ...current, status };
        return written;
      },
      'status',
    );
    if (written !== undefined) this.#owners.changed(written);
  }
}

/** Zeros that Go would leave out are left out. */
function countsOf(
  { metadata, spec }: Replicated,
  mine: readonly Pod[],
  nowMs: number,
  countsTerminating: boolean,
): Omit<ReplicaStatus, 'conditions'> {
  const active = mine.filter(isActive);
  const wanted = Object.entries(spec.template?.metadata?.labels ?? {});
  const fullyLabeledReplicas = active.filter(({ metadata: { labels = {} } }) =>
    wanted.every(([name, value]) => labels[name] === value),
  ).length;
  const readyReplicas = active.filter(isReady).length;
  const availableReplicas = active.filter((pod) => isAvailable(pod, spec.minReadySeconds ?? 0, nowMs)).length;
  return {
    replicas: active.length,
    ...(fullyLabeledReplicas > 0 && { fullyLabeledReplicas }),
    ...(readyReplicas > 0 && { readyReplicas }),
    ...(availableReplicas > 0 && { availableReplicas }),
    ...(countsTerminating && { terminatingReplicas: mine.filter(isTerminating).length }),
    observedGeneration: metadata.generation ?? 0,
  };
}

function withConditions(
  conditions: NonNullable<ReplicaStatus['conditions']>,
  failure: Failure | undefined,
  nowMs: number,
): Pick<ReplicaStatus, 'conditions'> {
  const type = 'ReplicaFailure';
  const known = conditions.find((condition) => condition.type === type);
  const others = conditions.filter((condition) => condition.type !== type);
  if (failure === undefined) return others.length > 0 ? { conditions: others } : {};
  const { reason, error } = failure;
  if (known?.status === 'True' && known.reason === reason) return { conditions };
  const lastTransitionTime = timestamp(nowMs);
  return { conditions: [...others, { type, status: 'True', lastTransitionTime, reason, message: messageOf(error) }] };
}
