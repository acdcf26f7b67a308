import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { MountletError, messageOf } from '../../base/errors.ts';
import { SystemCallError } from '../../linux/system-call-error.ts';
import { directoryForMounts, needsMounts, unavailableMounts } from '../../testing/machine/temporary-directory.ts';
import { type Mounts, systemMounts } from '../mounts/mounts.ts';
import { type SubPathRequest, prepareSubPath } from './sub-paths.ts';
import { DiskError } from '../mounts/disk-error.ts';

const mounts = systemMounts();
const skip = needsMounts(mounts);
const failedToPrepare = 'failed to prepare subPath for volumeMount "data" of container "app"';
const failedToCreate = 'failed to create subPath directory for volumeMount "data" of container "app"';

interface Pod {
  readonly directory: string;
  readonly pod: string;
  readonly volume: string;
  readonly outside: string;
  readonly target: string;
  readonly request: (subPath: string, more?: Partial<SubPathRequest>) => SubPathRequest;
}

function podWithVolume(t: TestContext): Pod {
  const directory = directoryForMounts(t);
  const [pod, outside] = [join(directory, 'pod'), join(directory, 'outside')];
  const volume = join(pod, 'volumes', 'data');
  mkdirSync(join(volume, 'dir', 'below'), { recursive: true });
  mkdirSync(join(outside, 'dir'), { recursive: true });
  writeFileSync(join(outside, 'secret'), 'of the host');
  writeFileSync(join(volume, 'file'), 'of the volume');
  return {
    directory,
    pod,
    volume,
    outside,
    target: join(pod, 'volume-subpaths', 'data-pv', 'app', '3'),
    request: (subPath, more = {}) => ({
      podDirectory: pod,
      volumeDirectory: volume,
      volumeName: 'data-pv',
      volumeMountName: 'data',
      containerName: 'app',
      index: 3,
      subPath,
      ...more,
    }),
  };
}

/** The messages of an error and all its causes. */
function chain(thrown: unknown): string[] {
  return thrown instanceof Error ? [thrown.message, ...chain(thrown.cause)] : [];
}

function failure(act: () => unknown): unknown {
  try {
    act();
  } catch (thrown) {
    assert.ok(thrown instanceof MountletError, messageOf(thrown));
    return thrown;
  }
  return assert.fail('did not fail');
}

test('a directory is bound, also onto an existing empty target', { skip }, (t) => {
  const { request, target, volume } = podWithVolume(t);
  mkdirSync(target, { recursive: true });
  assert.equal(prepareSubPath(request('dir'), mounts), target);
  assert.equal(mounts.isMountPoint(target), true);
  writeFileSync(join(target, 'new'), '');
  assert.deepEqual(readdirSync(join(volume, 'dir')), ['below', 'new']);
});

test('a file, a socket and a fifo are bound onto a file', { skip }, async (t) => {
  const { request, volume } = podWithVolume(t);
  assert.equal(spawnSync('mkfifo', [join(volume, 'fifo')]).status, 0);
  const server = createServer();
  t.after(() => server.close());
  await new Promise<void>((resolve) => server.listen(join(volume, 'socket'), resolve));
  for (const [index, name] of ['file', 'fifo', 'socket'].entries()) {
    const bound = prepareSubPath(request(name, { index }), mounts);
    assert.equal(lstatSync(bound).ino, lstatSync(join(volume, name)).ino);
    mounts.unmount(bound);
    assert.deepEqual([lstatSync(bound).isFile(), lstatSync(bound).mode & 0o777], [true, 0o640]);
  }
});

test('a missing subPath is made as a directory with the mode of the volume, every level', { skip }, (t) => {
  const { request, volume } = podWithVolume(t);
  chmodSync(volume, 0o3775);
  const bound = prepareSubPath(request('x/y'), mounts);
  for (const path of [join(volume, 'x'), join(volume, 'x', 'y'), bound]) {
    assert.equal(statSync(path).mode & 0o7777, 0o3775);
  }
});

test('a link that stays inside of the volume is followed once, and ..data too', { skip }, (t) => {
  const { request, volume } = podWithVolume(t);
  mkdirSync(join(volume, '..2026_01_01'));
  writeFileSync(join(volume, '..2026_01_01', 'key'), 'one');
  symlinkSync('..2026_01_01', join(volume, '..data'));
  symlinkSync('..data/key', join(volume, 'key'));
  assert.equal(readFileSync(prepareSubPath(request('key'), mounts), 'utf8'), 'one');
  assert.equal(readFileSync(prepareSubPath(request('..data/key', { index: 4 }), mounts), 'utf8'), 'one');
});

test('a bind of the same inode is reused, one of another inode is detached and made again', { skip }, (t) => {
  const { request, target, volume } = podWithVolume(t);
  const calls: string[] = [];
  const watched: Mounts = {
    ...boundMethods(mounts),
    bindFileDescriptor(...args) {
      calls.push('bind');
      mounts.bindFileDescriptor(...args);
    },
    unmount(path, options) {
      calls.push(options?.lazy ? 'lazy unmount' : 'unmount');
      mounts.unmount(path, options);
    },
  };
  prepareSubPath(request('file'), watched);
  prepareSubPath(request('file'), watched);
  assert.deepEqual(calls, ['bind']);
  writeFileSync(join(volume, 'next'), 'second');
  renameSync(join(volume, 'next'), join(volume, 'file'));
  assert.equal(readFileSync(target, 'utf8'), 'of the volume');
  prepareSubPath(request('file'), watched);
  assert.deepEqual(calls, ['bind', 'lazy unmount', 'bind']);
  assert.equal(readFileSync(target, 'utf8'), 'second');
});

test('a subPath that changed from a file to a directory, or the reverse, is bound again', { skip }, (t) => {
  const { request, target, volume } = podWithVolume(t);
  for (const kind of ['file', 'directory', 'file']) {
    rmSync(join(volume, 'it'), { recursive: true, force: true });
    if (kind === 'file') writeFileSync(join(volume, 'it'), '');
    else mkdirSync(join(volume, 'it'));
    prepareSubPath(request('it'), mounts);
    assert.equal(statSync(target).isDirectory(), kind === 'directory');
  }
});

test('a stale handle is unmounted normally; a failure of that is reported and leaves the target', { skip }, (t) => {
  const { request, target } = podWithVolume(t);
  mkdirSync(target, { recursive: true });
  const stale: Mounts = {
    ...boundMethods(mounts),
    isMountPoint(path) {
      throw new SystemCallError({ call: 'statx', path, code: 'ESTALE' });
    },
    unmount(path, options) {
      assert.equal(options?.lazy ?? false, false);
      throw new SystemCallError({ call: 'umount2', path, code: 'EBUSY' });
    },
  };
  const thrown = failure(() => prepareSubPath(request('dir'), stale));
  assert.match(chain(thrown)[1] ?? '', new RegExp(`^error unmounting corrupted mount ${target}: `));
  assert.ok(existsSync(target));

  let unmounted = 0;
  prepareSubPath(request('dir'), { ...stale, unmount: () => (unmounted += 1) });
  assert.equal(unmounted, 1);
  assert.equal(mounts.isMountPoint(target), true);
});

test('a failed lazy unmount is reported, and another failure of the mount check too', { skip }, (t) => {
  const { request, target } = podWithVolume(t);
  prepareSubPath(request('dir'), mounts);
  const busy: Mounts = {
    ...boundMethods(mounts),
    unmount(path) {
      throw new SystemCallError({ call: 'umount2', path, code: 'EPERM' });
    },
  };
  const lazy = failure(() => prepareSubPath(request('file'), busy));
  assert.match(chain(lazy)[1] ?? '', new RegExp(`^error lazy-unmounting stale subpath mount ${target}: `));
  const odd: Mounts = {
    ...boundMethods(mounts),
    isMountPoint(path) {
      throw new SystemCallError({ call: 'statx', path, code: 'ENOMEM' });
    },
  };
  const check = failure(() => prepareSubPath(request('file'), odd));
  assert.match(chain(check)[1] ?? '', new RegExp(`^error checking path ${target} for mount: `));
});

test('a bind that fails leaves no target and no empty parents behind', { skip }, (t) => {
  const { request, target, pod } = podWithVolume(t);
  const failing: Mounts = {
    ...boundMethods(mounts),
    bindFileDescriptor(_descriptor, path) {
      throw new SystemCallError({ call: 'mount', path, code: 'EPERM' });
    },
  };
  const thrown = failure(() => prepareSubPath(request('dir'), failing));
  assert.equal(messageOf(thrown), failedToPrepare);
  assert.match(chain(thrown)[1] ?? '', /^error mounting .*\/dir: /);
  assert.ok(!existsSync(join(pod, 'volume-subpaths')));
  mkdirSync(join(target, '..', '..', 'other'), { recursive: true });
  failure(() => prepareSubPath(request('dir'), failing));
  assert.deepEqual(readdirSync(join(pod, 'volume-subpaths', 'data-pv')), ['other']);
});

const attacks: readonly {
  it: string;
  prepare?: (pod: Pod) => void;
  subPath: string;
  says: string;
  because: RegExp;
}[] = [
  {
    it: 'a link to outside',
    prepare: ({ outside, volume }) => symlinkSync(outside, join(volume, 'link')),
    subPath: 'link',
    says: failedToPrepare,
    because: /^subpath ".*\/outside" not within volume path ".*\/data"$/,
  },
  {
    it: 'a child of a link to outside',
    prepare: ({ outside, volume }) => symlinkSync(outside, join(volume, 'link')),
    subPath: 'link/dir',
    says: failedToPrepare,
    because: /^subpath ".*\/outside\/dir" not within volume path /,
  },
  {
    it: 'a file behind a relative link',
    prepare: ({ volume }) => symlinkSync('../../../outside/secret', join(volume, 'link')),
    subPath: 'link',
    says: failedToPrepare,
    because: /^subpath ".*\/outside\/secret" not within volume path /,
  },
  {
    it: 'a missing child of a link to outside, which must not be made',
    prepare: ({ outside, volume }) => symlinkSync(outside, join(volume, 'link')),
    subPath: 'link/made',
    says: failedToCreate,
    because: /^path .*\/outside is outside of allowed base /,
  },
  {
    it: 'a chain of links that ends outside',
    prepare: ({ outside, volume }) => {
      symlinkSync('two', join(volume, 'one'));
      symlinkSync(outside, join(volume, 'two'));
    },
    subPath: 'one',
    says: failedToPrepare,
    because: /not within volume path/,
  },
  { it: 'backsteps', subPath: '../../../outside', says: failedToPrepare, because: /not within volume path/ },
  {
    it: 'backsteps to something missing',
    subPath: '../made',
    says: failedToCreate,
    because: /is outside of allowed base/,
  },
  {
    it: 'a directory whose name starts as the volume',
    prepare: ({ volume }) => mkdirSync(`${volume}-2`),
    subPath: '../data-2',
    says: failedToPrepare,
    because: /not within volume path/,
  },
  {
    it: 'a dangling link',
    prepare: ({ outside, volume }) => symlinkSync(join(outside, 'made'), join(volume, 'link')),
    subPath: 'link',
    says: failedToPrepare,
    because: /^error resolving symlinks in ".*\/link": lstat .*: no such file or directory$/,
  },
  {
    it: 'a loop of links',
    prepare: ({ volume }) => symlinkSync('link', join(volume, 'link')),
    subPath: 'link',
    says: failedToPrepare,
    because: /^error resolving symlinks in ".*\/link": lstat .*: too many levels of symbolic links$/,
  },
  { it: 'a file in the middle', subPath: 'file/x', says: failedToPrepare, because: /not a directory$/ },
  {
    it: 'a fifo in the middle',
    prepare: ({ volume }) => assert.equal(spawnSync('mkfifo', [join(volume, 'fifo')]).status, 0),
    subPath: 'fifo/x',
    says: failedToPrepare,
    because: /not a directory$/,
  },
  { it: 'a NUL', subPath: 'dir\0/x', says: failedToPrepare, because: /invalid argument$/ },
  { it: 'a name that is too long', subPath: 'x'.repeat(300), says: failedToPrepare, because: /file name too long$/ },
];
for (const { it, prepare, subPath, says, because } of attacks) {
  test(`${it} is refused and leaves nothing behind`, { skip }, (t) => {
    const pod = podWithVolume(t);
    prepare?.(pod);
    const before = readdirSync(pod.directory, { recursive: true });
    for (const act of [
      () => prepareSubPath(pod.request(subPath), mounts),
      () => prepareSubPath(pod.request(subPath), unavailableMounts()),
    ]) {
      const thrown = failure(act);
      assert.ok(thrown instanceof DiskError);
      assert.equal(thrown.message, says);
      assert.match(chain(thrown)[1] ?? '', because);
    }
    assert.deepEqual(readdirSync(pod.directory, { recursive: true }), before);
  });
}

for (const name of ['', '.', '..', 'a/b', '../../../outside', 'a\0b']) {
  test(
    `a volume or container named ${JSON.stringify(name)} does not become a way out of the pod directory`,
    { skip },
    (t) => {
      const { request, pod } = podWithVolume(t);
      for (const more of [{ volumeName: name }, { containerName: name }]) {
        assert.ok(failure(() => prepareSubPath(request('dir', more), mounts)) instanceof DiskError);
      }
      assert.deepEqual(readdirSync(pod), ['volumes']);
    },
  );
}

test(
  'a directory swapped for a link between the check and the bind changes nothing of what is bound',
  { skip },
  (t) => {
    const { request, volume, outside } = podWithVolume(t);
    const swapping: Mounts = {
      ...boundMethods(mounts),
      bindFileDescriptor(descriptor, target) {
        renameSync(join(volume, 'dir'), join(volume, 'moved'));
        symlinkSync(outside, join(volume, 'dir'));
        mounts.bindFileDescriptor(descriptor, target);
      },
    };
    assert.deepEqual(readdirSync(prepareSubPath(request('dir'), swapping)), ['below']);
  },
);

test(
  'a container that swaps links all the time gets a refusal or its own directory, never the host',
  { skip },
  async (t) => {
    const { request, volume, outside } = podWithVolume(t);
    const script = `
    import { renameSync, symlinkSync, unlinkSync } from 'node:fs';
    process.stdout.write('go');
    for (;;) {
      renameSync('dir', 'kept');
      symlinkSync(${JSON.stringify(outside)}, 'dir');
      unlinkSync('dir');
      renameSync('kept', 'dir');
    }`;
    const container = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      cwd: volume,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const ended = once(container, 'exit');
    try {
      await once(container.stdout, 'data');
      for (let index = 0; index < 300; index += 1) {
        let bound: string;
        try {
          bound = prepareSubPath(request('dir/below', { index }), mounts);
        } catch (thrown) {
          assert.ok(thrown instanceof DiskError, messageOf(thrown));
          continue;
        }
        assert.deepEqual(readdirSync(bound), []);
        mounts.unmount(bound);
      }
    } finally {
      container.kill('SIGKILL');
      await ended;
    }
    assert.deepEqual(readdirSync(outside), ['dir', 'secret']);
    assert.deepEqual(readdirSync(join(outside, 'dir')), []);
  },
);

test('without mounts the subPath is the resolved path, made if it is missing', (t) => {
  const { request, volume, pod } = podWithVolume(t);
  symlinkSync('dir', join(volume, 'link'));
  const none = unavailableMounts();
  assert.equal(prepareSubPath(request('link/below'), none), join(volume, 'dir', 'below'));
  assert.equal(prepareSubPath(request('new/er'), none), join(volume, 'new', 'er'));
  assert.deepEqual(readdirSync(pod), ['volumes']);
});

test('a missing volume is reported as it is', (t) => {
  const { request, volume } = podWithVolume(t);
  rmSync(volume, { recursive: true });
  assert.throws(() => prepareSubPath(request('x'), unavailableMounts()), { code: 'ENOENT', path: volume });
});

/** A spread of a class instance has none of its methods. */
function boundMethods(real: Mounts): Mounts {
  return {
    unavailable: real.unavailable,
    mountTmpfs: (...args) => real.mountTmpfs(...args),
    mountHugetlbfs: (...args) => real.mountHugetlbfs(...args),
    bind: (...args) => real.bind(...args),
    bindFileDescriptor: (...args) => real.bindFileDescriptor(...args),
    unmount: (...args) => real.unmount(...args),
    isMountPoint: (...args) => real.isMountPoint(...args),
  };
}
