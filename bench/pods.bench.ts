/**
 * The life of pods on a whole machine, `mountlet up`: from the API server's answer to a bound pod until its program says its
 * first word, with a ConfigMap and a token volume; 100 at once; and their deletion. Beside each start runs the least that
 * could be done instead: `unshare` and `setpriv` with the same command, started by this process. Ratios are to that.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { configMaps, pods } from '../src/client/api/resource-reference.ts';
import { BenchMachine } from './bench-machine.ts';
import { quantile } from './measuring.ts';

const namespace = 'default';
const single = 50;
const crowd = 100;
/** The least that containers get, as of the kubelet, whatever their pod says. */
const graceSeconds = 2;
const pollMs = 2;
const limitMs = 240_000;

const stop = new AbortController();
const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(limitMs)]);
for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => stop.abort(new Error(`ended by ${name}`)));
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const nowMs = (): number => performance.timeOrigin + performance.now();
const output = mkdtempSync(join(tmpdir(), 'mountlet-bench-output-'));
mkdirSync(join(output, 'bare'));

/** When a program said its first word, in milliseconds since the epoch. */
function saidAtMs(path: string): number | undefined {
  try {
    const text = readFileSync(path, 'utf8');
    return text.endsWith('\n') ? Number(text) * 1000 : undefined;
  } catch {
    return undefined;
  }
}

async function said(path: string): Promise<number> {
  for (;;) {
    const atMs = saidAtMs(path);
    if (atMs !== undefined) return atMs;
    await sleep(pollMs, undefined, { signal });
  }
}

async function create({ client }: BenchMachine, name: string): Promise<number> {
  await client.create(
    pods,
    { namespace },
    {
      metadata: { name },
      spec: {
        nodeName: 'bench',
        terminationGracePeriodSeconds: graceSeconds,
        containers: [
          {
            name: 'main',
            image: 'none',
            command: ['sh', '-c', 'date +%s.%N >/output/$HOSTNAME; exec sleep 1000'],
            volumeMounts: [
              { name: 'config', mountPath: '/etc/config' },
              { name: 'output', mountPath: '/output' },
            ],
          },
        ],
        volumes: [
          { name: 'config', configMap: { name: 'config' } },
          { name: 'output', hostPath: { path: output } },
        ],
      },
    },
    signal,
  );
  return nowMs();
}

async function bare(index: number): Promise<number> {
  const file = join(output, 'bare', String(index));
  const startedMs = nowMs();
  const words = [
    '--mount',
    '--pid',
    '--ipc',
    '--uts',
    '--fork',
    'setpriv',
    '--bounding-set=-all',
    '--no-new-privs',
    '--',
  ];
  const child = spawn('unshare', [...words, 'sh', '-c', `date +%s.%N >${file}`], { stdio: 'ignore' });
  await once(child, 'exit');
  return (saidAtMs(file) ?? NaN) - startedMs;
}

async function deleteAll({ client }: BenchMachine, names: readonly string[]): Promise<number> {
  const startedMs = nowMs();
  await Promise.all(names.map((name) => client.delete(pods, { namespace, name }, undefined, signal)));
  for (;;) {
    const { items } = await client.list(pods, { namespace }, signal);
    if (items.length === 0) return nowMs() - startedMs - graceSeconds * 1000;
    await sleep(20, undefined, { signal });
  }
}

function spawnerMemoryMb(directory: string): string {
  const pid = readdirSync('/proc').find((name) => {
    try {
      const line = readFileSync(`/proc/${name}/cmdline`, 'utf8');
      return line.includes('spawner.js') && line.includes(directory);
    } catch {
      return false;
    }
  });
  const status = pid === undefined ? '' : readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const field = (name: string): string =>
    (Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]) / 1024).toFixed(0);
  return `${field('Rss')} MB resident, ${field('Private_Dirty')} MB of its own`;
}

const coldMs = nowMs();
const machine = await BenchMachine.start(['maxPods: 200'], [], signal);
try {
  say(`machine ready after ${(nowMs() - coldMs).toFixed(0)} ms`);
  await machine.client.create(
    configMaps,
    { namespace },
    { metadata: { name: 'config' }, data: { key: 'value' } },
    signal,
  );
  const firstMs = await create(machine, 'first').then(async (atMs) => (await said(join(output, 'first'))) - atMs);
  say(`first pod, cold: ${firstMs.toFixed(1)} ms`);
  const [ours, theirs]: [number[], number[]] = [[], []];
  for (let index = 0; index < single; index += 1) {
    const atMs = await create(machine, `single-${index}`);
    ours.push((await said(join(output, `single-${index}`))) - atMs);
    await sleep(20, undefined, { signal });
    theirs.push(await bare(index));
    await sleep(20, undefined, { signal });
  }
  const ratio = quantile(ours, 0.5) / quantile(theirs, 0.5);
  const both = (values: readonly number[]): string =>
    `${quantile(values, 0.5).toFixed(1)} / ${quantile(values, 0.99).toFixed(1)}`;
  say(`bound to the program's first word, p50 / p99 of ${single}: ${both(ours)} ms`);
  say(`unshare and setpriv alone:                         ${both(theirs)} ms; ${ratio.toFixed(2)} x`);
  say(`spawner with ${single + 1} containers: ${spawnerMemoryMb(machine.directory)}`);
  const singles = ['first', ...ours.map((_, index) => `single-${index}`)];
  say(`deletion of ${singles.length}: ${(await deleteAll(machine, singles)).toFixed(0)} ms beyond their grace`);

  const names = Array.from({ length: crowd }, (_, index) => `crowd-${index}`);
  const startMs = nowMs();
  await Promise.all(names.map((name) => create(machine, name)));
  const atMs = await Promise.all(names.map((name) => said(join(output, name))));
  say(`${crowd} pods at once: all have spoken after ${(Math.max(...atMs) - startMs).toFixed(0)} ms`);
  say(`spawner with ${crowd} containers: ${spawnerMemoryMb(machine.directory)}`);
  say(`deletion of ${crowd}: ${(await deleteAll(machine, names)).toFixed(0)} ms beyond their grace`);
  say(`load ${(loadavg()[0] ?? 0).toFixed(1)}`);
} finally {
  await machine.stop();
  rmSync(output, { recursive: true, force: true });
}
