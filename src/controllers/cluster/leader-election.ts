/**
 * One of several processes does the work: the one that holds a Lease, as client-go's leader election has it.
 *
 *   waiting ──free, released or expired──▶ leading ──renewed every 2 s──▶ leading
 *                                            │ not renewed for 10 s, or taken: all work ends, then 'lost'
 *                                            └ the signal aborts: all work ends, then the lease is released
 *
 * Clocks of others are not believed: a lease has expired when it has not changed for its duration by the time that passes here.
 * The leader gives up before that, and every write is checked against the clock, so that a process that was stopped for a while
 * writes nothing when it goes on.
 */
import { onAbort, withDeadline } from '../../base/abort.ts';
import { jittered } from '../../base/back-off.ts';
import { OperatingError } from '../../base/errors.ts';
import type { Lease } from '../../kube/kinds/lease.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { microTimestamp } from '../../kube/values/times.ts';
import { type Cluster, type ControllerDeps, kindNamed, refusalCode } from './cluster.ts';

const leaseSeconds = 15;
const renewDeadlineMs = 10_000;
const retryMs = 2_000;
const late = (): Error => new OperatingError('LeaseLost', 'the API server did not answer in time');
/** Of waiting processes, so that they do not all ask at once. */
const spread = 1.2;
const controller = 'leader-election';

type LeaseSpec = NonNullable<Lease['spec']>;

export type LeaderNotice =
  /** Emitted when it changes. */
  | { readonly kind: 'LeaderChanged'; readonly holder: string; readonly isOurs: boolean }
  | { readonly kind: 'LeaseFailed'; readonly error: unknown };

interface LeaderDeps extends Pick<ControllerDeps, 'clusterFor' | 'clock'> {
  /** Goes on at the same pace when the clock is set. */
  readonly monotonicMs: () => number;
  /** 0 to 1. */
  readonly random: () => number;
  readonly notify: (notice: LeaderNotice) => void;
}

interface LeaseName {
  readonly namespace: string;
  readonly name: string;
  /** Of this process, and of no other. */
  readonly identity: string;
}

/** `requireLease` throws when the lease may be another's. */
type Work = (requireLease: () => void, signal: AbortSignal) => Promise<void>;

/** Works while the lease is held. Resolves after the signal, or when the lease was lost; then all work has ended. */
export async function lead(
  deps: LeaderDeps,
  lease: LeaseName,
  work: Work,
  signal: AbortSignal,
): Promise<'stopped' | 'lost'> {
  const candidate = new Candidate(deps, lease);
  if (!(await candidate.acquire(signal))) return 'stopped';
  const stop = new AbortController();
  const stopListening = onAbort(signal, () => stop.abort(signal.reason));
  if (signal.aborted) stop.abort(signal.reason);
  const ending = (): void => stop.abort();
  const [worked, renewed] = await Promise.allSettled([
    work(() => candidate.require(), stop.signal).finally(ending),
    candidate.renew(stop.signal).finally(ending),
  ]);
  stopListening();
  const outcome = renewed.status === 'fulfilled' ? renewed.value : 'lost';
  // Not before the work has ended: the next leader starts at once.
  if (outcome === 'stopped') await candidate.release();
  if (worked.status === 'rejected') throw worked.reason;
  return outcome;
}

class Candidate {
  readonly #deps: LeaderDeps;
  readonly #lease: LeaseName;
  #seen: { readonly text: string; readonly atMs: number } | undefined;
  #holder: string | undefined;
  /** When the last request that got or renewed the lease was sent, by both clocks. */
  #held: { readonly wallMs: number; readonly monotonicMs: number } | undefined;

  constructor(deps: LeaderDeps, lease: LeaseName) {
    this.#deps = deps;
    this.#lease = lease;
  }

  /** False when the signal aborted first. */
  async acquire(signal: AbortSignal): Promise<boolean> {
    const { clock, random } = this.#deps;
    while (!signal.aborted) {
      if ((await this.#try(renewDeadlineMs, signal)) === 'held') return true;
      await clock.sleep(jittered(retryMs, spread, random), signal).catch(() => {});
    }
    return false;
  }

  async renew(signal: AbortSignal): Promise<'stopped' | 'lost'> {
    for (;;) {
      await this.#deps.clock.sleep(Math.min(retryMs, this.#leftMs()), signal).catch(() => {});
      if (signal.aborted) return 'stopped';
      const leftMs = this.#leftMs();
      const outcome = leftMs <= 0 ? 'taken' : await this.#try(leftMs, signal);
      if (signal.aborted) return 'stopped';
      if (outcome === 'taken' || this.#leftMs() <= 0) return 'lost';
    }
  }

  require(): void {
    if (this.#leftMs() > 0) return;
    const { namespace, name } = this.#lease;
    throw new OperatingError('LeaseLost', `Cannot write: the lease "${namespace}/${name}" was not renewed in time`);
  }

  async release(): Promise<void> {
    const { clock, notify } = this.#deps;
    const time = microTimestamp(clock.now());
    try {
      await withDeadline(clock, renewDeadlineMs, late, new AbortController().signal, (limited) =>
        this.#update(limited, (spec) =>
          spec.holderIdentity !== this.#lease.identity
            ? undefined
            : { ...spec, holderIdentity: '', leaseDurationSeconds: 1, acquireTime: time, renewTime: time },
        ),
      );
    } catch (error) {
      notify({ kind: 'LeaseFailed', error });
    }
  }

  /** Of the time within which the lease has to be renewed; a clock that was set on ends it sooner, one that was set back not later. */
  #leftMs(): number {
    const { clock, monotonicMs } = this.#deps;
    if (this.#held === undefined) return 0;
    return renewDeadlineMs - Math.max(clock.now() - this.#held.wallMs, monotonicMs() - this.#held.monotonicMs);
  }

  /** `unknown`: the server could not be asked. */
  async #try(timeoutMs: number, signal: AbortSignal): Promise<'held' | 'taken' | 'unknown'> {
    const { clock, monotonicMs, notify } = this.#deps;
    const sent = { wallMs: clock.now(), monotonicMs: monotonicMs() };
    try {
      const isHeld = await withDeadline(clock, timeoutMs, late, signal, (limited) => this.#take(limited));
      if (!isHeld) return 'taken';
      this.#held = sent;
      return 'held';
    } catch (error) {
      if (!signal.aborted) notify({ kind: 'LeaseFailed', error });
      return 'unknown';
    }
  }

  async #take(signal: AbortSignal): Promise<boolean> {
    const { clock, clusterFor } = this.#deps;
    const { namespace, name, identity } = this.#lease;
    let holder = '';
    const taken = (spec: LeaseSpec): LeaseSpec | undefined => {
      holder = spec.holderIdentity ?? '';
      return nextLease(spec, identity, this.#hasExpired(spec), clock.now());
    };
    try {
      const isHeld = await this.#update(signal, taken);
      this.#saw(isHeld ? identity : holder);
      return isHeld;
    } catch (error) {
      if (refusalCode(error) !== 404) throw error;
    }
    const cluster = clusterFor(controller, signal);
    const first: Lease = { metadata: { namespace, name }, spec: nextLease({}, identity, true, clock.now()) ?? {} };
    await cluster.create(leaseKind(cluster), namespace, first);
    this.#saw(identity);
    return true;
  }

  /** Decided on what is there at that moment: whoever is faster has it. */
  async #update(signal: AbortSignal, decide: (spec: LeaseSpec) => LeaseSpec | undefined): Promise<boolean> {
    const cluster = this.#deps.clusterFor(controller, signal);
    const { namespace, name } = this.#lease;
    let isWritten = false;
    await cluster.update(cluster.keyOf(leaseKind(cluster), namespace, name), (object) => {
      const next = decide((object as Lease).spec ?? {});
      isWritten = next !== undefined;
      return next === undefined ? object : ({ ...object, spec: next } as KubeObject);
    });
    return isWritten;
  }

  #hasExpired(spec: LeaseSpec): boolean {
    const text = JSON.stringify(spec);
    const now = this.#deps.monotonicMs();
    if (this.#seen?.text !== text) this.#seen = { text, atMs: now };
    return now - this.#seen.atMs >= (spec.leaseDurationSeconds ?? leaseSeconds) * 1000;
  }

  #saw(holder: string): void {
    if (holder === this.#holder) return;
    this.#holder = holder;
    this.#deps.notify({ kind: 'LeaderChanged', holder, isOurs: holder === this.#lease.identity });
  }
}

function leaseKind(cluster: Cluster): ReturnType<typeof kindNamed> {
  return kindNamed(cluster, 'coordination.k8s.io/v1', 'Lease');
}

/** The lease as `identity` takes or renews it at this time; undefined while it is another's. */
export function nextLease(
  { holderIdentity = '', acquireTime, leaseTransitions = 0, ...rest }: LeaseSpec,
  identity: string,
  hasExpired: boolean,
  nowMs: number,
): LeaseSpec | undefined {
  if (holderIdentity !== identity && holderIdentity !== '' && !hasExpired) return undefined;
  const isOurs = holderIdentity === identity;
  const time = microTimestamp(nowMs);
  const isFirst = rest.renewTime === undefined;
  return {
    ...rest,
    holderIdentity: identity,
    leaseDurationSeconds: leaseSeconds,
    acquireTime: isOurs && acquireTime !== undefined ? acquireTime : time,
    renewTime: time,
    leaseTransitions: isOurs || isFirst ? leaseTransitions : leaseTransitions + 1,
  };
}
