/** How far the pods of this node have got, for those who must not be too early: volumes, statuses, housekeeping. */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { RuntimePod } from '../../runtimes/runtime.ts';
import type { PodRecord, PodState } from './pod-record.ts';

export class PodStates {
  readonly #records = new Map<string, PodRecord>();
  /** All records were compared with all wanted pods: a UID without a record is nobody's. */
  #isSynced = false;

  get(uid: string): PodRecord | undefined {
    return this.#records.get(uid);
  }

  records(): Iterable<PodRecord> {
    return this.#records.values();
  }

  add(record: PodRecord): void {
    this.#records.set(record.uid, record);
  }

  remove(record: PodRecord): void {
    if (this.#records.get(record.uid) === record) this.#records.delete(record.uid);
  }

  markSynced(): void {
    this.#isSynced = true;
  }

  stateOf(uid: string): PodState | undefined {
    return this.#records.get(uid)?.state;
  }

  /** The newest that is known of the pod, also when no source wants it any more. */
  podOf(uid: string): Pod | undefined {
    const record = this.#records.get(uid);
    return record?.pending?.pod ?? record?.active?.pod;
  }

  /** The status of the pod was made of this. */
  see(uid: string, runtimePod: RuntimePod | undefined): void {
    const record = this.#records.get(uid);
    if (record !== undefined) record.seen = runtimePod;
  }

  isTerminationRequested(uid: string): boolean {
    const state = this.stateOf(uid);
    return state !== undefined && state !== 'syncing';
  }

  /** Nothing new may be set up for it: its containers end, or have ended, or there is no such pod. */
  shouldContainersBeTerminating(uid: string): boolean {
    return this.#records.get(uid)?.hasBegunTerminating ?? this.#isSynced;
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
