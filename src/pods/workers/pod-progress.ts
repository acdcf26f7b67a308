/** How far the pods of this node have got, for those who must not act too early: volumes, statuses, housekeeping. */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { RuntimePod } from '../../runtimes/runtime.ts';
import type { PodState, PodWorker } from './pod-worker.ts';

export class PodProgress {
  readonly #workers = new Map<string, PodWorker>();
  /** All workers were compared with all wanted pods: a UID without a worker is unknown to this node. */
  #isSynced = false;

  get(uid: string): PodWorker | undefined {
    return this.#workers.get(uid);
  }

  workers(): Iterable<PodWorker> {
    return this.#workers.values();
  }

  add(worker: PodWorker): void {
    this.#workers.set(worker.uid, worker);
  }

  remove(worker: PodWorker): void {
    if (this.#workers.get(worker.uid) === worker) this.#workers.delete(worker.uid);
  }

  markSynced(): void {
    this.#isSynced = true;
  }

  stateOf(uid: string): PodState | undefined {
    return this.#workers.get(uid)?.state;
  }

  /** The newest that is known of the pod, also when no source wants it any more. */
  podOf(uid: string): Pod | undefined {
    return this.#workers.get(uid)?.pod;
  }

  /** The status of the pod was computed from this. */
  see(uid: string, runtimePod: RuntimePod | undefined): void {
    const worker = this.#workers.get(uid);
    if (worker !== undefined) worker.seen = runtimePod;
  }

  isTerminationRequested(uid: string): boolean {
    const state = this.stateOf(uid);
    return state !== undefined && state !== 'syncing';
  }

  /** Nothing new may be set up for it: its containers end, or have ended, or there is no such pod. */
  shouldContainersBeTerminating(uid: string): boolean {
    return this.#workers.get(uid)?.hasBegunTerminating ?? this.#isSynced;
  }

  /** No container of it runs any more, so what they used can go. */
  shouldRuntimeBeRemoved(uid: string): boolean {
    const state = this.stateOf(uid);
    return state === undefined ? this.#isSynced : state === 'terminated' || state === 'finished';
  }

  couldHaveRunningContainers(uid: string): boolean {
    return !this.shouldRuntimeBeRemoved(uid);
  }

  isFinished(uid: string): boolean {
    const state = this.stateOf(uid);
    return state === undefined ? this.#isSynced : state === 'finished';
  }
}
