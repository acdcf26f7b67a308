/**
 * What a node has on its machine: processes, mounts, control groups, loop devices, directories of pods. Found from outside, as
 * an administrator would, and never asked from the program itself.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { networkNames } from '../src/runtimes/process/network/subnet.ts';
import { mountPointsBelow } from '../src/testing/machine/temporary-directory.ts';

export interface LeftBehind {
  readonly processes: readonly string[];
  readonly mounts: readonly string[];
  readonly controlGroups: readonly string[];
  readonly loopDevices: readonly string[];
  readonly directories: readonly string[];
  /** Interfaces of pods; with the program gone, the bridge and the tables of packet rules too. */
  readonly network: readonly string[];
}

const directoriesOfPods = ['pods', 'logs', ...['pods', 'containers', 'exits', 'work'].map((name) => `runtime/${name}`)];

/** `parentPid` is the program, if it runs: then its spawner may too, and what it has started besides is of no pod any more. */
export function leftBehind(stateDirectory: string, parentPid?: number): LeftBehind {
  const spawner = spawnerOf(stateDirectory);
  const children =
    parentPid === undefined
      ? [spawner].filter((pid) => pid !== undefined)
      : childrenOf(parentPid).filter((pid) => pid !== spawner);
  return {
    processes: [...processesOf(stateDirectory), ...children].map(commandLine),
    // With a container runtime these two are mounts themselves, for mounts that containers share with the machine.
    mounts: mountPointsBelow(stateDirectory).filter(
      (path) => !['pods', 'plugins'].some((name) => path === join(stateDirectory, 'node', name)),
    ),
    controlGroups: controlGroupsOf(stateDirectory),
    loopDevices: loopDevicesOf(stateDirectory),
    directories: directoriesOfPods.flatMap((name) =>
      namesIn(join(stateDirectory, 'node', name)).map((entry) => join(name, entry)),
    ),
    network: networkOf(stateDirectory, parentPid === undefined),
  };
}

export function assertNothingLeft(stateDirectory: string, parentPid?: number): void {
  const nothing = { processes: [], mounts: [], controlGroups: [], loopDevices: [], directories: [], network: [] };
  assert.deepEqual(leftBehind(stateDirectory, parentPid), nothing);
}

/** What runs for pods: everything in control groups named after the directory, and what holds the namespaces of pods. */
export function processesOf(stateDirectory: string): number[] {
  const group = groupName(stateDirectory);
  const spawner = spawnerOf(stateDirectory);
  const holders = (spawner === undefined ? [] : childrenOf(spawner)).filter((pid) =>
    read(`/proc/${pid}/comm`).startsWith('mountlet-pod'),
  );
  const grouped = allPids().filter((pid) => pid !== process.pid && read(`/proc/${pid}/cgroup`).includes(`/${group}/`));
  return [...new Set([...grouped, ...holders])];
}

/** The parent of all containers of a node. */
export function spawnerOf(stateDirectory: string): number | undefined {
  const runtime = join(stateDirectory, 'node', 'runtime');
  return allPids().find((pid) => /spawner\.js /.test(commandLine(pid)) && commandLine(pid).endsWith(` ${runtime}`));
}

export function childrenOf(parent: number): number[] {
  return allPids().filter((pid) => {
    const stat = read(`/proc/${pid}/stat`);
    const [state, of] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(of) === parent && state !== 'Z';
  });
}

/** For a test that has failed: it must not leave on the machine what it could not end. */
export function endProcessesOf(directory: string): void {
  for (const name of namesIn(directory)) {
    const state = join(directory, name);
    const spawner = spawnerOf(state);
    for (const pid of [...processesOf(state), ...(spawner === undefined ? [] : [spawner])]) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // gone meanwhile
      }
    }
  }
}

function controlGroupsOf(stateDirectory: string): string[] {
  const name = groupName(stateDirectory);
  const groups = new Set<string>();
  for (const line of read('/proc/self/mountinfo').split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    if (!after.startsWith('cgroup')) continue;
    const point = before.split(' ')[4] ?? '';
    for (const own of read('/proc/self/cgroup').split('\n')) {
      const group = join(point, own.split(':')[2] ?? '', name);
      if (existsSync(group)) groups.add(group);
    }
  }
  return [...groups];
}

function networkOf(stateDirectory: string, isOver: boolean): string[] {
  const { bridge, table, endPrefix } = networkNames(join(stateDirectory, 'node', 'runtime'));
  const interfaces = read('/proc/net/dev')
    .split('\n')
    .map((line) => line.trim().split(':')[0] ?? '');
  const ends = interfaces.filter((name) => name.startsWith(endPrefix));
  if (!isOver) return ends;
  const { stdout } = spawnSync('nft', ['list', 'tables'], { encoding: 'utf8' });
  const tables = (stdout ?? '').split('\n').filter((line) => line.includes(` ${table}`));
  return [...ends, ...interfaces.filter((name) => name === bridge), ...tables];
}

export function loopDevicesOf(stateDirectory: string): string[] {
  return namesIn('/sys/block').filter((name) =>
    read(`/sys/block/${name}/loop/backing_file`).startsWith(`${stateDirectory}/`),
  );
}

function groupName(stateDirectory: string): string {
  const runtime = join(stateDirectory, 'node', 'runtime');
  return `mountlet-${createHash('sha256').update(runtime).digest('hex').slice(0, 12)}`;
}

export function allPids(): number[] {
  return namesIn('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

export function commandLine(pid: number): string {
  return read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim();
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return ''; // gone, or not readable
  }
}
