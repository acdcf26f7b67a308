/** A million reads of volumes under random updates, through the volume manager and the real plugins. */
import { test } from 'node:test';
import { systemMounts } from '../src/disk/mounts/mounts.ts';
import { needsMounts } from '../src/testing/machine/temporary-directory.ts';
import { needsExchange } from './fixtures/followed-volume.ts';
import { checkVolumeReaders } from './fixtures/volume-readers.ts';

test('a million reads of volumes find complete versions only', { skip: needsMounts(systemMounts()) }, (t) =>
  checkVolumeReaders(t, 1_000_000, false),
);

test('a million reads of volumes and subPaths find complete versions only', { skip: needsExchange() }, (t) =>
  checkVolumeReaders(t, 1_000_000, true),
);

test('300,000 reads that updates overtake miss nothing', { skip: needsExchange() }, (t) =>
  checkVolumeReaders(t, 300_000, true, 5),
);
