/** Questions to /proc about processes. A process is named by its id and its start time: ids are used again. */
import { closeSync, openSync, readFileSync, readdirSync, readlinkSync } from 'node:fs';

export interface ProcessName {
  readonly pid: number;
  /** Clock ticks since boot, from /proc/PID/stat. */
  readonly startTicks: number;
}

interface ProcessFacts extends ProcessName {
  readonly session: number;
  readonly state: string;
}

export function processNamed(pid: number): ProcessName | undefined {
  const facts = factsOf(pid);
  return facts === undefined || facts.state === 'Z' ? undefined : { pid, startTicks: facts.startTicks };
}

export function isAlive({ pid, startTicks }: ProcessName): boolean {
  return processNamed(pid)?.startTicks === startTicks;
}

export function processesOfSession(session: number): ProcessName[] {
  return allProcesses().filter((facts) => facts.session === session && facts.state !== 'Z');
}

/**
 * What a container started, wherever it hides: everything in its control groups and in its mount namespace. The number of a
 * namespace is used again as soon as it is gone: it means something only while somebody holds the namespace.
 */
export function processesOfContainer(groups: readonly string[], namespace: HeldNamespace | undefined): ProcessName[] {
  const grouped = new Set(groups.flatMap((path) => numbersIn(path)));
  return allProcesses().filter(({ pid, state }) => {
    if (state === 'Z') return false;
    return grouped.has(pid) || (namespace !== undefined && mountNamespaceOf(pid) === namespace.name);
  });
}

export interface HeldNamespace {
  /** `mnt:[4026532]`. */
  readonly name: string;
  /** Keeps it, and what is mounted in it, until it is closed. */
  readonly descriptor: number;
}

/** The mount namespace of a process that has one of its own: this process's is no container's. */
export function holdMountNamespace(pid: number): HeldNamespace | undefined {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(`/proc/${pid}/ns/mnt`, 'r');
    const name = readlinkSync(`/proc/self/fd/${descriptor}`);
    if (name !== mountNamespaceOf('self')) return { name, descriptor };
  } catch {
    // it has ended
  }
  if (descriptor !== undefined) closeSync(descriptor);
  return undefined;
}

function mountNamespaceOf(pid: number | 'self'): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`);
  } catch {
    return undefined; // gone, or of another user
  }
}

function numbersIn(path: string): number[] {
  try {
    return readFileSync(path, 'utf8').split('\n').filter(Boolean).map(Number);
  } catch {
    return []; // the group is gone, and its processes are
  }
}

function allProcesses(): ProcessFacts[] {
  return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? (factsOf(Number(name)) ?? []) : []));
}

function factsOf(pid: number): ProcessFacts | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // The name in brackets may hold anything, brackets included: the fields start after the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return {
    pid,
    state: fields[0] ?? '',
    session: Number(fields[3]),
    startTicks: Number(fields[19]),
  };
}
