/**
 * The API server as a program, over HTTPS as its clients reach it: durable writes with 1 and 64 clients (and etcd's in the
 * same run, if it is installed), a write to 1,000 watchers, a list of 10,000 objects, its start with them, and its memory.
 * Both sync every commit to the same disk; rounds alternate, so that noise of the machine meets both alike. The clients are
 * this process: on a machine with few cores they take part of what is measured, on both sides.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunningApiServer } from '../test/api-server-program.ts';
import { AdminClient, startApiServerProgram } from '../test/api-server-program.ts';
import { etcdPut, startEtcd, type Etcd } from './etcd.ts';
import { median, quantile, timedMs, writesPerSecond, type Write } from './measuring.ts';

const roundMs = 1_500;
const rounds = 5;
const objects = 10_000;
const watchers = 1_000;
const watchersOfSession = 100;
const fanOuts = 200;
const text = 'x'.repeat(1_000);
const base = mkdtempSync(join(tmpdir(), 'mountlet-bench-'));
const say = (line: string): void => void process.stdout.write(`${line}\n`);
/** `--cpu-prof`: where the server's time goes, written where the benchmark was called. */
const profile = process.argv.includes('--cpu-prof') ? ['--cpu-prof', `--cpu-prof-dir=${process.cwd()}`] : [];

const configMap = (name: string, content: string): object => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name },
  data: { text: content },
});
const pathOf = (namespace: string): string => `/api/v1/namespaces/${namespace}/configmaps`;

async function makeNamespace(client: AdminClient, name: string): Promise<void> {
  await client.ask('POST', '/api/v1/namespaces', { metadata: { name } });
}

async function measureWrites(client: AdminClient, etcd: Etcd | undefined): Promise<void> {
  await makeNamespace(client, 'writes');
  const path = pathOf('writes');
  const made = new Set<number>();
  const contestants: Record<string, Write> = {
    async ours(writer, count) {
      const name = `c${writer}`;
      if (made.has(writer)) await client.ask('PUT', `${path}/${name}`, configMap(name, `${count} ${text}`));
      else await client.ask('POST', path, configMap(name, text));
      made.add(writer);
    },
  };
  if (etcd !== undefined) {
    const keyOf = (writer: number): string => `/registry/core/configmaps/writes/c${writer}`;
    contestants['etcd'] = (writer, count) => {
      const value = JSON.stringify(configMap(`c${writer}`, `${count} ${text}`));
      return etcdPut(etcd.session, keyOf(writer), value);
    };
  }
  for (const clients of [1, 64]) {
    const results: Record<string, number[]> = {};
    // The first round warms up both.
    for (let round = -1; round < rounds; round += 1) {
      for (const [name, write] of Object.entries(contestants)) {
        const rate = await writesPerSecond(clients, roundMs, write);
        if (round >= 0) (results[name] ??= []).push(rate);
      }
    }
    const [ours, theirs] = [median(results['ours'] ?? []), median(results['etcd'] ?? [])];
    const compared =
      etcd === undefined ? '' : `   etcd ${theirs.toFixed(0).padStart(6)}/s   ${(ours / theirs).toFixed(2)} x etcd`;
    say(
      `durable writes of 1 KiB, ${String(clients).padStart(2)} clients   ${ours.toFixed(0).padStart(6)}/s${compared}`,
    );
  }
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
let etcd: Etcd | undefined;
let server: RunningApiServer | undefined;
try {
  etcd = await startEtcd(join(base, 'etcd'));
  if (etcd === undefined) say('etcd is not installed (Debian: etcd-server): no comparison');
  server = await startApiServerProgram(directory, { nodeArguments: profile });
  let client = await AdminClient.connect(server);
  sayMemory('of an empty server', server);
  await measureWrites(client, etcd);
  await measureFanOut(server, client);
  await fill(client);
  client.close();
  await server.stop();
  server = await measureStart(directory);
  client = await AdminClient.connect(server);
  sayMemory('with 10,000 objects', server);
  await measureList(client);
  sayMemory('with 10,000 objects, listed', server);
  client.close();
} finally {
  etcd?.stop();
  await server?.stop();
  rmSync(base, { recursive: true, force: true });
}
