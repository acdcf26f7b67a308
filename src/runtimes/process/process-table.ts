/** Questions to /proc about processes. A process is named by its id and its start time: ids are used again. */
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';

export interface ProcessName {
  readonly pid: number;
  /** Clock ticks since boot, from /proc/PID/stat. */
  readonly startTicks: number;
}

interface ProcessFacts extends ProcessName {
  readonly parent: number;
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

/** The oldest child: a first process also becomes the parent of orphans, which are younger than the one it started. */
export function oldestChild(pid: number): ProcessName | undefined {
  return childrenOf(pid)
    .flatMap((child) => processNamed(child) ?? [])
    .toSorted((a, b) => a.startTicks - b.startTicks || a.pid - b.pid)[0];
}

export function youngestChild(pid: number): ProcessName | undefined {
  return childrenOf(pid)
    .flatMap((child) => processNamed(child) ?? [])
    .toSorted((a, b) => b.startTicks - a.startTicks || b.pid - a.pid)[0];
}

export function processesOfSession(session: number): ProcessName[] {
  return allProcesses().filter((facts) => facts.session === session && facts.state !== 'Z');
}

/** Everything in one mount namespace (`mnt:[4026532]`): what a container started, wherever it hides. */
export function processesOfMountNamespace(namespace: string): ProcessName[] {
  return allProcesses().filter(({ pid, state }) => state !== 'Z' && mountNamespaceOf(pid) === namespace);
}

function mountNamespaceOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`);
  } catch {
    return undefined; // gone, or somebody else's
  }
}

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  } catch {
    // A kernel without CONFIG_PROC_CHILDREN, or the process is gone.
    return allProcesses().flatMap((facts) => (facts.parent === pid ? facts.pid : []));
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
    parent: Number(fields[1]),
    session: Number(fields[3]),
    startTicks: Number(fields[19]),
  };
}
