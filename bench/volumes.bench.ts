/**
 * What the volume manager costs above what the disk does for it: updates on small and large nodes, one object in many volumes,
 * many pods at once, a restart, and doing nothing. With the real plugins, mounts and directories, so as root. What is compared
 * runs in turns, so that noise of the machine meets all alike; ratios are of medians in one run. Where one process does both
 * sides, the ratio of the CPU time is printed too: other load on the machine does not change it.
 *
 * `npm run bench -- volumes [updates|fan-out|starts|idle]…`: all of them, or some.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { systemMounts } from '../src/disk/mounts/mounts.ts';
import { PodTrees } from '../src/disk/pods/pod-trees.ts';
import { AtomicWriter } from '../src/disk/writer/atomic-writer.ts';
import type { Payload } from '../src/disk/writer/payload.ts';
import type { Pod } from '../src/kube/kinds/pod/pod.ts';
import { podsDirectory, volumeDirectory } from '../src/kube/values/node-layout.ts';
import { podUsing } from '../src/testing/worlds/volume-world.ts';
import { BenchGround } from './bench-ground.ts';
import { BenchNode, contentOf, files } from './bench-node.ts';
import { median, quantile, timedMs } from './measuring.ts';
import type { Measured, Ready } from './volume-updates.ts';

const updatesPerRound = 100;
/** For each measurement on each file system, besides what it takes to build and remove it. */
const budgetMs = 12_000;
const idleMs = 10_000;
const sweepMs = 60_000;
const updatesProgram = join(dirname(fileURLToPath(import.meta.url)), 'volume-updates.js');
/** A disk that others write to as well takes minutes for ten thousand directories, and they say nothing about the manager. */
const fileSystems: readonly FileSystem[] = [
  { name: 'tmpfs', under: '/dev/shm', sizes: [10, 1_000, 10_000], pods: 1_000 },
  { name: 'disk', under: tmpdir(), sizes: [10, 1_000], pods: 200 },
].filter(({ under }) => existsSync(under));

const mounts = systemMounts();
const ground = new BenchGround(mounts);
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const heads = ['WHAT', 'ON', 'P50 MS', 'P99 MS', 'MEASURE', 'RATIO', 'TARGET', 'CPU RATIO'];

interface FileSystem {
  readonly name: string;
  readonly under: string;
  readonly sizes: readonly number[];
  readonly pods: number;
}

/** How long some work took, and how much of the processor, of all threads. */
interface Cost {
  readonly ms: number;
  readonly cpuMs: number;
}

interface Row {
  readonly what: string;
  readonly on: string;
  readonly costs: readonly Cost[];
  /** What it is compared with. */
  readonly measure?: readonly Cost[];
  readonly target?: number;
}

function print({ what, on, costs, measure = [], target }: Row): void {
  const [p50, p50OfMeasure] = [median(costs.map(({ ms }) => ms)), median(measure.map(({ ms }) => ms))];
  const [cpu, cpuOfMeasure] = [median(costs.map(({ cpuMs }) => cpuMs)), median(measure.map(({ cpuMs }) => cpuMs))];
  const p99 =
    costs.length < 100
      ? NaN
      : quantile(
          costs.map(({ ms }) => ms),
          0.99,
        );
  const number = (value: number, digits: number): string => (Number.isNaN(value) ? '-' : value.toFixed(digits));
  cells([
    what,
    on,
    number(p50, p50 < 100 ? 3 : 0),
    number(p99, 3),
    number(p50OfMeasure, p50OfMeasure < 100 ? 3 : 0),
    number(p50 / p50OfMeasure, 2),
    target === undefined ? '-' : `<= ${target}`,
    number(cpu / cpuOfMeasure, 2),
  ]);
}

async function costOf(work: () => unknown): Promise<Cost> {
  const before = process.cpuUsage();
  const ms = await timedMs(work);
  const { user, system } = process.cpuUsage(before);
  return { ms, cpuMs: (user + system) / 1_000 };
}

function cells(texts: readonly string[]): void {
  say(
    texts
      .map((text, index) => text.padEnd(index === 0 ? 40 : 9))
      .join(' ')
      .trimEnd(),
  );
}

function payloadOf(version: number): Payload {
  const data = Buffer.from(contentOf(version));
  return new Map(files.map((file) => [file, { data, mode: 0o644 }]));
}

/** Numbers of rounds, from 1, until the time is over; those up to `unmeasured` warm up and are not counted. */
function* rounds(max: number, unmeasured: number): Generator<{ readonly round: number; readonly counts: boolean }> {
  const deadline = performance.now() + budgetMs;
  for (let round = 1; round <= max + unmeasured; round += 1) {
    yield { round, counts: round > unmeasured };
    if (round > unmeasured && performance.now() > deadline) return;
  }
}

/** Updates on nodes of several sizes; the smallest is the measure. */
async function measureUpdates({ name: on, under, sizes }: FileSystem): Promise<void> {
  const nodes = sizes.map((size) => ({
    size,
    process: fork(updatesProgram, [String(size), under]),
    costs: [] as Cost[],
  }));
  const ready = await Promise.all(nodes.map(({ process }) => answer<Ready>(process)));
  for (const { counts } of rounds(30, 1)) {
    for (const { process, costs } of nodes) {
      process.send(updatesPerRound);
      const { ms, cpuMs } = await answer<Measured>(process);
      if (counts) costs.push(...ms.map((one) => ({ ms: one, cpuMs: cpuMs / ms.length })));
    }
  }
  const measure = nodes[0]?.costs ?? [];
  for (const { size, costs } of nodes) {
    const what = `update, ${size.toLocaleString('en')} volumes mounted`;
    print({ what, on, costs, measure, ...(size > 10 && { target: 1.3 }) });
  }
  const memory = ready.at(-1);
  if (memory !== undefined) {
    const { heapKiBPerMount, residentKiBPerMount } = memory;
    say(
      `  memory per mount: ${heapKiBPerMount.toFixed(1)} KiB heap and buffers, ${residentKiBPerMount.toFixed(1)} KiB resident`,
    );
  }
  await Promise.all(nodes.map(({ process }) => end(process)));
}

async function answer<T>(process: ChildProcess): Promise<T> {
  const settled = new AbortController();
  const { signal } = settled;
  try {
    const [message] = (await Promise.race([
      once(process, 'message', { signal }),
      once(process, 'exit', { signal }).then(() => Promise.reject(new Error('A node of the benchmark ended'))),
    ])) as [T];
    return message;
  } finally {
    settled.abort();
  }
}

async function end(process: ChildProcess): Promise<void> {
  const exited = once(process, 'exit');
  process.disconnect();
  await exited;
}

function podsShowing(configMap: string, pods: number): Pod[] {
  const volume = { name: 'config', configMap: { name: configMap, defaultMode: 0o644 } };
  return Array.from({ length: pods }, (_, index) => podUsing(`pod-${index}`, [volume]));
}

async function measureFanOut({ name: on, under, pods }: FileSystem): Promise<void> {
  const [root, bare] = [ground.directory(under), ground.directory(under)];
  const node = new BenchNode({ root, mounts });
  node.setConfigMap('shared', 0);
  node.start();
  await node.mountAll(podsShowing('shared', pods), pods);
  const writers = Array.from({ length: pods }, (_, index) => {
    const directory = volumeDirectory(bare, `pod-${index}`, 'kubernetes.io/configmap', 'config');
    mkdirSync(directory, { recursive: true });
    return new AtomicWriter(directory);
  });
  for (const writer of writers) writer.write(payloadOf(0));
  const [costs, measure]: [Cost[], Cost[]] = [[], []];
  for (const { round: version, counts } of rounds(20, 5)) {
    const payload = payloadOf(version);
    const alone = await costOf(() => writers.forEach((writer) => writer.write(payload)));
    node.setConfigMap('shared', version);
    const shown = await costOf(() => node.change('shared', pods));
    if (counts) {
      measure.push(alone);
      costs.push(shown);
    }
    for (let index = 0; index < pods; index += 1) {
      if (node.versionIn(`pod-${index}`, 'config') !== version) throw new Error(`pod-${index} has another version`);
    }
  }
  const what = `one ConfigMap in ${pods.toLocaleString('en')} volumes`;
  print({ what, on, costs, measure, target: 1.5 });
  await node.stop();
  for (const directory of [root, bare]) ground.remove(directory);
}

const threeVolumes = [
  { name: 'config', configMap: { name: 'config', defaultMode: 0o644 } },
  { name: 'secret', secret: { secretName: 'secret', defaultMode: 0o644 } },
  { name: 'scratch', emptyDir: {} },
];

/** The directories, the mount and the two atomic writes that a pod's volumes need, and nothing that remembers or decides. */
function mountAlone(root: string, podUid: string, payload: Payload): void {
  const [config, secret, scratch] = (
    [
      ['configmap', 'config'],
      ['secret', 'secret'],
      ['empty-dir', 'scratch'],
    ] as const
  ).map(([kind, name]) => {
    const directory = volumeDirectory(root, podUid, `kubernetes.io/${kind}`, name);
    mkdirSync(directory, { recursive: true });
    chmodSync(directory, 0o777);
    return directory;
  });
  if (config === undefined || secret === undefined || scratch === undefined) return;
  mounts.mountTmpfs(secret);
  new AtomicWriter(config).write(payload);
  new AtomicWriter(secret).write(payload);
}

function newNode(root: string, extra: Partial<ConstructorParameters<typeof BenchNode>[0]> = {}): BenchNode {
  const node = new BenchNode({ root, mounts, ...extra });
  node.setConfigMap('config', 0);
  node.setSecret('secret', 0);
  return node;
}

async function measureStarts({ name: on, under, pods }: FileSystem): Promise<void> {
  const all = Array.from({ length: pods }, (_, index) => podUsing(`pod-${index}`, threeVolumes));
  const volumes = pods * threeVolumes.length;
  const [costs, measure, restart]: [Cost[], Cost[], Cost[]] = [[], [], []];
  for (const { counts } of rounds(5, 3)) {
    const [root, bare] = [ground.directory(under), ground.directory(under)];
    const payload = payloadOf(0);
    const alone = await costOf(() => all.forEach((_, index) => mountAlone(bare, `pod-${index}`, payload)));
    ground.remove(bare);

    const node = newNode(root);
    node.start();
    const started = await costOf(() => node.mountAll(all, volumes));
    await node.stop();

    // What the first node left is found again, as after a crash.
    const next = newNode(root, { deps: { podsOnDisk: new PodTrees(podsDirectory(root)) } });
    next.addPods(all);
    const again = await costOf(async () => {
      next.start();
      await next.untilMounted(volumes);
    });
    if (counts) {
      measure.push(alone);
      costs.push(started);
      restart.push(again);
    }
    await next.stop();
    ground.remove(root);
  }
  const what = `${pods.toLocaleString('en')} pods with 3 volumes`;
  print({ what: `${what}, from nothing`, on, costs, measure, target: 2 });
  print({ what: `${what}, restart`, on, costs: restart, measure });
}

/** CPU of a node that has nothing to do, and of the sweep that it does once in a minute all the same. */
async function measureIdle({ name: on, under, pods }: FileSystem): Promise<void> {
  if (on === 'disk') return; // nothing is written
  const root = ground.directory(under);
  const cpuMsOver = async (ms: number, every: number): Promise<number> => {
    const node = new BenchNode({ root, mounts, sweepMs: every });
    node.setConfigMap('shared', 0);
    node.start();
    await node.mountAll(podsShowing('shared', pods), pods);
    await setTimeout(500); // what came with the mounts is over
    const before = process.cpuUsage();
    await setTimeout(ms);
    const { user, system } = process.cpuUsage(before);
    await node.stop();
    return (user + system) / 1_000;
  };
  const idle = await cpuMsOver(idleMs, sweepMs);
  const swept = (await cpuMsOver(idleMs / 2, idleMs / 4)) / 2;
  const percent = (idle / idleMs + swept / sweepMs) * 100;
  const made = `${idle.toFixed(1)} ms in ${idleMs / 1000} s, and ${swept.toFixed(1)} ms for a sweep once in a minute`;
  say(`idle, ${pods.toLocaleString('en')} volumes (${on}): ${percent.toFixed(2)} % of one core (target < 1): ${made}`);
  ground.remove(root);
}

const parts = { updates: measureUpdates, 'fan-out': measureFanOut, starts: measureStarts, idle: measureIdle };
const chosen = process.argv.slice(2);
if (mounts.unavailable !== undefined) {
  say(`not measured: the Secrets of this benchmark need mounts (${mounts.unavailable}); run it as root`);
} else {
  ground.clearOnSignals();
  const load = (): string =>
    loadavg()
      .map((value) => value.toFixed(1))
      .join(' ');
  try {
    say(
      `${files.length} files of 1 KiB in each volume; node ${process.version}, ${cpus().length} cores, load ${load()}`,
    );
    cells(heads);
    for (const [name, measure] of Object.entries(parts)) {
      if (chosen.length > 0 && !chosen.includes(name)) continue;
      for (const fileSystem of fileSystems) await measure(fileSystem);
    }
    say(`load at the end ${load()}`);
  } finally {
    ground.clear();
  }
}
