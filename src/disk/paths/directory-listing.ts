/** What stands in a directory, for people and for checks: names, modes, owners, link targets, sizes and digests. */
import { createHash } from 'node:crypto';
import { closeSync, fstatSync, lstatSync, readFileSync, readSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { systemCallError } from '../../linux/system-call-error.ts';
import { openToRead } from './safe-open.ts';

interface EntryFacts {
  readonly name: string;
  /** Permission bits with setuid, setgid and sticky. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}
interface FileEntry extends EntryFacts {
  readonly kind: 'file';
  readonly sizeBytes: number;
  readonly sha256: string;
}
interface LinkEntry extends EntryFacts {
  readonly kind: 'link';
  readonly target: string;
}
export interface DirectoryEntry extends EntryFacts {
  readonly kind: 'directory';
  readonly entries: readonly Entry[];
}
/** A device, socket or fifo: named, never opened. */
interface OtherEntry extends EntryFacts {
  readonly kind: 'other';
}
export type Entry = FileEntry | LinkEntry | DirectoryEntry | OtherEntry;

/** Reads a directory to its depth, sorted by name, links not followed. Throws a SystemCallError. */
export function listDirectory(directory: string): DirectoryEntry {
  try {
    return list(directory, '');
  } catch (thrown) {
    throw systemCallError(thrown, pathOf(thrown) ?? directory);
  }
}

/** The entry below that could not be read. */
function pathOf(thrown: unknown): string | undefined {
  return thrown instanceof Error && 'path' in thrown && typeof thrown.path === 'string' ? thrown.path : undefined;
}

function list(directory: string, name: string): DirectoryEntry {
  const entries = readdirSync(directory)
    .toSorted(byBytes)
    .map((child) => entryOf(join(directory, child), child));
  return { kind: 'directory', ...factsOf(directory, name), entries };
}

export interface VisibleFile extends FileEntry {
  /** Relative to the volume: the path a program uses. */
  readonly path: string;
}

/** The files a program finds in a projected volume: those behind the first-level links, by their public paths. */
export function visibleFiles({ entries }: DirectoryEntry): readonly VisibleFile[] {
  const data = entries.find(({ name }) => name === '..data');
  const version = data?.kind === 'link' ? entries.find(({ name }) => name === data.target) : undefined;
  const behind = version?.kind === 'directory' ? version.entries : [];
  return entries.flatMap((entry) => {
    if (entry.name.startsWith('..')) return [];
    if (entry.kind !== 'link') return filesIn(entry, '');
    const target = entry.target === `..data/${entry.name}` ? behind.find(({ name }) => name === entry.name) : undefined;
    return target === undefined ? [] : filesIn(target, '');
  });
}

function filesIn(entry: Entry, parent: string): VisibleFile[] {
  const path = join(parent, entry.name);
  if (entry.kind === 'file') return [{ ...entry, path }];
  return entry.kind === 'directory' ? entry.entries.flatMap((child) => filesIn(child, path)) : [];
}

function entryOf(path: string, name: string): Entry {
  const stat = lstatSync(path);
  if (stat.isDirectory()) return list(path, name);
  if (stat.isSymbolicLink()) return { kind: 'link', ...factsOf(path, name), target: readlinkSync(path) };
  if (!stat.isFile()) return { kind: 'other', ...factsOf(path, name) };
  return { kind: 'file', ...factsOf(path, name), ...digestOf(path) };
}

function factsOf(path: string, name: string): EntryFacts {
  const { mode, uid, gid } = lstatSync(path);
  return { name, mode: mode & 0o7777, uid, gid };
}

const chunkBytes = 64 * 1024;

function digestOf(path: string): { sizeBytes: number; sha256: string } {
  const descriptor = openToRead(path);
  try {
    const hash = createHash('sha256');
    const chunk = Buffer.allocUnsafe(chunkBytes);
    for (let count = readSync(descriptor, chunk); count > 0; count = readSync(descriptor, chunk)) {
      hash.update(chunk.subarray(0, count));
    }
    return { sizeBytes: fstatSync(descriptor).size, sha256: hash.digest('hex') };
  } finally {
    closeSync(descriptor);
  }
}

function byBytes(a: string, b: string): number {
  return a < b ? -1 : 1;
}

/** Names of users and groups of this machine, for people. The databases are read once, when first asked. */
export interface OwnerNames {
  userName(uid: number): string;
  groupName(gid: number): string;
}

export function ownerNames(): OwnerNames {
  const users = namesIn('/etc/passwd');
  const groups = namesIn('/etc/group');
  return {
    userName: (uid) => users().get(uid) ?? String(uid),
    groupName: (gid) => groups().get(gid) ?? String(gid),
  };
}

/** Lines of `name:password:id:…`; a machine without the file has numbers only. */
function namesIn(file: string): () => ReadonlyMap<number, string> {
  let names: Map<number, string> | undefined;
  return () => {
    if (names !== undefined) return names;
    names = new Map();
    for (const line of readLines(file)) {
      const [name, , id] = line.split(':');
      if (name && id && /^\d+$/.test(id) && !names.has(Number(id))) names.set(Number(id), name);
    }
    return names;
  };
}

function readLines(file: string): readonly string[] {
  try {
    return readFileSync(file, 'utf8').split('\n');
  } catch {
    return [];
  }
}
