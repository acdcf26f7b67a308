import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aContainer } from '../../testing/fakes/builders.ts';
import { buildDevices } from './container-view.ts';
import type { MountedVolume } from './mounts.ts';

const mounted: Readonly<Record<string, MountedVolume>> = {
  disk: { kind: 'block', link: '/pods/u/volumeDevices/p/disk', readOnly: false },
  archive: { kind: 'block', link: '/pods/u/volumeDevices/p/archive', readOnly: true },
  unlinked: { kind: 'block', link: undefined, readOnly: false },
  files: {
    kind: 'filesystem',
    hostPath: '/f',
    specName: 'files',
    readOnly: false,
  },
};
const devicesOf = (...volumeDevices: readonly { readonly name: string; readonly devicePath: string }[]) =>
  buildDevices(aContainer({ volumeDevices }), { get: (name) => mounted[name] });

test('a device is the link in the pod directory, writable unless its volume is read-only', () => {
  assert.deepEqual(devicesOf({ name: 'disk', devicePath: '/dev/a' }, { name: 'archive', devicePath: '/dev/b' }), [
    { name: 'disk', devicePath: '/dev/a', hostPath: '/pods/u/volumeDevices/p/disk', permissions: 'mrw' },
    { name: 'archive', devicePath: '/dev/b', hostPath: '/pods/u/volumeDevices/p/archive', permissions: 'r' },
  ]);
});

test('a device whose link is gone is left out', () => {
  assert.deepEqual(devicesOf({ name: 'unlinked', devicePath: '/dev/a' }), []);
});

const bad = [
  { name: 'disk', devicePath: 'dev/a', message: 'error DevicePath `dev/a` must be an absolute path' },
  { name: 'gone', devicePath: 'dev/a', message: 'error DevicePath `dev/a` must be an absolute path' },
  { name: 'gone', devicePath: '/dev/a', message: 'cannot find volume "gone" to pass into container "main"' },
  { name: 'files', devicePath: '/dev/a', message: 'cannot find volume "files" to pass into container "main"' },
];
for (const { message, ...device } of bad) {
  test(`the volume ${device.name} at ${device.devicePath} is refused`, () => {
    assert.throws(() => devicesOf(device), { reason: 'CreateContainerConfigError', message });
  });
}
