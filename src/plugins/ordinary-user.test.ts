/** What plugins do where nothing can be mounted and no file can be given away. */
import assert from 'node:assert/strict';
import { existsSync, lstatSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileSystemOf } from '../disk/mounts/file-system.ts';
import type { Volume } from '../kube/kinds/pod/volume.ts';
import { temporaryDirectory, unavailableMounts } from '../testing/machine/temporary-directory.ts';
import { VolumeNode, base64, visibleFiles } from '../testing/worlds/volume-node.ts';
import { configMapPlugin } from './configmap.ts';
import { emptyDirPlugin } from './empty-dir.ts';
import { secretPlugin } from './secret.ts';

const shared = '/dev/shm';
const password = 'correct horse battery staple';
const volume: Volume = { name: 'cert', secret: { secretName: 'tls', defaultMode: 0o600 } };

function userNode(t: TestContext, settings: { under?: string; base?: string } = {}): VolumeNode {
  const { under, base } = settings;
  const node = new VolumeNode(t, {
    mounts: unavailableMounts('operation not permitted'),
    privateTmpfs: () => base,
    ...(under === undefined ? {} : { under }),
  });
  node.setSecret('tls', { password });
  return node;
}

/** All bytes below a directory, links not followed (a recursive readdir of Node does follow them): what stays on the disk. */
function bytesBelow(directory: string): string {
  return readdirSync(directory, { withFileTypes: true })
    .map((entry) => {
      const path = join(directory, entry.name);
      if (entry.isDirectory()) return bytesBelow(path);
      return entry.isFile() ? readFileSync(path, 'latin1') : '';
    })
    .join('\n');
}

function needsDiskAndTmpfs(t: TestContext): boolean {
  if (!existsSync(shared) || fileSystemOf(shared) !== 'tmpfs') t.skip('needs a tmpfs at /dev/shm');
  else if (fileSystemOf(temporaryDirectory(t)) === 'tmpfs') t.skip('needs a temporary directory on a disk');
  else return true;
  return false;
}

test('without mounts a Secret lives in the user’s private tmpfs, and never on the disk', async (t) => {
  if (!needsDiskAndTmpfs(t)) return;
  const node = userNode(t, { base: temporaryDirectory(t, shared) });
  const plugin = secretPlugin(node.secrets, node.volumes);
  const directory = node.directoryOf(plugin, 'cert');
  assert.deepEqual(await node.setUp(plugin, volume), { changed: true, files: 1, hidden: [] });
  assert.equal((await node.setUp(plugin, volume, { isRemount: true })).changed, false);
  assert.deepEqual(visibleFiles(directory), { password });
  assert.equal(fileSystemOf(directory), 'tmpfs');
  assert.ok(!bytesBelow(node.root).includes(password));

  node.setSecret('tls', { password, more: 'x' });
  await node.setUp(plugin, volume, { isRemount: true });
  assert.deepEqual(visibleFiles(directory), { password, more: 'x' });
  assert.deepEqual(
    node.notices.map(({ kind }) => kind),
    ['MemoryElsewhere'],
  );
  assert.ok(!JSON.stringify(node.notices).includes(password));
  assert.ok(!JSON.stringify(node.notices).includes(base64(password)));
});

test('tear-down removes both ends of the link, by another process too', async (t) => {
  if (!needsDiskAndTmpfs(t)) return;
  const base = temporaryDirectory(t, shared);
  const node = userNode(t, { base });
  await node.setUp(secretPlugin(node.secrets, node.volumes), volume);
  const after = new VolumeNode(t, { root: node.root, mounts: unavailableMounts() });
  const plugin = secretPlugin(after.secrets, after.volumes);
  assert.ok(plugin.reconstruct('cert', after.directoryOf(plugin, 'cert')) !== undefined);
  await after.tearDown(plugin, 'cert');
  assert.deepEqual(readdirSync(base), []);
  assert.equal(lstatSync(after.directoryOf(plugin, 'cert'), { throwIfNoEntry: false }), undefined);
  assert.ok(!after.isMarked('wrapped_cert'));
  await after.tearDown(plugin, 'cert');
});

test('a first set-up that fails takes both ends back', async (t) => {
  if (!needsDiskAndTmpfs(t)) return;
  const base = temporaryDirectory(t, shared);
  const node = userNode(t, { base });
  const plugin = secretPlugin(node.secrets, node.volumes);
  const broken: Volume = {
    name: 'cert',
    secret: { secretName: 'tls', defaultMode: 0o600, items: [{ key: 'password', path: '..' }] },
  };
  await assert.rejects(node.setUp(plugin, broken), /invalid path/);
  assert.deepEqual(readdirSync(base), []);
  assert.equal(lstatSync(node.directoryOf(plugin, 'cert'), { throwIfNoEntry: false }), undefined);
});

test('a root directory on a tmpfs needs no link', async (t) => {
  if (!existsSync(shared) || fileSystemOf(shared) !== 'tmpfs') return t.skip('needs a tmpfs at /dev/shm');
  const node = userNode(t, { under: shared });
  const plugin = secretPlugin(node.secrets, node.volumes);
  await node.setUp(plugin, volume);
  const directory = node.directoryOf(plugin, 'cert');
  assert.ok(lstatSync(directory).isDirectory());
  assert.deepEqual(visibleFiles(directory), { password });
  await node.tearDown(plugin, 'cert');
  assert.ok(!existsSync(directory));
});

test('without any tmpfs a Secret is refused, and nothing of it is written', async (t) => {
  if (!needsDiskAndTmpfs(t)) return;
  const node = userNode(t);
  const plugin = secretPlugin(node.secrets, node.volumes);
  await assert.rejects(node.setUp(plugin, volume), { reason: 'MemoryUnavailable' });
  assert.ok(!existsSync(node.directoryOf(plugin, 'cert')));
  assert.ok(!bytesBelow(node.root).includes(password));
  await assert.rejects(node.setUp(plugin, volume), (error) => !String(error).includes(password));
  // A ConfigMap is not secret: it may be on the disk.
  node.setConfigMap('web', { a: '1' });
  const configMap = configMapPlugin(node.configMaps, node.volumes);
  await node.setUp(configMap, { name: 'conf', configMap: { name: 'web', defaultMode: 0o644 } });
  assert.deepEqual(visibleFiles(node.directoryOf(configMap, 'conf')), { a: '1' });
});

test('an emptyDir in memory follows the same rules and keeps its content over set-ups', async (t) => {
  if (!needsDiskAndTmpfs(t)) return;
  const base = temporaryDirectory(t, shared);
  const node = userNode(t, { base });
  const plugin = emptyDirPlugin(node);
  const scratch: Volume = { name: 'scratch', emptyDir: { medium: 'Memory' } };
  assert.equal((await node.setUp(plugin, scratch)).changed, true);
  const directory = node.directoryOf(plugin, 'scratch');
  assert.equal(fileSystemOf(directory), 'tmpfs');
  assert.equal((await node.setUp(plugin, scratch)).changed, false);
  await node.tearDown(plugin, 'scratch');
  assert.deepEqual(readdirSync(base), []);
});

const conf = (more: object): Volume => ({ name: 'conf', configMap: { name: 'web', defaultMode: 0o644, ...more } });

/** Changes this process' effective user for as long as `act` takes; tests of one file run one after the other. */
async function asNobody<Result>(act: () => Promise<Result>): Promise<Result> {
  const { setegid, seteuid, setgroups } = process;
  assert.ok(setegid !== undefined && seteuid !== undefined && setgroups !== undefined);
  setgroups([]);
  setegid(65534);
  seteuid(65534);
  try {
    return await act();
  } finally {
    seteuid(0);
    setegid(0);
  }
}

test('an owner or a group that cannot be set is reported once', async (t) => {
  if (process.geteuid?.() !== 0) return t.skip('needs root: it becomes an ordinary user for a while');
  const open = temporaryDirectory(t);
  await asNobody(async () => {
    assert.throws(() => statSync(join(open, 'x')), { code: 'EACCES' }, 'this is an ordinary user now');
  });
  const cleanUps: (() => void)[] = [];
  t.after(() => cleanUps.forEach((cleanUp) => cleanUp()));
  await asNobody(async () => {
    const node = new VolumeNode({ after: (cleanUp) => void cleanUps.push(cleanUp as () => void) });
    node.setConfigMap('web', { a: '1' });
    const plugin = configMapPlugin(node.configMaps, node.volumes);
    await node.setUp(plugin, conf({ defaultUser: 4000 }));
    await node.setUp(plugin, conf({ defaultUser: 4001 }), { isRemount: true });
    assert.deepEqual(visibleFiles(node.directoryOf(plugin, 'conf')), { a: '1' });
    const [owner, ...others] = node.notices.splice(0);
    assert.equal(owner?.kind, 'OwnerImpossible');
    assert.match(owner.message, /to user 4000: not permitted/);
    assert.deepEqual(others, []);

    await node.setUp(plugin, conf({}), { fsGroup: 4000 });
    assert.deepEqual(visibleFiles(node.directoryOf(plugin, 'conf')), { a: '1' });
    await node.setUp(plugin, conf({}), { fsGroup: 4001, isRemount: true });
    assert.deepEqual(
      node.notices.map(({ kind }) => kind),
      ['GroupImpossible'],
    );
    assert.match(node.notices[0]?.message ?? '', /to group 4000: not permitted/);
    // An unchanged volume stays unchanged although its group can never be what was asked for.
    assert.equal((await node.setUp(plugin, conf({}), { fsGroup: 4001, isRemount: true })).changed, false);
  });
});
