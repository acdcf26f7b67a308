import assert from 'node:assert/strict';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { doneElsewhere } from '../devices/foreign-paths.ts';
import { systemPrograms } from '../devices/programs.ts';
import { DiskError } from '../mounts/disk-error.ts';

const script = new URL('./group-program.js', import.meta.url);
const { signal } = new AbortController();
const skip = process.geteuid?.() === 0 ? false : 'needs root: it gives files to another group';

test('another process gives all files of a directory to a group', { skip }, async (t) => {
  const directory = temporaryDirectory(t);
  mkdirSync(join(directory, 'deep'));
  writeFileSync(join(directory, 'deep', 'file'), '', { mode: 0o600 });
  const request = { directory, change: { group: 2000, readOnly: false, policy: 'Always' } };
  await doneElsewhere(systemPrograms(), { path: directory, script, request, timeoutMs: 60_000 }, signal);
  const { gid, mode } = statSync(join(directory, 'deep', 'file'));
  assert.deepEqual([gid, mode & 0o777], [2000, 0o660]);
  assert.equal(statSync(join(directory, 'deep')).mode & 0o7777, 0o2775);
});

test('what the other process cannot do is an error here', { skip }, async (t) => {
  const directory = join(temporaryDirectory(t), 'missing');
  const request = { directory, change: { group: 2000, readOnly: false } };
  await assert.rejects(
    doneElsewhere(systemPrograms(), { path: directory, script, request, timeoutMs: 60_000 }, signal),
    DiskError,
  );
});
