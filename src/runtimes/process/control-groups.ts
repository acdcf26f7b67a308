/**
 * Limits by control groups, versions 1 and 2, below the group this program itself is in: what limits the program limits
 * its containers. A machine without usable groups runs containers without limits; `missing` says so.
 */
import { existsSync, mkdirSync, readFileSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import { type GroupUsage, readGroupUsage } from '../../linux/group-usage.ts';
import type { ResourceLimits } from '../runtime.ts';

export interface ControlGroups {
  readonly version: 1 | 2 | undefined;
  /** Controllers that can be used, of: cpu, cpuacct, memory, pids. */
  readonly controllers: readonly string[];
  /** The directory of a controller that belongs to this program. */
  directory(controller: string): string | undefined;
}

const wantedControllers = new Set(['cpu', 'cpuacct', 'memory', 'pids']);
/** Bounds a fork bomb, far above what an honest container needs. */
const processesMax = 4096;
const cpuPeriodMicroseconds = 100_000;

export const noControlGroups: ControlGroups = { version: undefined, controllers: [], directory: () => undefined };

/**
 * Finds what this machine has. `own` and `mounts` are the texts of /proc/self/cgroup and /proc/self/mountinfo, `ours` the
 * name of the groups that this runtime alone uses.
 */
export function findControlGroups(own: string, mounts: string, ours: string): ControlGroups {
  const directories = new Map<string, string>();
  const mounted = mounts.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ');
    const [type = ''] = after.split(' ');
    const [, , , root = '/', point = ''] = before.split(' ');
    return type === 'cgroup' || type === 'cgroup2'
      ? [{ type, root, point, options: after.split(' ')[2]?.split(',') ?? [] }]
      : [];
  });
  for (const line of own.split('\n')) {
    const [, names = '', path = ''] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    for (const { type, root, point, options } of mounted) {
      const here = join(point, root === '/' ? path : path.startsWith(root) ? path.slice(root.length) : '/');
      if (/\s/.test(here) || path === '') continue;
      if (type === 'cgroup' && names !== '' && names.split(',').every((name) => options.includes(name))) {
        for (const name of names.split(',')) if (wantedControllers.has(name)) directories.set(name, join(here, ours));
      }
      if (type === 'cgroup2' && names === '') {
        for (const name of readWords(join(here, 'cgroup.controllers'))) {
          if (wantedControllers.has(name) && !directories.has(name)) directories.set(name, join(here, ours));
        }
      }
    }
  }
  const unified = mounted.some(({ type }) => type === 'cgroup2') && !mounted.some(({ type }) => type === 'cgroup');
  const version = unified ? 2 : 1;
  if (unified && directories.size > 0) makeRoomForChildren(dirname(directories.values().next().value ?? ''), ours);
  for (const [name, directory] of directories) if (!canMake(directory)) directories.delete(name);
  if (directories.size === 0) return noControlGroups;
  return { version, controllers: [...directories.keys()].sort(), directory: (name) => directories.get(name) };
}

/** Version 2 has processes in leaves only: this program steps into one, and hands the controllers on. */
function makeRoomForChildren(group: string, ours: string): void {
  const controllers = readWords(join(group, 'cgroup.controllers')).filter((name) => wantedControllers.has(name));
  try {
    mkdirSync(join(group, 'mountlet-agent'), { recursive: true });
    for (const pid of readWords(join(group, 'cgroup.procs'))) {
      writeFileSync(join(group, 'mountlet-agent', 'cgroup.procs'), pid);
    }
    mkdirSync(join(group, ours), { recursive: true });
    const enabled = controllers.map((name) => `+${name}`).join(' ');
    writeFileSync(join(group, 'cgroup.subtree_control'), enabled);
    writeFileSync(join(group, ours, 'cgroup.subtree_control'), enabled);
  } catch {
    // Not ours to change: `canMake` will say so for each controller.
  }
}

/** Makes the group of a container with its limits. The result is where its first process has to write itself to. */
export function makeGroup(groups: ControlGroups, id: string, limits: ResourceLimits): string[] {
  const memory = groups.directory('memory');
  const cpu = groups.directory('cpu');
  const directories = new Set(
    groups.controllers.flatMap((name) => groups.directory(name) ?? []).map((path) => join(path, id)),
  );
  for (const directory of directories) mkdirSync(directory, { recursive: true });
  const { memoryBytesMax = 0, cpuMilliMax = 0, cpuMilliRequested = 0 } = limits;
  const two = groups.version === 2;
  if (memory !== undefined && memoryBytesMax > 0) {
    write(join(memory, id, two ? 'memory.max' : 'memory.limit_in_bytes'), memoryBytesMax);
    write(join(memory, id, two ? 'memory.swap.max' : 'memory.memsw.limit_in_bytes'), two ? 0 : memoryBytesMax);
  }
  if (cpu !== undefined && cpuMilliMax > 0) {
    const quota = Math.max(1000, Math.round((cpuMilliMax * cpuPeriodMicroseconds) / 1000)); // the kernel's least
    if (two) write(join(cpu, id, 'cpu.max'), `${quota} ${cpuPeriodMicroseconds}`);
    else {
      write(join(cpu, id, 'cpu.cfs_period_us'), cpuPeriodMicroseconds);
      write(join(cpu, id, 'cpu.cfs_quota_us'), quota);
    }
  }
  if (cpu !== undefined) {
    const shares = Math.min(262_144, Math.max(2, Math.round((cpuMilliRequested * 1024) / 1000)));
    if (two) write(join(cpu, id, 'cpu.weight'), Math.max(1, 1 + Math.round(((shares - 2) * 9999) / 262_142)));
    else write(join(cpu, id, 'cpu.shares'), shares);
  }
  const pids = groups.directory('pids');
  if (pids !== undefined) write(join(pids, id, 'pids.max'), processesMax);
  return joiningFiles(groups, id);
}

/**
 * Where a process of one thread joins a container. Not `cgroup.procs` where there is another file: a thread that moves itself
 * need not wait until every processor has been through the kernel, which took 9 to 20 ms.
 */
export function joiningFiles(groups: ControlGroups, id: string): string[] {
  return filesOf(groups, id, groups.version === 1 ? 'tasks' : 'cgroup.procs');
}

/** Where the processes of a container are listed. */
export function listingFiles(groups: ControlGroups, id: string): string[] {
  return filesOf(groups, id, 'cgroup.procs');
}

function filesOf(groups: ControlGroups, id: string, name: string): string[] {
  const directories = new Set(groups.controllers.flatMap((controller) => groups.directory(controller) ?? []));
  return [...directories].map((directory) => join(directory, id, name));
}

/** Whether the kernel killed a process of the container because the container's memory was used up. */
export function ranOutOfMemory(groups: ControlGroups, id: string): boolean {
  const memory = groups.directory('memory');
  if (memory === undefined) return false;
  const text = read(join(memory, id, groups.version === 2 ? 'memory.events' : 'memory.oom_control'));
  return /^oom_kill [1-9]/m.test(text);
}

export function usageOf(groups: ControlGroups, id: string): GroupUsage | undefined {
  return readGroupUsage(groups.version ?? 1, (controller) => {
    const directory = groups.directory(controller);
    return directory && join(directory, id);
  });
}

/** Of a container that has ended. What cannot be removed yet (a dying process) is left to `sweepGroups`. */
export function removeGroup(groups: ControlGroups, id: string): void {
  for (const name of groups.controllers) {
    const directory = groups.directory(name);
    if (directory === undefined) continue;
    remove(join(directory, id));
    remove(directory); // only when it was the last
  }
}

/** Removes groups of containers that are not known any more. */
export function sweepGroups(groups: ControlGroups, known: (id: string) => boolean): void {
  for (const name of groups.controllers) {
    const directory = groups.directory(name);
    if (directory === undefined || !existsSync(directory)) continue;
    for (const entry of readdirSync(directory, { withFileTypes: true })) {
      if (entry.isDirectory() && !known(entry.name)) remove(join(directory, entry.name));
    }
    remove(directory); // only when nothing is left in it
  }
}

function remove(directory: string): void {
  try {
    rmdirSync(directory);
  } catch (thrown) {
    if (!['ENOENT', 'EBUSY', 'ENOTEMPTY'].includes(errorCode(thrown) ?? '')) throw thrown;
  }
}

function canMake(directory: string): boolean {
  try {
    mkdirSync(directory, { recursive: true });
    const probe = join(directory, '.probe');
    mkdirSync(probe, { recursive: true });
    rmdirSync(probe);
    remove(directory);
    return true;
  } catch {
    return false;
  }
}

/** A limit the kernel does not know (swap accounting off) does not keep a container from running. */
function write(file: string, value: number | string): void {
  try {
    writeFileSync(file, String(value));
  } catch (thrown) {
    if (!['ENOENT', 'EACCES', 'EPERM', 'EINVAL'].includes(errorCode(thrown) ?? '')) throw thrown;
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function readWords(file: string): string[] {
  return read(file).split(/\s+/).filter(Boolean);
}
