/**
 * The API server as a program, over HTTPS as its clients reach it: durable writes with 1 and 64 clients (and etcd's in the
 * same run, if it is installed, with TLS and without; and those of the store alone), a write to 1,000 watchers, a list of
 * 10,000 objects, its start with them, and its memory. All sync every commit to the same disk.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Store } from '../src/apiserver/store/store.ts';
import { openStore, put } from '../src/testing/servers/stores.ts';
import { AdminClient } from '../test/admin-client.ts';
import { type RunningApiServer, startApiServerProgram } from '../test/api-server-program.ts';
import { type Contestant, measureDurableWrites } from './durable-writes.ts';
import { type Etcd, etcdPut, startEtcd } from './etcd.ts';
import { type Write, median, quantile, timedMs } from './measuring.ts';

const objects = 10_000;
const watchers = 1_000;
const watchersOfSession = 100;
const fanOuts = 200;
const text = 'x'.repeat(1_000);
const base = mkdtempSync(join(tmpdir(), 'mountlet-bench-'));
const say = (line: string): void => void process.stdout.write(`${line}\n`);
/** `--writes-only` ends after the durable writes. `--cpu-prof`: where the server's time goes, written where the benchmark was called. */
const profile = process.argv.includes('--cpu-prof') ? ['--cpu-prof', `--cpu-prof-dir=${process.cwd()}`] : [];

const configMap = (name: string, content: string): object => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name },
  data: { text: content },
});
interface WriteSubjects {
  readonly server: RunningApiServer;
  readonly client: AdminClient;
  readonly store: Store;
  readonly etcds: ReadonlyMap<string, Etcd>;
}

const pathOf = (namespace: string): string => `/api/v1/namespaces/${namespace}/configmaps`;

async function makeNamespace(client: AdminClient, name: string): Promise<void> {
  await client.ask('POST', '/api/v1/namespaces', { metadata: { name } });
}

/** Ours over HTTP/2 with TLS and a client's certificate, as is etcd's; etcd without TLS; and our store without any network. */
async function measureWrites({ server, client, store, etcds }: WriteSubjects): Promise<void> {
  await makeNamespace(client, 'writes');
  const path = pathOf('writes');
  const made = new Set<number>();
  const content = (writer: number, count: number): object => configMap(`c${writer}`, `${count} ${text}`);
  const keyOf = (writer: number): string => `/registry/core/configmaps/writes/c${writer}`;
  const contestants: Contestant[] = [
    {
      name: 'API server, TLS',
      pid: server.process.pid ?? 0,
      async write(writer, count) {
        const [method, place, ok] = made.has(writer)
          ? (['PUT', `${path}/c${writer}`, 200] as const)
          : (['POST', path, 201] as const);
        made.add(writer);
        const { code } = await client.request(method, place, content(writer, count));
        assert.equal(code, ok);
      },
    },
    { name: 'store alone', write: (writer, count) => put(store, keyOf(writer), `${count} ${text}`) },
  ];
  for (const [name, { session, pid }] of etcds) {
    const write: Write = (writer, count) => etcdPut(session, keyOf(writer), JSON.stringify(content(writer, count)));
    contestants.push({ name, write, pid, isMeasure: true });
  }
  await measureDurableWrites(contestants, say);
}

async function measureFanOut(server: RunningApiServer, client: AdminClient): Promise<void> {
  await makeNamespace(client, 'watched');
  const path = pathOf('watched');
  await client.ask('POST', path, configMap('web', text));
  const sessions: AdminClient[] = [];
  let delivered = 0;
  let expected = 0;
  let lastDelivery = 0;
  let complete = (): void => undefined;
  for (let opened = 0; opened < watchers; opened += watchersOfSession) {
    const session = await AdminClient.connect(server);
    sessions.push(session);
    const query = '?watch=1&fieldSelector=metadata.name%3Dweb&resourceVersion=';
    const { metadata } = await client.ask<{ metadata: { resourceVersion: string } }>('GET', `${path}/web`);
    const streams = await Promise.all(
      Array.from({ length: watchersOfSession }, () => session.watch(`${path}${query}${metadata.resourceVersion}`)),
    );
    for (const stream of streams) {
      stream.on('data', (bytes: Buffer) => {
        if (bytes.at(-1) === 10) delivered += 1;
        if (delivered < expected) return;
        lastDelivery = performance.now();
        complete();
      });
    }
  }
  const times: number[] = [];
  for (let round = 0; round < fanOuts; round += 1) {
    expected += watchers;
    const all = new Promise<void>((resolve) => (complete = resolve));
    await client.ask('PUT', `${path}/web`, configMap('web', `${round} ${text}`));
    const answered = performance.now();
    await all;
    times.push(Math.max(0, lastDelivery - answered));
  }
  for (const session of sessions) session.close();
  say(
    `write's answer to the last of 1,000 watchers over HTTP/2   p50 ${median(times).toFixed(1)} ms   p99 ${quantile(times, 0.99).toFixed(1)} ms`,
  );
}

async function fill(client: AdminClient): Promise<void> {
  await makeNamespace(client, 'many');
  let next = 0;
  const work = async (): Promise<void> => {
    for (; next < objects;) {
      const name = `web-${String((next += 1)).padStart(6, '0')}`;
      await client.ask('POST', pathOf('many'), configMap(name, 'small'));
    }
  };
  await Promise.all(Array.from({ length: 64 }, work));
}

async function measureList(client: AdminClient): Promise<void> {
  const times: number[] = [];
  let bytes = 0;
  for (let round = 0; round < 15; round += 1) {
    times.push(await timedMs(async () => (bytes = (await client.request('GET', pathOf('many'))).text.length)));
  }
  say(
    `list 10,000 ConfigMaps (${(bytes / 2 ** 20).toFixed(1)} MiB)   p50 ${median(times).toFixed(0)} ms   slowest ${Math.max(...times).toFixed(0)} ms`,
  );
}

function sayMemory(what: string, server: RunningApiServer): void {
  const status = readFileSync(`/proc/${server.process.pid}/status`, 'utf8');
  const residentKb = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
  say(`memory ${what}   resident ${(residentKb / 1024).toFixed(0)} MiB`);
}

async function measureStart(directory: string): Promise<RunningApiServer> {
  const times: number[] = [];
  for (;;) {
    const start = performance.now();
    const server = await startApiServerProgram(directory, { nodeArguments: profile });
    times.push(performance.now() - start);
    if (times.length === 5) {
      say(
        `start with 10,000 objects, process to ready   p50 ${median(times).toFixed(0)} ms   slowest ${Math.max(...times).toFixed(0)} ms`,
      );
      return server;
    }
    await server.stop();
  }
}

const directory = join(base, 'data');
const etcds = new Map<string, Etcd>();
let server: RunningApiServer | undefined;
try {
  for (const transport of ['tls', 'plain'] as const) {
    const etcd = await startEtcd(join(base, `etcd-${transport}`), transport);
    if (etcd !== undefined) etcds.set(`etcd, ${transport === 'tls' ? 'TLS' : transport}`, etcd);
  }
  if (etcds.size === 0) say('etcd is not installed (Debian: etcd-server): no comparison');
  server = await startApiServerProgram(directory, { nodeArguments: profile });
  let client = await AdminClient.connect(server);
  sayMemory('of an empty server', server);
  const store = await openStore(join(base, 'store'));
  await measureWrites({ server, client, store, etcds });
  await store.close();
  if (!process.argv.includes('--writes-only')) {
    await measureFanOut(server, client);
    await fill(client);
    client.close();
    await server.stop();
    server = await measureStart(directory);
    client = await AdminClient.connect(server);
    sayMemory('with 10,000 objects', server);
    await measureList(client);
    sayMemory('with 10,000 objects, listed', server);
  }
  client.close();
} finally {
  for (const etcd of etcds.values()) etcd.stop();
  await server?.stop();
  rmSync(base, { recursive: true, force: true });
}
