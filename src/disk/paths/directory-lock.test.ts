import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, readdirSync, statSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadSystemCalls } from '../../linux/system-calls.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { lockDirectory } from './directory-lock.ts';
import { DiskError } from '../mounts/disk-error.ts';

test('a locked directory is refused, with the pid and command of its holder, until it is released', (t) => {
  const directory = temporaryDirectory(t);
  const lock = lockDirectory(directory);
  assert.equal(statSync(join(directory, '.lock')).mode & 0o7777, 0o600);
  assert.equal(readFileSync(join(directory, '.lock'), 'utf8'), `${process.pid}\n`);
  assert.throws(
    () => lockDirectory(directory),
    (thrown) =>
      thrown instanceof DiskError &&
      thrown.reason === 'DirectoryInUse' &&
      thrown.message.startsWith(`Cannot use "${directory}": process ${process.pid} (${process.execPath} `) &&
      thrown.message.endsWith(') uses it; end that process, or choose another directory'),
  );
  lock.release();
  lock.release();
  assert.deepEqual(readdirSync(directory), []);
  lockDirectory(directory).release();
});

test('a killed process holds nothing', async (t) => {
  const directory = temporaryDirectory(t);
  const script = `
    import { lockDirectory } from '${new URL('./directory-lock.js', import.meta.url).href}';
    lockDirectory(${JSON.stringify(directory)});
    process.stdout.write('locked');
    setInterval(() => {}, 1e6);`;
  const holder = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(holder, 'exit');
  try {
    await once(holder.stdout, 'data');
    assert.throws(
      () => lockDirectory(directory),
      (thrown) => thrown instanceof DiskError && thrown.message.includes(`: process ${holder.pid} (`),
    );
  } finally {
    holder.kill('SIGKILL');
    await ended;
  }
  lockDirectory(directory).release();
});

test('a program started by the holder does not keep the lock', async (t) => {
  const directory = temporaryDirectory(t);
  const lock = lockDirectory(directory);
  const child = spawn('sleep', ['60'], { stdio: 'ignore' });
  const ended = once(child, 'exit');
  try {
    await once(child, 'spawn');
    lock.release();
    lockDirectory(directory).release();
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
});

test('a link in place of the lock file is refused and nothing is written where it points', (t) => {
  const directory = temporaryDirectory(t);
  writeFileSync(join(directory, 'victim'), 'content');
  symlinkSync('victim', join(directory, '.lock'));
  assert.throws(() => lockDirectory(directory), { code: 'ELOOP' });
  assert.equal(readFileSync(join(directory, 'victim'), 'utf8'), 'content');
});

test('a missing directory cannot be locked', (t) => {
  assert.throws(() => lockDirectory(join(temporaryDirectory(t), 'missing')), {
    code: 'ENOENT',
    reason: 'SystemCallFailed',
  });
});

test('a lock file that names no process is reported as another process', (t) => {
  const directory = temporaryDirectory(t);
  const lock = lockDirectory(directory);
  t.after(() => lock.release());
  writeFileSync(join(directory, '.lock'), 'rubbish');
  assert.throws(() => lockDirectory(directory), { message: /another process uses it/ });
});

test('after locking a file that is gone from the directory, the lock is retried with the current file', (t) => {
  const directory = temporaryDirectory(t);
  const path = join(directory, '.lock');
  const loads = [
    // The holder releases the lock between our opening and our locking of its file.
    () => unlinkSync(path),
    () => {},
  ];
  const lock = lockDirectory(directory, () => {
    loads.shift()?.();
    return loadSystemCalls();
  });
  assert.deepEqual(loads, []);
  assert.throws(() => lockDirectory(directory), { reason: 'DirectoryInUse' });
  lock.release();
});
