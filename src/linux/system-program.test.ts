/** Programs of system calls, compiled and run for real. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { arch } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../testing/machine/temporary-directory.ts';
import {
  type Architecture,
  type CompiledProgram,
  SystemProgram,
  failureBytes,
  isArchitecture,
  readFailure,
} from './system-program.ts';

const emulator = '/usr/bin/qemu-aarch64-static';
const machines: readonly {
  readonly architecture: Architecture;
  readonly words: readonly string[];
  readonly skip: string | false;
}[] = [
  { architecture: 'x64', words: [], skip: arch() === 'x64' ? false : 'needs an x64 processor' },
  {
    architecture: 'arm64',
    words: arch() === 'arm64' ? [] : [emulator],
    skip: arch() === 'arm64' || existsSync(emulator) ? false : 'needs an arm64 processor, or qemu-user-static',
  },
];

/** Runs with standard output as the status socket, and without the descriptor of itself that a spawner gives it. */
function run(
  t: Parameters<typeof temporaryDirectory>[0],
  words: readonly string[],
  { image }: CompiledProgram,
): ReturnType<typeof spawnSync> {
  const file = join(temporaryDirectory(t), 'program');
  writeFileSync(file, image);
  chmodSync(file, 0o755);
  const nothing = openSync('/dev/null', 'r');
  t.after(() => closeSync(nothing));
  const [program, ...args] = [...words, file];
  return spawnSync(program ?? file, args, { stdio: ['ignore', 'pipe', 'inherit', nothing, nothing] });
}

const currentDirectory = -100;

for (const { architecture, words, skip } of machines) {
  test(`${architecture}: steps run in their order, and descriptors are the ones that were foretold`, { skip }, (t) => {
    const target = join(temporaryDirectory(t), 'made');
    const program = new SystemProgram(4);
    const first = program.open('openat', [currentDirectory, program.text(target), 0o1101, 0o640]);
    const second = program.open('openat', [currentDirectory, program.text('/dev/null'), 0]);
    program.close(first);
    const again = program.open('openat', [currentDirectory, program.text(target), 0o1101, 0o640]);
    assert.deepEqual([first, second, again], [4, 5, 4]);
    program.call('write', [again, program.bytes(Buffer.from('text')), 4]);
    program.call('exit', [7]);
    const { status } = run(t, words, program.compile(architecture, 1));
    assert.equal(status, 7);
    assert.equal(readFileSync(target, 'utf8'), 'text');
  });

  test(`${architecture}: the step that fails is reported with its error, and nothing after it runs`, { skip }, (t) => {
    const target = join(temporaryDirectory(t), 'made');
    const program = new SystemProgram(4);
    program.call('chdir', [program.text('/no/such')], { onError: 'ignore' });
    program.call('chdir', [program.text('/no/such/either')], { what: 'go there' });
    program.call('mkdirat', [currentDirectory, program.text(target), 0o755]);
    program.call('exit', [0]);
    const compiled = program.compile(architecture, 1);
    const { status, stdout } = run(t, words, compiled);
    assert.equal(status, 127);
    assert.deepEqual(readFailure(stdout as Buffer, compiled.steps), { call: 'chdir', what: 'go there', errno: 2 });
    assert.ok(!existsSync(target));
  });

  test(
    `${architecture}: a child goes on where its parent does not, and a program is executed with its words`,
    { skip },
    (t) => {
      const program = new SystemProgram(4);
      const parent = { step: undefined };
      program.call('clone', [17, 0, 0, 0, 0], { onPositive: parent });
      const list = program.words([
        program.text('printf'),
        program.text('%s|%s'),
        program.text('a b'),
        program.text(''),
        0,
      ]);
      program.call('execve', [program.text('/usr/bin/printf'), list, program.words([0])]);
      program.mark(parent);
      program.call('ppoll', [0, 0, program.words([0, 300_000_000]), 0]);
      program.call('exit', [3]);
      const { status, stdout } = run(t, words, program.compile(architecture, 2));
      assert.equal(status, 3);
      assert.equal(String(stdout), 'a b|');
    },
  );
}

test('a report that is none is none', () => {
  const { steps } = new SystemProgram(1).compile('x64', 0);
  for (const bytes of [
    Buffer.alloc(0),
    Buffer.alloc(failureBytes),
    Buffer.alloc(failureBytes, 0xff),
    Buffer.alloc(99),
  ]) {
    assert.equal(readFailure(bytes, steps), undefined);
  }
  assert.deepEqual(['x64', 'arm64', 'riscv64'].map(isArchitecture), [true, true, false]);
});
