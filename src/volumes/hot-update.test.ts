/** From a changed object to new files, with the real plugins on real directories. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { ClusterTrustBundle } from '../kube/kinds/cluster-trust-bundle.ts';
import type { Volume } from '../kube/kinds/pod/volume.ts';
import { configMapPlugin } from '../plugins/configmap.ts';
import { downwardApiPlugin } from '../plugins/downwardapi.ts';
import { emptyDirPlugin } from '../plugins/empty-dir.ts';
import { projectedPlugin } from '../plugins/projected.ts';
import { secretPlugin } from '../plugins/secret.ts';
import { settle } from '../testing/fakes/fake-clock.ts';
import { VolumeNode } from '../testing/worlds/volume-node.ts';
import { VolumeWorld, podUsing } from '../testing/worlds/volume-world.ts';
import type { VolumeNotice } from './notices.ts';
import { asPodUid } from './volume-name.ts';

class RealWorld extends VolumeWorld {
  readonly real: VolumeNode;
  readonly bundles = new Map<string, ClusterTrustBundle>();

  constructor(t: TestContext) {
    const real = new VolumeNode(t, { under: '/dev/shm' });
    const { configMaps, secrets, nodes, volumes, emptyDirectories } = real;
    let made = 0;
    const tokens = { get: async () => `token ${(made += 1)}`, forgetPod: () => {} };
    const trustBundles = {
      get: async (name: string) => this.bundles.get(name),
      list: async (signerName: string) =>
        [...this.bundles.values()].filter(({ spec }) => spec.signerName === signerName),
    };
    super(t, {
      root: real.root,
      plugins: [
        configMapPlugin(configMaps, volumes),
        secretPlugin(secrets, volumes),
        downwardApiPlugin(nodes, volumes),
        projectedPlugin({ configMaps, secrets, nodes, tokens, trustBundles }, volumes),
        emptyDirPlugin({ nodes, emptyDirectories }),
      ],
    });
    this.real = real;
  }

  /** Files are written by the kernel, not by the clock: a few turns are not enough. */
  override async settle(): Promise<void> {
    await super.settle();
    for (let turn = 0; turn < 2000 && this.manager.operationsRunning > 0; turn += 1) await settle(1);
    await super.settle();
  }

  changed(name: string, resourceVersion?: string): void {
    this.manager.objectChanged({ kind: 'ConfigMap', namespace: 'shop', name }, resourceVersion);
  }

  setBundle(name: string, body: string, labels: Readonly<Record<string, string>> = {}): void {
    const trustBundle = pem(body);
    this.bundles.set(name, { metadata: { name, labels }, spec: { signerName: 'example.com/ca', trustBundle } });
    this.manager.objectChanged({ kind: 'ClusterTrustBundle', namespace: '', name }, `${body} version`);
  }

  read(podUid: string, volume: string, file: string): string | undefined {
    const path = join(this.directory(podUid, volume), file);
    return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
  }

  directory(podUid: string, volume: string): string {
    return this.manager.queries.mountedVolumesOf(asPodUid(podUid)).get(volume)?.path ?? '/nowhere';
  }

  refreshed(): readonly Extract<VolumeNotice, { kind: 'VolumeRefreshed' }>[] {
    return this.notices.flatMap((notice) => (notice.kind === 'VolumeRefreshed' ? [notice] : []));
  }
}

function pem(body: string): string {
  return `-----BEGIN CERTIFICATE-----\n${Buffer.from(body).toString('base64')}\n-----END CERTIFICATE-----\n`;
}

const defaultMode = 0o644;
const config = (name: string, objectName = name): Volume => ({ name, configMap: { name: objectName, defaultMode } });

test('a changed ConfigMap is on disk at once, in every volume that shows it and in no other', async (t) => {
  const world = new RealWorld(t);
  world.real.setConfigMap('web', { color: 'red' });
  world.real.setConfigMap('other', { color: 'grey' });
  await world.start();
  const projected: Volume = { name: 'all', projected: { defaultMode, sources: [{ configMap: { name: 'web' } }] } };
  await world.put(podUsing('a', [config('web'), config('other')]), podUsing('b', [projected]));
  assert.deepEqual([world.read('a', 'web', 'color'), world.read('b', 'all', 'color')], ['red', 'red']);
  world.real.setConfigMap('web', { color: 'blue' });
  world.clock.advance(5).catch(assert.fail);
  world.changed('web', '42');
  await world.settle();
  assert.deepEqual([world.read('a', 'web', 'color'), world.read('b', 'all', 'color')], ['blue', 'blue']);
  assert.deepEqual(
    world.refreshed().map(({ pod, podVolumeNames, changed, files }) => [pod.uid, ...podVolumeNames, changed, files]),
    [
      ['a', 'web', true, 1],
      ['b', 'all', true, 1],
    ],
  );
  const [first] = world.refreshed();
  const now = world.clock.now();
  const object = { kind: 'ConfigMap', namespace: 'shop', name: 'web' };
  assert.deepEqual(first?.trace, {
    changes: [{ object, resourceVersion: '42', seenAt: now }],
    seenAt: now,
    plannedAt: now,
    writtenAt: now,
    visibleAt: now,
  });
});

test('the time of an update does not count how long its object was missing', async (t) => {
  const world = new RealWorld(t);
  world.real.setConfigMap('web', { color: 'red' });
  await world.start();
  await world.put(podUsing('a', [config('web')]));
  world.real.configMaps.delete('web');
  world.changed('web');
  await world.settle();
  await world.clock.advance(5_000);
  world.real.setConfigMap('web', { color: 'blue' });
  world.changed('web', '42');
  await world.settle();
  assert.equal(world.read('a', 'web', 'color'), 'blue');
  assert.equal(world.refreshed().at(-1)?.tookMs, 0);
});

test('a change costs one operation, whatever else is mounted', async (t) => {
  const world = new RealWorld(t);
  for (const name of ['web', 'other']) world.real.setConfigMap(name, { color: 'red' });
  await world.start();
  const others = Array.from({ length: 60 }, (_, index) => podUsing(`p${index}`, [config('other')]));
  await world.put(podUsing('a', [config('web')]), ...others);
  assert.equal(world.manager.queries.counts()[0]?.count, 61);
  world.notices.length = 0;
  world.changed('web');
  await world.settle();
  const ended = world.notices.flatMap((notice) => (notice.kind === 'OperationEnded' ? [notice.volume] : []));
  assert.deepEqual(ended, ['kubernetes.io/configmap/a-web']);
});

test('changes during a write cause one more write, with the newest content', async (t) => {
  const world = new RealWorld(t);
  world.real.setConfigMap('web', { color: 'red' });
  await world.start();
  await world.put(podUsing('a', [config('web')]));
  const { configMaps } = world.real;
  const get = configMaps.get.bind(configMaps);
  let reads = 0;
  let answer = (): void => {};
  configMaps.get = async (namespace, name) => {
    reads += 1;
    const object = await get(namespace, name);
    if (reads === 1) await new Promise<void>((resolve) => (answer = resolve));
    return object;
  };
  world.real.setConfigMap('web', { color: 'green' });
  world.changed('web', '2');
  await world.settle();
  for (const [color, version] of [
    ['yellow', '3'],
    ['black', '4'],
    ['blue', '5'],
  ] as const) {
    world.real.setConfigMap('web', { color });
    world.changed('web', version);
    await world.settle();
  }
  assert.equal(reads, 1, 'nothing starts while the first is being written');
  answer();
  await world.settle();
  assert.equal(reads, 2);
  assert.equal(world.read('a', 'web', 'color'), 'blue');
  assert.deepEqual(
    world.refreshed().map(({ trace }) => trace.changes.map(({ resourceVersion }) => resourceVersion)),
    [['2'], ['3', '4', '5']],
  );
});

test('a refresh that fails leaves the volume mounted with its old content, and the next change is tried at once', async (t) => {
  const world = new RealWorld(t);
  world.real.setConfigMap('web', { color: 'red' });
  await world.start();
  await world.put(podUsing('a', [config('web')]));
  const before = statSync(world.directory('a', 'web')).ino;
  world.real.configMaps.delete('web');
  world.changed('web');
  await world.settle();
  assert.deepEqual(world.states(), ['a/web: mounted']);
  assert.equal(world.read('a', 'web', 'color'), 'red');
  assert.deepEqual(world.events(), [
    'FailedMount: MountVolume.SetUp failed for volume "web" : configmap "web" not found',
  ]);
  assert.equal(world.manager.queries.statuses()[0]?.isStale, true);
  await world.advance(501);
  await world.advance(1001);
  assert.equal(world.events().length, 3, 'it is tried again with growing delays');
  world.real.setConfigMap('web', { color: 'blue' });
  world.changed('web');
  await world.settle();
  assert.equal(world.read('a', 'web', 'color'), 'blue', 'the delay does not hold up news');
  assert.equal(statSync(world.directory('a', 'web')).ino, before, 'the directory was never taken away');
});

test('a pod whose ConfigMap comes late is mounted when it comes', async (t) => {
  const world = new RealWorld(t);
  await world.start();
  const pod = podUsing('a', [config('web')]);
  world.pods.put(pod);
  const waiting = world.manager.waitForMounted(pod, new AbortController().signal);
  await world.settle();
  await world.advance(60_000);
  world.real.setConfigMap('web', { color: 'red' });
  world.changed('web');
  await waiting;
  assert.equal(world.read('a', 'web', 'color'), 'red');
});

test('labels and annotations of a pod reach its files, and nothing else of an update does', async (t) => {
  const world = new RealWorld(t);
  await world.start();
  const items = [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }];
  const info: Volume = { name: 'info', downwardAPI: { defaultMode, items } };
  const all: Volume = { name: 'all', projected: { defaultMode, sources: [{ downwardAPI: { items } }] } };
  const scratch: Volume = { name: 'scratch', emptyDir: {} };
  const pod = podUsing('a', [info, all, scratch], { metadata: { labels: { tier: 'silver' } } });
  await world.put(pod);
  assert.equal(world.read('a', 'info', 'labels'), 'tier="silver"');
  await world.put({ ...pod, status: { phase: 'Running' } });
  assert.deepEqual(world.refreshed(), []);
  await world.put({ ...pod, metadata: { ...pod.metadata, labels: { tier: 'gold' } } });
  assert.equal(world.read('a', 'info', 'labels'), 'tier="gold"');
  assert.equal(world.read('a', 'all', 'labels'), 'tier="gold"');
  assert.equal(world.refreshed().length, 2);
});

test('the sweep repairs damage on disk, and writes nothing where all is well', async (t) => {
  const world = new RealWorld(t);
  world.real.setConfigMap('web', { color: 'red' });
  await world.start();
  await world.put(podUsing('a', [config('web')]));
  const inode = (): number => statSync(join(world.directory('a', 'web'), 'color')).ino;
  const before = inode();
  await world.advance(60_000);
  assert.equal(inode(), before);
  assert.deepEqual(world.refreshed(), []);
  const file = join(world.directory('a', 'web'), 'color');
  rmSync(file);
  symlinkSync('/etc/hostname', file);
  writeFileSync(join(world.directory('a', 'web'), '..data', 'color'), 'defaced');
  await world.advance(60_000);
  assert.equal(world.read('a', 'web', 'color'), 'red');
});

test('a volume directory deleted under a running pod is created again, and its pod gets an event', async (t) => {
  const world = new RealWorld(t);
  world.real.setConfigMap('web', { color: 'red' });
  await world.start();
  await world.put(podUsing('a', [config('web')]));
  assert.deepEqual(world.events(), []);
  for (const color of ['red', 'blue']) {
    rmSync(world.directory('a', 'web'), { recursive: true });
    world.real.setConfigMap('web', { color });
    if (color === 'red') await world.advance(60_000);
    else world.changed('web');
    await world.settle();
    assert.equal(world.read('a', 'web', 'color'), color);
  }
  const told =
    'VolumeRemade: Volume "web" had been unmounted or deleted on the node and was made again: running containers that mount it keep what they had until they restart';
  assert.deepEqual(world.events(), [told, told]);
});

test('a Secret is in no notice', async (t) => {
  const world = new RealWorld(t);
  world.real.setSecret('tls', { key: 'hunter2' });
  await world.start();
  await world.put(
    podUsing('a', [{ name: 'tls', secret: { secretName: 'tls', defaultMode, items: [{ key: 'key', path: 'k' }] } }]),
  );
  assert.equal(world.read('a', 'tls', 'k'), 'hunter2');
  world.real.setSecret('tls', { other: 'hunter3' });
  world.manager.objectChanged({ kind: 'Secret', namespace: 'shop', name: 'tls' });
  await world.settle();
  assert.equal(world.events().length, 1, 'the key is missing now');
  world.real.setSecret('tls', { key: 'hunter4' });
  world.manager.objectChanged({ kind: 'Secret', namespace: 'shop', name: 'tls' });
  await world.settle();
  assert.equal(world.read('a', 'tls', 'k'), 'hunter4');
  const told = world.notices.map(
    (notice) => JSON.stringify(notice) + ('error' in notice && notice.error instanceof Error ? notice.error.stack : ''),
  );
  assert.doesNotMatch(told.join('\n'), /hunter|aHVudGVy/);
});

test('a token that is due is replaced on disk, and volumes without tokens are left alone', async (t) => {
  const world = new RealWorld(t);
  world.real.setConfigMap('web', { color: 'red' });
  await world.start();
  const sources = [{ serviceAccountToken: { path: 'token', expirationSeconds: 3600 } }];
  await world.put(podUsing('a', [config('web'), { name: 'token', projected: { defaultMode, sources } }]));
  assert.equal(world.read('a', 'token', 'token'), 'token 1');
  world.manager.tokenDue(asPodUid('a'));
  await world.settle();
  assert.equal(world.read('a', 'token', 'token'), 'token 2');
  assert.deepEqual(
    world.refreshed().map(({ podVolumeNames }) => podVolumeNames),
    [['token']],
  );
});

test('a changed trust bundle is on disk at once, in the volumes that name it and in those that select bundles', async (t) => {
  const world = new RealWorld(t);
  world.setBundle('one', 'one');
  world.setBundle('two', 'two', { tier: 'gold' });
  await world.start();
  const bundle = (name: string, source: object): Volume => {
    return { name, projected: { defaultMode, sources: [{ clusterTrustBundle: { path: 'ca.pem', ...source } }] } };
  };
  const selecting = { signerName: 'example.com/ca', labelSelector: { matchLabels: { tier: 'gold' } } };
  await world.put(
    podUsing('a', [bundle('one', { name: 'one' }), bundle('two', { name: 'two' }), bundle('gold', selecting)]),
  );
  const read = (): readonly (string | undefined)[] =>
    ['one', 'two', 'gold'].map((name) => world.read('a', name, 'ca.pem'));
  assert.deepEqual(read(), [pem('one'), pem('two'), pem('two')]);
  world.setBundle('two', 'changed', { tier: 'gold' });
  await world.settle();
  assert.deepEqual(read(), [pem('one'), pem('changed'), pem('changed')]);
  assert.deepEqual(
    world.refreshed().map(({ podVolumeNames, trace }) => [...podVolumeNames, trace.changes[0]?.resourceVersion]),
    [
      ['two', 'changed version'],
      ['gold', 'changed version'],
    ],
  );
});

test('a pod that uses a volume twice and is deleted leaves nothing on disk', async (t) => {
  const world = new RealWorld(t);
  world.real.setConfigMap('web', { color: 'red' });
  await world.start();
  await world.put(podUsing('a', [config('web'), config('again', 'web'), { name: 'scratch', emptyDir: {} }]));
  const directories = ['web', 'again', 'scratch'].map((name) => world.directory('a', name));
  assert.deepEqual(directories.map(existsSync), [true, true, true]);
  await world.remove('a');
  assert.deepEqual(directories.map(existsSync), [false, false, false]);
  world.changed('web');
  await world.settle();
  assert.deepEqual(directories.map(existsSync), [false, false, false]);
});
