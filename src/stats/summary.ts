/**
 * What the node and its pods use, in the form of the kubelet's summary: monitoring programs read it over HTTP, and eviction decides
 * by it. Figures of containers come from the runtime, those of the machine from its kernel, those of directories from walks.
 */
import type { Clock } from '../base/clock.ts';
import type { ContainerStats, NetworkStats, PodStats, Runtime } from '../runtimes/runtime.ts';
import type { AskForeign, DirectoryUsage, FileSystemUsage, TreeUsage } from './directory-usage.ts';
import type { MachineUsage } from './machine-usage.ts';

export interface Summary {
  readonly node: NodeSummary;
  readonly pods: readonly PodSummary[];
}

interface NodeSummary {
  readonly nodeName: string;
  readonly systemContainers: readonly ContainerSummary[];
  readonly startTime: string;
  readonly cpu: CpuSummary;
  readonly memory: MemorySummary;
  readonly network?: NetworkSummary;
  /** Of the file system with the node's root directory. */
  readonly fs?: FsSummary;
  /** Absent where containers need no images. */
  readonly runtime?: { readonly imageFs: FsSummary; readonly containerFs: FsSummary };
  readonly rlimit?: { readonly time: string; readonly maxpid: number; readonly curproc: number };
  readonly swap: SwapSummary;
}

interface PodSummary {
  readonly podRef: { readonly name: string; readonly namespace: string; readonly uid: string };
  readonly startTime: string;
  readonly containers: readonly ContainerSummary[];
  readonly cpu?: CpuSummary;
  readonly memory?: MemorySummary;
  readonly network?: NetworkSummary;
  readonly volume?: readonly VolumeSummary[];
  readonly 'ephemeral-storage'?: FsSummary;
  readonly process_stats?: { readonly process_count: number };
  readonly swap?: SwapSummary;
}

interface ContainerSummary {
  readonly name: string;
  readonly startTime: string;
  readonly cpu: CpuSummary;
  readonly memory: MemorySummary;
  readonly rootfs?: FsSummary;
  readonly logs?: FsSummary;
  readonly swap?: SwapSummary;
}

interface CpuSummary {
  readonly time: string;
  /** Absent until there are two samples. */
  readonly usageNanoCores?: number;
  readonly usageCoreNanoSeconds: number;
}

interface MemorySummary {
  readonly time: string;
  /** Absent without a limit. */
  readonly availableBytes?: number;
  readonly usageBytes: number;
  readonly workingSetBytes: number;
  readonly rssBytes?: number;
  readonly pageFaults?: number;
  readonly majorPageFaults?: number;
}

interface SwapSummary {
  readonly time: string;
  /** Absent without a limit. */
  readonly swapAvailableBytes?: number;
  readonly swapUsageBytes: number;
}

interface FsSummary {
  readonly time: string;
  readonly availableBytes: number;
  readonly capacityBytes: number;
  readonly usedBytes: number;
  readonly inodesFree: number;
  readonly inodes: number;
  readonly inodesUsed: number;
}

interface VolumeSummary extends FsSummary {
  readonly name: string;
  readonly pvcRef?: { readonly name: string; readonly namespace: string };
}

interface InterfaceSummary {
  readonly name: string;
  readonly rxBytes: number;
  readonly rxErrors: number;
  readonly txBytes: number;
  readonly txErrors: number;
}

interface NetworkSummary extends InterfaceSummary {
  readonly time: string;
  readonly interfaces: readonly InterfaceSummary[];
}

/** What this node knows of a pod beyond what its runtime counts. */
export interface PodFacts {
  /** Those that are mounted and have a path here. */
  readonly volumes: readonly {
    readonly name: string;
    readonly path: string;
    readonly claim: { readonly name: string; readonly namespace: string } | undefined;
    /** It has a file system of its own, which need not be of this machine. */
    readonly isForeign: boolean;
    /** Has figures of its own for it, which are better than those of the file system. */
    readonly askDriver?: AskForeign | undefined;
  }[];
  readonly hostsFile: string;
  /** Where the logs of a container are, rotated ones too. */
  logDirectory(container: string): string | undefined;
  memoryBytesMax(container: string): number | undefined;
}

interface SummaryDeps {
  readonly clock: Clock;
  readonly nodeName: string;
  readonly rootDirectory: string;
  readonly runtime: Pick<Runtime, 'stats' | 'images'>;
  readonly directories: DirectoryUsage;
  readonly machine: () => Promise<MachineUsage>;
  /** Undefined for a pod that only the runtime still knows. */
  readonly factsOf: (podUid: string) => PodFacts | undefined;
}

export class SummarySource {
  readonly #deps: SummaryDeps;
  readonly #rates = new CpuRates();

  constructor(deps: SummaryDeps) {
    this.#deps = deps;
  }

  async summary(signal: AbortSignal): Promise<Summary> {
    const { directories, machine, rootDirectory, runtime } = this.#deps;
    const [usage, pods, root, image] = await Promise.all([
      machine(),
      runtime.stats(signal),
      directories.fileSystem(rootDirectory),
      runtime.images?.filesystem(signal),
    ]);
    const time = timeOf(this.#deps.clock.now());
    const imageFs = image && (await directories.fileSystem(image.mountPoint));
    const shown = await Promise.all(
      pods.map((stats) => this.#pod(stats, { time, root, layers: imageFs ?? root }, signal)),
    );
    const [first = noInterface, ...others] = usage.interfaces;
    const network = { atMs: this.#deps.clock.now(), interfaces: [first, ...others] };
    return {
      node: {
        ...this.#node(usage, pods),
        network: networkOf(network),
        fs: fsOf(time, root, root),
        ...(image &&
          imageFs && { runtime: { imageFs: fsOf(time, imageFs, image), containerFs: fsOf(time, imageFs, imageFs) } }),
        rlimit: { time, maxpid: usage.processesMax, curproc: usage.processes },
      },
      pods: shown,
    };
  }

  /** What `only_cpu_and_memory` asks for: no directory is walked for it. */
  async cpuAndMemory(signal: AbortSignal): Promise<Summary> {
    const [usage, pods] = await Promise.all([this.#deps.machine(), this.#deps.runtime.stats(signal)]);
    return { node: this.#node(usage, pods), pods: pods.map((stats) => this.#usageOf(stats)) };
  }

  /** What the volumes of one pod hold. A volume whose server is away is left out: this never waits long for one. */
  async volumesOf(podUid: string, signal: AbortSignal): Promise<readonly VolumeSummary[]> {
    const { directories, factsOf, rootDirectory } = this.#deps;
    const root = await directories.fileSystem(rootDirectory);
    const volumes = factsOf(podUid)?.volumes ?? [];
    const measured = await Promise.all(volumes.map((volume) => this.#volume(volume, root, signal)));
    return measured.flatMap((volume) => volume?.summary ?? []);
  }

  #node(usage: MachineUsage, pods: readonly PodStats[]): NodeSummary {
    const atMs = this.#deps.clock.now();
    const time = timeOf(atMs);
    const { memory, swap, own } = usage;
    this.#rates.keep(pods);
    const all = totalOf(pods.map(wholeOf));
    return {
      nodeName: this.#deps.nodeName,
      systemContainers: [
        {
          name: 'kubelet',
          startTime: timeOf(own.startedAtMs),
          cpu: this.#rates.cpuOf('kubelet', atMs, own.cpuNanoseconds),
          memory: memoryOf(time, { ...own, memoryBytes: own.rssBytes, workingSetBytes: own.rssBytes }, undefined),
        },
        {
          name: 'pods',
          startTime: timeOf(usage.bootedAtMs),
          cpu: this.#rates.cpuOf('pods', atMs, all.cpuNanoseconds),
          memory: memoryOf(time, all, memory.totalBytes),
        },
      ],
      startTime: timeOf(usage.bootedAtMs),
      cpu: this.#rates.cpuOf('node', atMs, usage.cpuNanoseconds),
      memory: {
        time,
        availableBytes: Math.max(0, memory.totalBytes - memory.workingSetBytes),
        usageBytes: memory.usedBytes,
        workingSetBytes: memory.workingSetBytes,
        rssBytes: memory.rssBytes,
        pageFaults: memory.pageFaults,
        majorPageFaults: memory.majorPageFaults,
      },
      swap: { time, swapAvailableBytes: swap.totalBytes - swap.usedBytes, swapUsageBytes: swap.usedBytes },
    };
  }

  #usageOf(stats: PodStats): PodSummary {
    const { uid, namespace, name, startedAtMs, containers } = stats;
    const facts = this.#deps.factsOf(uid);
    const limits = containers.map((one) => facts?.memoryBytesMax(one.name));
    const shown = containers.map((one, index) => ({
      name: one.name,
      startTime: timeOf(one.startedAtMs),
      cpu: this.#rates.cpuOf(rateKey(uid, one), one.atMs, one.cpuNanoseconds),
      memory: memoryOf(timeOf(one.atMs), one, limits[index]),
      ...swapOf(timeOf(one.atMs), one),
    }));
    const podRef = { name, namespace, uid };
    const [first] = containers;
    if (first === undefined) return { podRef, startTime: timeOf(startedAtMs), containers: shown };
    const whole = wholeOf(stats);
    const time = timeOf(first.atMs);
    const hasRates = shown.every(({ cpu }) => cpu.usageNanoCores !== undefined);
    const nanoCores = shown.reduce((total, { cpu }) => total + (cpu.usageNanoCores ?? 0), 0);
    const bytesMax = limits.reduce<number | undefined>((total, one) => plus(total, one), 0);
    return {
      podRef,
      startTime: timeOf(startedAtMs),
      containers: shown,
      cpu: { time, ...(hasRates && { usageNanoCores: nanoCores }), usageCoreNanoSeconds: whole.cpuNanoseconds },
      memory: memoryOf(time, whole, bytesMax),
      ...(whole.processes !== undefined && { process_stats: { process_count: whole.processes } }),
      ...swapOf(time, whole),
    };
  }

  async #pod(stats: PodStats, { time, root, layers }: Places, signal: AbortSignal): Promise<PodSummary> {
    const { directories, factsOf } = this.#deps;
    const facts = factsOf(stats.uid);
    const usage = this.#usageOf(stats);
    const tree = async (path: string | undefined): Promise<TreeUsage> =>
      path === undefined ? nothing : await directories.tree(path, signal);
    const [volumes, logs, hosts] = await Promise.all([
      Promise.all((facts?.volumes ?? []).map((volume) => this.#volume(volume, root, signal))),
      Promise.all(stats.containers.map(({ name }) => tree(facts?.logDirectory(name)))),
      tree(facts?.hostsFile),
    ]);
    const measured = volumes.filter((volume) => volume !== undefined);
    const containers = usage.containers.map((container, index) => ({
      ...container,
      rootfs: fsOf(time, layers, stats.containers[index]?.writableLayer ?? nothing),
      logs: fsOf(time, root, logs[index] ?? nothing),
    }));
    const local = [
      hosts,
      ...containers.flatMap(({ rootfs, logs: own }) => [rootfs, own]),
      ...measured.flatMap((volume) => (volume.isLocal ? [volume.summary] : [])),
    ];
    return {
      ...usage,
      containers,
      ...(stats.network && stats.network.interfaces.length > 0 && { network: networkOf(stats.network) }),
      volume: measured.map(({ summary }) => summary),
      'ephemeral-storage': fsOf(time, root, {
        usedBytes: local.reduce((total, one) => total + one.usedBytes, 0),
        inodesUsed: local.reduce((total, one) => total + one.inodesUsed, 0),
      }),
    };
  }

  /** One with a file system of its own uses what that has in use; any other shares the node's, and its files are counted. */
  async #volume(
    { name, path, claim, isForeign, askDriver }: PodFacts['volumes'][number],
    root: FileSystemUsage,
    signal: AbortSignal,
  ): Promise<{ readonly summary: VolumeSummary; readonly isLocal: boolean } | undefined> {
    const { directories, clock } = this.#deps;
    try {
      const own = isForeign
        ? await directories.foreignFileSystem(path, askDriver)
        : { ...(await directories.fileSystem(path)), atMs: clock.now() };
      if (own === undefined) return undefined; // its server is away
      const isLocal = !isForeign && own.device === root.device;
      const used = isLocal ? await directories.tree(path, signal) : own;
      const summary = { ...fsOf(timeOf(used.atMs), own, used), name, ...(claim && { pvcRef: claim }) };
      return { summary, isLocal };
    } catch {
      signal.throwIfAborted();
      return undefined; // unmounted meanwhile
    }
  }
}

type Used = NonNullable<PodStats['whole']>;

interface Places {
  readonly time: string;
  readonly root: FileSystemUsage;
  /** Where containers write what is in no volume. */
  readonly layers: FileSystemUsage;
}

const nothing: TreeUsage = { usedBytes: 0, inodesUsed: 0, atMs: 0 };
const noInterface = { name: '', receivedBytes: 0, receiveErrors: 0, sentBytes: 0, sendErrors: 0 };

function fsOf(
  time: string,
  fileSystem: FileSystemUsage,
  { usedBytes, inodesUsed }: Pick<TreeUsage, 'usedBytes' | 'inodesUsed'>,
): FsSummary {
  const { availableBytes, capacityBytes, inodesFree, inodes } = fileSystem;
  return { time, availableBytes, capacityBytes, usedBytes, inodesFree, inodes, inodesUsed };
}

type Memory = Pick<Used, 'memoryBytes' | 'workingSetBytes' | 'rssBytes' | 'pageFaults' | 'majorPageFaults'>;

function memoryOf(time: string, used: Memory, bytesMax: number | undefined): MemorySummary {
  const { memoryBytes, workingSetBytes, rssBytes, pageFaults, majorPageFaults } = used;
  return {
    time,
    ...(bytesMax !== undefined && { availableBytes: Math.max(0, bytesMax - workingSetBytes) }),
    usageBytes: memoryBytes,
    workingSetBytes,
    ...(rssBytes !== undefined && { rssBytes }),
    ...(pageFaults !== undefined && { pageFaults }),
    ...(majorPageFaults !== undefined && { majorPageFaults }),
  };
}

function swapOf(time: string, { swap }: Pick<Used, 'swap'>): { readonly swap?: SwapSummary } {
  if (swap === undefined) return {};
  const { usedBytes, bytesMax } = swap;
  const available = bytesMax !== undefined && { swapAvailableBytes: Math.max(0, bytesMax - usedBytes) };
  return { swap: { time, ...available, swapUsageBytes: usedBytes } };
}

/** What a pod uses is counted for it as a whole, or is what its containers use together. */
function wholeOf({ whole, containers }: PodStats): Used {
  return whole ?? totalOf(containers);
}

/** A sum is known where all of its parts are. */
function totalOf(parts: readonly Used[]): Used {
  const sum = (pick: (one: Used) => number): number => parts.reduce((total, one) => total + pick(one), 0);
  const known = (pick: (one: Used) => number | undefined): number | undefined =>
    parts.map(pick).reduce((total, one) => plus(total, one), 0);
  const swap = known((one) => one.swap?.usedBytes);
  return {
    cpuNanoseconds: sum((one) => one.cpuNanoseconds),
    memoryBytes: sum((one) => one.memoryBytes),
    workingSetBytes: sum((one) => one.workingSetBytes),
    rssBytes: known((one) => one.rssBytes),
    pageFaults: known((one) => one.pageFaults),
    majorPageFaults: known((one) => one.majorPageFaults),
    processes: known((one) => one.processes),
    swap: swap === undefined ? undefined : { usedBytes: swap, bytesMax: known((one) => one.swap?.bytesMax) },
  };
}

function plus(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a + b;
}

function networkOf({ atMs, interfaces }: NetworkStats): NetworkSummary {
  const all = interfaces.map(({ name, receivedBytes, receiveErrors, sentBytes, sendErrors }) => ({
    name,
    rxBytes: receivedBytes,
    rxErrors: receiveErrors,
    txBytes: sentBytes,
    txErrors: sendErrors,
  }));
  const [first = { name: '', rxBytes: 0, rxErrors: 0, txBytes: 0, txErrors: 0 }] = all;
  return { time: timeOf(atMs), ...first, interfaces: all };
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}

/** A container that was started again counts from 0. */
function rateKey(podUid: string, { name, startedAtMs }: ContainerStats): string {
  return `${podUid}/${name}/${startedAtMs}`;
}

/** Samples that are closer to each other say little: the rate before them stays. */
const samplesApartMs = 1_000;

/** Cores in use, from how much a counter of CPU time grew between two samples. */
class CpuRates {
  #samples = new Map<string, { readonly atMs: number; readonly nanoseconds: number; readonly rate?: number }>();

  cpuOf(key: string, atMs: number, nanoseconds: number): CpuSummary {
    const last = this.#samples.get(key);
    let rate = last?.rate;
    if (last === undefined) this.#samples.set(key, { atMs, nanoseconds });
    else if (atMs - last.atMs >= samplesApartMs) {
      rate = Math.max(0, Math.round(((nanoseconds - last.nanoseconds) * 1_000) / (atMs - last.atMs)));
      this.#samples.set(key, { atMs, nanoseconds, rate });
    }
    return {
      time: timeOf(atMs),
      ...(rate !== undefined && { usageNanoCores: rate }),
      usageCoreNanoSeconds: nanoseconds,
    };
  }

  /** Forgets containers that are gone. */
  keep(pods: readonly PodStats[]): void {
    const known = new Set(pods.flatMap(({ uid, containers }) => containers.map((stats) => rateKey(uid, stats))));
    for (const key of this.#samples.keys()) if (key.includes('/') && !known.has(key)) this.#samples.delete(key);
  }
}
