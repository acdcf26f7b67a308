/**
 * NFS volumes without a server: this kernel may have no NFS at all. A program in the place of mount(8) writes down what it was
 * asked for, and mounts a tmpfs where something has to be mounted.
 */
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ProgramTimeoutError, type Programs, systemPrograms } from '../disk/devices/programs.ts';
import { systemMounts } from '../disk/mounts/mounts.ts';
import type { PersistentVolume } from '../kube/kinds/storage/persistent-volume.ts';
import type { NfsVolumeSource } from '../kube/kinds/storage/volume-sources.ts';
import { type VolumeSpec, inlineSpec, persistentSpec } from '../kube/references/volume-spec.ts';
import {
  mountPointsBelow,
  needsMounts,
  temporaryDirectory,
  unavailableMounts,
} from '../testing/machine/temporary-directory.ts';
import { VolumeNode, modeOf } from '../testing/worlds/volume-node.ts';
import { nfsPlugin } from './nfs.ts';
import { failureClassOf } from './plugin.ts';

const skip = needsMounts(systemMounts());
const { signal } = new AbortController();

function inline(nfs: NfsVolumeSource): VolumeSpec {
  return inlineSpec({ name: 'v', nfs });
}

function persistent(nfs: NfsVolumeSource, more: Partial<PersistentVolume['spec']> = {}, readOnly = false): VolumeSpec {
  return persistentSpec({ metadata: { name: 'v' }, spec: { nfs, ...more } }, readOnly);
}

interface Recorded {
  readonly programs: Programs;
  /** The arguments of each run of mount(8). */
  readonly asked: () => string[][];
}

/** `act` are lines of shell; `$target` is the last argument. */
function recorder(t: TestContext, act = 'exec /bin/mount -t tmpfs none "$target"'): Recorded {
  const directory = temporaryDirectory(t);
  const log = join(directory, 'log');
  const lines = ['#!/bin/sh', `printf '%s\\t' "$@" >> '${log}'; echo >> '${log}'`, 'for target; do :; done', act];
  writeFileSync(join(directory, 'mount'), `${lines.join('\n')}\n`);
  chmodSync(join(directory, 'mount'), 0o755);
  const rows = (): string[] => (existsSync(log) ? readFileSync(log, 'utf8').trimEnd().split('\n') : []);
  return {
    programs: systemPrograms({ searchPath: `${directory}:/usr/bin:/bin` }),
    asked: () => rows().map((row) => row.trimEnd().split('\t')),
  };
}

function pluginOf({ mounts, root }: VolumeNode, programs: Programs): ReturnType<typeof nfsPlugin> {
  return nfsPlugin({ mounts, root, programs });
}

const nas = { server: 'nas.example', path: '/srv/data' };
const cases: { it: string; spec: VolumeSpec; asks: string[] }[] = [
  { it: 'an inline volume', spec: inline(nas), asks: ['--', 'nas.example:/srv/data'] },
  {
    it: 'a read-only inline volume',
    spec: inline({ ...nas, readOnly: true }),
    asks: ['-o', 'ro', '--', 'nas.example:/srv/data'],
  },
  {
    it: 'a PersistentVolume with options',
    spec: persistent(nas, { mountOptions: ['soft', 'nfsvers=4.2', 'soft'] }),
    asks: ['-o', 'nfsvers=4.2,soft', '--', 'nas.example:/srv/data'],
  },
  {
    it: 'a read-only claim, whatever the PersistentVolume says',
    spec: persistent({ ...nas, readOnly: false }, { mountOptions: ['vers=4'] }, true),
    asks: ['-o', 'ro,vers=4', '--', 'nas.example:/srv/data'],
  },
  {
    it: 'a claim that may write, whatever the PersistentVolume says',
    spec: persistent({ ...nas, readOnly: true }),
    asks: ['--', 'nas.example:/srv/data'],
  },
  { it: 'an IPv4 server', spec: inline({ ...nas, server: '10.0.0.1' }), asks: ['--', '10.0.0.1:/srv/data'] },
  { it: 'an IPv6 server', spec: inline({ ...nas, server: 'fd00::1' }), asks: ['--', '[fd00::1]:/srv/data'] },
  {
    it: 'a path that a shell would take apart',
    spec: inline({ ...nas, path: '/a b/$(id);*' }),
    asks: ['--', 'nas.example:/a b/$(id);*'],
  },
];
for (const { it, spec, asks } of cases) {
  test(`mount(8) is asked for ${it}`, { skip }, async (t) => {
    const node = new VolumeNode(t);
    const { programs, asked } = recorder(t);
    const plugin = pluginOf(node, programs);
    assert.deepEqual(await node.setUp(plugin, spec), { changed: true, files: 0, hidden: [] });
    assert.deepEqual(asked(), [['-t', 'nfs', ...asks, node.directoryOf(plugin, 'v')]]);
  });
}

test(
  'what is mounted is not mounted again, and is unmounted and removed however often it is asked',
  { skip },
  async (t) => {
    const node = new VolumeNode(t);
    const { programs, asked } = recorder(t);
    const plugin = pluginOf(node, programs);
    const directory = node.directoryOf(plugin, 'v');
    await node.setUp(plugin, inline(nas));
    assert.equal((await node.setUp(plugin, inline(nas), { isRemount: true })).changed, false);
    assert.equal(asked().length, 1);
    assert.deepEqual(mountPointsBelow(node.root), [directory]);
    assert.equal(modeOf(dirname(directory)), '750');
    await node.tearDown(plugin, 'v');
    await node.tearDown(plugin, 'v');
    assert.deepEqual(mountPointsBelow(node.root), []);
    assert.ok(!existsSync(directory));
  },
);

test('a failed mount is reported in the kubelet’s words, and nothing stays', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const { programs } = recorder(t, 'echo "mount.nfs: Connection refused" >&2; exit 32');
  const plugin = pluginOf(node, programs);
  const directory = node.directoryOf(plugin, 'v');
  await assert.rejects(node.setUp(plugin, inline({ ...nas, readOnly: true })), {
    reason: 'MountFailed',
    message: `mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs -o ro nas.example:/srv/data ${directory}\nOutput: mount.nfs: Connection refused\n`,
  });
  assert.ok(!existsSync(directory));
});

test('without the helper of mount(8) the error says what to install', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const words =
    'mount: bad option; for several filesystems (e.g. nfs, cifs) you might need a /sbin/mount.<type> helper program.';
  const plugin = pluginOf(node, recorder(t, `echo '${words}' >&2; exit 32`).programs);
  await assert.rejects(
    node.setUp(plugin, inline(nas)),
    /\nmount\.nfs is not there: install the package "nfs-common" \(its name in Debian\)$/,
  );
});

test('the system’s own mount(8) without its helper ends in that advice', { skip }, async (t) => {
  const helper = ['/sbin/mount.nfs', '/usr/sbin/mount.nfs'].find((path) => existsSync(path));
  if (helper !== undefined) return t.skip(`needs a machine without ${helper}`);
  const node = new VolumeNode(t);
  const plugin = pluginOf(node, systemPrograms());
  const local = { server: '127.0.0.1', path: '/nowhere' };
  await assert.rejects(node.setUp(plugin, inline(local)), /install the package "nfs-common"/);
  assert.ok(!existsSync(node.directoryOf(plugin, 'v')));
});

test('a mount that fails half-way is unmounted', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const plugin = pluginOf(node, recorder(t, '/bin/mount -t tmpfs none "$target"; exit 32').programs);
  await assert.rejects(node.setUp(plugin, inline(nas)), /^MountCommandError: mount failed/);
  assert.deepEqual(mountPointsBelow(node.root), []);
  assert.ok(!existsSync(node.directoryOf(plugin, 'v')));
});

test('a server that does not answer leaves an uncertain volume, which can be torn down', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const system = systemPrograms();
  const programs: Programs = {
    run: (command, stop) =>
      command.program === 'mount' ? Promise.reject(new ProgramTimeoutError(command)) : system.run(command, stop),
  };
  const plugin = pluginOf(node, programs);
  await assert.rejects(node.setUp(plugin, inline(nas)), (error) => failureClassOf(error) === 'uncertain');
  assert.ok(existsSync(node.directoryOf(plugin, 'v')));
  await node.tearDown(plugin, 'v');
  assert.ok(!existsSync(node.directoryOf(plugin, 'v')));
});

test('an unmount that does not end is forced', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const { programs: recorded } = recorder(t);
  const asked: string[] = [];
  const programs: Programs = {
    run(command, stop) {
      if (command.program !== 'umount') return recorded.run(command, stop);
      asked.push(command.args.join(' '));
      return asked.length === 1 ? Promise.reject(new ProgramTimeoutError(command)) : recorded.run(command, stop);
    },
  };
  const plugin = pluginOf(node, programs);
  const directory = node.directoryOf(plugin, 'v');
  await node.setUp(plugin, inline(nas));
  await node.tearDown(plugin, 'v');
  assert.deepEqual(asked, [`--no-canonicalize -- ${directory}`, `--no-canonicalize --force -- ${directory}`]);
  assert.deepEqual(mountPointsBelow(node.root), []);
});

test('an aborted mount is ended, and nothing stays', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const stop = new AbortController();
  const plugin = pluginOf(node, recorder(t, 'exec sleep 600').programs);
  const mounting = node.setUp(plugin, inline(nas), {}, stop.signal);
  stop.abort(new Error('shutting down'));
  await assert.rejects(mounting, /shutting down/);
  assert.ok(!existsSync(node.directoryOf(plugin, 'v')));
});

for (const server of ['', '-o', 'a b', 'nas/x', 'nas\n']) {
  test(`${JSON.stringify(server)} is not a server, and mount(8) is not run`, { skip }, async (t) => {
    const node = new VolumeNode(t);
    const { programs, asked } = recorder(t);
    const plugin = pluginOf(node, programs);
    await assert.rejects(node.setUp(plugin, inline({ ...nas, server })), { reason: 'NfsVolumeUnusable' });
    assert.throws(() => plugin.requireUsable?.({ ...nas, server }), { reason: 'NfsVolumeUnusable' });
    assert.deepEqual([asked(), readdirSync(node.root)], [[], []]);
  });
}

test('what a directory holds is never removed with it', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const plugin = pluginOf(node, recorder(t).programs);
  const directory = node.directoryOf(plugin, 'v');
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'data'), 'x');
  await assert.rejects(node.tearDown(plugin, 'v'), /directory not empty/);
  assert.deepEqual(readdirSync(directory), ['data']);
});

test('reconstruction touches nothing: a directory that is missing, or hangs, does not matter', () => {
  const plugin = nfsPlugin({
    mounts: unavailableMounts(),
    root: '/nowhere',
    programs: { run: () => assert.fail('a program was run') },
  });
  assert.deepEqual(plugin.reconstruct('v', '/nowhere/pods/uid/volumes/kubernetes.io~nfs/v'), {
    volume: { name: 'v', nfs: { server: '', path: 'v' } },
    readOnly: false,
  });
});

test('without mounts an NFS volume is refused, and nothing is made', async (t) => {
  const node = new VolumeNode(t, { mounts: unavailableMounts('operation not permitted') });
  const plugin = pluginOf(node, { run: () => assert.fail('a program was run') });
  await assert.rejects(node.setUp(plugin, inline(nas), {}, signal), {
    message: 'Cannot mount NFS volume "v": operation not permitted',
  });
  assert.deepEqual(readdirSync(node.root), []);
});
