/**
 * A whole machine, `mountlet up`, with 1, 100 and up to 1,000 pods: how long a change of a ConfigMap takes from the API
 * server's answer until the program in the container can read it; how long a pod takes to run, alone and 100 at once; the
 * memory of each pod; and what an idle node costs. Beside each update runs the least possible work: this
 * process gets the change from the same API server and swaps one file. Ratios are to that, from request to readable.
 *
 * `--pods N` bounds the number of pods, `--cpu-prof` writes a profile of the machine into the working directory.
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { systemClock } from '../src/base/clock.ts';
import { configMaps, nodes, pods, withShape } from '../src/client/api/resource-reference.ts';
import { ObjectCache } from '../src/client/object-cache.ts';
import { type Pod, podShape } from '../src/kube/kinds/pod/pod.ts';
import { BenchMachine } from './bench-machine.ts';
import { ContainerFile } from './container-file.ts';
import { quantile } from './measuring.ts';

const namespace = 'default';
const crowd = 100;
/** Pods whose ConfigMaps are changed, spread over all. */
const subjectsMax = 20;
const updates = 200;
/** Between two updates, so that each meets a node at rest. */
const pauseMs = 10;
const batch = 50;
const idleMs = 20_000;
const syncMs = 1_000;
const slowUpdates = 8;
/** No more pods are started after that; what runs then is measured. */
const growMsMax = 60_000;
const limitMs = 240_000;

const { values: options } = parseArgs({
  options: { pods: { type: 'string', default: '1000' }, 'cpu-prof': { type: 'boolean', default: false } },
});
const podsMax = Number(options.pods);
const profile = options['cpu-prof'] ? ['--cpu-prof', `--cpu-prof-dir=${process.cwd()}`] : [];
const stop = new AbortController();
const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(limitMs)]);
// Not once: npm passes on the signal that the terminal has sent already, and the second one must not cut the cleaning short.
for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => stop.abort(new Error(`ended by ${name}`)));

// An unhandled rejection must not leave a machine running.
process.once('uncaughtException', (error) => stop.abort(error));

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const load = (): string => `load ${(loadavg()[0] ?? 0).toFixed(1)}`;
const both = (values: readonly number[]): string =>
  `${quantile(values, 0.5).toFixed(2)} / ${quantile(values, 0.99).toFixed(2)}`;
const nameOf = (index: number): string => `pod-${index}`;

/** The pods of a machine, and when each was first seen running. */
class Pods {
  readonly #machine: BenchMachine;
  readonly #cache = new ObjectCache<Pod>();
  readonly #runningAt = new Map<string, number>();
  readonly uids: string[] = [];
  #heard = (): void => {};

  constructor(machine: BenchMachine) {
    this.#machine = machine;
    this.#cache.subscribe(({ key, object }) => {
      if (object?.status?.phase !== 'Running' || this.#runningAt.has(key)) return;
      this.#runningAt.set(key, performance.now());
      this.#heard();
    });
    const deps = { client: machine.client, clock: systemClock, random: Math.random, notify: () => {} };
    const target = { resource: withShape<Pod>(pods, podShape), namespace };
    void this.#cache.follow(deps, target, signal).catch(() => {});
  }

  /** Starts so many more at once. Resolves when all of them run, to how long each of them took from its create's answer. */
  async start(count: number): Promise<readonly number[]> {
    await this.#cache.whenSynced(signal);
    const first = this.uids.length;
    const created = await Promise.all(Array.from({ length: count }, (_, index) => this.#create(first + index)));
    this.uids.push(...created.map(({ uid }) => uid));
    const runningAt = (index: number): number | undefined =>
      this.#runningAt.get(`${namespace}/${nameOf(first + index)}`);
    while (created.some((_, index) => runningAt(index) === undefined)) {
      await new Promise<void>((resolve, reject) => {
        this.#heard = resolve;
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
    }
    return created.map(({ atMs }, index) => Math.max(0, (runningAt(index) ?? NaN) - atMs));
  }

  async #create(index: number): Promise<{ readonly uid: string; readonly atMs: number }> {
    const { client } = this.#machine;
    const metadata = { name: nameOf(index) };
    await client.create(configMaps, { namespace }, { metadata, data: { value: 'first' } }, signal);
    const container = { name: 'idle', image: 'idle', volumeMounts: [{ name: 'config', mountPath: '/etc/config' }] };
    const spec = {
      containers: [{ ...container, command: ['sleep', 'infinity'] }],
      volumes: [{ name: 'config', configMap: metadata }],
      terminationGracePeriodSeconds: 0,
    };
    const { metadata: made } = await client.create(pods, { namespace }, { metadata, spec }, signal);
    return { uid: made.uid ?? '', atMs: performance.now() };
  }
}

interface Update {
  readonly afterRequestMs: number;
  /** Zero when it could be read before the answer was here. */
  readonly afterAnswerMs: number;
}

async function update({ client }: BenchMachine, index: number, file: ContainerFile, value: string): Promise<Update> {
  const readable = file.readable(value, signal);
  const at = performance.now();
  const answered = client
    .patch(configMaps, { namespace, name: nameOf(index), type: 'merge' }, { data: { value } }, signal)
    .then(() => performance.now());
  const [answeredAt, readableAt] = await Promise.all([answered, readable]);
  return { afterRequestMs: readableAt - at, afterAnswerMs: Math.max(0, readableAt - answeredAt) };
}

/** A change that this process watches, and one file swapped as the atomic writer would. */
class BareUpdates {
  readonly #machine: BenchMachine;
  readonly #directory: string;
  #count = 0;
  #heard = (): void => {};

  constructor(machine: BenchMachine) {
    this.#machine = machine;
    this.#directory = mkdtempSync(join(tmpdir(), 'mountlet-bench-'));
  }

  async open(): Promise<void> {
    const { client } = this.#machine;
    await client.create(configMaps, { namespace }, { metadata: { name: 'bare' }, data: {} }, signal);
    const stream = await client.watch(configMaps, { namespace, fieldSelector: 'metadata.name=bare' }, signal);
    const follow = async (): Promise<void> => {
      for await (const event of stream) if (event.type === 'MODIFIED') this.#heard();
    };
    void follow().catch(() => {});
  }

  async update(): Promise<number> {
    this.#count += 1;
    const value = `bare ${this.#count}`;
    const at = performance.now();
    const written = new Promise<number>((resolve) => {
      this.#heard = () => {
        this.#write(value);
        resolve(performance.now());
      };
    });
    const place = { namespace, name: 'bare', type: 'merge' } as const;
    await this.#machine.client.patch(configMaps, place, { data: { value } }, signal);
    return (await written) - at;
  }

  close(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #write(value: string): void {
    const path = (name: string): string => join(this.#directory, name);
    mkdirSync(path(`..${this.#count}`));
    writeFileSync(path(`..${this.#count}/value`), value);
    symlinkSync(`..${this.#count}`, path('..data_tmp'));
    renameSync(path('..data_tmp'), path('..data'));
    rmSync(path(`..${this.#count - 1}`), { recursive: true, force: true });
  }
}

async function measureUpdates(machine: BenchMachine, { uids }: Pods, bare: BareUpdates): Promise<void> {
  const step = Math.max(1, Math.floor(uids.length / subjectsMax));
  const indexes = uids.flatMap((_, index) => (index % step === 0 ? index : [])).slice(0, subjectsMax);
  const files = indexes.map((index) => fileOf(machine, uids[index] ?? ''));
  const [ours, theirs]: [Update[], number[]] = [[], []];
  try {
    for (let round = -indexes.length; round < updates; round += 1) {
      const at = (round + indexes.length) % indexes.length;
      const file = files[at];
      if (file === undefined) break;
      const result = await update(machine, indexes[at] ?? 0, file, `version ${round} of ${uids.length}`);
      await sleep(pauseMs, undefined, { signal });
      const bareMs = await bare.update();
      await sleep(pauseMs, undefined, { signal });
      if (round < 0) continue; // warming up
      ours.push(result);
      theirs.push(bareMs);
    }
  } finally {
    for (const file of files) file.close();
  }
  const whole = ours.map(({ afterRequestMs }) => afterRequestMs);
  const ratio = quantile(whole, 0.5) / quantile(theirs, 0.5);
  const columns = [
    String(uids.length).padStart(5),
    both(ours.map(({ afterAnswerMs }) => afterAnswerMs)).padStart(16),
    both(whole).padStart(16),
    both(theirs).padStart(16),
    ratio.toFixed(2).padStart(7),
  ];
  say(`${columns.join(' ')}   ${load()}`);
}

const updatesHead =
  ' pods     after answer    after request             bare   ratio   ms, p50 / p99; ratio of p50 after the request';

function fileOf(machine: BenchMachine, podUid: string): ContainerFile {
  return new ContainerFile(join(machine.rootOf(podUid), 'etc', 'config'), 'value');
}

async function measureIdle(machine: BenchMachine, count: number): Promise<void> {
  // What the start of so many left to do: statuses, events.
  await sleep(5_000, undefined, { signal });
  const before = machine.spent();
  await sleep(idleMs, undefined, { signal });
  const after = machine.spent();
  const share = ((after.cpuMs - before.cpuMs) / idleMs) * 100;
  const wakeUps = (after.wakeUps - before.wakeUps) / (idleMs / 1000);
  say(`idle with ${count} pods: ${share.toFixed(2)} % of a core, ${wakeUps.toFixed(1)} wake-ups a second (${load()})`);
}

async function withMachine(settings: readonly string[], work: (machine: BenchMachine) => Promise<void>): Promise<void> {
  const machine = await BenchMachine.start(settings, profile, signal);
  try {
    await work(machine);
  } finally {
    await machine.stop();
  }
}

/** With strategies that do not watch, a change is found by the next sync after the copy's time to live. */
async function measureStrategy(strategy: 'Cache' | 'Get'): Promise<readonly number[]> {
  const results: number[] = [];
  const settings = [`syncFrequency: ${syncMs}ms`, `configMapAndSecretChangeDetectionStrategy: ${strategy}`];
  await withMachine(settings, async (machine) => {
    const started = new Pods(machine);
    await started.start(1);
    // Zero, as the controller of a small cluster says: a copy serves no second read.
    const annotations = { 'node.alpha.kubernetes.io/ttl': '0' };
    await machine.client.patch(nodes, { name: 'bench', type: 'merge' }, { metadata: { annotations } }, signal);
    const file = fileOf(machine, started.uids[0] ?? '');
    try {
      for (let round = 0; round < slowUpdates; round += 1) {
        results.push((await update(machine, 0, file, `version ${round}`)).afterAnswerMs);
        // Anywhere between two syncs.
        await sleep(Math.random() * syncMs, undefined, { signal });
      }
    } finally {
      file.close();
    }
  });
  return results;
}

async function measureMachine(machine: BenchMachine): Promise<void> {
  const started = new Pods(machine);
  const bare = new BareUpdates(machine);
  try {
    await bare.open();
    await started.start(1); // the first one also warms up
    const [alone = NaN] = await started.start(1);
    say(`start of a pod, from the create's answer to Running: ${alone.toFixed(0)} ms alone (${load()})`);
    const few = await machine.memory();
    say(updatesHead);
    await measureUpdates(machine, started, bare);
    const atOnce = Math.min(crowd, podsMax) - started.uids.length;
    const before = machine.spent().cpuMs;
    const starts = await started.start(atOnce);
    const cpuMs = (machine.spent().cpuMs - before) / atOnce;
    say(
      `start of ${atOnce} pods at once: p50 ${quantile(starts, 0.5).toFixed(0)} ms, all in ${Math.max(...starts).toFixed(0)} ms; ` +
        `each took ${cpuMs.toFixed(0)} ms of the machine's process, beside its launcher (${load()})`,
    );
    await measureUpdates(machine, started, bare);
    await measureIdle(machine, started.uids.length);
    const begin = performance.now();
    while (started.uids.length < podsMax && performance.now() - begin < growMsMax) {
      await started.start(Math.min(batch, podsMax - started.uids.length));
    }
    const missing = podsMax - started.uids.length;
    if (missing > 0) say(`${missing} of ${podsMax} pods were not started within ${growMsMax / 1000} s`);
    if (started.uids.length > crowd) await measureUpdates(machine, started, bare);
    const many = await machine.memory();
    const more = started.uids.length - 2;
    const each = (of: 'heapKiB' | 'residentKiB'): string => ((many[of] - few[of]) / more).toFixed(1);
    say(
      `memory of the machine's process: ${(few.residentKiB / 1024).toFixed(0)} MiB with 2 pods, ` +
        `${(many.residentKiB / 1024).toFixed(0)} MiB with ${started.uids.length}; for each pod ${each('heapKiB')} KiB of heap, ${each('residentKiB')} KiB resident`,
    );
  } finally {
    bare.close();
  }
}

try {
  await withMachine([`maxPods: ${podsMax + 10}`], measureMachine);
  for (const strategy of ['Cache', 'Get'] as const) {
    const found = await measureStrategy(strategy);
    say(
      `strategy ${strategy}, found at the sync, here every ${syncMs} ms instead of every minute: ` +
        `p50 ${quantile(found, 0.5).toFixed(0)} ms, at most ${Math.max(...found).toFixed(0)} ms after the answer (${load()})`,
    );
  }
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  process.exitCode = 1;
}
// A released watch may still be open.
process.exit();
