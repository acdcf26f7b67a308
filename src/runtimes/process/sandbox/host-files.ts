/**
 * What of this machine's files containers see.
 *
 *   all      everything but what is hidden
 *   system   what an image of this distribution would hold: programs and libraries, and of /etc what everyone may read
 *   none     nothing: programs come from volumes
 *
 * For `system` and `none` the root of a container is a tree of ours that is read once, when the runtime opens, and kept in memory
 * (container-program.ts, `hold`): a copy of the readable part of /etc and the usual empty directories. A copy, because a list
 * of what to hide would miss the key that is put there tomorrow. Programs are shown where they are, below that root.
 */
import { createHash } from 'node:crypto';
import { lstatSync, readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { foreignMountPoints, parseMountTable } from '../../../disk/mounts/mount-table.ts';
import { type PathLook, isBelow } from './root-path.ts';
import type { HostMount, HostView, SandboxRequest } from './sandbox-plan.ts';

export type HostFiles = 'none' | 'system' | 'all';

/** One entry of the tree that becomes the root of containers; parents come first. */
export type FileEntry =
  | { readonly kind: 'directory'; readonly path: string; readonly mode: number }
  | { readonly kind: 'file'; readonly path: string; readonly mode: number; readonly content: Buffer }
  | { readonly kind: 'link'; readonly path: string; readonly to: string };

export const programDirectories = '/usr /opt /bin /sbin /lib /lib32 /lib64 /libx32 /nix/store /gnu/store'.split(' ');
const emptyDirectories: Readonly<Record<string, number>> = {
  dev: 0o755,
  home: 0o755,
  media: 0o755,
  mnt: 0o755,
  proc: 0o555,
  root: 0o700,
  run: 0o755,
  srv: 0o755,
  sys: 0o555,
  tmp: 0o1777,
  var: 0o755,
  'var/cache': 0o755,
  'var/lib': 0o755,
  'var/log': 0o755,
  'var/spool': 0o755,
  'var/tmp': 0o1777,
};
/** The table of a machine with many pods takes long to read; what a container sees of it rarely changes. */
const mountsMs = 1_000;
/** Configuration files are not larger, nor are all of them together: what is kept in memory has a bound. */
const fileBytesMax = 2 * 1024 * 1024;
const totalBytesMax = 12 * 1024 * 1024;

export class HostFilesView {
  readonly entries: readonly FileEntry[];
  /** The same for the same files. */
  readonly name: string;
  readonly #directories: readonly string[];
  readonly #root: string;
  readonly #looks: ReadonlyMap<string, PathLook>;
  #mounts: { readonly atMs: number; readonly known: readonly HostMount[]; readonly foreign: ReadonlySet<string> } = {
    atMs: -Infinity,
    known: [],
    foreign: new Set(),
  };

  /** `root`: where the tree stands while a container is made. */
  constructor(hostFiles: HostFiles, added: readonly string[], root: string) {
    this.#root = hostFiles === 'all' ? '/' : root;
    this.entries = hostFiles === 'all' ? [] : makeEntries(hostFiles);
    const shown = hostFiles === 'system' ? programDirectories.filter((path) => look(path)?.kind === 'directory') : [];
    // What is below a directory that is shown is there already.
    const more = added.filter((path) => hostFiles !== 'all' && !shown.some((directory) => isBelow(directory, path)));
    this.#directories = [...new Set([...shown, ...more])];
    this.#looks = new Map(
      this.entries.map((entry) => [
        entry.path,
        entry.kind === 'link' ? { kind: 'link', to: entry.to } : { kind: entry.kind },
      ]),
    );
    const hash = createHash('sha256');
    for (const entry of this.entries) hash.update(JSON.stringify({ ...entry, content: undefined }));
    for (const entry of this.entries) if (entry.kind === 'file') hash.update(entry.content);
    this.name = hash.digest('hex').slice(0, 16);
  }

  get view(): SandboxRequest['view'] {
    return { root: this.#root, directories: this.#directories };
  }

  /** The machine as it is now, with the tree at its place. Its mounts may have been read a moment ago, for another container. */
  host(nowMs: number): HostView {
    if (Math.abs(nowMs - this.#mounts.atMs) >= mountsMs) {
      this.#mounts = { atMs: nowMs, known: readMounts(), foreign: foreignMountPoints() };
    }
    const inTree = (path: string): string | undefined =>
      this.#root !== '/' && isBelow(this.#root, path) ? path.slice(this.#root.length + 1) : undefined;
    return {
      look: (path) => {
        const own = inTree(path);
        // The directory of a server is taken for one without a look: the server may be gone.
        if (own === undefined) return this.#mounts.foreign.has(path) ? { kind: 'directory' } : look(path);
        return own === '' ? { kind: 'directory' } : this.#looks.get(own);
      },
      entries: (directory) => {
        const own = inTree(directory);
        if (own === undefined) return readdirSync(directory).sort();
        return [...this.#looks.keys()].filter((path) => !path.includes('/')).sort();
      },
      mounts: this.#mounts.known,
    };
  }
}

function makeEntries(hostFiles: HostFiles): FileEntry[] {
  const links = hostFiles === 'system' ? programDirectories.flatMap((path) => linkAt(path)) : [];
  return [
    ...Object.entries(emptyDirectories).map(([path, mode]): FileEntry => ({ kind: 'directory', path, mode })),
    { kind: 'link', path: 'var/run', to: '/run' },
    { kind: 'link', path: 'var/lock', to: '/run/lock' },
    ...links,
    { kind: 'directory', path: 'etc', mode: 0o755 },
    ...(hostFiles === 'system' ? readableFiles('/etc') : []),
  ];
}

function linkAt(path: string): FileEntry[] {
  const seen = look(path);
  return seen?.kind === 'link' ? [{ kind: 'link', path: path.slice(1), to: seen.to }] : [];
}

/** Files that everyone may read, in directories that everyone may enter. */
function readableFiles(directory: string): FileEntry[] {
  const found: FileEntry[] = [];
  const left = [directory];
  let totalBytes = 0;
  for (let current = left.pop(); current !== undefined; current = left.pop()) {
    for (const name of namesIn(current)) {
      const at = join(current, name);
      const path = at.slice(1);
      const status = lstatSync(at, { throwIfNoEntry: false });
      if (status === undefined) continue; // just deleted
      const mode = status.mode & 0o777;
      if (status.isSymbolicLink()) found.push({ kind: 'link', path, to: readlinkSync(at) });
      if (status.isDirectory() && (mode & 0o005) === 0o005) {
        found.push({ kind: 'directory', path, mode });
        left.push(at);
      }
      const fits = status.size <= fileBytesMax && totalBytes + status.size <= totalBytesMax;
      if (status.isFile() && (mode & 0o004) !== 0 && fits) {
        totalBytes += status.size;
        found.push({ kind: 'file', path, mode, content: readFileSync(at) });
      }
    }
  }
  return found;
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory).sort();
  } catch {
    return []; // just deleted
  }
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

export function readMounts(): HostMount[] {
  return parseMountTable(readFileSync('/proc/self/mountinfo', 'utf8')).map(
    ({ mountPoint, fileSystem, options, optionalFields }) => ({
      mountPoint,
      fileSystem,
      options,
      propagation: propagationOf(optionalFields),
    }),
  );
}

function propagationOf(fields: readonly string[]): HostMount['propagation'] {
  if (fields.some((field) => field.startsWith('shared:'))) return 'shared';
  return fields.some((field) => field.startsWith('master:')) ? 'slave' : 'private';
}
