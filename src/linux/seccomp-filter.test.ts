/** What the default profile answers, worked out as the kernel would. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { defaultSeccompFilter } from './seccomp-filter.ts';

const architectures = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;
const answers: Readonly<Record<number, string>> = {
  0x7fff0000: 'allowed',
  0x80000000: 'killed',
  0x00050001: 'EPERM',
  0x00050026: 'ENOSYS',
};

/** Classic BPF, as far as the filter uses it. */
function evaluate(filter: Buffer, architecture: number, number: number, argument = 0): string {
  let value = 0;
  for (let at = 0, steps = 0; ; at += 1, steps += 1) {
    assert.ok(at * 8 < filter.length && steps < 4096, 'a filter ends with an answer');
    const code = filter.readUInt16LE(at * 8);
    const operand = filter.readUInt32LE(at * 8 + 4);
    const skips = (holds: boolean): number => filter.readUInt8(at * 8 + (holds ? 2 : 3));
    if (code === 0x20) value = { 0: number, 4: architecture, 16: argument }[operand] ?? Number.NaN;
    else if (code === 0x06) return answers[operand] ?? String(operand);
    else if (code === 0x15) at += skips(value === operand);
    else if (code === 0x25) at += skips(value > operand);
    else if (code === 0x45) at += skips((value & operand) !== 0);
    else assert.fail(`code ${code}`);
  }
}

const cases = [
  { it: 'read', number: 0, says: 'allowed' },
  { it: 'execve', number: 59, says: 'allowed' },
  { it: 'mount', number: 165, says: 'EPERM', unless: 'SYS_ADMIN' },
  { it: 'unshare', number: 272, says: 'EPERM', unless: 'SYS_ADMIN' },
  { it: 'setns', number: 308, says: 'EPERM', unless: 'SYS_ADMIN' },
  { it: 'bpf', number: 321, says: 'EPERM', unless: 'BPF' },
  { it: 'open_by_handle_at', number: 304, says: 'EPERM', unless: 'DAC_READ_SEARCH' },
  { it: 'keyctl', number: 250, says: 'EPERM' },
  { it: 'io_uring_setup', number: 425, says: 'EPERM' },
  { it: 'userfaultfd', number: 323, says: 'EPERM' },
  { it: 'clone of a thread', number: 56, argument: 0x3d0f00, says: 'allowed' },
  { it: 'clone with a user namespace', number: 56, argument: 0x10000000, says: 'EPERM', unless: 'SYS_ADMIN' },
  { it: 'clone3, whose flags no filter can read', number: 435, says: 'ENOSYS', unless: 'SYS_ADMIN' },
  { it: 'socket of the internet', number: 41, argument: 2, says: 'allowed' },
  { it: 'socket to a hypervisor', number: 41, argument: 40, says: 'EPERM' },
  { it: 'personality of Linux', number: 135, argument: 0, says: 'allowed' },
  { it: 'personality without address randomisation', number: 135, argument: 0x40000, says: 'EPERM' },
  { it: 'a call newer than the table', number: 9999, says: 'ENOSYS' },
  { it: 'a call of the x32 ABI', number: 0x40000000, says: 'ENOSYS' },
];
for (const { it, number, argument, says, unless } of cases) {
  test(`the default profile answers ${it}: ${says}`, () => {
    assert.equal(evaluate(defaultSeccompFilter('x64', []), architectures.x64, number, argument), says);
    if (unless === undefined) return;
    assert.equal(evaluate(defaultSeccompFilter('x64', [unless]), architectures.x64, number, argument), 'allowed');
  });
}

test('a call of another architecture kills, and every call of ours has an answer', () => {
  fc.assert(
    fc.property(fc.constantFrom('x64', 'arm64'), fc.nat(2 ** 31), fc.nat(2 ** 31), (architecture, number, argument) => {
      const filter = defaultSeccompFilter(architecture, []);
      const other = architecture === 'x64' ? architectures.arm64 : architectures.x64;
      assert.equal(evaluate(filter, other, number, argument), 'killed');
      assert.match(evaluate(filter, architectures[architecture], number, argument), /^(allowed|EPERM|ENOSYS)$/);
    }),
  );
});
