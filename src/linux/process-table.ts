/** Questions to /proc about processes, and signals to them. A process is named by its id and its start time: ids are used again. */
import { closeSync, openSync, readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { kill } from 'node:process';
import { errorCode } from '../base/errors.ts';

export interface ProcessName {
  readonly pid: number;
  /** Clock ticks since boot, from /proc/PID/stat. */
  readonly startTicks: number;
}

interface ProcessFacts extends ProcessName {
  readonly session: number;
  /** Only its parent has still to learn of its end. A process whose first thread alone has ended is a zombie too, and runs on. */
  readonly isOver: boolean;
}

export function processNamed(pid: number): ProcessName | undefined {
  const facts = factsOf(pid);
  return facts === undefined || facts.isOver ? undefined : { pid, startTicks: facts.startTicks };
}

export function isAlive({ pid, startTicks }: ProcessName): boolean {
  return processNamed(pid)?.startTicks === startTicks;
}

export function processesOfSession(session: number): ProcessName[] {
  return allProcesses().filter((facts) => facts.session === session && !facts.isOver);
}

/** A process that is gone, or whose id has another by now, needs no signal. */
export function signalProcess(name: ProcessName, signal: NodeJS.Signals): void {
  if (!isAlive(name)) return;
  try {
    kill(name.pid, signal);
  } catch (thrown) {
    if (errorCode(thrown) !== 'ESRCH') throw thrown;
  }
}

/**
 * What a container started, wherever it hides: everything in its control groups and in its mount namespace. The number of a
 * namespace is used again as soon as it is gone: it identifies the namespace only while that is held.
 */
export function processesOfContainer(groups: readonly string[], namespace: HeldNamespace | undefined): ProcessName[] {
  const grouped = new Set(groups.flatMap((path) => numbersIn(path)));
  const candidates = namespace === undefined ? [...grouped].flatMap((pid) => factsOf(pid) ?? []) : allProcesses();
  return candidates.filter(({ pid, isOver }) => {
    if (isOver) return false;
    return grouped.has(pid) || (namespace !== undefined && mountNamespaceOf(pid) === namespace.name);
  });
}

export interface HeldNamespace {
  /** `mnt:[4026532]`. */
  readonly name: string;
  /** Keeps it, and what is mounted in it, until it is closed. */
  readonly descriptor: number;
}

/** Undefined for a process that shares our own mount namespace, which does not belong to a container. */
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
    isOver: fields[0] === 'Z' && Number(fields[17]) <= 1,
    session: Number(fields[3]),
    startTicks: Number(fields[19]),
  };
}
