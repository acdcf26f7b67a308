/** What the processes of a control group use, of those below it too, as the kernel counts it in either version. */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

export interface GroupUsage {
  readonly cpuNanoseconds: number;
  readonly memoryBytes: number;
  /** Without what the kernel can drop at any time. */
  readonly workingSetBytes: number;
  readonly rssBytes: number | undefined;
  readonly pageFaults: number | undefined;
  readonly majorPageFaults: number | undefined;
  /** Without a maximum: as much as there is. */
  readonly swap: { readonly usedBytes: number; readonly bytesMax: number | undefined } | undefined;
  readonly processes: number | undefined;
}

/** Version 1 has a directory for each controller; undefined where there is none. Undefined: there is no such group. */
export function readGroupUsage(
  version: 1 | 2,
  directoryOf: (controller: string) => string | undefined,
): GroupUsage | undefined {
  const memory = directoryOf('memory');
  const accounting = directoryOf(version === 2 ? 'cpu' : 'cpuacct');
  const fileIn = (directory: string | undefined, name: string): string =>
    directory === undefined ? '' : read(join(directory, name));
  const counted = fileIn(memory, version === 2 ? 'memory.current' : 'memory.usage_in_bytes');
  const cpu = fileIn(accounting, version === 2 ? 'cpu.stat' : 'cpuacct.usage');
  if (counted === '' && cpu === '') return undefined;
  const memoryBytes = Number(counted);
  const details = fileIn(memory, 'memory.stat');
  // Version 1 counts the groups below apart from the group itself.
  const detail = (name: string): number | undefined => field(details, `total_${name}`) ?? field(details, name);
  return {
    cpuNanoseconds: version === 2 ? (field(cpu, 'usage_usec') ?? 0) * 1_000 : Number(cpu),
    memoryBytes,
    workingSetBytes: Math.max(0, memoryBytes - (detail('inactive_file') ?? 0)),
    rssBytes: detail(version === 2 ? 'anon' : 'rss'),
    pageFaults: detail('pgfault'),
    majorPageFaults: detail('pgmajfault'),
    swap:
      version === 2
        ? swapOf(fileIn(memory, 'memory.swap.current'), bytesMaxOf(fileIn(memory, 'memory.swap.max')))
        : swapOf(
            String(detail('swap') ?? ''),
            difference(
              bytesMaxOf(fileIn(memory, 'memory.memsw.limit_in_bytes')),
              bytesMaxOf(fileIn(memory, 'memory.limit_in_bytes')),
            ),
          ),
    processes: memory === undefined ? undefined : processesIn(memory),
  };
}

function field(text: string, name: string): number | undefined {
  const line = text.split('\n').find((one) => one.startsWith(`${name} `));
  return line === undefined ? undefined : Number(line.slice(name.length));
}

function swapOf(used: string, bytesMax: number | undefined): GroupUsage['swap'] {
  return used === '' ? undefined : { usedBytes: Number(used), bytesMax };
}

/** What is meant as no limit is rounded by the kernel. */
const unlimitedBytes = 2 ** 62;

function bytesMaxOf(text: string): number | undefined {
  const bytes = Number.parseInt(text, 10); // `max` is no number
  return Number.isNaN(bytes) || bytes >= unlimitedBytes ? undefined : bytes;
}

/** Version 1 limits memory and swap together. */
function difference(together: number | undefined, memory: number | undefined): number | undefined {
  return together === undefined || memory === undefined ? together : Math.max(0, together - memory);
}

function processesIn(directory: string): number {
  let below: readonly string[] = [];
  try {
    const entries = readdirSync(directory, { withFileTypes: true });
    below = entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(directory, name));
  } catch {
    // It went meanwhile.
  }
  const own = read(join(directory, 'cgroup.procs')).split('\n').filter(Boolean).length;
  return below.reduce((sum, one) => sum + processesIn(one), own);
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return '';
  }
}
