/** This machine as the planning of sandboxes sees it, and the parts of sandboxes that are the same for every container. */
import { lstatSync, mkdirSync, readFileSync, readdirSync, readlinkSync, rmSync, symlinkSync, chmodSync } from 'node:fs';
import { join } from 'node:path';
import { parseMountTable } from '../../disk/mounts/mount-table.ts';
import type { PathLook } from './root-path.ts';
import type { HostMount, HostView } from './sandbox-plan.ts';

export function viewHost(): HostView {
  return { look, entries: (directory) => readdirSync(directory).sort(), mounts: readMounts() };
}

function look(path: string): PathLook {
  try {
    const status = lstatSync(path);
    if (status.isSymbolicLink()) return { kind: 'link', to: readlinkSync(path) };
    return { kind: status.isDirectory() ? 'directory' : 'file' };
  } catch {
    return undefined; // what we cannot see is not there for a container either
  }
}

function readMounts(): HostMount[] {
  return parseMountTable(readFileSync('/proc/self/mountinfo', 'utf8')).map(
    ({ mountPoint, fileSystem, options, optionalFields }) => ({
      mountPoint,
      fileSystem,
      options,
      propagates: optionalFields.some((field) => /^(shared|master):/.test(field)),
    }),
  );
}

/** What every container's tmpfs starts with: copied as a whole, because a shell has no way to make links itself. */
export function makeSkeleton(directory: string): void {
  rmSync(directory, { recursive: true, force: true });
  for (const name of ['m', 'host', 'dev', 'run', 'hidden', 'root', 'tmp', 'shm']) {
    mkdirSync(join(directory, name), { recursive: true });
    chmodSync(join(directory, name), name === 'tmp' || name === 'shm' ? 0o1777 : 0o755);
  }
  chmodSync(directory, 0o755); // it becomes the mode of the container's tmpfs
  const links: Readonly<Record<string, string>> = {
    fd: '/proc/self/fd',
    stdin: '/proc/self/fd/0',
    stdout: '/proc/self/fd/1',
    stderr: '/proc/self/fd/2',
    ptmx: 'pts/ptmx',
  };
  for (const [name, target] of Object.entries(links)) symlinkSync(target, join(directory, 'dev', name));
  for (const name of readdirSync('/')) {
    const seen = look(`/${name}`);
    if (seen?.kind === 'link') symlinkSync(seen.to, join(directory, 'root', name));
  }
}
