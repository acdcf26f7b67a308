/**
 * Watching 1,000 and 5,000 ConfigMaps of a real API server in another process: how many sockets and how much memory that takes,
 * how long a change takes to be delivered, and how long until everything is delivered again after the server was restarted. Each
 * measurement has a process of its own. Beside ours, on the same server, runs the informer of @kubernetes/client-node, where
 * that package is installed; there is one informer for each object, because a node may not watch more. It watches 5,000 only
 * in `npm run bench -- watch all`, because that alone takes a minute and a half.
 */
import { ApiObjectSource } from '../src/objects/api-objects.ts';
import { managedConfigMaps } from '../src/objects/object-manager.ts';
import { WatchedObjects } from '../src/objects/watched-objects.ts';
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { systemClock } from '../src/base/clock.ts';
import { ApiClient, apiClientDefaults } from '../src/client/api/api-client.ts';
import { configMaps, namespaces } from '../src/client/api/resource-reference.ts';
import { fixedCredentials } from '../src/client/credentials/credentials.ts';
import { ConnectionPool, poolDefaults } from '../src/client/transport/connection-pool.ts';
import { aPod } from '../src/testing/fakes/builders.ts';

const objectsMax = 5_000;
const perNamespace = 100;
const contentBytes = 1_024;
const updates = 400;
const writers = 16;
const self = fileURLToPath(import.meta.url);
const program = join(dirname(self), '..', '..', 'bin', 'mountlet.js');
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const idOf = (index: number): { namespace: string; name: string } => ({
  namespace: `team-${Math.floor(index / perNamespace)}`,
  name: `config-${index}`,
});
const keyOf = ({ namespace, name }: { namespace: string; name: string }): string => `${namespace}/${name}`;

interface Result {
  readonly syncMs: number;
  readonly sockets: number;
  readonly heapKiB: number;
  readonly residentKiB: number;
  readonly writeMs: readonly number[];
  readonly toldMs: readonly number[];
  readonly recoveryMs: number;
}

/** A watcher; `told` is called with every change. Resolves when all objects are known. */
type Watcher = (count: number, kubeconfig: string, told: (key: string) => void) => Promise<void>;

interface Kubeconfig {
  readonly clusters: readonly [{ readonly cluster: { readonly server: string; 'certificate-authority-data': string } }];
  readonly users: readonly [{ readonly user: { 'client-certificate-data': string; 'client-key-data': string } }];
}

const unlimited = { perSecond: Infinity, burst: 1 };

function clientFrom(kubeconfig: string): ApiClient {
  const { clusters, users } = parse(readFileSync(kubeconfig, 'utf8')) as Kubeconfig;
  const text = (base64: string): string => Buffer.from(base64, 'base64').toString();
  const { server, 'certificate-authority-data': authority } = clusters[0].cluster;
  const { 'client-certificate-data': certificate, 'client-key-data': key } = users[0].user;
  const trust = { authorityPem: text(authority), isInsecure: false };
  const endpoint = { url: new URL(server), trust: () => Promise.resolve(trust) };
  const identity = { certificatePem: text(certificate), keyPem: text(key) };
  return new ApiClient(
    {
      transport: new ConnectionPool(endpoint, systemClock, poolDefaults),
      credentials: fixedCredentials({ headers: {}, identity }),
      clock: systemClock,
    },
    // What is measured is the work, not how much of it a node allows itself.
    { ...apiClientDefaults, rate: unlimited, watchRate: unlimited },
  );
}

const { signal: never } = new AbortController();

function ours(): Watcher {
  return async (count, kubeconfig, told) => {
    const deps = { clock: systemClock, random: Math.random, notify: () => {} };
    const source = new ApiObjectSource(managedConfigMaps.resource, { ...deps, client: clientFrom(kubeconfig) });
    const objects = new WatchedObjects(managedConfigMaps, { ...deps, source }, { syncFrequencyMs: 60_000 });
    void objects.run(never);
    void (async () => {
      for await (const id of objects.changes(never)) told(keyOf(id));
    })();
    for (let first = 0; first < count; first += perNamespace) {
      const volumes = Array.from({ length: perNamespace }, (_, index) => {
        const { name } = idOf(first + index);
        return { name, configMap: { name } };
      });
      objects.registerPod(aPod({ metadata: { uid: `pod-${first}`, namespace: idOf(first).namespace }, volumes }));
    }
    for (let index = 0; index < count; index += 1) {
      const { namespace, name } = idOf(index);
      // A first list may take longer than a read waits for it.
      for (let known = false; !known;) {
        known = await objects.get(namespace, name, new AbortController().signal).then(
          () => true,
          () => false,
        );
      }
    }
  };
}

/** The little that we use of that package, which need not be there. */
interface ClientNode {
  readonly KubeConfig: new () => { loadFromFile(file: string): void; makeApiClient(api: unknown): CoreApi };
  readonly CoreV1Api: unknown;
  readonly Watch: new (config: unknown) => object;
  readonly ListWatch: new (...parameters: readonly unknown[]) => Informer;
}
interface CoreApi {
  listNamespacedConfigMap(query: { readonly namespace: string; readonly fieldSelector: string }): Promise<unknown>;
}
interface Informer {
  on(verb: string, listener: () => void): void;
  start(): Promise<void>;
}

function theirs(library: ClientNode): Watcher {
  return async (count, kubeconfig, told) => {
    const config = new library.KubeConfig();
    config.loadFromFile(kubeconfig);
    const api = config.makeApiClient(library.CoreV1Api);
    const watch = new library.Watch(config);
    await inParallel(count, async (index) => {
      const { namespace, name } = idOf(index);
      const fieldSelector = `metadata.name=${name}`;
      const list = (): Promise<unknown> => api.listNamespacedConfigMap({ namespace, fieldSelector });
      const path = `/api/v1/namespaces/${namespace}/configmaps`;
      const informer = new library.ListWatch(path, watch, list, false, undefined, fieldSelector);
      informer.on('update', () => told(keyOf({ namespace, name })));
      // It gives up at every error and wants to be started again; how soon is up to its user.
      informer.on('error', () => void setTimeout(() => void informer.start().catch(() => {}), 1_000));
      await informer.start();
    });
  };
}

async function inParallel(count: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const index = next;
      next += 1;
      await work(index);
    }
  };
  await Promise.all(Array.from({ length: writers }, worker));
}

function memoryKiB(): { readonly heap: number; readonly resident: number } {
  for (let pass = 0; pass < 3; pass += 1) globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heap: (heapUsed + external) / 1024, resident: rss / 1024 };
}

function openSockets(): number {
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith('socket:');
    } catch {
      return false; // The directory that is being read has a descriptor, too.
    }
  }).length;
}

/** In a process of its own: watches, counts, and asks the parent to restart the server. */
async function measure(watcher: Watcher, count: number, kubeconfig: string): Promise<Result> {
  const writer = clientFrom(kubeconfig);
  const waiting = new Map<string, () => void>();
  const change = (index: number, value: string): Promise<unknown> =>
    writer.patch(configMaps, { ...idOf(index), type: 'merge' }, { data: { value } }, never);
  await change(0, 'the connection is open');
  const before = memoryKiB();
  const socketsBefore = openSockets();
  const start = performance.now();
  await watcher(count, kubeconfig, (key) => {
    waiting.get(key)?.();
    waiting.delete(key);
  });
  const syncMs = performance.now() - start;
  const after = memoryKiB();
  const sockets = openSockets() - socketsBefore;
  const toldOf = (index: number): Promise<void> =>
    new Promise((resolve) => waiting.set(keyOf(idOf(index)), () => resolve()));
  const writeMs: number[] = [];
  const toldMs: number[] = [];
  for (let update = 0; update < updates; update += 1) {
    const index = (update * 7_919) % count;
    const told = toldOf(index);
    const at = performance.now();
    const written = change(index, `update ${update} by ${process.pid}`).then(() =>
      writeMs.push(performance.now() - at),
    );
    await told;
    toldMs.push(performance.now() - at);
    await written;
  }
  const restarted = once(process, 'message');
  process.send?.('restart');
  await restarted;
  const back = performance.now();
  const allTold = Promise.all(Array.from({ length: count }, (_, index) => toldOf(index)));
  await inParallel(count, (index) => change(index, `after the restart, by ${process.pid}`));
  await allTold;
  return {
    syncMs,
    sockets,
    heapKiB: (after.heap - before.heap) / count,
    residentKiB: (after.resident - before.resident) / count,
    writeMs,
    toldMs,
    recoveryMs: performance.now() - back,
  };
}

async function startServer(directory: string, listen: string): Promise<{ child: ChildProcess; url: string }> {
  const child = spawn(process.execPath, [program, 'apiserver', '--data', directory, '--listen', listen], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(createInterface({ input: child.stdout ?? process.stdin }), 'line')) as [string];
  return { child, url: /https:\/\/[^;]+/.exec(line)?.[0] ?? '' };
}

async function endOf(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
}

const quantile = (values: readonly number[], part: number): string => {
  const sorted = values.toSorted((a, b) => a - b);
  return (sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? NaN).toFixed(1);
};

function report(who: string, count: number, result: Result): void {
  const { syncMs, sockets, heapKiB, residentKiB, writeMs, toldMs, recoveryMs } = result;
  say(
    [
      who.padEnd(22),
      String(count).padStart(6),
      String(sockets).padStart(8),
      heapKiB.toFixed(1).padStart(9),
      residentKiB.toFixed(1).padStart(9),
      (syncMs / 1000).toFixed(1).padStart(8),
      `${quantile(writeMs, 0.5)} / ${quantile(writeMs, 0.99)}`.padStart(15),
      `${quantile(toldMs, 0.5)} / ${quantile(toldMs, 0.99)}`.padStart(15),
      (recoveryMs / 1000).toFixed(1).padStart(9),
    ].join(' '),
  );
}

async function main(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'mountlet-bench-'));
  let { child: server, url } = await startServer(directory, '127.0.0.1:0');
  const listen = new URL(url).host;
  const kubeconfig = join(directory, 'kubeconfig');
  try {
    const client = clientFrom(kubeconfig);
    const value = 'x'.repeat(contentBytes);
    for (let index = 0; index < objectsMax; index += perNamespace) {
      await client.create(namespaces, {}, { metadata: { name: idOf(index).namespace } }, never);
    }
    await inParallel(objectsMax, (index) => {
      const { namespace, name } = idOf(index);
      return client.create(
        configMaps,
        { namespace },
        { metadata: { name }, data: { content: value, value: '' } },
        never,
      );
    });
    await client.close();
    say(
      `ConfigMaps of ${contentBytes} bytes, ${perNamespace} in each namespace; memory for each includes the object itself`,
    );
    say(
      'who                     count  sockets  heap KiB   RSS KiB   sync s    write p50/99     told p50/99 recovery s',
    );
    const hasClientNode = await import(clientNodeName).then(
      () => true,
      () => false,
    );
    for (const count of [1_000, objectsMax]) {
      const isCompared = hasClientNode && (count < objectsMax || mode === 'all');
      for (const who of ['object', ...(isCompared ? ['client-node'] : [])]) {
        const child = fork(self, ['measure', who, String(count), kubeconfig], { execArgv: ['--expose-gc'] });
        for await (const [message] of messagesOf(child)) {
          if (message === 'restart') {
            await endOf(server);
            ({ child: server, url } = await startServer(directory, listen));
            child.send('restarted');
          } else {
            report(who === 'client-node' ? who : `mountlet, ${who}`, count, message as Result);
            break;
          }
        }
        await once(child, 'exit');
      }
    }
    if (!hasClientNode) say(`${clientNodeName} is not installed: nothing to compare with`);
  } finally {
    await endOf(server);
    rmSync(directory, { recursive: true, force: true });
  }
}

async function* messagesOf(child: ChildProcess): AsyncGenerator<readonly unknown[]> {
  for (;;) {
    const message = once(child, 'message') as Promise<unknown[]>;
    yield await Promise.race([
      message,
      once(child, 'exit').then(([code]) =>
        Promise.reject(new Error(`the measurement ended with code ${String(code)}`)),
      ),
    ]);
  }
}

const clientNodeName = '@kubernetes/client-node';
const [mode, who = '', count = '', kubeconfig = ''] = process.argv.slice(2);
if (mode === 'measure') {
  const watcher = who === 'client-node' ? theirs((await import(clientNodeName)) as ClientNode) : ours();
  process.send?.(await measure(watcher, Number(count), kubeconfig), () => process.exit(0));
} else {
  await main();
}
