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
  const runtime = runtimeOf(stateDirectory);
  const spawner = spawnerOf(runtime);
  const children =
    parentPid === undefined
      ? [spawner].filter((pid) => pid !== undefined)
      : childrenOf(parentPid).filter((pid) => pid !== spawner);
  return {
    processes: [...processesIn(runtime), ...children].map(commandLine),
    // With a container runtime these two are mounts themselves, for mounts that containers share with the machine.
    mounts: mountPointsBelow(stateDirectory).filter(
      (path) => !['pods', 'plugins'].some((name) => path === join(stateDirectory, 'node', name)),
    ),
    controlGroups: controlGroupsOf(runtime),
    loopDevices: loopDevicesOf(stateDirectory),
    directories: directoriesOfPods.flatMap((name) =>
      namesIn(join(stateDirectory, 'node', name)).map((entry) => join(name, entry)),
    ),
    network: networkOf(runtime, parentPid === undefined),
  };
}

export function assertNothingLeft(stateDirectory: string, parentPid?: number): void {
  const nothing = { processes: [], mounts: [], controlGroups: [], loopDevices: [], directories: [], network: [] };
  assert.deepEqual(leftBehind(stateDirectory, parentPid), nothing);
}

/** What a node and its spawner know each other by, and what is named after it on the machine. */
function runtimeOf(stateDirectory: string): string {
  return join(stateDirectory, 'node', 'runtime');
}

/** What runs for pods. */
export function processesOf(stateDirectory: string): number[] {
  return processesIn(runtimeOf(stateDirectory));
}

/** Everything in control groups named after the directory, and what holds the namespaces of pods. */
function processesIn(runtime: string): number[] {
  const group = groupName(runtime);
  const spawner = spawnerOf(runtime);
  const holders = (spawner === undefined ? [] : childrenOf(spawner)).filter((pid) =>
    read(`/proc/${pid}/comm`).startsWith('mountlet-pod'),
  );
  const grouped = allPids().filter((pid) => pid !== process.pid && read(`/proc/${pid}/cgroup`).includes(`/${group}/`));
  return [...new Set([...grouped, ...holders])];
}

/** Of a spawner, the parent of all containers of a node. */
function runtimeOfSpawner(pid: number): string | undefined {
  return /spawner\.js (\S+)$/.exec(commandLine(pid))?.[1];
}

function spawnerOf(runtime: string): number | undefined {
  return allPids().find((pid) => runtimeOfSpawner(pid) === runtime);
}

export function childrenOf(parent: number): number[] {
  return allPids().filter((pid) => {
    const stat = read(`/proc/${pid}/stat`);
    const [state, of] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(of) === parent && state !== 'Z';
  });
}

/**
 * For a test that has failed, or that leaves its pods to another start of their node, which never comes: nothing of a node below the
 * directory may stay on the machine.
 */
export function endProcessesOf(directory: string): void {
  const runtimes = [
    ...namesIn(directory).map((name) => runtimeOf(join(directory, name))),
    ...allPids().map((pid) => runtimeOfSpawner(pid) ?? ''),
  ];
  for (const runtime of new Set(runtimes.filter((path) => path.startsWith(`${directory}/`)))) {
    const spawner = spawnerOf(runtime);
    for (const pid of processesIn(runtime)) kill(pid);
    if (spawner !== undefined) for (const pid of [...childrenOf(spawner), spawner]) kill(pid);
    const { bridge, table } = networkNames(runtime);
    if (interfaces().includes(bridge)) spawnSync('ip', ['link', 'delete', bridge]);
    for (const found of tablesOf(table)) spawnSync('nft', ['delete', ...found.split(' ')]);
    for (const group of controlGroupsOf(runtime)) removeGroup(group);
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // gone meanwhile
  }
}

/** What was killed is in its group for another moment. */
function removeGroup(path: string): void {
  for (let tries = 0; tries < 50 && existsSync(path); tries += 1) {
    if (spawnSync('find', [path, '-depth', '-type', 'd', '-delete']).status !== 0) spawnSync('sleep', ['0.1']);
  }
}

function controlGroupsOf(runtime: string): string[] {
  const name = groupName(runtime);
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

function networkOf(runtime: string, isOver: boolean): string[] {
  const { bridge, table, endPrefix } = networkNames(runtime);
  const ends = interfaces().filter((name) => name.startsWith(endPrefix));
  return isOver ? [...ends, ...interfaces().filter((name) => name === bridge), ...tablesOf(table)] : ends;
}

function interfaces(): string[] {
  const lines = read('/proc/net/dev').split('\n');
  return lines.map((line) => line.trim().split(':')[0] ?? '');
}

/** `table ip mountlet-…`, for each family, and that of Services. */
function tablesOf(name: string): string[] {
  const { stdout } = spawnSync('nft', ['list', 'tables'], { encoding: 'utf8' });
  return (stdout ?? '').split('\n').filter((line) => line.includes(` ${name}`));
}

export function loopDevicesOf(stateDirectory: string): string[] {
  return namesIn('/sys/block').filter((name) =>
    read(`/sys/block/${name}/loop/backing_file`).startsWith(`${stateDirectory}/`),
  );
}

function groupName(runtime: string): string {
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
