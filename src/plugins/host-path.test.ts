import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { inlineSpec, persistentSpec } from '../kube/references/volume-spec.ts';
import { temporaryDirectory } from '../testing/machine/temporary-directory.ts';
import { VolumeNode } from '../testing/worlds/volume-node.ts';
import { systemPrograms } from '../disk/devices/programs.ts';
import { hostPathPlugin } from './host-path.ts';

const plugin = hostPathPlugin(systemPrograms());

test('DirectoryOrCreate and FileOrCreate make what is missing and nothing else', async (t) => {
  const node = new VolumeNode(t);
  const host = temporaryDirectory(t);
  const at = (name: string, type: string): Promise<unknown> =>
    node.setUp(plugin, { name: 'v', hostPath: { path: join(host, name), type } });
  await at('made/deep', 'DirectoryOrCreate');
  assert.ok(statSync(join(host, 'made/deep')).isDirectory());
  await at('file', 'FileOrCreate');
  assert.equal(statSync(join(host, 'file')).size, 0);
  writeFileSync(join(host, 'file'), 'content');
  await at('file', 'FileOrCreate');
  assert.equal(statSync(join(host, 'file')).size, 7);
  await assert.rejects(at('file', 'DirectoryOrCreate'), {
    message: `hostPath type check failed: ${join(host, 'file')} is not a directory, it's a File`,
  });
  await assert.rejects(at('made', 'FileOrCreate'), {
    message: `hostPath type check failed: ${join(host, 'made')} is not a file, it's a Directory`,
  });
  await assert.rejects(at('gone', 'Directory'), /unable to determine its type: path ".*" does not exist$/);
});

test('a path is used as it is: nothing is made below the pod, and tear-down leaves the path alone', async (t) => {
  const node = new VolumeNode(t);
  const path = join(temporaryDirectory(t), 'data');
  mkdirSync(path);
  await node.setUp(plugin, { name: 'v', hostPath: { path, type: 'Directory' } });
  await node.tearDown(plugin, 'v');
  assert.ok(existsSync(path));
  assert.deepEqual(readdirSync(node.root), []);
  assert.equal(plugin.hostPathOf?.({ path }), path);
});

test('a path without a type is not looked at, but never goes back up', async (t) => {
  const node = new VolumeNode(t);
  await node.setUp(plugin, { name: 'v', hostPath: { path: '/does/not/exist' } });
  await assert.rejects(node.setUp(plugin, { name: 'v', hostPath: { path: '/a/../b' } }), {
    message: "invalid HostPath `/a/../b`: must not contain '..'",
  });
});

test('a PersistentVolume may be a host path; it is read-only when its claim is', () => {
  const spec = persistentSpec({ metadata: { name: 'pv' }, spec: { hostPath: { path: '/srv' } } }, true);
  const source = plugin.sourceOf(spec);
  assert.deepEqual(source, { path: '/srv' });
  assert.deepEqual(source && plugin.attributes(source, spec), {
    readOnly: true,
  });
  const inline = inlineSpec({ name: 'v', hostPath: { path: '/srv' } });
  assert.deepEqual(source && plugin.attributes(source, inline).readOnly, false);
});
