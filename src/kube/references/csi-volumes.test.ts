import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aVolume } from '../../testing/fakes/storage-builders.ts';
import { attachmentName, csiVolumeName, csiVolumeOf, isForOneNode } from './csi-volumes.ts';

test('an attachment is named after the hash of handle, driver and node', () => {
  assert.equal(
    attachmentName({ driver: 'disks.example.com', volumeHandle: 'h1' }, 'n1'),
    'csi-b24f951ab21f4d891abb6a0e6edbb30b0731146beeadf99fa3b131242ffbb86e',
  );
});

for (const volumeHandle of ['h1', 'projects/p/zones/z/disks/d', 'a^b', '']) {
  test(`the unique name of the handle "${volumeHandle}" leads back to it`, () => {
    const csi = { driver: 'disks.example.com', volumeHandle };
    assert.equal(csiVolumeName(csi), `kubernetes.io/csi/disks.example.com^${volumeHandle}`);
    assert.deepEqual(csiVolumeOf(csiVolumeName(csi)), csi);
  });
}

for (const name of ['kubernetes.io/iscsi/x', 'kubernetes.io/csi/no-handle', 'kubernetes.io/csi/^h', 'csi', '']) {
  test(`"${name}" names no volume of a driver`, () => {
    assert.equal(csiVolumeOf(name), undefined);
  });
}

const modes = [
  { modes: ['ReadWriteOnce'], isForOne: true },
  { modes: ['ReadWriteOncePod'], isForOne: true },
  { modes: ['ReadWriteOnce', 'ReadOnlyMany'], isForOne: false },
  { modes: ['ReadWriteMany'], isForOne: false },
  { modes: [], isForOne: false },
];
for (const { modes: accessModes, isForOne } of modes) {
  test(`a volume with the modes [${accessModes.join()}] is ${isForOne ? 'for one node' : 'for many nodes'}`, () => {
    assert.equal(isForOneNode(aVolume('one', { accessModes })), isForOne);
  });
}
