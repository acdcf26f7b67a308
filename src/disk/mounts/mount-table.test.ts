import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { directoryForMounts, needsMounts } from '../../testing/machine/temporary-directory.ts';
import {
  escape,
  mountOf,
  mountsBelow,
  parseMountTable,
  readMountTable,
  readMountsBelow,
  referencesOf,
} from './mount-table.ts';
import { systemMounts } from './mounts.ts';

const text = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 27 0:27 / /data rw,nosuid,nodev shared:12 master:3 - tmpfs tmpfs rw,size=4k
31 30 254:0 /srv/web /data/a\\040b\\011\\134c rw - ext4 /dev/vda rw
32 27 254:0 /srv/web /mnt/web ro,relatime - ext4 /dev/vda rw
33 30 0:30 / /data/deep/er rw - tmpfs  rw
34 30 0:31 / /data rw - tmpfs tmpfs rw
35 27 254:0 /srv/web/sub /mnt/sub rw - ext4 /dev/vda rw
`;

test('the mount table is read field by field, with its escapes', () => {
  const [, , data, escaped, , noSource] = parseMountTable(text);
  assert.deepEqual(data, {
    id: 30,
    parentId: 27,
    device: '0:27',
    root: '/',
    mountPoint: '/data',
    options: ['rw', 'nosuid', 'nodev'],
    optionalFields: ['shared:12', 'master:3'],
    fileSystem: 'tmpfs',
    source: 'tmpfs',
    superOptions: ['rw', 'size=4k'],
  });
  assert.equal(escaped?.mountPoint, '/data/a b\t\\c');
  assert.equal(noSource?.source, '');
});

test('an unexpected line is refused, for a mount that is not seen could be deleted', () => {
  for (const line of [
    'x',
    '1 2 3:4 / / rw',
    '1 2 3:4 / / rw -',
    '1 2 3:4 / / rw - tmpfs tmpfs',
    'a 2 3:4 / / rw - t t rw',
  ]) {
    assert.throws(() => parseMountTable(`${line}\n`), { reason: 'MountTableUnreadable' }, line);
  }
});

test('any mount point survives the escapes of the kernel', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (name) => {
      const mountPoint = `/${name}`;
      const [entry] = parseMountTable(`1 2 3:4 / ${escape(mountPoint)} rw - tmpfs tmpfs rw`);
      assert.equal(entry?.mountPoint, mountPoint);
    }),
  );
});

test('mountsBelow lists deepest first, of stacked mounts the topmost first, and no neighbours', () => {
  const points = mountsBelow(parseMountTable(text), '/data').map(({ id }) => id);
  assert.deepEqual(points, [33, 31, 34, 30]);
  assert.deepEqual(mountsBelow(parseMountTable(text), '/dat'), []);
  assert.equal(mountsBelow(parseMountTable(text), '/').length, 8);
});

const places = [
  { path: '/', id: 27 },
  { path: '/proc/1', id: 22 },
  { path: '/data', id: 34 },
  { path: '/data/deep/er/x', id: 34 }, // hidden by the later mount on /data
  { path: '/mnt/web/index.html', id: 32 },
  { path: '/mnt/webs', id: 27 },
];
for (const { path, id } of places) {
  test(`${path} is on mount ${id}`, () => {
    assert.equal(mountOf(parseMountTable(text), path)?.id, id);
  });
}

test('references are the other mount points of the same place of the same file system', () => {
  const table = parseMountTable(text);
  assert.deepEqual(referencesOf(table, '/mnt/web'), ['/data/a b\t\\c']);
  assert.deepEqual(referencesOf(table, '/srv/web'), ['/data/a b\t\\c', '/mnt/web']);
  assert.deepEqual(referencesOf(table, '/mnt/web/sub'), ['/mnt/sub']);
  assert.deepEqual(referencesOf(table, '/proc'), []);
  assert.deepEqual(referencesOf([], '/proc'), []);
});

const mounts = systemMounts();
test('real bind mounts are references of their source', { skip: needsMounts(mounts) }, (t) => {
  const directory = directoryForMounts(t);
  const [source, first, second] = ['source', 'a #1', 'b'].map((name) => join(directory, name));
  assert.ok(source !== undefined && first !== undefined && second !== undefined);
  for (const path of [source, first, second]) mkdirSync(path);
  mounts.bind(source, first);
  mounts.bind(first, second);
  const table = readMountTable();
  assert.deepEqual(referencesOf(table, source), [first, second]);
  assert.deepEqual(referencesOf(table, second), [first]);
  assert.deepEqual(
    mountsBelow(table, directory).map(({ mountPoint }) => mountPoint),
    [second, first],
  );
  assert.deepEqual(readMountsBelow(directory), mountsBelow(table, directory));
  assert.deepEqual(readMountsBelow(first), mountsBelow(table, first));
  assert.deepEqual(readMountsBelow(source), []);
});
