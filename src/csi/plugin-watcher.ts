/**
 * The registration sockets of plugins: unix sockets in a directory of the node and below it, with any name that does not begin with
 * a dot. Changes are read from the directory itself: an event of the file system only says that it is time to look, and what no
 * event reported is found by the next sweep.
 */
import { type Dirent, type FSWatcher, watch } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import { WakeSignal } from '../base/wake-signal.ts';
import { makeDirectories } from '../disk/paths/directories.ts';

/** Path to identity, which differs for a socket that was removed and made again. */
export type PluginSockets = ReadonlyMap<string, string>;

const sweepMs = 10_000;
/** A node has a few drivers, each with one socket; a directory that something fills with others costs no more than these. */
const socketsMax = 256;
const directoriesMax = 64;

/** All sockets at the start, after each change and at each sweep. Makes the directory, also when it was removed meanwhile. */
export async function* watchPluginSockets(
  directory: string,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<PluginSockets> {
  const changed = new WakeSignal();
  const watches = new DirectoryWatches(() => changed.wake());
  try {
    while (!signal.aborted) {
      makeDirectories(directory);
      yield await readSockets(directory, watches);
      await changed.sleep(sweepMs, clock, signal);
    }
  } finally {
    watches.keep(new Set());
  }
}

async function readSockets(top: string, watches: DirectoryWatches): Promise<PluginSockets> {
  const sockets = new Map<string, string>();
  const directories = new Set([top]);
  for (const directory of directories) {
    for (const entry of await entriesOf(directory, watches)) {
      const path = join(directory, entry.name);
      if (entry.name.startsWith('.')) continue;
      if (entry.isDirectory() && directories.size < directoriesMax) directories.add(path);
      if (!entry.isSocket() || sockets.size >= socketsMax) continue;
      const identity = await identityOf(path);
      if (identity !== undefined) sockets.set(path, identity);
    }
  }
  watches.keep(directories);
  return sockets;
}

/** Links are not followed: a socket elsewhere is no concern of this directory. What vanishes meanwhile is not there. */
async function entriesOf(directory: string, watches: DirectoryWatches): Promise<readonly Dirent[]> {
  try {
    // Watched first, so that what comes while it is read causes an event.
    watches.add(directory, await identityOf(directory));
    return await readdir(directory, { withFileTypes: true });
  } catch {
    return [];
  }
}

/** Numbers of files are used again; the time of birth, which most file systems keep, tells two with one number apart. */
async function identityOf(path: string): Promise<string | undefined> {
  try {
    const { dev, ino, birthtimeNs } = await lstat(path, { bigint: true });
    return `${dev}:${ino}:${birthtimeNs}`;
  } catch {
    return undefined;
  }
}

/** One watch for each directory. Where the system allows no more of them, sweeps have to do. */
class DirectoryWatches {
  readonly #changed: () => void;
  /** Something came or went. What is written into a file, a log say, is no reason to look. */
  readonly #heard = (event: string): void => {
    if (event === 'rename') this.#changed();
  };
  readonly #watchers = new Map<string, { readonly identity: string | undefined; readonly watcher: FSWatcher }>();

  constructor(changed: () => void) {
    this.#changed = changed;
  }

  add(directory: string, identity: string | undefined): void {
    const known = this.#watchers.get(directory);
    if (known !== undefined && known.identity === identity) return;
    known?.watcher.close();
    this.#watchers.delete(directory);
    try {
      const watcher = watch(directory, { persistent: false }, this.#heard);
      watcher.on('error', this.#changed);
      this.#watchers.set(directory, { identity, watcher });
    } catch {
      // Swept.
    }
  }

  keep(directories: ReadonlySet<string>): void {
    for (const [directory, { watcher }] of this.#watchers) {
      if (!directories.has(directory) && this.#watchers.delete(directory)) watcher.close();
    }
  }
}
