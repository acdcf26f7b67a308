/**
 * Keeps the newest status of every pod of this node, and sends it to the API server when it changes. A periodic pass over all of
 * them repeats what could not be sent, and repairs what was changed there.
 */
import { type Clock, type Pausing, pauseOf } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { WakeSignal } from '../../base/wake-signal.ts';
import { describePod, isMirrorPod, podNamespace, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import { type PodStatus, isTerminalPhase, podStatus as podStatusShape } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { means } from '../../kube/schema/equality.ts';
import {
  finalStatus,
  illegalTransition,
  mergeStatus,
  statusPatch,
  withTimes,
  withinBounds,
} from './reported-status.ts';

/** Where statuses are sent. */
export interface StatusApi {
  /** Read from the server, not from a cache; undefined if there is none. */
  get(namespace: string, name: string, signal: AbortSignal): Promise<Pod | undefined>;
  /** A strategic merge patch of the status. Undefined if the pod is gone or was replaced. */
  patchStatus(
    namespace: string,
    name: string,
    patch: unknown,
    signal: AbortSignal,
  ): Promise<Pick<Pod, 'metadata'> | undefined>;
  /** Without grace, and only the pod with this UID. Succeeds if it is gone or was replaced. */
  delete(namespace: string, name: string, uid: string, signal: AbortSignal): Promise<void>;
}

interface StatusManagerDeps extends Pausing {
  readonly api: StatusApi;
  readonly pods: {
    /** The pod as the API server knows it; for a static pod, its mirror. */
    apiPodOf(pod: Pod): Pod | undefined;
  };
  readonly couldHaveRunningContainers: (podUid: string) => boolean;
  readonly notify: (notice: StatusNotice) => void;
}

export type StatusNotice =
  | { readonly kind: 'StatusNotSent'; readonly pod: string; readonly message: string }
  | { readonly kind: 'StatusRefused'; readonly pod: string; readonly message: string };

interface Entry {
  pod: Pod;
  status: PodStatus;
  version: number;
  sentVersion: number;
  /** Everything of the pod is cleaned up: it may be deleted from the API server. */
  isFinished: boolean;
}

/** As the kubelet's: often enough that a lost write goes unnoticed, rarely enough to cost little. */
const passPeriodMs = 10_000;
/** More would only queue up at the server. */
const writesAtOnceMax = 8;

export class StatusManager {
  readonly #deps: StatusManagerDeps;
  readonly #entries = new Map<string, Entry>();
  /** What the API server answered to the last write. */
  readonly #written = new Map<string, WrittenPod>();
  /** Wakes when there is something to send. */
  readonly #news = new WakeSignal();

  constructor(deps: StatusManagerDeps) {
    this.#deps = deps;
  }

  get(uid: string): PodStatus | undefined {
    return this.#entries.get(uid)?.status;
  }

  /** Returns whether it is new. */
  set(pod: Pod, status: PodStatus): boolean {
    return this.#update(pod, status, false);
  }

  /** The pod is cleaned up: its last status is sent, and then it may be deleted from the API server. */
  finish(pod: Pod): void {
    const status = this.get(podUid(pod)) ?? pod.status ?? {};
    this.#update(pod, finalStatus(pod, status), true);
  }

  /** Sends it again though it is not new: to a mirror that was created again. */
  resend(uid: string): void {
    const entry = this.#entries.get(uid);
    if (entry === undefined) return;
    entry.version += 1;
    this.#news.wake();
  }

  /** Forgets the pods that are not among these. */
  retain(uids: ReadonlySet<string>): void {
    for (const uid of this.#entries.keys()) if (!uids.has(uid)) this.#entries.delete(uid);
    for (const uid of this.#written.keys()) if (!uids.has(uid)) this.#written.delete(uid);
  }

  async run(signal: AbortSignal): Promise<void> {
    const pause = pauseOf(this.#deps);
    const clock: Clock = { now: () => this.#deps.clock.now(), sleep: (ms, ended = signal) => pause(ms, ended) };
    while (!signal.aborted) {
      await this.#pass(signal, (entry) => entry.version > entry.sentVersion);
      if (await this.#news.sleep(passPeriodMs, clock, signal)) continue;
      await this.#pass(signal, (entry) => entry.version > entry.sentVersion || this.#hasDrifted(entry));
    }
  }

  #update(pod: Pod, status: PodStatus, isFinished: boolean): boolean {
    const uid = podUid(pod);
    const entry = this.#entries.get(uid);
    const before = entry?.status ?? pod.status;
    const problem = before === undefined ? undefined : illegalTransition(pod, before, status);
    if (problem !== undefined) {
      this.#deps.notify({ kind: 'StatusRefused', pod: describePod(pod), message: problem });
      return false;
    }
    const normal = withinBounds(withTimes(status, before, this.#deps.clock.now()));
    const isNew = entry === undefined || !means(podStatusShape, entry.status, normal);
    if (!isNew && !(isFinished && !entry.isFinished) && pod.metadata.deletionTimestamp === undefined) {
      entry.pod = pod;
      return false;
    }
    this.#entries.set(uid, {
      pod,
      status: normal,
      version: (entry?.version ?? 0) + 1,
      sentVersion: entry?.sentVersion ?? 0,
      isFinished: isFinished || (entry?.isFinished ?? false),
    });
    this.#news.wake();
    return isNew;
  }

  /** The status was changed at the API server. */
  #hasDrifted({ pod, status }: Entry): boolean {
    const api = this.#deps.pods.apiPodOf(pod);
    if (api === undefined) return false;
    // What our last write left there is all this server keeps of it: an older one leaves out fields that it does not know.
    const { resourceVersion } = this.#written.get(podUid(pod))?.metadata ?? {};
    if (resourceVersion !== undefined && resourceVersion === api.metadata.resourceVersion) return false;
    const merged = mergeStatus(api.status ?? {}, status, this.#deps.couldHaveRunningContainers(podUid(pod)));
    return !means(podStatusShape, api.status ?? {}, merged);
  }

  async #pass(signal: AbortSignal, isDue: (entry: Entry) => boolean): Promise<void> {
    const uids = [...this.#entries.keys()].values();
    const write = async (): Promise<void> => {
      for (const uid of uids) {
        // Read when its turn comes: while many wait, older statuses are skipped.
        const entry = this.#entries.get(uid);
        if (entry !== undefined && !signal.aborted) await this.#send(entry, isDue, signal);
      }
    };
    await Promise.all(Array.from({ length: writesAtOnceMax }, write));
  }

  async #send(entry: Entry, isDue: (entry: Entry) => boolean, signal: AbortSignal): Promise<void> {
    const { version } = entry;
    try {
      if (isDue(entry) && (await this.#write(entry, signal))) entry.sentVersion = version;
    } catch (error) {
      if (signal.aborted) return;
      this.#deps.notify({ kind: 'StatusNotSent', pod: describePod(entry.pod), message: messageOf(error) });
    }
  }

  /** False if the API server has no such pod. */
  async #write({ pod, status, isFinished }: Entry, signal: AbortSignal): Promise<boolean> {
    const { api, pods, couldHaveRunningContainers } = this.#deps;
    const target = pods.apiPodOf(pod);
    if (target === undefined) return false;
    const [namespace, name, uid] = [podNamespace(target), target.metadata.name, podUid(target)];
    // The watch may be behind the last write. Whatever else it has missed is found by the next pass.
    const current = newest(target, this.#written.get(podUid(pod)));
    const merged = mergeStatus(current.status ?? {}, status, couldHaveRunningContainers(podUid(pod)));
    const patch = statusPatch(current.status ?? {}, merged);
    const answer =
      patch === undefined
        ? current
        : await api.patchStatus(namespace, name, { metadata: { uid }, status: patch }, signal);
    if (answer === undefined) {
      // If another pod has the name now, this status is obsolete.
      const other = await api.get(namespace, name, signal);
      if (other !== undefined && podUid(other) !== uid) this.#entries.delete(podUid(pod));
      return false;
    }
    // What others wrote meanwhile arrives with the watch.
    const written = { metadata: answer.metadata, status: merged };
    this.#written.set(podUid(pod), written);
    if (isFinished && isDeletable(written)) await api.delete(namespace, name, uid, signal);
    return true;
  }
}

type WrittenPod = Pick<Pod, 'metadata' | 'status'>;

function newest(watched: Pod, written: WrittenPod | undefined): WrittenPod {
  const versionOf = ({ metadata }: WrittenPod): number => Number(metadata.resourceVersion);
  const isSame = written !== undefined && podUid(written) === podUid(watched);
  return isSame && versionOf(written) > versionOf(watched) ? written : watched;
}

function isDeletable(pod: WrittenPod): boolean {
  return pod.metadata.deletionTimestamp !== undefined && !isMirrorPod(pod) && isTerminalPhase(pod.status?.phase);
}
