/**
 * The store behind the API server: durable writes with 1 and 64 clients (and etcd's in the same run, if it is installed, over
 * its gRPC interface), reading 10,000 objects, opening a store of 10,000 objects, and giving a write to 1,000 watchers.
 * Both sync every commit to the same disk; rounds alternate, so that noise of the machine meets both alike.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type ClientHttp2Session } from 'node:http2';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Store } from '../src/apiserver/store/store.ts';
import { jsonEvents } from '../src/apiserver/watch-event.ts';
import { WatchHub } from '../src/apiserver/watch-hub.ts';
import { watcherDefaults } from '../src/apiserver/watcher.ts';
import { encryptionKey } from '../src/apiserver/store/encryption-key.ts';
import { memoryStore, openStore, put } from '../src/testing/stores.ts';

const roundMs = 1_500;
const rounds = 4;
const text = 'x'.repeat(1_000);
const prefix = '/registry/core/configmaps/shop/';
const base = mkdtempSync(join(tmpdir(), 'mountlet-bench-'));
const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN;
const say = (line: string): void => void process.stdout.write(`${line}\n`);

type Write = (client: number, count: number) => Promise<unknown>;

async function writesPerSecond(clients: number, write: Write): Promise<number> {
  const start = performance.now();
  let total = 0;
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      for (let count = 0; performance.now() - start < roundMs; count += 1) {
        await write(client, count);
        total += 1;
      }
    }),
  );
  return (total * 1_000) / (performance.now() - start);
}

async function timedMs(work: () => unknown): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}

/** One field of a protocol buffer message, of type bytes. */
function field(number: number, bytes: Buffer): Buffer {
  const length: number[] = [];
  for (let rest = bytes.length; ; rest >>= 7) {
    length.push(rest > 127 ? (rest & 127) | 128 : rest);
    if (rest <= 127) break;
  }
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), bytes]);
}

/** A gRPC call without a library: five bytes of frame, then the message. */
function etcdPut(session: ClientHttp2Session, key: string, value: string): Promise<void> {
  const message = Buffer.concat([field(1, Buffer.from(key)), field(2, Buffer.from(value))]);
  const frame = Buffer.alloc(5);
  frame.writeUInt32BE(message.length, 1);
  return new Promise((resolve, reject) => {
    const headers = {
      ':method': 'POST',
      ':path': '/etcdserverpb.KV/Put',
      'content-type': 'application/grpc',
      te: 'trailers',
    };
    const call = session.request(headers);
    let status: unknown;
    call.on('response', (got) => (status ??= got['grpc-status']));
    call.on('trailers', (got) => (status = got['grpc-status']));
    call.on('error', reject);
    call.on('close', () =>
      status === '0' ? resolve() : reject(new Error(`etcd answered with status ${String(status)}`)),
    );
    call.resume();
    call.end(Buffer.concat([frame, message]));
  });
}

interface Etcd {
  readonly process: ChildProcess;
  readonly session: ClientHttp2Session;
}

async function startEtcd(): Promise<Etcd | undefined> {
  if (spawnSync('etcd', ['--version']).status !== 0) return undefined;
  const [client, peer] = [await freePort(), await freePort()];
  const urls = [`http://127.0.0.1:${client}`, `http://127.0.0.1:${peer}`] as const;
  const etcd = spawn(
    'etcd',
    ['--data-dir', join(base, 'etcd'), '--listen-client-urls', urls[0], '--advertise-client-urls', urls[0]].concat(
      [
        '--listen-peer-urls',
        urls[1],
        '--initial-advertise-peer-urls',
        urls[1],
        '--initial-cluster',
        `default=${urls[1]}`,
      ],
      ['--log-level', 'error'],
    ),
    { stdio: 'ignore' },
  );
  for (let tries = 0; tries < 100; tries += 1) {
    const session = connect(urls[0]).on('error', () => undefined);
    try {
      await etcdPut(session, '/ready', 'yes');
      return { process: etcd, session };
    } catch {
      session.destroy();
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  etcd.kill();
  return undefined;
}

async function measureWrites(store: Store, etcd: Etcd | undefined): Promise<void> {
  const key = (client: number, count: number): string => `${prefix}c${client}-${count % 100}`;
  const contestants: Record<string, Write> = { store: (client, count) => put(store, key(client, count), text) };
  if (etcd !== undefined) contestants.etcd = (client, count) => etcdPut(etcd.session, key(client, count), text);
  for (const clients of [1, 64]) {
    const results: Record<string, number[]> = {};
    for (let round = 0; round < rounds; round += 1) {
      for (const [name, write] of Object.entries(contestants)) {
        (results[name] ??= []).push(await writesPerSecond(clients, write));
      }
    }
    const [ours, theirs] = [median(results.store ?? []), median(results.etcd ?? [])];
    const compared =
      etcd === undefined ? '' : `   etcd ${theirs.toFixed(0).padStart(7)}/s   ${(ours / theirs).toFixed(2)} x etcd`;
    say(
      `durable writes of 1 KiB, ${String(clients).padStart(2)} clients   store ${ours.toFixed(0).padStart(7)}/s${compared}`,
    );
  }
}

async function measureReads(): Promise<void> {
  const directory = join(base, 'reads');
  const options = { keys: [encryptionKey(Buffer.alloc(32, 1))] };
  let store = await openStore(directory, options);
  for (let i = 0; i < 10_000; i += 500) {
    await Promise.all(
      Array.from({ length: 500 }, (_, j) => put(store, `${prefix}${String(i + j).padStart(6, '0')}`, text)),
    );
  }
  await store.close();
  const opening: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    opening.push(await timedMs(async () => (store = await openStore(directory, options))));
    if (round < 4) await store.close();
  }
  say(`open a store of 10,000 objects and 10,000 changes   ${median(opening).toFixed(1)} ms`);
  const lists = [
    { what: 'list 10,000 objects', request: { prefix } },
    {
      what: 'list 500 of 10,000 in the middle, with the count of the rest',
      request: { prefix, after: `${prefix}005000`, limit: 500 },
    },
    { what: 'list 500 of 10,000 as they were 1,000 changes ago', request: { prefix, limit: 500, atRevision: 9_000 } },
  ];
  for (const { what, request } of lists) {
    const times: number[] = [];
    for (let round = 0; round < 50; round += 1) times.push(await timedMs(() => store.list(request)));
    say(`${what}   ${median(times).toFixed(2)} ms`);
  }
  await store.close();
}

/** In memory, as the disk's time would drown what is measured; writing to sockets is not in it. */
async function measureWatchers(): Promise<void> {
  const representation = jsonEvents({ apiVersion: 'v1', kind: 'ConfigMap' });
  const sink = { write: () => true, end: () => undefined };
  const times: number[] = [];
  for (const watchers of [0, 1_000]) {
    const store = memoryStore();
    const hub = new WatchHub(store, watcherDefaults);
    for (let i = 0; i < watchers; i += 1) hub.watch({ prefix, after: 0, representation, wantsBookmarks: false }, sink);
    const each: number[] = [];
    for (let round = 0; round < 2_000; round += 1) each.push(await timedMs(() => put(store, `${prefix}x`, text)));
    times.push(median(each));
  }
  const [none = NaN, thousand = NaN] = times;
  say(`give one write to 1,000 watchers   ${(thousand - none).toFixed(3)} ms`);
}

let etcd: Etcd | undefined;
try {
  etcd = await startEtcd();
  if (etcd === undefined) say('etcd is not installed (Debian: etcd-server): no comparison');
  const store = await openStore(join(base, 'writes'));
  await measureWrites(store, etcd);
  await store.close();
  await measureReads();
  await measureWatchers();
} finally {
  etcd?.session.destroy();
  etcd?.process.kill();
  rmSync(base, { recursive: true, force: true });
}
