/**
 * What containers use, as the runtime counts it, and what their pods' networks carried, as the kernel counts it: runtimes do not
 * have to know the latter.
 */
import type { Clock } from '../../base/clock.ts';
import { type Container, type ContainerStats as CriStats, ContainerState } from '../../grpc/messages/cri_pb.ts';
import { readInterfaceCounters } from '../../linux/network-counters.ts';
import type { ContainerStats, NetworkStats, PodStats } from '../runtime.ts';
import { type RuntimeCalls, milliseconds, requestMsMax } from './cri-connection.ts';
import type { CriPods, Listed } from './cri-pods.ts';

export class CriStatsReader {
  readonly #calls: RuntimeCalls;
  readonly #pods: Pick<CriPods, 'listed' | 'readySandbox'>;
  readonly #clock: Clock;
  /** By the ID of a sandbox: a process in its network; undefined: the runtime does not tell. */
  readonly #processes = new Map<string, number | undefined>();

  constructor(calls: RuntimeCalls, pods: Pick<CriPods, 'listed' | 'readySandbox'>, clock: Clock) {
    this.#calls = calls;
    this.#pods = pods;
    this.#clock = clock;
  }

  async read(signal: AbortSignal): Promise<readonly PodStats[]> {
    const options = { timeoutMs: requestMsMax, signal };
    const [{ stats }, pods] = await Promise.all([
      this.#calls.listContainerStats({}, options),
      this.#pods.listed(undefined, signal),
    ]);
    const byId = new Map(stats.map((one) => [one.attributes?.id ?? '', one]));
    const ids = new Set([...pods.values()].flatMap(({ sandboxes }) => sandboxes.map(({ id }) => id)));
    for (const id of this.#processes.keys()) if (!ids.has(id)) this.#processes.delete(id);
    return await Promise.all([...pods].map(([uid, listed]) => this.#pod(uid, listed, byId, signal)));
  }

  async #pod(
    uid: string,
    { sandboxes, containers }: Listed,
    stats: ReadonlyMap<string, CriStats>,
    signal: AbortSignal,
  ): Promise<PodStats> {
    const [newest] = sandboxes;
    return {
      uid,
      namespace: newest?.metadata?.namespace ?? '',
      name: newest?.metadata?.name ?? '',
      startedAtMs: milliseconds(newest?.createdAt ?? 0n),
      network: await this.#network(uid, signal),
      containers: newestRunning(containers).flatMap((container) => {
        const one = stats.get(container.id);
        return one === undefined ? [] : [usageOf(container, one, this.#clock.now())];
      }),
    };
  }

  async #network(podUid: string, signal: AbortSignal): Promise<NetworkStats | undefined> {
    const sandbox = this.#pods.readySandbox(podUid);
    if (sandbox === undefined || sandbox.hostNetwork) return undefined;
    const pid = await this.#processOf(sandbox.id, signal);
    if (pid === undefined) return undefined;
    return { atMs: this.#clock.now(), interfaces: await readInterfaceCounters(pid) };
  }

  /** Runtimes tell it in words of their own, for those who ask for everything. */
  async #processOf(podSandboxId: string, signal: AbortSignal): Promise<number | undefined> {
    if (this.#processes.has(podSandboxId)) return this.#processes.get(podSandboxId);
    const options = { timeoutMs: requestMsMax, signal };
    const answer = await this.#calls.podSandboxStatus({ podSandboxId, verbose: true }, options).catch(() => undefined);
    if (answer === undefined) return undefined;
    const pid = pidIn(answer.info['info'] ?? '');
    this.#processes.set(podSandboxId, pid);
    return pid;
  }
}

function pidIn(text: string): number | undefined {
  try {
    const { pid } = JSON.parse(text) as { readonly pid?: unknown };
    return typeof pid === 'number' && Number.isSafeInteger(pid) && pid > 1 ? pid : undefined;
  } catch {
    return undefined;
  }
}

/** Of several of one name only the last counts. */
function newestRunning(containers: readonly Container[]): readonly Container[] {
  const newest = new Map<string, Container>();
  for (const one of containers) {
    const name = one.metadata?.name ?? '';
    const known = newest.get(name);
    if (one.state === ContainerState.CONTAINER_RUNNING && (known === undefined || known.createdAt < one.createdAt))
      newest.set(name, one);
  }
  return [...newest.values()];
}

/** What a runtime does not count is 0 now; what it need not count is absent. */
function usageOf(container: Container, { cpu, memory, writableLayer }: CriStats, nowMs: number): ContainerStats {
  const timestamp = cpu?.timestamp ?? memory?.timestamp ?? 0n;
  const usage = Number(memory?.usageBytes?.value ?? memory?.workingSetBytes?.value ?? 0n);
  return {
    name: container.metadata?.name ?? '',
    startedAtMs: milliseconds(container.createdAt),
    atMs: timestamp === 0n ? nowMs : milliseconds(timestamp),
    cpuNanoseconds: Number(cpu?.usageCoreNanoSeconds?.value ?? 0n),
    memoryBytes: usage,
    workingSetBytes: Number(memory?.workingSetBytes?.value ?? 0n),
    rssBytes: optional(memory?.rssBytes),
    pageFaults: optional(memory?.pageFaults),
    majorPageFaults: optional(memory?.majorPageFaults),
    writableLayer: writableLayer && {
      usedBytes: Number(writableLayer.usedBytes?.value ?? 0n),
      inodesUsed: Number(writableLayer.inodesUsed?.value ?? 0n),
    },
  };
}

function optional(counted: { readonly value: bigint } | undefined): number | undefined {
  return counted && Number(counted.value);
}
