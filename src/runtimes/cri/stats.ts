/**
 * What containers use, as the runtime counts it, and what their pods' networks carried, as the kernel counts it: runtimes do not
 * have to know the latter.
 */
import type { Clock } from '../../base/clock.ts';
import {
  type Container,
  ContainerState,
  type ContainerStats as CriStats,
  PodSandboxState,
} from '../../grpc/messages/cri_pb.ts';
import type { GroupUsage } from '../../linux/group-usage.ts';
import { readInterfaceCounters } from '../../linux/network-counters.ts';
import type { ContainerStats, NetworkStats, PodStats } from '../runtime.ts';
import { type RuntimeCalls, milliseconds, requestMsMax } from './cri-connection.ts';
import type { CriPods } from './cri-pods.ts';
import type { PodCgroups } from './pod-cgroups.ts';

interface CriStatsDeps {
  readonly calls: RuntimeCalls;
  readonly pods: Pick<CriPods, 'listed' | 'readySandbox'>;
  readonly cgroups: Pick<PodCgroups, 'usageOf'>;
  readonly clock: Clock;
}

export class CriStatsReader {
  readonly #deps: CriStatsDeps;
  /** By the ID of a sandbox: a process in its network; undefined: the runtime does not tell. */
  readonly #processes = new Map<string, number | undefined>();

  constructor(deps: CriStatsDeps) {
    this.#deps = deps;
  }

  async read(signal: AbortSignal): Promise<readonly PodStats[]> {
    const { calls, pods } = this.#deps;
    const [{ stats }, listed] = await Promise.all([
      calls.listContainerStats({}, { timeoutMs: requestMsMax, signal }),
      pods.listed(undefined, signal),
    ]);
    const byId = new Map(stats.map((one) => [one.attributes?.id ?? '', one]));
    const ready = [...listed].flatMap(
      ([
        uid,
        {
          sandboxes: [newest],
          containers,
        },
      ]) => (newest?.state === PodSandboxState.SANDBOX_READY ? [{ uid, sandbox: newest, containers }] : []),
    );
    const ids = new Set(ready.map(({ sandbox }) => sandbox.id));
    for (const id of this.#processes.keys()) if (!ids.has(id)) this.#processes.delete(id);
    return await Promise.all(
      ready.map(async ({ uid, sandbox, containers }) => {
        const counted = this.#deps.cgroups.usageOf(uid);
        return {
          uid,
          namespace: sandbox.metadata?.namespace ?? '',
          name: sandbox.metadata?.name ?? '',
          startedAtMs: milliseconds(sandbox.createdAt),
          network: await this.#network(uid, sandbox.id, signal),
          whole: counted?.whole,
          containers: newestRunning(containers).flatMap((container) => {
            const one = byId.get(container.id);
            return one === undefined
              ? []
              : [usageOf(container, one, counted?.container(container.id), this.#deps.clock.now())];
          }),
        };
      }),
    );
  }

  async #network(podUid: string, sandboxId: string, signal: AbortSignal): Promise<NetworkStats | undefined> {
    const sandbox = this.#deps.pods.readySandbox(podUid);
    // Of another than the one that is ready now, the process may be gone and its number another's.
    if (sandbox?.id !== sandboxId || sandbox.hostNetwork) return undefined;
    const pid = await this.#processOf(sandboxId, signal);
    if (pid === undefined) return undefined;
    return { atMs: this.#deps.clock.now(), interfaces: await readInterfaceCounters(pid) };
  }

  /** Runtimes tell it in words of their own, for those who ask for everything. */
  async #processOf(podSandboxId: string, signal: AbortSignal): Promise<number | undefined> {
    if (this.#processes.has(podSandboxId)) return this.#processes.get(podSandboxId);
    const options = { timeoutMs: requestMsMax, signal };
    const answer = await this.#deps.calls
      .podSandboxStatus({ podSandboxId, verbose: true }, options)
      .catch(() => undefined);
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

/** What a runtime does not count is 0 now; what it need not count is the kernel's figure, if there is one. */
function usageOf(
  container: Container,
  { cpu, memory, writableLayer }: CriStats,
  counted: GroupUsage | undefined,
  nowMs: number,
): ContainerStats {
  const timestamp = cpu?.timestamp ?? memory?.timestamp ?? 0n;
  const usage = Number(memory?.usageBytes?.value ?? memory?.workingSetBytes?.value ?? 0n);
  return {
    name: container.metadata?.name ?? '',
    startedAtMs: milliseconds(container.createdAt),
    atMs: timestamp === 0n ? nowMs : milliseconds(timestamp),
    cpuNanoseconds: Number(cpu?.usageCoreNanoSeconds?.value ?? 0n),
    memoryBytes: usage,
    workingSetBytes: Number(memory?.workingSetBytes?.value ?? 0n),
    rssBytes: optional(memory?.rssBytes) ?? counted?.rssBytes,
    pageFaults: optional(memory?.pageFaults) ?? counted?.pageFaults,
    majorPageFaults: optional(memory?.majorPageFaults) ?? counted?.majorPageFaults,
    swap: counted?.swap,
    processes: counted?.processes,
    writableLayer: writableLayer && {
      usedBytes: Number(writableLayer.usedBytes?.value ?? 0n),
      inodesUsed: Number(writableLayer.inodesUsed?.value ?? 0n),
    },
  };
}

function optional(counted: { readonly value: bigint } | undefined): number | undefined {
  return counted && Number(counted.value);
}
