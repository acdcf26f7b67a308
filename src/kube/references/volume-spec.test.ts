import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inlineSpec, mountOptionsOf, persistentSpec, specName, volumeModeOf } from './volume-spec.ts';

const volume = inlineSpec({ name: 'web', emptyDir: {} });
const persistent = persistentSpec({ metadata: { name: 'disk-1' }, spec: { volumeMode: 'Block' } }, true);

test('a spec is named after the inline volume, or after the PersistentVolume', () => {
  assert.equal(specName(volume), 'web');
  assert.equal(specName(persistent), 'disk-1');
});

test('an inline volume is a file system; a PersistentVolume says what it is, or is refused', () => {
  assert.equal(volumeModeOf(volume), 'Filesystem');
  assert.equal(volumeModeOf(persistent), 'Block');
  const silent = persistentSpec({ metadata: { name: 'disk-1' }, spec: {} }, false);
  assert.throws(() => volumeModeOf(silent), { message: 'cannot get volumeMode for volume: disk-1' });
});

test('mount options come from the annotation, else from the field, sorted and each once', () => {
  const spec = { mountOptions: ['noexec', 'noatime', 'noexec', ''] };
  assert.deepEqual(mountOptionsOf(volume), []);
  assert.deepEqual(mountOptionsOf(persistentSpec({ metadata: { name: 'd' }, spec }, false)), ['noatime', 'noexec']);
  const annotations = { 'volume.beta.kubernetes.io/mount-options': 'ro,nodev,' };
  const annotated = persistentSpec({ metadata: { name: 'd', annotations }, spec }, false);
  assert.deepEqual(mountOptionsOf(annotated), ['nodev', 'ro']);
});
