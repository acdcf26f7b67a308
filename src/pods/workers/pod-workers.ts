/** One worker for each pod UID: the steps of one pod run one after another, those of different pods side by side. */
import { type TaskFailed, runTask } from '../../base/run-task.ts';
import { isStaticPod, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { PodProgress } from './pod-progress.ts';
import {
  type PodState,
  type PodStepFailed,
  type PodWork,
  PodWorker,
  type PodWorkerDeps,
  type RequeueSettings,
} from './pod-worker.ts';
import { StaticPodTurns } from './static-pod-turns.ts';

interface PodWorkersDeps extends PodWorkerDeps {
  /** Filled here, and read by those who need to know how far a pod has got. */
  readonly progress: PodProgress;
  readonly notify: (notice: PodStepFailed | TaskFailed) => void;
  /** A pod passed from one state to the next; undefined: it has finished and is forgotten. */
  readonly moved: (uid: string, state: PodState | undefined) => void;
}

export interface PodWorkerState {
  readonly state: PodState;
  /** No longer wanted by any source. */
  readonly isOrphan: boolean;
}

export class PodWorkers {
  readonly #deps: PodWorkersDeps;
  readonly #settings: RequeueSettings;
  readonly #signal: AbortSignal;
  readonly progress: PodProgress;
  readonly #running = new Map<string, Promise<void>>();
  readonly #turns = new StaticPodTurns();

  constructor(deps: PodWorkersDeps, settings: RequeueSettings, signal: AbortSignal) {
    this.#deps = deps;
    this.progress = deps.progress;
    this.#settings = settings;
    this.#signal = signal;
  }

  update(work: PodWork): void {
    const uid = work.pod === undefined ? work.runtimePod?.uid : podUid(work.pod);
    if (uid === undefined || this.#signal.aborted) return;
    // A pod that only the runtime knows can only be ended.
    if (work.pod === undefined && work.kind !== 'kill') return;
    const worker = this.progress.get(uid) ?? this.#add(uid, work);
    if (worker.state !== 'syncing' && work.kind === 'create') {
      worker.isRestartRequested = true;
      return;
    }
    worker.update(work);
    if (worker.state !== 'finished') this.#start(worker);
  }

  /** Syncs a pod again though nothing is new about it. Unknown and finished pods are left alone. */
  sync(uid: string): void {
    this.progress.get(uid)?.sync();
  }

  /** A container of this pod started or ended. False: the pod has no worker that could react. */
  containersChanged(uid: string): boolean {
    const worker = this.progress.get(uid);
    if (worker === undefined || worker.state === 'finished') return false;
    worker.containersChanged();
    return true;
  }

  /**
   * Compares with all pods that are wanted: forgets those that have finished and are not, ends those that run and are not.
   * Returns what is left.
   */
  retain(wanted: ReadonlySet<string>): ReadonlyMap<string, PodWorkerState> {
    this.progress.markSynced();
    const left = new Map<string, PodWorkerState>();
    for (const worker of this.progress.workers()) {
      const isOrphan = !wanted.has(worker.uid);
      const isOver = isOrphan ? worker.endOrphan() : worker.isRestartRequested && worker.state === 'finished';
      if (isOver) {
        this.#forget(worker);
        this.#releaseTurn(worker);
      } else left.set(worker.uid, { state: worker.state, isOrphan });
    }
    return left;
  }

  /** Resolves when no worker is left: after the signal aborted, or when every pod has finished. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values());
  }

  #add(uid: string, work: PodWork): PodWorker {
    const owner = {
      moved: (worker: PodWorker): void => {
        this.#deps.moved(worker.uid, worker.state);
        if (worker.state === 'finished') this.#releaseTurn(worker);
      },
      forget: (worker: PodWorker): void => this.#forget(worker),
      takeTurn: ({ fullName }: PodWorker): boolean =>
        this.#turns.take(fullName, uid, (other) => this.progress.stateOf(other) === 'syncing'),
    };
    const worker = new PodWorker(uid, work, this.#deps, owner, this.#settings, this.#signal);
    this.progress.add(worker);
    return worker;
  }

  #start(worker: PodWorker): void {
    const { uid, fullName, pod } = worker;
    if (this.#running.has(uid)) return;
    if (pod !== undefined && isStaticPod(pod)) this.#turns.wait(fullName, uid);
    const running = runTask(`pod ${fullName}`, () => worker.run(), this.#deps, this.#signal).finally(() =>
      this.#running.delete(uid),
    );
    this.#running.set(uid, running);
  }

  #releaseTurn({ fullName, uid }: PodWorker): void {
    for (const next of this.#turns.release(fullName, uid)) this.progress.get(next)?.retryTurn();
  }

  #forget(worker: PodWorker): void {
    this.progress.remove(worker);
    this.#deps.moved(worker.uid, undefined);
  }
}
