import assert from 'node:assert/strict';
import { chmodSync, chownSync, lchownSync, lstatSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { AtomicWriter } from './atomic-writer.ts';
import type { Payload } from './payload.ts';

const needsRoot = process.getuid?.() === 0 ? undefined : 'needs root: only root may give files away';
const group = 4242;

/** Values are the modes of the files, and their owner where it matters: `0644 1000`. */
function payloadOf(files: Readonly<Record<string, string>>): Payload {
  return new Map(
    Object.entries(files).map(([path, value]) => {
      const [mode = '', uid] = value.split(' ');
      const file = { data: Buffer.from('text'), mode: parseInt(mode, 8) };
      return [path, uid === undefined ? file : { ...file, uid: Number(uid) }];
    }),
  );
}

/** `0640 uid:gid` of an entry, links not followed. */
function access(path: string): string {
  const { mode, uid, gid } = lstatSync(path);
  return `${(mode & 0o7777).toString(8).padStart(4, '0')} ${uid}:${gid}`;
}

test('each file gets its owner, a link that of its first file, directories none', (t) => {
  if (needsRoot !== undefined) return t.skip(needsRoot);
  const volume = temporaryDirectory(t);
  new AtomicWriter(volume).write(payloadOf({ 'd/a': '0400 1000', 'd/b': '0600 1001', c: '0644' }));
  assert.equal(access(join(volume, '..data/d/a')), '0400 1000:0');
  assert.equal(access(join(volume, '..data/d/b')), '0600 1001:0');
  assert.equal(access(join(volume, '..data/c')), '0644 0:0');
  assert.equal(access(join(volume, '..data/d')), '0755 0:0');
  assert.equal(lstatSync(join(volume, 'd')).uid, 1000);
  assert.equal(lstatSync(join(volume, 'c')).uid, 0);
});

test('a change of owner alone is applied, and so is its removal', (t) => {
  if (needsRoot !== undefined) return t.skip(needsRoot);
  const volume = temporaryDirectory(t);
  const writer = new AtomicWriter(volume);
  for (const [wanted, found] of [
    ['0644', '0:0'],
    ['0644 1000', '1000:0'],
    ['0644 1001', '1001:0'],
    ['0644', '0:0'],
  ] as const) {
    assert.equal(writer.write(payloadOf({ a: wanted })).changed, true);
    assert.equal(access(join(volume, '..data/a')), `0644 ${found}`);
    for (const again of [writer, new AtomicWriter(volume)])
      assert.equal(again.write(payloadOf({ a: wanted })).changed, false);
  }
});

test('with a group everything in the volume has it at once, links and mount points too', (t) => {
  if (needsRoot !== undefined) return t.skip(needsRoot);
  const volume = temporaryDirectory(t);
  chmodSync(volume, 0o777);
  mkdirSync(join(volume, 'mount/point'), { recursive: true });
  chmodSync(join(volume, 'mount/point'), 0o700);
  const files = { plain: '0644', ro: '0400', rw: '0600', none: '0000', 'd/e/f': '0640 1000' };
  const { groupsRefused, version } = new AtomicWriter(volume).write(payloadOf(files), { group });
  assert.equal(groupsRefused, 0);
  const found = {
    '.': '2777',
    mount: '2755',
    'mount/point': '2750',
    [version]: '2755',
    '..data/d': '2755',
    '..data/d/e': '2755',
    '..data/plain': '0644',
    '..data/ro': '0440',
    '..data/rw': '0640',
    '..data/none': '0440',
  };
  for (const [path, mode] of Object.entries(found))
    assert.equal(access(join(volume, path)), `${mode} 0:${group}`, path);
  assert.equal(access(join(volume, '..data/d/e/f')), `0640 1000:${group}`);
  for (const name of ['plain', 'ro', 'rw', 'none', 'd']) assert.equal(lstatSync(join(volume, name)).gid, group, name);
});

test('a change of the group alone is applied to all, and the same group again changes nothing', (t) => {
  if (needsRoot !== undefined) return t.skip(needsRoot);
  const volume = temporaryDirectory(t);
  const writer = new AtomicWriter(volume);
  const payload = payloadOf({ a: '0600', 'd/b': '0644' });
  for (const wanted of [undefined, group, group + 1, undefined]) {
    const options = wanted === undefined ? {} : { group: wanted };
    assert.equal(writer.write(payload, options).changed, true);
    assert.equal(lstatSync(join(volume, '..data/a')).mode & 0o777, wanted === undefined ? 0o600 : 0o640);
    assert.equal(lstatSync(join(volume, '..data/d')).mode & 0o7777, wanted === undefined ? 0o755 : 0o2755);
    if (wanted !== undefined) {
      for (const path of ['.', 'a', 'd', '..data/a', '..data/d/b'])
        assert.equal(lstatSync(join(volume, path)).gid, wanted, path);
    }
    const before = readdirSync(volume).map((name) => lstatSync(join(volume, name)).ctimeMs);
    for (const again of [writer, new AtomicWriter(volume), writer])
      assert.equal(again.write(payload, options).changed, false);
    assert.deepEqual(
      readdirSync(volume).map((name) => lstatSync(join(volume, name)).ctimeMs),
      before,
    );
  }
});

test('a group that others changed is given back: of a file by a new version, of the root and of links in place', (t) => {
  if (needsRoot !== undefined) return t.skip(needsRoot);
  const volume = temporaryDirectory(t);
  const writer = new AtomicWriter(volume);
  const payload = payloadOf({ a: '0600' });
  writer.write(payload, { group });
  writer.write(payload, { group });
  for (const { path, changed } of [
    { path: '..data/a', changed: true },
    { path: '.', changed: false },
  ]) {
    chownSync(join(volume, path), 0, 7);
    assert.equal(writer.write(payload, { group }).changed, changed);
    assert.equal(lstatSync(join(volume, path)).gid, group);
  }
  lchownSync(join(volume, 'a'), 0, 7);
  new AtomicWriter(volume).write(payload, { group });
  assert.equal(lstatSync(join(volume, 'a')).gid, group);
});
