import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DiskPressure, type Filesystems, type FilesystemUsage } from './disk-pressure.ts';
import { type ThresholdTexts, readThresholds } from './thresholds.ts';

const full: FilesystemUsage = { availableBytes: 1000, capacityBytes: 1000, inodesFree: 100, inodes: 100 };

function disks(node: Partial<FilesystemUsage> = {}, image?: Partial<FilesystemUsage>): Filesystems {
  return { node: { ...full, ...node }, image: image && { ...full, ...image }, isImageDedicated: image !== undefined };
}

function pressure(texts: ThresholdTexts, transitionMs = 300_000): DiskPressure {
  return new DiskPressure(readThresholds(texts, []).given, transitionMs);
}

const signals = (due: ReturnType<DiskPressure['look']>): string => due.map(({ signal }) => signal).join(' ');

test('a hard threshold is due as soon as less than it is available', () => {
  const watch = pressure({ evictionHard: { 'nodefs.available': '10%', 'nodefs.inodesFree': '5' } });
  assert.equal(signals(watch.look(disks({ availableBytes: 101 }), 0)), '');
  assert.equal(watch.isUnderPressure, false);
  assert.equal(signals(watch.look(disks({ availableBytes: 99 }), 1)), 'nodefs.available');
  assert.equal(watch.isUnderPressure, true);
  assert.equal(signals(watch.look(disks({ inodesFree: 4 }), 2)), 'nodefs.inodesFree');
  assert.equal(signals(watch.look(disks({ inodesFree: 5 }), 3)), '');
});

test('the disk of images is watched where there are images', () => {
  const watch = pressure({ evictionHard: { 'imagefs.available': '200', 'imagefs.inodesFree': '10%' } });
  assert.equal(signals(watch.look(disks({ availableBytes: 1 }), 0)), '');
  assert.equal(signals(watch.look(disks({}, { availableBytes: 199 }), 0)), 'imagefs.available');
  assert.equal(signals(watch.look(disks({}, { inodesFree: 9 }), 0)), 'imagefs.inodesFree');
});

test('a file system without inodes to count is never short of them', () => {
  const watch = pressure({ evictionHard: { 'nodefs.inodesFree': '5%' } });
  assert.equal(signals(watch.look(disks({ inodes: 0, inodesFree: 0 }), 0)), '');
});

test('pressure is reported at once for a soft threshold, which is due only after its grace', () => {
  const watch = pressure({
    evictionSoft: { 'nodefs.available': '10%' },
    evictionSoftGracePeriod: { 'nodefs.available': '1m' },
  });
  const short = disks({ availableBytes: 50 });
  assert.equal(signals(watch.look(short, 0)), '');
  assert.equal(watch.isUnderPressure, true);
  assert.equal(signals(watch.look(short, 59_999)), '');
  assert.equal(signals(watch.look(short, 60_000)), 'nodefs.available');
});

test('the grace of a soft threshold begins again when it was not met in between', () => {
  const watch = pressure({
    evictionSoft: { 'nodefs.available': '10%' },
    evictionSoftGracePeriod: { 'nodefs.available': '1m' },
  });
  const short = disks({ availableBytes: 50 });
  watch.look(short, 0);
  watch.look(disks(), 30_000);
  watch.look(short, 40_000);
  assert.equal(signals(watch.look(short, 60_000)), '');
  assert.equal(signals(watch.look(short, 100_000)), 'nodefs.available');
});

test('what was due stays due until the minimum reclaim is there too', () => {
  const watch = pressure({
    evictionHard: { 'nodefs.available': '100' },
    evictionMinimumReclaim: { 'nodefs.available': '50' },
  });
  assert.equal(signals(watch.look(disks({ availableBytes: 149 }), 0)), '');
  assert.equal(watch.isResolved(disks({ availableBytes: 149 })), false);
  watch.look(disks({ availableBytes: 99 }), 1);
  assert.equal(signals(watch.look(disks({ availableBytes: 149 }), 2)), 'nodefs.available');
  assert.equal(watch.isResolved(disks({ availableBytes: 150 })), true);
  assert.equal(signals(watch.look(disks({ availableBytes: 150 }), 3)), '');
  assert.equal(signals(watch.look(disks({ availableBytes: 149 }), 4)), '');
});

test('pressure ends when no threshold was met for the transition period', () => {
  const watch = pressure({ evictionHard: { 'nodefs.available': '10%' } }, 300_000);
  watch.look(disks({ availableBytes: 1 }), 1_000);
  watch.look(disks(), 300_999);
  assert.equal(watch.isUnderPressure, true);
  watch.look(disks(), 301_000);
  assert.equal(watch.isUnderPressure, false);
});
