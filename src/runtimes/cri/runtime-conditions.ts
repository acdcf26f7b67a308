/**
 * What the runtime says of itself, asked every few seconds: whether it can run containers, and whether pods get a network. It is told
 * which addresses they get.
 */
import type { Clock } from '../../base/clock.ts';
import type { StatusResponse } from '../../grpc/messages/cri_pb.ts';
import type { RuntimeCalls } from './cri-connection.ts';

const periodMs = 5_000;
/** The runtime may be restarted meanwhile without anyone noticing. */
const downAfterMs = 30_000;
const answerMsMax = 10_000;

export class RuntimeConditions {
  readonly #calls: RuntimeCalls;
  readonly #clock: Clock;
  #podCidr = '';
  #sentPodCidr = '';
  #last: { readonly atMs: number; readonly answer: StatusResponse } | undefined;

  constructor(calls: RuntimeCalls, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // Its age says that it failed.
      await this.refresh(signal).catch(() => {});
      await this.#clock.sleep(periodMs, signal).catch(() => {});
    }
  }

  async refresh(signal: AbortSignal): Promise<void> {
    const answer = await this.#calls.status({}, { timeoutMs: answerMsMax, signal });
    this.#last = { atMs: this.#clock.now(), answer };
    await this.#sendPodCidr(signal);
  }

  /** Sent at the next look, and again until the runtime has taken it. */
  setPodRanges(ranges: readonly string[]): void {
    this.#podCidr = ranges.join(',');
  }

  async #sendPodCidr(signal: AbortSignal): Promise<void> {
    const podCidr = this.#podCidr;
    if (podCidr === this.#sentPodCidr) return;
    const runtimeConfig = { networkConfig: { podCidr } };
    await this.#calls.updateRuntimeConfig({ runtimeConfig }, { timeoutMs: answerMsMax, signal });
    this.#sentPodCidr = podCidr;
  }

  /** In the kubelet's words, for the node's condition. */
  problems(): readonly string[] {
    if (this.#last === undefined) return ['container runtime status check may not have completed yet'];
    if (this.#clock.now() - this.#last.atMs > downAfterMs) return ['container runtime is down'];
    return ['RuntimeReady', 'NetworkReady'].flatMap((type) => this.#problem(type) ?? []);
  }

  networkProblem(): string | undefined {
    return this.#last === undefined ? 'network state unknown' : this.#problem('NetworkReady');
  }

  /** The last answer; undefined before the first. */
  get status(): StatusResponse | undefined {
    return this.#last?.answer;
  }

  #problem(type: string): string | undefined {
    const found = this.#last?.answer.status?.conditions.find((one) => one.type === type);
    if (found?.status === true) return undefined;
    const name = type === 'RuntimeReady' ? 'container runtime' : 'container runtime network';
    return `${name} not ready: ${type}=false reason:${found?.reason ?? ''} message:${found?.message ?? ''}`;
  }
}
