import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

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
