import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { makeNestedMountPoints, nestedMountPoints } from './nested-mount-points.ts';

/** `volume:/path` for each mount of a container. */
function container(...mounts: string[]): { volumeName: string; mountPath: string }[] {
  return mounts.map((mount) => {
    const [volumeName = '', mountPath = ''] = mount.split(':');
    return { volumeName, mountPath };
  });
}

const cases = [
  {
    it: 'finds nothing without nesting',
    containers: [container('vol:/dir', 'other:/other', 'other:/dir2')],
    nested: [],
  },
  { it: 'finds a nested mount', containers: [container('vol:/dir', 'other:/dir/nested')], nested: ['nested'] },
  {
    it: 'keeps only the outermost',
    containers: [container('other:/dir/nested/other', 'vol:/dir', 'b:/dir/nested')],
    nested: ['nested'],
  },
  {
    it: 'keeps several elements',
    containers: [container('vol:/dir', 'b:/dir/sub1/sub2/sub3')],
    nested: ['sub1/sub2/sub3'],
  },
  {
    it: 'is not misled by the order of names',
    containers: [
      container(
        'vol:/dir',
        'a:/dir/nested/double',
        'b:/dir/nested-vol',
        'c:/dir/nested.vol',
        'd:/dir/nested2',
        'e:/dir/nested',
      ),
    ],
    nested: ['nested', 'nested-vol', 'nested.vol', 'nested2'],
  },
  {
    it: 'gathers from every container and every place',
    containers: [
      container('vol:/init', 'a:/init/one'),
      container('vol:/x', 'vol:/y', 'a:/x/two', 'a:/y/three', 'b:/y/one'),
    ],
    nested: ['one', 'three', 'two'],
  },
  { it: 'cleans mount paths', containers: [container('vol:/dir//', 'a:/dir/./sub/../nested/')], nested: ['nested'] },
  { it: 'finds the volume nested in itself', containers: [container('vol:/dir', 'vol:/dir/again')], nested: ['again'] },
  { it: 'ignores mounts below other volumes', containers: [container('a:/dir', 'vol:/dir/vol')], nested: [] },
];
for (const { it, containers, nested } of cases) {
  test(`nestedMountPoints ${it}`, () => {
    assert.deepEqual(nestedMountPoints('vol', containers).toSorted(), nested);
  });
}

test('nestedMountPoints refuses a mount path that leads out', () => {
  assert.throws(() => nestedMountPoints('vol', [container('vol:foo/../../dir')]), {
    message: 'invalid container mount point ../dir',
    reason: 'InvalidMountPoint',
  });
  assert.deepEqual(nestedMountPoints('vol', [container('vol:/dir', 'other:foo/../../dir')]), []);
});

test('makeNestedMountPoints makes directories once and again', (t) => {
  const volume = temporaryDirectory(t);
  for (let round = 0; round < 2; round += 1) assert.deepEqual(makeNestedMountPoints(volume, ['a', 'b/c/d', 'b/e']), []);
  for (const path of ['a', 'b/c/d', 'b/e']) assert.ok(statSync(join(volume, path)).isDirectory());
});

test('makeNestedMountPoints skips names that are projected content and says which', (t) => {
  const base = temporaryDirectory(t);
  const outside = join(base, 'outside');
  const volume = join(base, 'volume');
  for (const directory of [outside, volume]) mkdirSync(directory);
  symlinkSync(outside, join(volume, 'link'));
  assert.deepEqual(makeNestedMountPoints(volume, ['link/x', 'fine', 'link']), ['link/x', 'link']);
  assert.deepEqual(readdirSync(outside), []);
  assert.ok(existsSync(join(volume, 'fine')));
});

test('makeNestedMountPoints follows no link further down, passes no file, and takes no reserved name', (t) => {
  const base = temporaryDirectory(t);
  const volume = join(base, 'volume');
  mkdirSync(join(volume, 'a'), { recursive: true });
  symlinkSync(base, join(volume, 'a', 'out'));
  writeFileSync(join(volume, 'file'), '');
  const problem = 'unable to create nested volume mountpoints: mkdir';
  for (const [path, message] of [
    ['a/out/x', `${problem} ${volume}/a/out: not a directory`],
    ['file/x', `${problem} ${volume}/file: not a directory`],
    ['..data', `${problem} ${volume}/..data: the name is reserved`],
  ] as const)
    assert.throws(() => makeNestedMountPoints(volume, [path]), { reason: 'NestedMountPointFailed', message });
  assert.deepEqual(readdirSync(base), ['volume']);
  assert.deepEqual(readdirSync(volume).sort(), ['a', 'file']);
});
