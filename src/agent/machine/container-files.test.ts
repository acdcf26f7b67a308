import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { aPod } from '../../testing/fakes/builders.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { containerFiles, logTail } from './container-files.ts';

const { signal } = new AbortController();
const pod = aPod({ metadata: { uid: 'u1' } });

test('directories of pods come with the mode of the kubelet', async (t) => {
  const root = temporaryDirectory(t);
  const files = containerFiles({ root, logRoot: join(root, 'logs'), tailLog: () => Promise.resolve('') });
  await files.makePodDirectories(pod, signal);
  await files.makePodDirectories(pod, signal);
  assert.equal(statSync(files.podDirectory('u1')).mode & 0o777, 0o750);
  assert.equal(files.logDirectory(pod), join(root, 'logs', 'shop_web_u1'));
});

test('a termination message is written by anybody, read in part, and never through a link', async (t) => {
  const root = temporaryDirectory(t);
  const files = containerFiles({ root, logRoot: join(root, 'logs'), tailLog: () => Promise.resolve('') });
  await files.makePodDirectories(pod, signal);
  const path = await files.makeMessageFile('u1', 'main', 3, signal);
  assert.equal(statSync(path).mode & 0o777, 0o666);
  assert.equal(await files.readMessageFile(path, 10, signal), '');
  writeFileSync(path, 'no licence was found');
  assert.equal(await files.readMessageFile(path, 10, signal), ' was found');
  rmSync(path);
  assert.equal(await files.readMessageFile(path, 10, signal), '');
  writeFileSync(join(root, 'secret'), 'secret');
  symlinkSync(join(root, 'secret'), path);
  await assert.rejects(files.readMessageFile(path, 10, signal), /ELOOP|symbolic link/i);
  await files.removeLog(join(root, 'never-there.log'), signal);
});

test('in a directory of logs that nodes share only those of the own pods are found and removed', async (t) => {
  const root = temporaryDirectory(t);
  const logRoot = temporaryDirectory(t);
  const files = containerFiles({ root, logRoot, tailLog: () => Promise.resolve('') });
  mkdirSync(join(logRoot, 'shop_theirs_u2'));
  writeFileSync(join(logRoot, 'a-file'), '');
  await files.makePodDirectories(pod, signal);
  await files.makePodDirectories(pod, signal);
  assert.deepEqual(await files.podsWithLogs(signal), ['u1']);
  for (const uid of ['u1', 'u2']) await files.removePodLogs(uid, signal);
  assert.deepEqual(readdirSync(logRoot), ['a-file', 'shop_theirs_u2']);
});

test('a container without a log loses nothing', async (t) => {
  const root = temporaryDirectory(t);
  const files = containerFiles({ root, logRoot: join(root, 'logs'), tailLog: () => Promise.resolve('') });
  const before = readdirSync('.');
  for (const path of ['', 'package']) await files.removeLog(path, signal);
  assert.deepEqual(readdirSync('.'), before);
});

test('of a line that never ended only the end is a termination message', async (t) => {
  const path = join(temporaryDirectory(t), '0.log');
  const part = `2026-01-02T03:04:05Z stdout P ${'x'.repeat(16 * 1024)}\n`;
  writeFileSync(path, part.repeat(1_000));
  writeFileSync(path, '2026-01-02T03:04:05Z stdout F no licence\n', { flag: 'a' });
  const tail = await logTail(systemClock)(path, 20, 80, signal);
  assert.equal(tail, `${'x'.repeat(9)}no licence\n`);
});
