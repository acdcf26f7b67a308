/**
 * What one request can do to everything else: `mountlet up` with one pod, whose ConfigMap is updated all the time. Beside
 * that come, one after the other, the requests of testing/servers/large-bodies.ts. For each: the answer, the longest delay of the
 * event loop of the process, how much of that its main thread worked (the rest is other programs on the same processors),
 * and the longest update of the volume meanwhile, from the request to new bytes on disk.
 *
 * `--sizes BYTES,BYTES` are those of the generated bodies: the limit of a request, and what fits the limit of an object.
 * `--only TEXT` sends those whose name contains it, `--cpu-prof` writes a profile of the machine into the working directory.
 */
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { configMaps, pods, withShape } from '../src/client/api/resource-reference.ts';
import { type Pod, podShape } from '../src/kube/kinds/pod/pod.ts';
import {
  type LargeRequest,
  configMapBody,
  largeRequests,
  nodeRequests,
  seenAttacks,
} from '../src/testing/servers/large-bodies.ts';
import { BenchMachine } from './bench-machine.ts';
import { ContainerFile } from './container-file.ts';

const goalMs = 50;
const namespace = 'default';
const limitMs = 600_000;
const pauseMs = 20;
/** What lists have to read: a few large objects, and many. */
const [largeObjects, largeBytes, smallObjects] = [8, 1_000_000, 2_000];

const { values: options } = parseArgs({
  options: {
    sizes: { type: 'string', default: `${3 * 1024 * 1024},600000` },
    only: { type: 'string', default: '' },
    'cpu-prof': { type: 'boolean', default: false },
  },
});
const sizes = options.sizes.split(',').map(Number);
const profile = options['cpu-prof'] ? ['--cpu-prof', `--cpu-prof-dir=${process.cwd()}`] : [];
const stop = new AbortController();
const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(limitMs)]);
for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => stop.abort(new Error(`ended by ${name}`)));
const say = (line: string): void => void process.stdout.write(`${line}\n`);

/** One request over a connection of its own, so that none waits behind another in the client. */
class Sender {
  readonly #url: string;
  readonly #agent: Agent;

  constructor(machine: BenchMachine) {
    const { clusters, users } = JSON.parse(readFileSync(machine.kubeconfig, 'utf8')) as {
      clusters: [{ cluster: Record<string, string> }];
      users: [{ user: Record<string, string> }];
    };
    const bytes = (text = ''): Buffer => Buffer.from(text, 'base64');
    const { server = '', ...cluster } = clusters[0].cluster;
    const { user } = users[0];
    this.#url = server;
    this.#agent = new Agent({
      ca: bytes(cluster['certificate-authority-data']),
      cert: bytes(user['client-certificate-data']),
      key: bytes(user['client-key-data']),
    });
  }

  send({ method, path, contentType, accept, body }: LargeRequest): Promise<{ code: number; text: string }> {
    const headers = { ...(contentType && { 'content-type': contentType }), ...(accept && { accept }) };
    return new Promise((resolve, reject) => {
      const sent = request(new URL(this.#url), { agent: this.#agent, method, path, headers, signal }, (response) => {
        let text = '';
        let length = 0;
        response.on('data', (chunk: Buffer) => {
          length += chunk.length;
          if (text.length < 300) text += chunk.toString('latin1');
        });
        response.on('end', () => {
          const message = /"message":"((?:[^"\\]|\\.)*)/.exec(text)?.[1] ?? `${length} bytes`;
          resolve({ code: response.statusCode ?? 0, text: message });
        });
        response.on('error', reject);
      });
      sent.on('error', reject);
      sent.end(body);
    });
  }
}

/** Updates of one volume, one after the other, until it is closed. */
class Updates {
  readonly #running: Promise<void>;
  readonly #ended = new AbortController();
  #startedAt = performance.now();
  #longestMs = 0;

  constructor({ client }: BenchMachine, file: ContainerFile) {
    const ended = AbortSignal.any([signal, this.#ended.signal]);
    this.#running = (async () => {
      for (let version = 1; !ended.aborted; version += 1) {
        const value = `version ${version}`;
        this.#startedAt = performance.now();
        const place = { namespace, name: 'live', type: 'merge' } as const;
        await Promise.all([client.patch(configMaps, place, { data: { value } }, ended), file.readable(value, ended)]);
        this.#longestMs = Math.max(this.#longestMs, performance.now() - this.#startedAt);
        await sleep(pauseMs, undefined, { signal: ended });
      }
    })();
    this.#running.catch(() => {});
  }

  /** Since it was last asked, the one that is under way included. */
  async takeLongestMs(): Promise<number> {
    // Whatever was delayed has ended when the next one has.
    await sleep(3 * pauseMs, undefined, { signal });
    const longest = this.#longestMs;
    this.#longestMs = 0;
    return longest;
  }

  async close(): Promise<void> {
    this.#ended.abort();
    await this.#running.catch(() => {});
  }
}

async function startPod(machine: BenchMachine): Promise<ContainerFile> {
  const { client } = machine;
  await client.create(configMaps, { namespace }, { metadata: { name: 'live' }, data: { value: 'first' } }, signal);
  const volumeMounts = [{ name: 'config', mountPath: '/etc/config' }];
  const spec = {
    containers: [{ name: 'idle', image: 'idle', command: ['sleep', 'infinity'], volumeMounts }],
    volumes: [{ name: 'config', configMap: { name: 'live' } }],
    terminationGracePeriodSeconds: 0,
  };
  const { metadata } = await client.create(pods, { namespace }, { metadata: { name: 'live' }, spec }, signal);
  const resource = withShape<Pod>(pods, podShape);
  const place = { namespace, name: 'live' };
  while ((await client.get(resource, place, signal)).status?.phase !== 'Running')
    await sleep(50, undefined, { signal });
  return new ContainerFile(join(machine.rootOf(metadata.uid ?? ''), 'etc', 'config'), 'value');
}

async function fill({ client }: BenchMachine): Promise<void> {
  const make = (name: string, content: string): Promise<unknown> =>
    client.create(configMaps, { namespace }, { ...configMapBody(name, { value: content }) }, signal);
  for (let index = 0; index < largeObjects; index += 1) {
    await make(index === 0 ? 'subject' : `large-${index}`, 'some line of text\n'.repeat(largeBytes / 18));
  }
  for (let first = 0; first < smallObjects; first += 100) {
    await Promise.all(Array.from({ length: 100 }, (_, index) => make(`small-${first + index}`, 'x'.repeat(500))));
  }
}

const up = await BenchMachine.start([], profile, signal);
let updates: Updates | undefined;
let file: ContainerFile | undefined;
try {
  file = await startPod(up);
  await fill(up);
  const sender = new Sender(up);
  updates = new Updates(up, file);
  await up.longestTurn();
  say('  answer   event loop, ms   busy, ms   update, ms   took, ms   request');
  const worst = { delayMs: 0, busyMs: 0, updateMs: 0 };
  const measure = async (name: string, act: () => Promise<{ code: number; text: string }>): Promise<void> => {
    await updates?.takeLongestMs();
    await up.longestTurn();
    const at = performance.now();
    const { code, text } = await act().catch((error: Error) => ({ code: 0, text: error.message }));
    const tookMs = performance.now() - at;
    const updateMs = (await updates?.takeLongestMs()) ?? NaN;
    const { delayMs, busyMs } = await up.longestTurn();
    worst.delayMs = Math.max(worst.delayMs, delayMs);
    worst.busyMs = Math.max(worst.busyMs, busyMs);
    worst.updateMs = Math.max(worst.updateMs, updateMs);
    const columns = [String(code).padStart(8), delayMs.toFixed(0).padStart(17), busyMs.toFixed(0).padStart(11)];
    columns.push(updateMs.toFixed(0).padStart(13), tookMs.toFixed(0).padStart(11));
    say(`${columns.join('')}   ${name}: ${text.slice(0, 110)}`);
  };
  await measure('nothing', () => sleep(2_000, { code: 0, text: 'for two seconds' }, { signal }));
  for (const one of [...seenAttacks(), ...sizes.flatMap(largeRequests)]) {
    if (one.name.includes(options.only)) await measure(one.name, () => sender.send(one));
  }
  // What the node makes of it comes after the answer.
  const settled = async (one: LargeRequest): ReturnType<Sender['send']> => {
    const answer = await sender.send(one);
    await sleep(2_000, undefined, { signal });
    return answer;
  };
  for (const one of nodeRequests('bench')) {
    if (one.name.includes(options.only)) await measure(one.name, () => settled(one));
  }
  say(
    `longest delay of the event loop ${worst.delayMs.toFixed(0)} ms, busy for ${worst.busyMs.toFixed(0)} ms; ` +
      `longest update ${worst.updateMs.toFixed(0)} ms; goal ${goalMs} ms (load ${(loadavg()[0] ?? 0).toFixed(1)})`,
  );
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  process.exitCode = 1;
} finally {
  await updates?.close();
  file?.close();
  await up.stop();
}
process.exit();
