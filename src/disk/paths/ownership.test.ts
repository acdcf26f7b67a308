import assert from 'node:assert/strict';
import { chmodSync, lchownSync, lstatSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Turns } from '../../base/turns.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { applyGroup } from './ownership.ts';

const group = 4242;
const turns = new Turns(() => 0);
const needsRoot = process.getuid?.() === 0 ? undefined : 'needs root: only root may give files to any group';

/** `0640 4242` */
function access(path: string): string {
  const { mode, gid } = lstatSync(path);
  return `${(mode & 0o7777).toString(8).padStart(4, '0')} ${gid}`;
}

function makeWith(mode: number, path: string, kind: 'file' | 'directory'): string {
  if (kind === 'file') writeFileSync(path, '');
  else mkdirSync(path);
  chmodSync(path, mode);
  return path;
}

const results = [
  { it: 'an emptyDir root', kind: 'directory', readOnly: false, from: 0o777, to: '2777' },
  { it: 'a configMap root', kind: 'directory', readOnly: true, from: 0o777, to: '2777' },
  { it: 'a tmpfs root', kind: 'directory', readOnly: true, from: 0o1777, to: '3777' },
  { it: 'a timestamped directory', kind: 'directory', readOnly: true, from: 0o755, to: '2755' },
  { it: 'a private directory, writable volume', kind: 'directory', readOnly: false, from: 0o700, to: '2770' },
  { it: 'a private directory, read-only volume', kind: 'directory', readOnly: true, from: 0o700, to: '2750' },
  { it: 'a plain file', kind: 'file', readOnly: true, from: 0o644, to: '0644' },
  { it: 'a read-only file', kind: 'file', readOnly: true, from: 0o400, to: '0440' },
  { it: 'a private file', kind: 'file', readOnly: true, from: 0o600, to: '0640' },
  { it: 'a file without any bit', kind: 'file', readOnly: true, from: 0, to: '0440' },
  { it: 'a private file of a writable volume', kind: 'file', readOnly: false, from: 0o600, to: '0660' },
] as const;
for (const { it, kind, readOnly, from, to } of results) {
  test(`applyGroup gives ${it} the group and adds bits: ${from.toString(8)} becomes ${to}`, async (t) => {
    if (needsRoot !== undefined) return t.skip(needsRoot);
    const path = makeWith(from, join(temporaryDirectory(t), 'entry'), kind);
    assert.deepEqual(await applyGroup(turns, path, { group, readOnly }), { skipped: false, processed: 1, refused: 0 });
    assert.equal(access(path), `${to} ${group}`);
  });
}

test('applyGroup gives links the group and leaves what they lead to alone', async (t) => {
  if (needsRoot !== undefined) return t.skip(needsRoot);
  const base = temporaryDirectory(t);
  const outside = makeWith(0o600, join(base, 'outside'), 'file');
  const volume = makeWith(0o755, join(base, 'volume'), 'directory');
  mkdirSync(join(volume, 'd/e'), { recursive: true });
  writeFileSync(join(volume, 'd/e/f'), '');
  symlinkSync(outside, join(volume, 'd', 'link'));
  symlinkSync('/', join(volume, 'root'));
  symlinkSync('nowhere', join(volume, 'dangling'));
  const { processed, refused } = await applyGroup(turns, volume, { group, readOnly: false });
  assert.deepEqual({ processed, refused }, { processed: 7, refused: 0 });
  for (const name of ['d/link', 'root', 'dangling', 'd/e/f', 'd', '.'])
    assert.equal(lstatSync(join(volume, name)).gid, group);
  assert.equal(access(outside), '0600 0');
  assert.notEqual(lstatSync('/').gid, group);
});

const roots = [
  { it: 'skips a right root', readOnly: false, gid: group, mode: 0o2770, skipped: true },
  { it: 'skips a root with more bits', readOnly: false, gid: group, mode: 0o3777, skipped: true },
  { it: 'skips a right root of a read-only volume', readOnly: true, gid: group, mode: 0o2550, skipped: true },
  { it: 'changes a root of another group', readOnly: false, gid: 0, mode: 0o2770, skipped: false },
  { it: 'changes a root without setgid', readOnly: false, gid: group, mode: 0o770, skipped: false },
  { it: 'changes a root that lacks a bit', readOnly: false, gid: group, mode: 0o2750, skipped: false },
];
for (const { it, readOnly, gid, mode, skipped } of roots) {
  test(`applyGroup OnRootMismatch ${it}`, async (t) => {
    if (needsRoot !== undefined) return t.skip(needsRoot);
    const volume = join(temporaryDirectory(t), 'volume');
    mkdirSync(volume);
    const child = makeWith(0o600, join(volume, 'child'), 'file');
    lchownSync(volume, 0, gid);
    chmodSync(volume, mode);
    assert.equal((await applyGroup(turns, volume, { group, readOnly, policy: 'OnRootMismatch' })).skipped, skipped);
    assert.equal(lstatSync(child).gid, skipped ? 0 : group);
    await applyGroup(turns, volume, { group, readOnly, policy: 'Always' });
    assert.equal(lstatSync(child).gid, group);
  });
}

test('applyGroup OnRootMismatch makes the change for a root that is not a directory', async (t) => {
  if (needsRoot !== undefined) return t.skip(needsRoot);
  const file = makeWith(0o660, join(temporaryDirectory(t), 'file'), 'file');
  lchownSync(file, 0, group);
  assert.equal((await applyGroup(turns, file, { group, readOnly: false, policy: 'OnRootMismatch' })).skipped, false);
});

test('applyGroup fails when the tree cannot be walked', async (t) => {
  await assert.rejects(applyGroup(turns, join(temporaryDirectory(t), 'missing'), { group, readOnly: true }), {
    code: 'ENOENT',
  });
});

test('applyGroup reports after 30 s and then every 60 s', async (t) => {
  const volume = temporaryDirectory(t);
  const files = 128 * 12;
  for (let index = 0; index < files; index += 1) writeFileSync(join(volume, String(index)), '');
  let now = 1_000_000;
  const reports: number[] = [];
  const progress = ({ processed, path, elapsedMs }: { processed: number; path: string; elapsedMs: number }): void => {
    assert.equal(processed, Math.floor(processed / 128) * 128);
    assert.ok(path.startsWith(volume));
    reports.push(elapsedMs);
  };
  const { gid } = lstatSync(volume);
  // The clock moves 15 s with each look at it, so the walk seems to take three minutes.
  await applyGroup(turns, volume, { group: gid, readOnly: false }, { now: () => (now += 15_000) - 15_000, progress });
  assert.deepEqual(reports, [30_000, 90_000, 150_000]);
});

test('applyGroup stops when its signal aborts', async (t) => {
  const volume = temporaryDirectory(t);
  for (let index = 0; index < 300; index += 1) writeFileSync(join(volume, String(index)), '');
  const aborter = new AbortController();
  aborter.abort(new Error('enough'));
  const { gid } = lstatSync(volume);
  await assert.rejects(applyGroup(turns, volume, { group: gid, readOnly: false }, undefined, aborter.signal), /enough/);
});
