/**
 * What the workers remember of one pod UID. Never backwards:
 *
 *   syncing ──(deleted, ended, killed, orphaned)──▶ terminating ──(no container runs)──▶ terminated ──(cleaned up)──▶ finished
 */
import { WakeSignal } from '../../base/wake-signal.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { RuntimePod } from '../../runtimes/runtime.ts';
import type { Eviction } from '../status/pod-status.ts';

export type PodState = 'syncing' | 'terminating' | 'terminated' | 'finished';

/** The newest thing that was said about a pod; older ones that nobody took are dropped. */
export interface PodWork {
  readonly kind: 'create' | 'update' | 'sync' | 'kill';
  /** Undefined for a pod of which only the runtime knows. */
  readonly pod: Pod | undefined;
  readonly runtimePod?: RuntimePod | undefined;
  readonly graceSeconds?: number | undefined;
  readonly eviction?: Eviction | undefined;
}

export interface PodRecord {
  readonly uid: string;
  readonly fullName: string;
  state: PodState;
  /** A worker took the pod up; a static pod waits for its turn before that. */
  isStarted: boolean;
  /** The terminating step was begun, so that nothing is started any more. */
  hasBegunTerminating: boolean;
  /** Its end was known when the pod was first seen: what the runtime has of it decides whether anything is left to end. */
  seenTerminal: boolean;
  isDeleted: boolean;
  isRestartRequested: boolean;
  isRuntimeOnly: boolean;
  eviction: Eviction | undefined;
  /** Undefined until it has to end. */
  graceSeconds: number | undefined;
  pending: PodWork | undefined;
  active: PodWork | undefined;
  /** What the runtime had of it when its status was made last. */
  seen: RuntimePod | undefined;
  /** When to look again if nothing comes; undefined while a step runs. */
  dueAtMs: number | undefined;
  /** Ends the step that runs. */
  cancel: AbortController | undefined;
  /** Rings when there is something new to do. */
  readonly wakeUp: WakeSignal;
}

export function newRecord(uid: string, fullName: string): PodRecord {
  return {
    uid,
    fullName,
    state: 'syncing',
    isStarted: false,
    hasBegunTerminating: false,
    seenTerminal: false,
    isDeleted: false,
    isRestartRequested: false,
    isRuntimeOnly: false,
    eviction: undefined,
    graceSeconds: undefined,
    pending: undefined,
    active: undefined,
    seen: undefined,
    dueAtMs: undefined,
    cancel: undefined,
    wakeUp: new WakeSignal(),
  };
}

/** Nothing of it runs and nothing shared is left. */
export function isOver(runtimePod: RuntimePod | undefined): boolean {
  if (runtimePod === undefined) return true;
  return runtimePod.state === 'notReady' && runtimePod.containers.every(({ state }) => state.kind !== 'running');
}
