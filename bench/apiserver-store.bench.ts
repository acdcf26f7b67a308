/**
 * The store behind the API server: durable writes with 1 and 64 clients (and etcd's in the same run, if it is installed, over
 * its gRPC interface without TLS), reading 10,000 objects, opening a store of 10,000 objects, and giving a write to 1,000 watchers.
 * Both sync every commit to the same disk.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encryptionKey } from '../src/apiserver/store/encryption.ts';
import type { Store } from '../src/apiserver/store/store.ts';
import { jsonEvents } from '../src/apiserver/watch/watch-event.ts';
import { WatchHub } from '../src/apiserver/watch/watch-hub.ts';
import { watcherDefaults } from '../src/apiserver/watch/watcher.ts';
import { memoryStore, openStore, put } from '../src/testing/servers/stores.ts';
import { type Contestant, measureDurableWrites } from './durable-writes.ts';
import { type Etcd, etcdPut, startEtcd } from './etcd.ts';
import { type Write, median, timedMs } from './measuring.ts';

const text = 'x'.repeat(1_000);
const prefix = '/registry/core/configmaps/shop/';
const base = mkdtempSync(join(tmpdir(), 'mountlet-bench-'));
const say = (line: string): void => void process.stdout.write(`${line}\n`);

async function measureWrites(store: Store, etcd: Etcd | undefined): Promise<void> {
  const key = (client: number, count: number): string => `${prefix}c${client}-${count % 100}`;
  const contestants: Contestant[] = [{ name: 'store', write: (client, count) => put(store, key(client, count), text) }];
  if (etcd !== undefined) {
    const write: Write = (client, count) => etcdPut(etcd.session, key(client, count), text);
    contestants.push({ name: 'etcd', write, pid: etcd.pid, isMeasure: true });
  }
  await measureDurableWrites(contestants, say);
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
  const form = jsonEvents({ apiVersion: 'v1', kind: 'ConfigMap' });
  const sink = { write: () => true, end: () => undefined };
  const times: number[] = [];
  for (const watchers of [0, 1_000]) {
    const store = memoryStore();
    const hub = new WatchHub(store, watcherDefaults);
    for (let i = 0; i < watchers; i += 1) hub.watch({ prefix, after: 0, form, wantsBookmarks: false }, sink);
    const each: number[] = [];
    for (let round = 0; round < 2_000; round += 1) each.push(await timedMs(() => put(store, `${prefix}x`, text)));
    times.push(median(each));
  }
  const [none = NaN, thousand = NaN] = times;
  say(`give one write to 1,000 watchers   ${(thousand - none).toFixed(3)} ms`);
}

let etcd: Etcd | undefined;
try {
  etcd = await startEtcd(join(base, 'etcd'), 'plain');
  if (etcd === undefined) say('etcd is not installed (Debian: etcd-server): no comparison');
  const store = await openStore(join(base, 'writes'));
  await measureWrites(store, etcd);
  await store.close();
  await measureReads();
  await measureWatchers();
} finally {
  etcd?.stop();
  rmSync(base, { recursive: true, force: true });
}
