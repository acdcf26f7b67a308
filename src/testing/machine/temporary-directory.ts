/** Directories that go with their test, with or without mounts below them. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { isMountPoint } from '../../disk/mounts/mount-table.ts';
import type { Mounts } from '../../disk/mounts/mounts.ts';
import { SystemCallError } from '../../linux/system-call-error.ts';

/** A directory on disk that goes with the test. `under` chooses the file system: '/dev/shm' is a tmpfs. */
export function temporaryDirectory(test: { after(act: () => void): void }, under = tmpdir()): string {
  const directory = mkdtempSync(join(under, 'mountlet-test-'));
  test.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Mount points at or below a directory, deepest first: what a test must unmount before its directory can go. */
export function mountPointsBelow(directory: string): string[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) =>
      (line.split(' ')[4] ?? '').replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8))),
    )
    .filter((path) => path === directory || path.startsWith(`${directory}/`))
    .toSorted((a, b) => b.length - a.length);
}

/** A directory that goes with the test, after everything mounted below it was unmounted, whatever the test did. */
export function directoryForMounts(test: Pick<TestContext, 'after'>, under = tmpdir()): string {
  const directory = mkdtempSync(join(under, 'mountlet-mounts-'));
  test.after(() => removeWithMounts(directory));
  return directory;
}

export function removeWithMounts(directory: string): void {
  for (const mountPoint of mountPointsBelow(directory)) spawnSync('umount', ['--lazy', mountPoint]);
  // With a mount left in it, deleting the tree would delete what is mounted.
  if (mountPointsBelow(directory).length === 0) rmSync(directory, { recursive: true, force: true });
}

/** For `test(name, { skip: needsMounts(mounts) }, ...)`: false where mounts can be made, else the reason. */
export function needsMounts(mounts: Mounts): string | false {
  return mounts.unavailable === undefined ? false : `needs to mount: ${mounts.unavailable}`;
}

/** Whether this process may take and give away that user id: root may, and in a user namespace only the mapped ones. */
export function canActAs(uid: number): boolean {
  if (process.getuid?.() !== 0) return false;
  return readFileSync('/proc/self/uid_map', 'utf8')
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .some(([first = 0, , count = 0]) => first <= uid && uid < first + count);
}

/** Mounts as an ordinary user has them: none can be made, questions are answered. */
export function unavailableMounts(reason = 'mounts are switched off in this test'): Mounts {
  return {
    unavailable: reason,
    mountTmpfs: refuse,
    mountHugetlbfs: refuse,
    bind: (_source, target) => refuse(target),
    bindFileDescriptor: (_descriptor, target) => refuse(target),
    unmount: refuse,
    isMountPoint,
  };
}

function refuse(path: string): never {
  throw new SystemCallError({ call: 'mount', path, code: 'EPERM' });
}
