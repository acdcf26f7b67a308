/** What the writer and the ownership pass do for a user who may not give files away. As root, this file runs itself as one. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, lstatSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Turns } from '../../base/turns.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { namesIn, visibleFiles } from '../../testing/worlds/volume-node.ts';
import { listDirectory } from '../paths/directory-listing.ts';
import { applyGroup } from '../paths/ownership.ts';
import { AtomicWriter } from './atomic-writer.ts';
import type { Payload } from './payload.ts';

const self = fileURLToPath(import.meta.url);
const nobody = 65534;
const foreignGroup = 4242;

function payloadOf(text: string, uid?: number, mode = 0o600): Payload {
  const file = { data: Buffer.from(text), mode };
  return new Map([['d/a', uid === undefined ? file : { ...file, uid }]]);
}

if (process.getuid?.() === 0) {
  test('all of this holds for an ordinary user', (t) => {
    const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
    const asNobody = { uid: nobody, gid: nobody, env, cwd: '/', encoding: 'utf8' } as const;
    if (spawnSync('test', ['-r', self], asNobody).status !== 0) return t.skip('needs sources that others may read');
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--test-reporter=spec', self], asNobody);
    assert.equal(status, 0, stdout + stderr);
    assert.match(stdout, /pass [1-9]/);
  });
} else {
  test('an owner that may not be given is an error, and the old content stays', (t) => {
    const volume = temporaryDirectory(t);
    const writer = new AtomicWriter(volume);
    writer.write(payloadOf('old', process.getuid?.())); // a process may chown to its own uid
    const before = namesIn(volume);
    assert.throws(() => writer.write(payloadOf('new', 1)), {
      reason: 'OwnerRefused',
      message: /^Cannot give ".*\/d\/a" to user 1: run as root, or leave the owner out of the volume$/,
    });
    assert.deepEqual(visibleFiles(volume), { 'd/a': 'old' });
    assert.deepEqual(namesIn(volume), before);
  });

  test('a group that may not be given is counted, and does not make the volume look changed for ever', (t) => {
    const volume = temporaryDirectory(t);
    const writer = new AtomicWriter(volume);
    const first = writer.write(payloadOf('1'), { group: foreignGroup });
    assert.ok(first.changed && first.groupsRefused > 0);
    assert.equal(lstatSync(join(volume, '..data/d/a')).mode & 0o777, 0o640);
    for (let again = 0; again < 3; again += 1) {
      const { changed, version } = writer.write(payloadOf('1'), { group: foreignGroup });
      assert.deepEqual({ changed, version }, { changed: false, version: first.version });
    }
    assert.equal(writer.write(payloadOf('2'), { group: foreignGroup }).changed, true);
  });

  test("one's own group is given", (t) => {
    const volume = temporaryDirectory(t);
    const group = process.getgid?.() ?? 0;
    assert.equal(new AtomicWriter(volume).write(payloadOf('1'), { group }).groupsRefused, 0);
    assert.equal(statSync(join(volume, 'd')).mode & 0o7777, 0o2755);
    assert.equal(new AtomicWriter(volume).write(payloadOf('1'), { group }).changed, false);
  });

  test('a file whose mode shuts out its owner is compared, and keeps its mode', (t) => {
    const volume = temporaryDirectory(t);
    const payload: Payload = new Map([['a', { data: Buffer.from('1'), mode: 0 }]]);
    const { version } = new AtomicWriter(volume).write(payload);
    const again = new AtomicWriter(volume).write(payload);
    assert.deepEqual([again.changed, again.version], [false, version]);
    assert.equal(statSync(join(volume, 'a')).mode & 0o7777, 0);
  });

  test('a listing that meets a closed directory names it', (t) => {
    const volume = temporaryDirectory(t);
    const closed = join(volume, 'closed');
    mkdirSync(closed);
    chmodSync(closed, 0);
    try {
      assert.throws(() => listDirectory(volume), { reason: 'SystemCallFailed', code: 'EACCES', path: closed });
    } finally {
      chmodSync(closed, 0o700); // or the directory could not be removed, by some versions of Node
    }
  });

  test('a volume that may not be written keeps its content', (t) => {
    const volume = temporaryDirectory(t);
    const writer = new AtomicWriter(volume);
    writer.write(payloadOf('old'));
    chmodSync(volume, 0o555);
    assert.throws(() => writer.write(payloadOf('new')), { reason: 'VolumeWriteFailed', code: 'EACCES' });
    assert.equal(readFileSync(join(volume, 'd/a'), 'utf8'), 'old');
    chmodSync(volume, 0o755);
    assert.equal(writer.write(payloadOf('new')).changed, true);
  });

  test('a file that its owner may not read does not look changed for ever', (t) => {
    const writer = new AtomicWriter(temporaryDirectory(t));
    const changed = ['1', '1', '1', '2', '2'].map((text) => writer.write(payloadOf(text, undefined, 0)).changed);
    assert.deepEqual(changed, [true, false, false, true, false]);
  });

  test('applyGroup counts what is refused and goes on', async (t) => {
    const volume = temporaryDirectory(t);
    writeFileSync(join(volume, 'a'), '');
    chmodSync(join(volume, 'a'), 0o600);
    const outcome = await applyGroup(new Turns(() => 0), volume, { group: foreignGroup, readOnly: false });
    assert.deepEqual(outcome, { skipped: false, processed: 2, refused: 2 });
    assert.equal(statSync(join(volume, 'a')).mode & 0o777, 0o660);
  });
}
