/** What a container is to a mount: a process in a mount namespace of its own, with some paths of the host bound into it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { type MountEntry, parseMountTable } from '../../disk/mounts/mount-table.ts';

export interface MountNamespaceSettings {
  /** Where the mount points are made. */
  readonly directory: string;
  readonly hostPaths: readonly string[];
  /** Run in it, with the mount points added to its arguments; without, it waits for its end. */
  readonly command?: readonly string[];
  /** In a user namespace too, as a container whose root is not the host's. */
  readonly userNamespace?: boolean;
}

// As a runtime does it: bound without propagation back to the host, then read-only. `read` ends with this process.
const script = `
  count=$1; shift
  while [ "$count" -gt 0 ]; do
    mount --bind "$1" "$2" && mount -o remount,bind,ro "$2" || exit 1
    shift 2; count=$((count - 1))
  done
  echo ready
  if [ $# -eq 0 ]; then read line; else exec "$@"; fi`;

export class MountNamespace {
  readonly process: ChildProcess;
  readonly lines: AsyncIterator<string>;
  readonly #points: readonly string[];

  constructor(process: ChildProcess, lines: AsyncIterator<string>, points: readonly string[]) {
    this.process = process;
    this.lines = lines;
    this.#points = points;
  }

  static async start(
    test: Pick<TestContext, 'after'>,
    { directory, hostPaths, command = [], userNamespace = false }: MountNamespaceSettings,
  ): Promise<MountNamespace> {
    const points = hostPaths.map((hostPath, index) => makePoint(hostPath, join(directory, `point-${index}`)));
    const binds = hostPaths.flatMap((hostPath, index) => [hostPath, points[index] ?? '']);
    const run = command.length === 0 ? [] : [...command, ...points];
    const child = spawn(
      'unshare',
      [
        ...(userNamespace ? ['--user', '--map-root-user'] : []),
        '--mount',
        '--propagation',
        'slave',
        'sh',
        '-c',
        script,
        'sh',
        String(hostPaths.length),
        ...binds,
        ...run,
      ],
      { stdio: ['pipe', 'pipe', 'inherit'] },
    );
    test.after(() => child.kill('SIGKILL'));
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    const { value } = await lines.next();
    if (value !== 'ready') throw new Error(`a mount namespace did not start: ${String(value)}`);
    return new MountNamespace(child, lines, points);
  }

  /** A path in it, as this process can open it. */
  path(index: number, ...names: readonly string[]): string {
    return join(`/proc/${this.process.pid}/root`, this.#points[index] ?? '', ...names);
  }

  read(index: number, ...names: readonly string[]): string {
    return readFileSync(this.path(index, ...names), 'utf8');
  }

  /** What is mounted there, the topmost last. */
  mountsAt(index: number): MountEntry[] {
    const table = parseMountTable(readFileSync(`/proc/${this.process.pid}/mountinfo`, 'utf8'));
    return table.filter(({ mountPoint }) => mountPoint === this.#points[index]);
  }
}

function makePoint(hostPath: string, point: string): string {
  if (statSync(hostPath).isDirectory()) mkdirSync(point, { recursive: true });
  else writeFileSync(point, '');
  return point;
}
