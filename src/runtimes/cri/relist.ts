/**
 * Notices what happens in pods by listing everything once a second, as the kubelet does: runtimes tell nobody. Two calls, however many
 * pods there are; only a pod in which something changed is looked at more closely, by whoever follows.
 */
import type { Clock } from '../../base/clock.ts';
import { ContainerState, PodSandboxState } from '../../grpc/messages/cri_pb.ts';
import { showDuration } from '../../kube/values/times.ts';
import type { Listed } from './cri-pods.ts';

interface RelistDeps {
  readonly clock: Clock;
  readonly listed: (signal: AbortSignal) => Promise<ReadonlyMap<string, Listed>>;
  /** Rejects while the runtime does not say how a pod is. */
  readonly inspect: (podUid: string, signal: AbortSignal) => Promise<unknown>;
  /** Called with the UID of a pod in which something started or ended. */
  readonly changed: (podUid: string) => void;
}

type Seen = 'running' | 'exited' | 'other';

const periodMs = 1_000;
/** A list takes milliseconds. After this long without one nobody knows what runs. */
const silenceMsMax = 180_000;

export class Relist {
  readonly #deps: RelistDeps;
  /** Sandboxes and containers by pod and ID. */
  #seen: ReadonlyMap<string, ReadonlyMap<string, Seen>> = new Map();
  #lastAtMs: number | undefined;
  #isAway = false;
  /** Pods about which the runtime did not answer. */
  readonly #missed = new Set<string>();

  constructor(deps: RelistDeps) {
    this.#deps = deps;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.relist(signal);
      await this.#deps.clock.sleep(periodMs, signal).catch(() => {});
    }
  }

  /** The runtime did not answer about this pod: it is to be looked at as soon as the runtime does. */
  missed(podUid: string): void {
    this.#missed.add(podUid);
  }

  async relist(signal: AbortSignal): Promise<void> {
    const { clock, listed, changed } = this.#deps;
    let pods: ReadonlyMap<string, Listed>;
    try {
      pods = await listed(signal);
    } catch {
      // Reported by its age in `problems`; the calls that pods need fail in their own words.
      this.#isAway = true;
      return;
    }
    const before = this.#seen;
    const wasAway = this.#isAway;
    this.#lastAtMs = clock.now();
    this.#isAway = false;
    this.#seen = new Map([...pods].map(([uid, pod]) => [uid, statesOf(pod)]));
    const again = await this.#answered(signal);
    for (const uid of new Set([...before.keys(), ...this.#seen.keys(), ...again])) {
      if (wasAway || again.has(uid) || differs(before.get(uid), this.#seen.get(uid))) changed(uid);
    }
  }

  /** Steps that failed for want of an answer are repeated when there is one, and not before: each failure is an Event. */
  async #answered(signal: AbortSignal): Promise<ReadonlySet<string>> {
    const missed = [...this.#missed];
    const answers = await Promise.allSettled(missed.map((uid) => this.#deps.inspect(uid, signal)));
    const again = missed.filter((_, index) => answers[index]?.status === 'fulfilled');
    for (const uid of again) this.#missed.delete(uid);
    return new Set(again);
  }

  problems(): readonly string[] {
    if (this.#lastAtMs === undefined) return ['PLEG is not healthy: pleg has yet to be successful'];
    const silentMs = this.#deps.clock.now() - this.#lastAtMs;
    if (silentMs <= silenceMsMax) return [];
    const [silent, limit] = [showDuration(silentMs), showDuration(silenceMsMax)];
    return [`PLEG is not healthy: pleg was last seen active ${silent} ago; threshold is ${limit}`];
  }
}

function statesOf({ sandboxes, containers }: Listed): ReadonlyMap<string, Seen> {
  const seen = new Map<string, Seen>();
  for (const { id, state } of sandboxes) seen.set(id, state === PodSandboxState.SANDBOX_READY ? 'running' : 'exited');
  for (const { id, state } of containers) seen.set(id, containerStates.get(state) ?? 'other');
  return seen;
}

const containerStates: ReadonlyMap<ContainerState, Seen> = new Map([
  [ContainerState.CONTAINER_RUNNING, 'running'],
  [ContainerState.CONTAINER_EXITED, 'exited'],
]);

/** Whether something started, or ended, also when it was removed at once. What was only created or removed is not worth a look. */
function differs(before: ReadonlyMap<string, Seen> = new Map(), after: ReadonlyMap<string, Seen> = new Map()): boolean {
  for (const [id, state] of after) if (state !== 'other' && before.get(id) !== state) return true;
  for (const [id, state] of before) if (state !== 'exited' && !after.has(id)) return true;
  return false;
}
