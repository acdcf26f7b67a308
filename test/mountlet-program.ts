/** Runs the real program in a process of its own, as a user would. */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { removeWithMounts } from '../src/testing/machine/temporary-directory.ts';

const project = fileURLToPath(new URL('../../', import.meta.url));
export const program = join(project, 'bin', 'mountlet.js');
const nobody = 65534;

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly input?: string;
  /** Run without root's privileges; as root a test switches to the user nobody for it. */
  readonly asOrdinaryUser?: boolean;
  readonly env?: Readonly<Record<string, string>>;
}

export function mountlet(
  args: readonly string[],
  { input = '', asOrdinaryUser = false, env = {} }: RunOptions = {},
): Ran {
  const [file = '', ...before] = programCommand(asOrdinaryUser);
  const { status, stdout, stderr } = spawnSync(file, [...before, ...args], {
    cwd: project,
    input,
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], HOME: '/nonexistent', ...env },
  });
  return { code: status, stdout, stderr };
}

/** The words that the program's arguments follow. */
export function programCommand(asOrdinaryUser: boolean): readonly string[] {
  const drop = asOrdinaryUser && process.getuid?.() === 0;
  const words = drop ? ['setpriv', `--reuid=${nobody}`, `--regid=${nobody}`, '--clear-groups'] : [];
  return [...words, process.execPath, program];
}

/** A root directory for one test. What the program leaves mounted there is unmounted when the test ends. */
export function rootDirectory(test: Pick<TestContext, 'after'>, under = tmpdir()): string {
  const directory = mkdtempSync(join(under, 'mountlet-test-'));
  chmodSync(directory, 0o777); // for the ordinary user
  test.after(() => {
    removeWithMounts(directory);
  });
  return directory;
}

export const isRoot = process.getuid?.() === 0;
