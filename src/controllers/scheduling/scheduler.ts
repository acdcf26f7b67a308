/**
 * Gives pods without a node one: the most important pod first, to the best of the nodes on which it fits. A decision is made at once,
 * from what the watches have shown, and counts from then on; it is written afterwards, several at a time. Where a pod fits nowhere it
 * says why, and is tried again when something changes that may help.
 *
 *   seen ──▶ queue ──#decide──▶ place on a node ──#bind──▶ bound        A place counts until the watch shows the pod with its
 *              ▲ fits nowhere: parked   │ ▲                             node, or without it. One whose volumes have to be found
 *              └──────── refused ───────┘ └─#prepare─▶ (volumes) ─┘      first is decided again when its claims change.
 */
import { onAbort } from '../../base/abort.ts';
import { nextTurn } from '../../base/turns.ts';
import { WakeSignal } from '../../base/wake-signal.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import { annotated, isOver, selectedNode } from '../../kube/references/claims.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { timestamp } from '../../kube/values/times.ts';
import {
  type Cluster,
  type ControllerDeps,
  type ObjectChange,
  coreKind,
  refusalCode,
  unlessRefused,
  updateSame,
} from '../cluster/cluster.ts';
import { type ControllerEvent, ControllerEvents } from '../cluster/events.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import { claimed } from '../storage/binding.ts';
import { type StorageView, claimId } from '../storage/storage-view.ts';
import {
  type Placement,
  type PodClaims,
  claimsOf,
  inUseByAnother,
  isForOnePod,
  unboundClaims,
} from '../storage/volume-placement.ts';
import { type Candidate, candidateOf, isPending, schedulerName } from './candidate.ts';
import { followClaims } from './claim-changes.ts';
import { chooseNode } from './node-choice.ts';
import { misfits, unschedulableAnywhere, unschedulableMessage } from './node-fit.ts';
import { NodeRooms, needsOf } from './node-rooms.ts';
import { SchedulingQueue } from './scheduling-queue.ts';
import { type AboutToRun, VolumeFit, csiKinds } from './volume-fit.ts';

/** As long as Kubernetes' scheduler leaves a pod alone that it could not place. */
const sweepMs = 5 * 60_000;
/** Of an Event; the condition says all. */
const noteLengthMax = 1024;
/** Decisions between two turns of the event loop: each takes some 10 µs for a node. */
const decisionsAtOnce = 16;

export async function runScheduler(deps: ControllerDeps, storage: StorageView, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(schedulerName, signal);
  const started = new Promise<void>((resolve) => {
    onAbort(signal, resolve);
    storage.follow({ started: resolve });
  });
  const [podKind, nodeKind] = [coreKind(cluster, 'Pod'), coreKind(cluster, 'Node')];
  // Before everything is known a node would look emptier than it is, and a claim as if it were missing.
  await Promise.all([cluster.ready([podKind, nodeKind, ...csiKinds(cluster)]), started]);
  if (signal.aborted) return;
  const scheduler = new Scheduler(deps, cluster, storage);
  const stops = [
    scheduler.volumes.follow(cluster, () => scheduler.retryVolumes()),
    cluster.watch(nodeKind, ({ type, object }) => {
      scheduler.nodeChanged(object.metadata.name, type === 'put' ? object : undefined);
    }),
    cluster.watch(podKind, (change) => scheduler.podChanged(change)),
    followClaims(cluster, storage, scheduler),
  ];
  try {
    await scheduler.run(signal);
  } finally {
    for (const stop of stops) stop();
  }
}

interface Place {
  readonly candidate: Candidate;
  readonly nodeName: string;
  readonly placement: Placement;
  /** Claims that only one pod can have, by UID: the view does not show this one with a node yet. */
  readonly alone: readonly string[];
  /** What is next to be written. `volumes`: nothing, until its claims change. `bound`: nothing any more. */
  stage: 'prepare' | 'volumes' | 'bind' | 'bound';
}

const noClaims: PodClaims = { bound: [], unbound: [] };
const noPlacement: Placement = { reserve: [], provision: [] };

class Scheduler {
  readonly volumes: VolumeFit;
  readonly #deps: ControllerDeps;
  readonly #cluster: Cluster;
  readonly #storage: StorageView;
  readonly #events: ControllerEvents;
  readonly #rooms = new NodeRooms();
  readonly #queue = new SchedulingQueue<Candidate>();
  readonly #places = new Map<string, Place>();
  /** Names of volumes, and the pods for whose claims they are about to be reserved. */
  readonly #reserved = new Map<string, string>();
  /** UIDs of pods that have a node, which they keep until they end, by key. */
  readonly #bound = new Map<string, string>();
  /** The newest of each pod. All of them are read before the next decision. */
  readonly #unread = new Map<string, ObjectChange>();
  readonly #wake = new WakeSignal();
  /** Keys of pods of which something has to be written. */
  readonly #writes: WorkQueue;
  #lastNode = '';

  constructor(deps: ControllerDeps, cluster: Cluster, storage: StorageView) {
    this.#deps = deps;
    this.#cluster = cluster;
    this.#storage = storage;
    this.#events = new ControllerEvents(schedulerName, deps, cluster);
    this.#writes = new WorkQueue(schedulerName, deps);
    this.volumes = new VolumeFit(storage);
  }

  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([
      this.#decideAll(signal),
      this.#writes.run((key) => this.#write(key), signal),
      this.#sweep(signal),
    ]);
  }

  // What the watches show.

  podChanged(change: ObjectChange): void {
    const { key, type } = change;
    const uid = this.#bound.get(key);
    // Its node reports its state again and again, and a large pod takes long to read.
    const isKnown = uid !== undefined && type === 'put' && change.mentions(uid);
    if (isKnown && !change.mentions('Succeeded') && !change.mentions('Failed')) return;
    this.#unread.set(key, change);
    this.#wake.wake();
  }

  nodeChanged(name: string, node: Node | undefined): void {
    if (this.#rooms.setNode(name, node)) this.#retryAll();
  }

  /** Something that the pod waits for may have changed. */
  retry(key: string): void {
    const place = this.#places.get(key);
    if (place?.stage === 'prepare' || place?.stage === 'volumes') this.#queue.put(place.candidate);
    this.#queue.wake(key);
    this.#wake.wake();
  }

  retryVolumes(): void {
    for (const { key, hasVolumes } of this.#queue.parked()) if (hasVolumes) this.retry(key);
    for (const [key, { stage }] of this.#places) if (stage === 'volumes') this.retry(key);
  }

  #retryAll(): void {
    for (const { key } of this.#queue.parked()) this.#queue.wake(key);
    this.retryVolumes();
    this.#wake.wake();
  }

  /** A change that was missed costs a pod this long, not its life. */
  async #sweep(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#deps.clock.sleep(sweepMs, signal).catch(() => {});
      if (signal.aborted) return;
      this.#retryAll();
    }
  }

  /** What is known of a pod now. */
  #read(key: string, pod: Pod | undefined): void {
    if (this.#places.get(key)?.candidate.pod.metadata.uid !== pod?.metadata.uid) this.#giveUp(key);
    const nodeName = pod?.spec.nodeName ?? '';
    // A pod never loses its node: this is older than what is known.
    if (pod !== undefined && nodeName === '' && this.#bound.get(key) === pod.metadata.uid) return;
    if (pod === undefined || nodeName === '') this.#bound.delete(key);
    else this.#bound.set(key, pod.metadata.uid ?? '');
    if (pod !== undefined && isPending(pod)) {
      // The watch does not show yet what was decided.
      if (this.#places.has(key)) return;
      this.#rooms.release(key);
      this.#queue.put(candidateOf(key, pod, this.#storage));
      return this.#report(key);
    }
    this.#queue.delete(key);
    this.#forgetPlace(key);
    if (pod === undefined || nodeName === '' || isOver(pod)) this.#rooms.release(key);
    else this.#rooms.set(key, nodeName, needsOf(pod));
  }

  #giveUp(key: string): void {
    if (this.#forgetPlace(key)) this.#rooms.release(key);
  }

  #forgetPlace(key: string): boolean {
    for (const { volume } of this.#places.get(key)?.placement.reserve ?? [])
      this.#reserved.delete(volume.metadata.name);
    return this.#places.delete(key);
  }

  // What is decided.

  async #decideAll(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#readAll(signal);
      for (const room of this.#rooms.takeFreed()) {
        for (const { key, pod, needs } of this.#queue.parked()) {
          if (misfits(pod, needs, room).length === 0) this.#queue.wake(key);
        }
      }
      let made = 0;
      while (made < decisionsAtOnce && this.#decideNext()) made += 1;
      if (made === decisionsAtOnce || this.#unread.size > 0) await nextTurn();
      else await this.#wake.sleep(Infinity, this.#deps.clock, signal);
    }
  }

  async #readAll(signal: AbortSignal): Promise<void> {
    for (const key of this.#unread.keys()) {
      await nextTurn(); // a large pod takes long to read
      if (signal.aborted) return;
      const change = this.#unread.get(key);
      this.#unread.delete(key);
      this.#attempt(key, () => this.#read(key, change?.type === 'put' ? (change.object as Pod) : undefined));
    }
  }

  /** A pod that cannot be read or judged must not keep the others from their nodes. */
  #attempt(key: string, act: () => void): void {
    try {
      act();
    } catch (error) {
      this.#queue.delete(key);
      this.#deps.notify({ kind: 'ControllerFailed', controller: schedulerName, object: key, error });
    }
  }

  #decideNext(): boolean {
    const candidate = this.#queue.next();
    if (candidate !== undefined) this.#attempt(candidate.key, () => this.#decide(candidate));
    return candidate !== undefined;
  }

  #decide(candidate: Candidate): void {
    const { key, pod, needs, hasVolumes } = candidate;
    const claims = hasVolumes ? claimsOf(pod, this.#storage) : noClaims;
    // While its volumes are on their way it keeps the place that they were made for.
    if (claims !== unboundClaims) this.#giveUp(key);
    const choice = this.#choose(candidate, claims);
    if (typeof choice === 'string') {
      this.#queue.park(key, choice);
      for (const member of this.#queue.membersOf(key)) this.#report(member.key);
      return;
    }
    this.#queue.delete(key);
    this.#places.set(key, choice);
    this.#rooms.set(key, choice.nodeName, needs);
    for (const { volume } of choice.placement.reserve) this.#reserved.set(volume.metadata.name, key);
    this.#lastNode = choice.nodeName;
    this.#writes.touch(key);
  }

  #choose(candidate: Candidate, claims: PodClaims | string): Place | string {
    const { pod, needs, hasVolumes } = candidate;
    const rooms = [...this.#rooms.all()];
    if (typeof claims === 'string') return unschedulableAnywhere(rooms.length, claims);
    const tries = rooms.map((room) => {
      const problems = misfits(pod, needs, room);
      if (problems.length > 0) return problems;
      const placement = hasVolumes ? this.volumes.place(pod, claims, room, this.#aboutToRun) : noPlacement;
      return typeof placement === 'string' ? [placement] : { ...room, placement };
    });
    const fitting = tries.flatMap((one) => ('placement' in one ? one : []));
    const chosen = chooseNode(pod, needs, fitting, this.#lastNode);
    if (chosen === undefined) return unschedulableMessage(tries.flatMap((one) => ('placement' in one ? [] : [one])));
    const { node, placement } = chosen;
    const alone = claims.bound.filter(isForOnePod).map(({ metadata }) => metadata.uid ?? '');
    if (
      alone.length > 0 &&
      [...this.#places.values()].some((other) => other.alone.some((uid) => alone.includes(uid)))
    ) {
      return unschedulableMessage(rooms.map(() => [inUseByAnother]));
    }
    const stage = placement.reserve.length + placement.provision.length > 0 ? 'prepare' : 'bind';
    return { candidate, nodeName: node.metadata.name, placement, alone, stage };
  }

  readonly #aboutToRun: AboutToRun = {
    podsOn: (nodeName) =>
      [...this.#places.values()].flatMap((place) => (place.nodeName === nodeName ? place.candidate.pod : [])),
    isReserved: ({ metadata }) => this.#reserved.has(metadata.name),
  };

  // What is written.

  #report(key: string): void {
    const problem = this.#queue.problemOf(key);
    if (problem !== undefined && this.#queue.get(key)?.reported !== problem) this.#writes.touch(key);
  }

  async #write(key: string): Promise<void> {
    const place = this.#places.get(key);
    if (place?.stage === 'bind') return this.#bind(key, place);
    if (place?.stage === 'prepare') {
      const isPrepared = await this.#prepare(place);
      place.stage = 'volumes';
      if (!isPrepared) this.retry(key);
      return;
    }
    const candidate = this.#queue.get(key);
    const problem = this.#queue.problemOf(key);
    if (candidate === undefined || problem === undefined || candidate.reported === problem) return;
    await this.#writeProblem(candidate, problem);
    candidate.reported = problem;
  }

  async #bind(key: string, place: Place): Promise<void> {
    const { pod } = place.candidate;
    const { namespace = '', name, uid = '' } = pod.metadata;
    try {
      await this.#cluster.bind(key, uid, place.nodeName);
    } catch (error) {
      // Whether it was refused or the answer was lost, what is there now counts. As long as that is not known it keeps its place.
      const now = (await this.#cluster.get(key)) as Pod | undefined;
      if (this.#places.get(key) === place) this.#giveUp(key);
      this.#read(key, now);
      this.#wake.wake();
      const code = refusalCode(error);
      const isOvertaken = code === 404 || code === 409;
      if (!isOvertaken || (now?.metadata.uid === uid && isPending(now))) throw error;
      return;
    }
    place.stage = 'bound';
    const message = `Successfully assigned ${namespace}/${name} to ${place.nodeName}`;
    await this.#record(pod, { type: 'Normal', reason: 'Scheduled', message, action: 'Binding' });
  }

  /**
   * Asks for volumes: those that are there are reserved for their claims, the rest is left to provisioners. The volume binder does
   * the rest. False where a volume belongs to another claim by now.
   */
  async #prepare({ nodeName, placement: { reserve, provision } }: Place): Promise<boolean> {
    let isPrepared = true;
    for (const { claim, volume } of reserve) {
      const take = (object: KubeObject): KubeObject => {
        const current = object as PersistentVolume;
        const { claimRef } = current.spec;
        if (claimRef === undefined) return claimed(current, claim);
        if (claimRef.uid !== claim.metadata.uid) isPrepared = false;
        return current;
      };
      await unlessRefused(this.#cluster.update(this.#storage.keyOfVolume(volume.metadata.name), take), 404);
    }
    for (const claim of provision) {
      const key = this.#storage.keyOfClaim(claimId(claim.metadata.namespace, claim.metadata.name));
      const select = (object: KubeObject): KubeObject => {
        const chosen = object.metadata.annotations?.[selectedNode] ?? '';
        return chosen === '' ? annotated(object, [selectedNode], nodeName) : object;
      };
      await updateSame(this.#cluster, key, claim, select);
    }
    return isPrepared;
  }

  async #writeProblem({ key, pod }: Candidate, message: string): Promise<void> {
    const condition = {
      type: 'PodScheduled',
      status: 'False',
      lastTransitionTime: timestamp(this.#deps.clock.now()),
      reason: 'Unschedulable',
      message,
    };
    let isNews = false;
    const change = (current: Pod): Pod => {
      const { conditions = [] } = current.status ?? {};
      const known = conditions.find(({ type }) => type === 'PodScheduled');
      isNews = isPending(current) && (known?.status !== 'False' || known.message !== message);
      if (!isNews) return current;
      const others = conditions.filter(({ type }) => type !== 'PodScheduled');
      return { ...current, status: { ...current.status, conditions: [...others, condition] } };
    };
    await unlessRefused(updateSame(this.#cluster, key, pod, change, 'status'), 409);
    if (!isNews) return;
    const note = message.length > noteLengthMax ? `${message.slice(0, noteLengthMax - 4)} ...` : message;
    await this.#record(pod, { type: 'Warning', reason: 'FailedScheduling', message: note, action: 'Scheduling' });
  }

  #record(pod: Pod, event: ControllerEvent): Promise<void> {
    return this.#events.record(this.#storage.kinds.pod, pod, event);
  }
}
