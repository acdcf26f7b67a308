/**
 * All of it, from the manager down to the sockets, against the real API server through a network that cuts, stalls and refuses at
 * random, while pods and objects come and go: in the end every registered object is the server's, every change was reported, and
 * nothing stays open.
 */
import { ApiObjectSource } from './api-objects.ts';
import { managedConfigMaps } from './object-manager.ts';
import { WatchedObjects } from './watched-objects.ts';
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { systemClock } from '../base/clock.ts';
import { ApiClient, apiClientDefaults } from '../client/api/api-client.ts';
import { NotFoundError } from '../client/api/api-errors.ts';
import { configMaps, namespaces } from '../client/api/resource-reference.ts';
import { fixedCredentials } from '../client/credentials/credentials.ts';
import { ConnectionPool, poolDefaults } from '../client/transport/connection-pool.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { aContainer, aPod } from '../testing/fakes/builders.ts';
import { hastyClock } from '../testing/fakes/fake-clock.ts';
import { faultyRelay } from '../testing/servers/faulty-relay.ts';
import { runningApiServer } from '../testing/servers/test-api-server.ts';

const { signal } = new AbortController();
const rounds = 250;
const objectNames = Array.from({ length: 30 }, (_, index) => `c${index}`);
const podCount = 8;

/** Numbers from 0 to 1 that are the same in every run. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

for (const seed of [1, 2, 3, 4, 5]) {
  test(`whatever the network does (${seed}), in the end all is as on the server, and nothing stays open`, async (t) => {
    const random = seeded(seed);
    const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
    const server = await runningApiServer(t);
    const relay = await faultyRelay(t, server.port);
    const admin = server.client({ rate: { perSecond: Infinity, burst: 1 } });
    await admin.create(namespaces, {}, { metadata: { name: 'shop' } }, signal);
    const clock = hastyClock(100);
    const trust = { authorityPem: server.authorityPem, isInsecure: false };
    const endpoint = { url: new URL(`https://127.0.0.1:${relay.port}`), trust: () => Promise.resolve(trust) };
    const pool = new ConnectionPool(endpoint, clock, poolDefaults);
    const credentials = fixedCredentials({ headers: {}, identity: server.admin });
    const client = new ApiClient({ transport: pool, credentials, clock }, apiClientDefaults);
    const deps = { client, clock, random: Math.random, notify: () => {} };
    const source = new ApiObjectSource(managedConfigMaps.resource, deps);
    const objects = new WatchedObjects(managedConfigMaps, { ...deps, source }, { syncFrequencyMs: 60_000 });
    const stop = new AbortController();
    const running = objects.run(stop.signal);
    // As a volume: it reads when its pod comes and when a change is reported, until that succeeds, and never otherwise.
    const shown = new Map<string, string | undefined>();
    const read = async (name: string): Promise<void> => {
      try {
        shown.set(name, (await objects.get('shop', name, stop.signal))?.data?.['value']);
      } catch {
        // Not known in time: it is read again when it is reported.
      }
    };
    const listening = (async () => {
      for await (const { name } of objects.changes(stop.signal)) await read(name);
    })();
    const reads = new Set<Promise<void>>();
    const pods = new Map<number, Pod>();
    for (let round = 0; round < rounds; round++) {
      const index = Math.floor(random() * podCount);
      const name = pick(objectNames);
      const what = random();
      if (what < 0.2) {
        const wanted = objectNames.filter(() => random() < 0.5);
        const isShown = random() < 0.7;
        const pod = aPod({
          metadata: { uid: `u${index}`, namespace: 'shop', name: `p${index}` },
          ...(isShown
            ? { volumes: wanted.map((each) => ({ name: each, configMap: { name: each } })) }
            : { containers: [aContainer({ envFrom: wanted.map((each) => ({ configMapRef: { name: each } })) })] }),
        });
        objects.registerPod(pod);
        pods.set(index, pod);
        for (const each of wanted) {
          const reading = read(each).finally(() => reads.delete(reading));
          reads.add(reading);
        }
      } else if (what < 0.25) {
        const pod = pods.get(index);
        if (pod !== undefined) objects.unregisterPod(pod);
        pods.delete(index);
      } else if (what < 0.65) {
        const data = { value: String(round) };
        const place = { namespace: 'shop', name };
        await admin.patch(configMaps, { ...place, type: 'merge' }, { data }, signal).catch((error: unknown) => {
          if (!(error instanceof NotFoundError)) throw error;
          return admin.create(configMaps, { namespace: 'shop' }, { metadata: { name }, data }, signal);
        });
      } else if (what < 0.72) {
        await admin.delete(configMaps, { namespace: 'shop', name }, undefined, signal).catch((error: unknown) => {
          if (!(error instanceof NotFoundError)) throw error;
        });
      } else if (what < 0.8) relay.cut();
      else if (what < 0.86) relay.cut(Math.floor(random() * 2_000));
      else if (what < 0.88) relay.stall();
      else if (what < 0.92) await relay.stop();
      else await relay.restart().catch(() => {});
      await systemClock.sleep(random() * 20);
    }
    await relay.restart().catch(() => {});
    await Promise.all(reads);
    const held = new Set(
      [...pods.values()].flatMap((pod) => [
        ...(pod.spec.volumes ?? []).map(({ name }) => name),
        ...(pod.spec.containers ?? []).flatMap(({ envFrom = [] }) =>
          envFrom.flatMap(({ configMapRef }) => configMapRef?.name ?? []),
        ),
      ]),
    );
    const volumes = new Set([...pods.values()].flatMap((pod) => (pod.spec.volumes ?? []).map(({ name }) => name)));
    const { items } = await admin.list(configMaps, { namespace: 'shop' }, signal);
    const expected = new Map(
      items.map((item) => [item.metadata.name, (item as { data?: { value?: string } }).data?.value]),
    );
    const isEqual = (): boolean =>
      [...volumes].every((name) => shown.has(name) && shown.get(name) === expected.get(name));
    // A stalled connection is noticed by its ping after 45 s, and the longest wait of a reflector is a minute.
    const patienceEnd = clock.now() + 300_000;
    while (!isEqual() && clock.now() < patienceEnd) await systemClock.sleep(10);
    for (const name of volumes) assert.equal(shown.get(name), expected.get(name), `what a volume shows of ${name}`);
    for (const name of held) {
      await read(name);
      assert.equal(shown.get(name), expected.get(name), `what is read of ${name}`);
    }
    for (const pod of pods.values()) objects.unregisterPod(pod);
    stop.abort();
    await Promise.all([running, listening]);
    await client.close();
    const gone = clock.now() + 60_000;
    while (relay.connections > 0 && clock.now() < gone) await systemClock.sleep(5);
    assert.equal(relay.connections, 0);
    assert.equal(pool.size, 0);
    assert.equal(getEventListeners(stop.signal, 'abort').length, 0);
  });
}
