/** What the whole machine uses, from the kernel's files. */
import { readFile } from 'node:fs/promises';
import { interfaceCountersOf } from '../linux/network-counters.ts';
import type { NetworkStats } from '../runtimes/runtime.ts';

export interface MachineUsage {
  readonly bootedAtMs: number;
  readonly cpuNanoseconds: number;
  readonly memory: {
    readonly totalBytes: number;
    readonly usedBytes: number;
    readonly workingSetBytes: number;
    readonly rssBytes: number;
    readonly pageFaults: number;
    readonly majorPageFaults: number;
  };
  readonly swap: { readonly totalBytes: number; readonly usedBytes: number };
  readonly interfaces: NetworkStats['interfaces'];
  readonly processes: number;
  readonly processesMax: number;
  /** Of this program itself. */
  readonly own: {
    readonly startedAtMs: number;
    readonly cpuNanoseconds: number;
    readonly rssBytes: number;
    readonly pageFaults: number;
    readonly majorPageFaults: number;
  };
}

const files = {
  stat: '/proc/stat',
  meminfo: '/proc/meminfo',
  vmstat: '/proc/vmstat',
  loadavg: '/proc/loadavg',
  netDev: '/proc/net/dev',
  pidMax: '/proc/sys/kernel/pid_max',
  threadsMax: '/proc/sys/kernel/threads-max',
  ownStat: '/proc/self/stat',
} as const;

/** A file that this machine does not show counts as empty. */
export async function readMachineUsage(): Promise<MachineUsage> {
  const read = await Promise.all(
    Object.entries(files).map(async ([name, path]) => [name, await readFile(path, 'utf8').catch(() => '')] as const),
  );
  return machineUsageOf(Object.fromEntries(read) as Record<keyof typeof files, string>);
}

/** The unit of time in /proc, on every architecture that Linux has now. */
const nanosecondsPerTick = 10_000_000;
const pageBytes = 4096;

function machineUsageOf(texts: Readonly<Record<keyof typeof files, string>>): MachineUsage {
  const [, line = ''] = /^cpu +(.*)$/m.exec(texts.stat) ?? [];
  // user, nice, system, idle, iowait, irq, softirq, steal; a guest's time is in user's already.
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line.split(' ').map(Number);
  const bootedAtMs = 1_000 * field(texts.stat, 'btime');
  const memory = (name: string): number => 1_024 * field(texts.meminfo, `${name}:`);
  const totalBytes = memory('MemTotal');
  const usedBytes = totalBytes - memory('MemFree');
  return {
    bootedAtMs,
    cpuNanoseconds: (user + nice + system + irq + softirq + steal) * nanosecondsPerTick,
    memory: {
      totalBytes,
      usedBytes,
      workingSetBytes: Math.max(0, usedBytes - memory('Inactive(file)')),
      rssBytes: memory('AnonPages'),
      pageFaults: field(texts.vmstat, 'pgfault'),
      majorPageFaults: field(texts.vmstat, 'pgmajfault'),
    },
    swap: { totalBytes: memory('SwapTotal'), usedBytes: memory('SwapTotal') - memory('SwapFree') },
    interfaces: own(interfaceCountersOf(texts.netDev)),
    processes: Number(/\/(\d+) /.exec(texts.loadavg)?.[1] ?? 0),
    processesMax: Math.min(Number(texts.pidMax) || Infinity, Number(texts.threadsMax) || Infinity),
    own: ownUsage(texts.ownStat, bootedAtMs),
  };
}

function field(text: string, name: string): number {
  const line = text.split('\n').find((one) => one.startsWith(`${name} `));
  return Number.parseInt(line?.slice(name.length) ?? '0', 10);
}

/** The name of the program, in brackets, may hold anything. */
function ownUsage(text: string, bootedAtMs: number): MachineUsage['own'] {
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const [pageFaults = 0, majorPageFaults = 0, user = 0, system = 0] = [7, 9, 11, 12].map((index) => fields[index]);
  const [started = 0, pages = 0] = [fields[19], fields[21]];
  return {
    startedAtMs: bootedAtMs + (started * nanosecondsPerTick) / 1e6,
    cpuNanoseconds: (user + system) * nanosecondsPerTick,
    rssBytes: pages * pageBytes,
    pageFaults,
    majorPageFaults,
  };
}

/** Bridges of pods and the ends of their cables are not the machine's: those of containerd, of Docker and our own. */
function own(interfaces: NetworkStats['interfaces']): NetworkStats['interfaces'] {
  return interfaces.filter(({ name }) => !/^(veth|docker|cni\d|ml-|mv[0-9a-f]+-\d)/.test(name));
}
