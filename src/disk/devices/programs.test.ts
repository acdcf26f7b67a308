import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, createReadStream, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { ProgramMissingError, ProgramTimeoutError, systemPrograms } from './programs.ts';

const { signal } = new AbortController();
const timeoutMs = 240_000;

/** A program made of shell lines, in a directory of its own. */
function script(t: Parameters<typeof temporaryDirectory>[0], lines: string): string {
  const directory = temporaryDirectory(t);
  writeFileSync(join(directory, 'act'), `#!/bin/sh\n${lines}\n`);
  chmodSync(join(directory, 'act'), 0o755);
  return directory;
}

function programsIn(directory: string): ReturnType<typeof systemPrograms> {
  return systemPrograms({ searchPath: `${directory}:/usr/bin:/bin` });
}

test('a program gets its arguments unchanged, and its exit code and both outputs are returned', async (t) => {
  const programs = programsIn(script(t, 'printf "%s|" "$@"; echo bad >&2; exit 3'));
  const args = ['a b', '$(touch /tmp/never)', 'new\nline', '*', ''];
  assert.deepEqual(await programs.run({ program: 'act', args, timeoutMs }, signal), {
    status: 3,
    stdout: `${args.join('|')}|`,
    stderr: 'bad\n',
  });
});

test('a program sees English and the system’s own directories, nothing else', async () => {
  const { stdout } = await systemPrograms().run({ program: 'env', args: [], timeoutMs }, signal);
  assert.deepEqual(stdout.trim().split('\n').toSorted(), ['LC_ALL=C', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin']);
});

test('a program that a signal ended has an exit code that says so', async (t) => {
  const programs = programsIn(script(t, 'kill -KILL $$'));
  assert.equal((await programs.run({ program: 'act', args: [], timeoutMs }, signal)).status, 137);
});

test('an argument with a NUL, which C would cut there, is refused', async () => {
  const act = systemPrograms().run({ program: 'true', args: ['a\0b'], timeoutMs }, signal);
  await assert.rejects(act, { reason: 'ProgramArgumentInvalid' });
});

test('a lot of output is cut, and the program is not stopped by it', async (t) => {
  const programs = programsIn(script(t, 'head -c 1000000 /dev/zero; exit 7'));
  const { status, stdout } = await programs.run({ program: 'act', args: [], timeoutMs }, signal);
  assert.equal(status, 7);
  assert.equal(stdout.length, 64 * 1024);
});

for (const { program, name } of [
  { program: 'mkfs.xfs', name: 'xfsprogs' },
  { program: 'mkfs.ext4', name: 'e2fsprogs' },
  { program: 'btrfs', name: 'btrfs-progs' },
  { program: 'losetup', name: 'mount' },
  { program: 'blkid', name: 'util-linux' },
]) {
  test(`the error for a missing ${program} names the package ${name}`, async (t) => {
    const programs = systemPrograms({ searchPath: temporaryDirectory(t) });
    await assert.rejects(programs.run({ program, args: [], timeoutMs }, signal), {
      name: ProgramMissingError.name,
      message: `Cannot run "${program}": it is not there; install the package "${name}" (its name in Debian)`,
    });
  });
}

test('a program that takes too long is ended, and the outcome is uncertain', async (t) => {
  const programs = programsIn(script(t, 'exec sleep 600'));
  await assert.rejects(programs.run({ program: 'act', args: [], timeoutMs: 50 }, signal), (error) => {
    assert.ok(error instanceof ProgramTimeoutError);
    assert.equal(error.failureClass, 'uncertain');
    assert.equal(error.message, 'Cannot finish "act" within 1 s; see what the device or server is doing');
    return true;
  });
});

test('whatever a program has started ends with it', { timeout: timeoutMs }, async (t) => {
  const fifo = join(temporaryDirectory(t), 'fifo');
  execFileSync('mkfifo', [fifo]);
  const programs = programsIn(script(t, 'exec 3> "$1"; sleep 600 & echo started >&3; wait'));
  const stop = new AbortController();
  const running = programs.run({ program: 'act', args: [fifo], timeoutMs }, stop.signal);
  const held = createReadStream(fifo, 'utf8')[Symbol.asyncIterator]();
  assert.equal((await held.next()).value, 'started\n');
  stop.abort(new Error('enough'));
  await assert.rejects(running, /enough/);
  // Both have the pipe open: it ends when the last of them does, and not before.
  assert.equal((await held.next()).done, true);
});

test('an aborted program is ended, and the reason is reported', async (t) => {
  const programs = programsIn(script(t, 'exec sleep 600'));
  const stop = new AbortController();
  const running = programs.run({ program: 'act', args: [], timeoutMs }, stop.signal);
  stop.abort(new Error('shutting down'));
  await assert.rejects(running, /shutting down/);
  await assert.rejects(programs.run({ program: 'act', args: [], timeoutMs }, stop.signal), /shutting down/);
});

test('a server that a program leaves behind is not waited for', async (t) => {
  const pidFile = join(temporaryDirectory(t), 'pid');
  const programs = programsIn(script(t, 'sleep 600 & echo $! > "$1"; echo done'));
  const { status, stdout } = await programs.run({ program: 'act', args: [pidFile], timeoutMs }, signal);
  process.kill(Number(readFileSync(pidFile, 'utf8')));
  assert.deepEqual([status, stdout], [0, 'done\n']);
});
