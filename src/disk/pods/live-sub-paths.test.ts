import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  type FSWatcher,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  statSync,
  symlinkSync,
  utimesSync,
  watch,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { SystemCallError } from '../../linux/system-call-error.ts';
import { MountNamespace } from '../../testing/machine/mount-namespace.ts';
import { directoryForMounts, mountPointsBelow, unavailableMounts } from '../../testing/machine/temporary-directory.ts';
import { readMountsBelow } from '../mounts/mount-table.ts';
import { systemMounts } from '../mounts/mounts.ts';
import { type ReplaceableMounts, replaceableMounts } from '../mounts/replaceable-mounts.ts';
import { AtomicWriter } from '../writer/atomic-writer.ts';
import { type LiveSubPathRequest, LiveSubPaths, type SubPathNotice } from './live-sub-paths.ts';
import { cleanSubPaths, prepareSubPath } from './sub-paths.ts';

const mounts = systemMounts();
const replaceable = replaceableMounts(mounts);
const skip = replaceable.unavailable === undefined ? false : `needs to exchange mounts: ${replaceable.unavailable}`;

type Files = Readonly<Record<string, string>>;

/** A pod with one projected volume, and what its containers' subPaths need. */
class World {
  readonly directory: string;
  readonly pod: string;
  readonly volume: string;
  readonly notices: SubPathNotice[] = [];
  readonly live: LiveSubPaths;
  readonly #test: TestContext;
  readonly #writer: AtomicWriter;
  readonly #keepReplaced: boolean;

  constructor(t: TestContext, files: Files, exchange: ReplaceableMounts = replaceable, keepReplaced = false) {
    this.#test = t;
    this.#keepReplaced = keepReplaced;
    this.directory = directoryForMounts(t);
    this.pod = join(this.directory, 'pod');
    this.volume = join(this.pod, 'volumes', 'config');
    mkdirSync(this.volume, { recursive: true });
    this.live = new LiveSubPaths({ mounts, replaceable: exchange, notify: (notice) => this.notices.push(notice) });
    this.#writer = new AtomicWriter(this.volume);
    this.write(files);
  }

  get ground(): string {
    return join(this.pod, 'volume-subpaths', 'config', '..live');
  }

  write(files: Files): void {
    const payload = new Map(
      Object.entries(files).map(([path, text]) => [path, { data: Buffer.from(text), mode: 0o644 }]),
    );
    const beforeRemoval = (): boolean => this.live.refresh({ podDirectory: this.pod, volumeName: 'config' });
    this.#writer.write(payload, { beforeRemoval, keepReplaced: this.#keepReplaced });
  }

  request(subPath: string, more: Partial<LiveSubPathRequest> = {}): LiveSubPathRequest {
    return {
      podDirectory: this.pod,
      volumeDirectory: this.volume,
      volumeName: 'config',
      volumeMountName: 'config',
      containerName: 'app',
      index: 0,
      subPath,
      ...more,
    };
  }

  prepare(subPath: string, more: Partial<LiveSubPathRequest> = {}): string {
    const hostPath = this.live.prepare(this.request(subPath, more));
    assert.ok(hostPath !== undefined, `nothing to follow at ${subPath}`);
    return hostPath;
  }

  /** A container that has bound these and is followed. */
  async start(hostPaths: readonly string[], containerName = 'app'): Promise<MountNamespace> {
    const directory = join(this.directory, containerName);
    mkdirSync(directory, { recursive: true });
    const container = await MountNamespace.start(this.#test, { directory, hostPaths });
    this.follow(containerName);
    return container;
  }

  follow(containerName = 'app'): boolean {
    return this.live.follow({ podDirectory: this.pod, containerName });
  }

  refresh(): boolean {
    return this.live.refresh({ podDirectory: this.pod, volumeName: 'config' });
  }

  kinds(): string[] {
    return this.notices.map(({ kind }) => kind);
  }
}

test('an inotify watch sees every update, whenever it was begun', { skip, timeout: 240_000 }, async (t) => {
  const files = (text: string): Files => ({ 'a.conf': text, 'd/x': text, empty: '' });
  const world = new World(t, files('0'), replaceable, true);
  const subPaths = ['a.conf', 'd', 'empty'];
  const container = await world.start(subPaths.map((subPath, index) => world.prepare(subPath, { index })));
  const watchers: FSWatcher[] = [];
  t.after(() => watchers.forEach((watcher) => watcher.close()));
  for (const text of ['1', '2', '3']) {
    // Through the container's own mounts, on the inodes that it sees now.
    watchers.push(...subPaths.map((_, index) => watch(container.path(index))));
    const heard = watchers.map((watcher) => once(watcher, 'change'));
    world.write(files(text));
    await Promise.all(heard);
    assert.deepEqual([container.read(0), container.read(1, 'x'), container.read(2)], [text, text, '']);
  }
});

test('a file and a directory by subPath follow every update of their volume', { skip }, async (t) => {
  const world = new World(t, { 'a.conf': '0', 'd/x': '0', other: '0' });
  const container = await world.start([world.prepare('a.conf'), world.prepare('d', { index: 1 })]);
  assert.deepEqual([container.read(0), container.read(1, 'x')], ['0', '0']);
  assert.deepEqual(mountPointsBelow(world.ground), [world.ground], 'nothing is mounted before the first update');
  for (let version = 1; version <= 5; version += 1) {
    world.write({ 'a.conf': `${version}`, [`d/${version}`]: '', 'd/x': `${version}` });
    assert.deepEqual([container.read(0), container.read(1, 'x')], [`${version}`, `${version}`]);
    assert.deepEqual(readdirSync(container.path(1)), [`${version}`, 'x'], 'no file of another version');
    for (const index of [0, 1]) {
      const points = container.mountsAt(index);
      assert.equal(points.length, 2, 'the copy it bound and one version: mounts do not pile up');
      for (const { options } of points) assert.ok(options.includes('ro'), 'never writable in the container');
    }
    assert.equal(mountPointsBelow(world.ground).length, 3);
    assert.deepEqual(readdirSync(world.volume).filter((name) => /^\.\.\d/.test(name)).length, 1);
  }
  assert.equal(world.kinds().filter((kind) => kind === 'SubPathUpdated').length, 10);
});

test(
  'several containers and several mounts of one volume follow together, ..data and nested paths too',
  { skip },
  async (t) => {
    const world = new World(t, { a: '0', 'd/deep/x': '0' });
    const app = await world.start([
      world.prepare('a'),
      world.prepare('a', { index: 1 }),
      world.prepare('d/deep/x', { index: 2 }),
      world.prepare('..data', { index: 10 }),
    ]);
    const side = await world.start([world.prepare('d/deep', { containerName: 'side' })], 'side');
    world.write({ a: '1', 'd/deep/x': '1' });
    assert.deepEqual(
      [app.read(0), app.read(1), app.read(2), app.read(3, 'a'), side.read(0, 'x')],
      ['1', '1', '1', '1', '1'],
    );
  },
);

test('a container in a user namespace follows as well', { skip }, async (t) => {
  const world = new World(t, { a: '0' });
  if (spawnSync('unshare', ['--user', '--map-root-user', 'true']).status !== 0) return t.skip('needs user namespaces');
  const hostPaths = [world.prepare('a')];
  const container = await MountNamespace.start(t, { directory: world.directory, hostPaths, userNamespace: true });
  world.follow();
  for (const version of ['1', '2', '3']) {
    world.write({ a: version });
    assert.equal(container.read(0), version);
    assert.equal(container.mountsAt(0).length, 2);
  }
});

test('below a shared mount, as `/` is on most machines, nothing leaks into the volume', { skip }, async (t) => {
  const shared = directoryForMounts(t);
  mounts.mountTmpfs(shared);
  replaceable.share(shared);
  const pod = join(shared, 'pod');
  const volume = join(pod, 'volumes', 'config');
  mkdirSync(volume, { recursive: true });
  const live = new LiveSubPaths({ mounts, replaceable, notify: () => undefined });
  const writer = new AtomicWriter(volume);
  const write = (text: string): void => {
    const payload = new Map([['d/a', { data: Buffer.from(text), mode: 0o644 }]]);
    const { leftBehind } = writer.write(payload, {
      beforeRemoval: () => live.refresh({ podDirectory: pod, volumeName: 'config' }),
    });
    assert.equal(leftBehind, 0);
  };
  write('0');
  const owner = { podDirectory: pod, volumeName: 'config', containerName: 'app' };
  const requests = ['d', 'd/a'].map((subPath, index) =>
    live.prepare({ ...owner, volumeDirectory: volume, volumeMountName: 'config', index, subPath }),
  );
  const hostPaths = requests.map((path) => path ?? assert.fail('nothing to follow'));
  const container = await MountNamespace.start(t, { directory: directoryForMounts(t), hostPaths });
  live.follow(owner);
  for (const text of ['1', '2', '3']) {
    write(text);
    assert.deepEqual([container.read(0, 'a'), container.read(1)], [text, text]);
    assert.deepEqual(mountPointsBelow(volume), []);
    assert.equal(mountPointsBelow(shared).length, 4);
  }
  cleanSubPaths(pod, 'config', mounts);
  assert.deepEqual(mountPointsBelow(shared), [shared]);
});

test(
  'an update between the preparation and the start of a container reaches it when it is followed',
  { skip },
  async (t) => {
    const world = new World(t, { a: '0', 'd/x': '0' });
    const hostPaths = [world.prepare('a'), world.prepare('d', { index: 1 })];
    world.write({ a: '1', 'd/x': '1' });
    const container = await MountNamespace.start(t, { directory: world.directory, hostPaths });
    assert.deepEqual([container.read(0), container.read(1, 'x')], ['0', '0']);
    world.write({ a: '2', 'd/x': '2' });
    assert.equal(container.read(0), '0', 'nothing is done before it is known to have bound');
    assert.equal(world.follow(), true);
    assert.deepEqual([container.read(0), container.read(1, 'x')], ['2', '2']);
    world.write({ a: '3', 'd/x': '3' });
    assert.deepEqual([container.read(0), container.read(1, 'x')], ['3', '3']);
  },
);

test('a container that starts again gets what is there then, and follows again', { skip }, async (t) => {
  const world = new World(t, { a: '0', 'd/x': '0' });
  for (let start = 1; start <= 3; start += 1) {
    const container = await world.start([world.prepare('a'), world.prepare('d', { index: 1 })]);
    world.write({ a: `${start}`, 'd/x': `${start}` });
    assert.deepEqual([container.read(0), container.read(1, 'x')], [`${start}`, `${start}`]);
    assert.equal(mountPointsBelow(world.ground).length, 3);
  }
  world.prepare('d/x'); // what was a file's place before
  world.prepare('d');
  assert.deepEqual(readdirSync(join(world.ground, 'app')).toSorted(), ['0', '0.prepared', '1', '1.followed']);
});

test(
  'a key that vanishes keeps its last content, is reported once, and is followed again when it comes back',
  { skip },
  async (t) => {
    const world = new World(t, { a: '0', 'd/x': '0', rest: '' });
    const container = await world.start([world.prepare('a'), world.prepare('d', { index: 1 })]);
    world.write({ a: '1', 'd/x': '1', rest: '' });
    world.notices.length = 0;
    for (const rest of ['1', '2', '3']) {
      world.write({ rest });
      assert.deepEqual([container.read(0), container.read(1, 'x')], ['1', '1']);
    }
    assert.deepEqual(world.kinds(), ['SubPathLost', 'SubPathLost']);
    assert.match(
      world.notices[0]?.message ?? '',
      /^mount 0 of container "app" \(volume "config"\) keeps the last content/,
    );
    for (const version of ['4', '5']) {
      world.write({ a: version, 'd/x': version });
      assert.deepEqual([container.read(0), container.read(1, 'x')], [version, version]);
      assert.equal(container.mountsAt(1).length, 2);
    }
    assert.deepEqual(readdirSync(join(world.ground, 'app')).toSorted(), ['0', '0.followed', '1', '1.followed']);
  },
);

test('a directory that vanishes before any update shows the copy it has', { skip }, async (t) => {
  const world = new World(t, { 'd/x': '0', rest: '' });
  const container = await world.start([world.prepare('d')]);
  world.write({ rest: '1' });
  world.write({ rest: '2' });
  assert.equal(container.read(0, 'x'), '0');
});

test('what was a file and becomes a directory, or the other way, keeps its last content', { skip }, async (t) => {
  const world = new World(t, { a: '0', 'd/x': '0' });
  const container = await world.start([world.prepare('a'), world.prepare('d', { index: 1 })]);
  world.write({ a: '1', 'd/x': '1' });
  world.write({ 'a/x': '2', d: '2' });
  assert.deepEqual([container.read(0), container.read(1, 'x')], ['1', '1']);
  world.write({ a: '3', 'd/x': '3' });
  assert.deepEqual([container.read(0), container.read(1, 'x')], ['3', '3']);
});

test(
  'modes, owners and times of the copy are those of the version; options of the mount hold for each version',
  { skip },
  async (t) => {
    const world = new World(t, { 'd/x': '0' });
    const version = join(world.volume, '..data');
    chmodSync(join(version, 'd', 'x'), 0o4640);
    chownSync(join(version, 'd', 'x'), 1234, 4321);
    chmodSync(join(version, 'd'), 0o2750);
    for (const path of ['d/x', 'd']) utimesSync(join(version, path), 1_700_000_000, 1_700_000_001);
    const hostPath = world.prepare('d', { restrictions: ['nosuid', 'nodev', 'noexec'] });
    const look = (path: string): unknown[] => {
      const { mode, uid, gid, mtimeMs } = statSync(path);
      return [mode, uid, gid, mtimeMs];
    };
    assert.deepEqual(look(join(hostPath, 'x')), look(join(version, 'd', 'x')));
    assert.deepEqual(look(hostPath), look(join(version, 'd')));
    const container = await world.start([hostPath]);
    for (const text of ['1', '2']) {
      world.write({ 'd/x': text });
      const options = container.mountsAt(0).at(-1)?.options ?? [];
      for (const option of ['ro', 'nosuid', 'nodev', 'noexec']) assert.ok(options.includes(option), option);
    }
  },
);

const nothingToFollow = [
  { it: 'a missing key', subPath: 'missing' },
  { it: 'a directory that is not of the version', subPath: 'real' },
  { it: 'the volume itself', subPath: '.' },
  { it: 'a link out of the volume', subPath: 'outside' },
  { it: 'a fifo', subPath: 'fifo' },
];
for (const { it, subPath } of nothingToFollow) {
  test(`${it} is nothing to follow, and takes the place of what was followed before`, { skip }, (t) => {
    const world = new World(t, { a: '0' });
    mkdirSync(join(world.volume, 'real'));
    symlinkSync('/etc', join(world.volume, 'outside'));
    spawnSync('mkfifo', [join(world.volume, 'fifo')]);
    world.prepare('a');
    world.follow();
    world.write({ a: '1' });
    assert.equal(world.live.prepare(world.request(subPath)), undefined);
    assert.deepEqual(readdirSync(join(world.ground, 'app')), []);
    assert.deepEqual(mountPointsBelow(world.ground), [world.ground]);
  });
}

test('a link that leads out of the volume later is not followed', { skip }, async (t) => {
  const world = new World(t, { a: '0', b: '0' });
  const container = await world.start([world.prepare('a')]);
  world.write({ b: '1' });
  symlinkSync('/etc/hostname', join(world.volume, 'a'));
  assert.equal(world.refresh(), true);
  assert.equal(container.read(0), '0');
});

test('cleaning takes all of it, the binds that do not follow too, and leaves no mount', { skip }, async (t) => {
  const world = new World(t, { a: '0', 'd/x': '0', 'e/x': '0' });
  const fixed = prepareSubPath(world.request('e', { index: 2 }), mounts);
  const hostPaths = [world.prepare('a'), world.prepare('d', { index: 1 })];
  await world.start([...hostPaths, fixed]);
  world.write({ a: '1', 'd/x': '1', 'e/x': '1' });
  world.write({ a: '2' });
  assert.equal(mountPointsBelow(world.pod).length, 4);
  cleanSubPaths(world.pod, 'config', mounts);
  assert.deepEqual(mountPointsBelow(world.pod), []);
  assert.deepEqual(readdirSync(world.pod), ['volumes']);
  assert.equal(world.refresh(), true);
  assert.equal(world.follow(), true);
  assert.equal(existsSync(world.ground), false, 'asking makes nothing');
});

test('content is on a tmpfs that only its owner can enter', { skip }, (t) => {
  const world = new World(t, { a: '0' });
  world.prepare('a');
  const [entry] = readMountsBelow(world.ground);
  assert.equal(entry?.fileSystem, 'tmpfs');
  assert.equal(statSync(world.ground).mode & 0o7777, 0o750);
});

/** Fails the chosen call once; what was done before it stays done. */
function failingOnce(step: 'place' | 'replace' | 'detach after beneath'): ReplaceableMounts {
  let failed = false;
  const fail = (call: string, path: string): void => {
    if (failed) return;
    failed = true;
    throw new SystemCallError({ call, path, code: 'ENOMEM' });
  };
  return {
    unavailable: undefined,
    share: (mountPoint) => replaceable.share(mountPoint),
    place(...args) {
      if (step === 'place') fail('move_mount', args[1]);
      replaceable.place(...args);
    },
    replace(...args) {
      if (step === 'replace') fail('move_mount', args[1]);
      if (step === 'detach after beneath' && !failed) {
        replaceable.replace(...args);
        // As if the old one were still on top: what is there now is complete, and one more than there should be.
        replaceable.place(args[0], args[1]);
        fail('umount2', args[1]);
      }
      replaceable.replace(...args);
    },
    detach: (target) => replaceable.detach(target),
    openUncovered: (mountPoint) => replaceable.openUncovered(mountPoint),
  };
}

for (const step of ['place', 'replace', 'detach after beneath'] as const) {
  test(
    `a failure of ${step} is reported without a path, keeps the version, and the next write repairs it`,
    { skip },
    async (t) => {
      const world = new World(t, { 'd/secret-name': '0' }, failingOnce(step));
      const container = await world.start([world.prepare('d')]);
      const versions = (): number => readdirSync(world.volume).filter((name) => /^\.\.\d/.test(name)).length;
      if (step !== 'place') world.write({ 'd/secret-name': '1' });
      const before = container.read(0, 'secret-name');
      world.write({ 'd/secret-name': '2' });
      assert.ok([before, '2'].includes(container.read(0, 'secret-name')));
      assert.equal(versions(), 2);
      const told = world.notices.find(({ kind }) => kind === 'SubPathNotUpdated')?.message ?? '';
      assert.match(told, /cannot allocate memory|not enough memory/);
      assert.doesNotMatch(told, /secret-name|\//);
      world.write({ 'd/secret-name': '2' }); // nothing new: the sweep of the volume manager
      assert.equal(container.read(0, 'secret-name'), '2');
      assert.equal(versions(), 1);
      assert.equal(container.mountsAt(0).length, 2);
      world.write({ 'd/secret-name': '3' });
      assert.equal(container.read(0, 'secret-name'), '3');
    },
  );
}

test('a restarted program continues with what the previous one prepared and followed', { skip }, async (t) => {
  const world = new World(t, { a: '0' });
  const container = await world.start([world.prepare('a')]);
  world.write({ a: '1' });
  const later = new LiveSubPaths({ mounts, replaceable, notify: () => undefined });
  new AtomicWriter(world.volume).write(new Map([['a', { data: Buffer.from('2'), mode: 0o644 }]]), {
    beforeRemoval: () => later.refresh({ podDirectory: world.pod, volumeName: 'config' }),
  });
  assert.equal(container.read(0), '2');
  assert.equal(later.follow({ podDirectory: world.pod, containerName: 'app' }), true);
  assert.equal(container.mountsAt(0).length, 2);
});

test('names that would lead elsewhere are refused', { skip }, (t) => {
  const world = new World(t, { a: '0' });
  for (const name of ['..', '.', '', 'a/b', '..live']) {
    assert.throws(() => world.live.prepare(world.request('a', { containerName: name })), { reason: 'UnsafePath' });
    assert.throws(() => world.live.prepare(world.request('a', { volumeName: name })), { reason: 'UnsafePath' });
  }
});

test('where nothing can be mounted, no update is followed, and the reason is reported', (t) => {
  const without = replaceableMounts(unavailableMounts('not today'));
  const live = new LiveSubPaths({ mounts: unavailableMounts(), replaceable: without, notify: () => undefined });
  assert.equal(live.unavailable, 'not today');
  const podDirectory = directoryForMounts(t);
  assert.equal(live.refresh({ podDirectory, volumeName: 'config' }), true);
  assert.equal(live.follow({ podDirectory, containerName: 'app' }), true);
});
