/** Volumes of a whole node under random updates, seen from a container that never stops reading. A million times: the long test. */
import { test } from 'node:test';
import { systemMounts } from '../src/disk/mounts/mounts.ts';
import { needsMounts } from '../src/testing/machine/temporary-directory.ts';
import { needsExchange } from './fixtures/followed-volume.ts';
import { checkVolumeReaders } from './fixtures/volume-readers.ts';

test('a container sees only complete versions in its volumes', { skip: needsMounts(systemMounts()) }, (t) =>
  checkVolumeReaders(t, 20_000, false),
);

test('a container sees only complete versions in its volumes and through subPaths', { skip: needsExchange() }, (t) =>
  checkVolumeReaders(t, 20_000, true),
);

test(
  'a container that updates overtake finds every file, in volumes and through subPaths',
  { skip: needsExchange() },
  (t) => checkVolumeReaders(t, 20_000, true, 5),
);
