import assert from 'node:assert/strict';
import { closeSync, mkdirSync, openSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { SystemCallError } from '../../linux/system-call-error.ts';
import { type SystemCalls, loadSystemCalls, moveFlags } from '../../linux/system-calls.ts';
import {
  directoryForMounts,
  mountPointsBelow,
  needsMounts,
  temporaryDirectory,
  unavailableMounts,
} from '../../testing/machine/temporary-directory.ts';
import { openPathOnly, readMountTable } from './mount-table.ts';
import { systemMounts } from './mounts.ts';
import { replaceableMounts } from './replaceable-mounts.ts';

const mounts = systemMounts();
const { unavailable } = replaceableMounts(mounts);
const skip = unavailable === undefined ? false : `needs to exchange mounts: ${unavailable}`;
const mountsNeeded = needsMounts(mounts);

function withDescriptor(path: string, use: (descriptor: number) => void): void {
  const descriptor = openSync(path, openPathOnly);
  try {
    use(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

test(
  'a mount takes the place of another, read-only and with its restrictions, and the number stays one',
  { skip },
  (t) => {
    const directory = directoryForMounts(t);
    const target = join(directory, 'target');
    mkdirSync(target);
    const exchange = replaceableMounts(mounts);
    for (const version of ['a', 'b', 'c']) {
      const source = join(directory, version);
      mkdirSync(source);
      writeFileSync(join(source, version), '');
      withDescriptor(source, (descriptor) =>
        exchange[version === 'a' ? 'place' : 'replace'](descriptor, target, ['noexec']),
      );
      assert.deepEqual(readdirSync(target), [version]);
      const entries = readMountTable().filter(({ mountPoint }) => mountPoint === target);
      assert.equal(entries.length, 1);
      for (const option of ['ro', 'noexec']) assert.ok(entries[0]?.options.includes(option), option);
      assert.throws(() => writeFileSync(join(target, 'new'), ''), { code: 'EROFS' });
    }
    exchange.detach(target);
    assert.deepEqual(readdirSync(target), []);
  },
);

test('replacing where nothing is mounted is refused', { skip }, (t) => {
  const directory = directoryForMounts(t);
  const [source, target] = [join(directory, 'source'), join(directory, 'target')];
  for (const path of [source, target]) writeFileSync(path, path);
  withDescriptor(source, (descriptor) =>
    assert.throws(() => replaceableMounts(mounts).replace(descriptor, target), { call: 'move_mount', code: 'EINVAL' }),
  );
  assert.equal(readFileSync(target, 'utf8'), target);
});

/** This kernel, except that a call fails. */
function kernelWhere(
  failing: Partial<Record<'openTree' | 'setMountAttributes' | 'beneath', string>>,
): () => SystemCalls {
  const calls = loadSystemCalls();
  const fail = (call: string, code: string | undefined): void => {
    if (code !== undefined) throw new SystemCallError({ call, path: '/', code });
  };
  return () => ({
    ...calls,
    openTree(path, flags) {
      fail('open_tree', failing.openTree);
      return calls.openTree(path, flags);
    },
    setMountAttributes(tree, change, flags) {
      fail('mount_setattr', failing.setMountAttributes);
      calls.setMountAttributes(tree, change, flags);
    },
    moveMount(tree, target, flags) {
      if (flags === moveFlags.beneath) fail('move_mount', failing.beneath);
      calls.moveMount(tree, target, flags);
    },
  });
}

const kernels = [
  { it: 'before 5.2', failing: { openTree: 'ENOSYS' }, reason: /does not have open_tree\(2\); Linux 6\.5 or later/ },
  { it: 'before 5.12', failing: { setMountAttributes: 'ENOSYS' }, reason: /does not have mount_setattr\(2\)/ },
  {
    it: 'before 6.5',
    failing: { beneath: 'EINVAL' },
    reason: /cannot put a mount beneath another; Linux 6\.5 or later/,
  },
  {
    it: 'that forbids it',
    failing: { beneath: 'EPERM' },
    reason: /move_mount\(2\) failed: operation not permitted; run as root/,
  },
];
for (const { it, failing, reason } of kernels) {
  test(`a kernel ${it} is found out by trying, and the trial leaves nothing`, { skip: mountsNeeded }, (t) => {
    const temporary = temporaryDirectory(t);
    const exchange = replaceableMounts(mounts, {
      loadSystemCalls: kernelWhere(failing),
      temporaryDirectory: temporary,
    });
    assert.match(exchange.unavailable ?? '', reason);
    assert.deepEqual([readdirSync(temporary), mountPointsBelow(temporary)], [[], []]);
  });
}

test('the trial of a kernel that can leaves nothing either', { skip }, (t) => {
  const temporary = temporaryDirectory(t);
  assert.equal(replaceableMounts(mounts, { temporaryDirectory: temporary }).unavailable, undefined);
  assert.deepEqual([readdirSync(temporary), mountPointsBelow(temporary)], [[], []]);
});

test('the reason says that mounting is not permitted, or that there is no place to try it', () => {
  assert.equal(replaceableMounts(unavailableMounts('run as root')).unavailable, 'run as root');
  const able = { ...unavailableMounts(), unavailable: undefined };
  const gone = replaceableMounts(able, { temporaryDirectory: '/nowhere' });
  assert.match(gone.unavailable ?? '', /ENOENT/);
});
