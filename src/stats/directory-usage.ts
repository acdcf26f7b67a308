/** How much directories and file systems hold. A walk costs what there is to walk, so it is done rarely and its result kept. */
import { type Dirent, type Stats } from 'node:fs';
import { lstat, readdir, stat, statfs } from 'node:fs/promises';
import type { Clock } from '../base/clock.ts';
import { Semaphore } from '../base/semaphore.ts';

export interface FileSystemUsage {
  readonly device: number;
  readonly availableBytes: number;
  readonly capacityBytes: number;
  readonly usedBytes: number;
  readonly inodesFree: number;
  readonly inodes: number;
  readonly inodesUsed: number;
}

export interface TreeUsage {
  readonly usedBytes: number;
  readonly inodesUsed: number;
  readonly atMs: number;
}

/** A walk that takes long is repeated less often: at most a tenth of the time goes into walks of one directory. */
const restFactor = 9;
/** Walks at once. */
const walksMax = 2;
/** What is kept of directories that nobody asks about any more. */
const keptMsMax = 600_000;
/** A pod can make more files than anybody wants to count: what is beyond is not counted. */
const entriesMax = 2_000_000;

interface Known {
  usage: TreeUsage | undefined;
  dueMs: number;
  walk: Promise<TreeUsage> | undefined;
}

export class DirectoryUsage {
  readonly #clock: Clock;
  readonly #periodMs: number;
  readonly #trees = new Map<string, Known>();
  readonly #walks = new Semaphore(walksMax);
  readonly #closing = new AbortController();

  /** A directory is walked once in `periodMs`. */
  constructor(clock: Clock, periodMs: number) {
    this.#clock = clock;
    this.#periodMs = periodMs;
  }

  async fileSystem(path: string): Promise<FileSystemUsage> {
    const [{ dev }, { bsize, blocks, bfree, bavail, files, ffree }] = await Promise.all([stat(path), statfs(path)]);
    return {
      device: dev,
      availableBytes: bavail * bsize,
      capacityBytes: blocks * bsize,
      usedBytes: (blocks - bfree) * bsize,
      inodesFree: ffree,
      inodes: files,
      inodesUsed: files - ffree,
    };
  }

  /** Of a directory with all that is in it, or a file; nothing of one that is not there. At most some minutes old. */
  async tree(path: string, signal: AbortSignal): Promise<TreeUsage> {
    const now = this.#clock.now();
    const known = this.#trees.get(path) ?? { usage: undefined, dueMs: 0, walk: undefined };
    this.#trees.set(path, known);
    if (now >= known.dueMs && known.walk === undefined) {
      known.walk = this.#measure(path, known).finally(() => (known.walk = undefined));
      known.walk.catch(() => {}); // who waits for it hears of it
      this.#forget(now);
    }
    if (known.usage !== undefined) return known.usage;
    signal.throwIfAborted();
    return (await known.walk) ?? { usedBytes: 0, inodesUsed: 0, atMs: now };
  }

  /** Ends walks that are under way. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.allSettled([...this.#trees.values()].flatMap((known) => known.walk ?? []));
  }

  async #measure(path: string, known: Known): Promise<TreeUsage> {
    const { signal } = this.#closing;
    const release = await this.#walks.acquire(signal);
    try {
      const beganMs = this.#clock.now();
      const usage = { ...(await walk(path, signal)), atMs: beganMs };
      const endedMs = this.#clock.now();
      known.usage = usage;
      known.dueMs = endedMs + Math.max(this.#periodMs, (endedMs - beganMs) * restFactor);
      return usage;
    } finally {
      release();
    }
  }

  #forget(now: number): void {
    for (const [path, { dueMs, walk: running }] of this.#trees) {
      if (running === undefined && dueMs + keptMsMax < now) this.#trees.delete(path);
    }
  }
}

/** Like `du -x`: blocks, not sizes, and what has several names once. */
async function walk(root: string, signal: AbortSignal): Promise<Omit<TreeUsage, 'atMs'>> {
  const top = await unlessGone(stat(root));
  if (top === undefined) return { usedBytes: 0, inodesUsed: 0 };
  const linked = new Set<number>();
  let usedBytes = top.blocks * 512;
  let inodesUsed = 1;
  const count = ({ dev, ino, nlink, blocks }: Stats, isDirectory: boolean): boolean => {
    if (dev !== top.dev || linked.has(ino)) return false;
    if (nlink > 1 && !isDirectory) linked.add(ino);
    usedBytes += blocks * 512;
    inodesUsed += 1;
    return true;
  };
  const directories = top.isDirectory() ? [root] : [];
  for (let path = directories.pop(); path !== undefined; path = directories.pop()) {
    signal.throwIfAborted();
    if (inodesUsed >= entriesMax) break;
    const entries: Dirent[] = (await unlessGone(readdir(path, { withFileTypes: true }))) ?? [];
    for (const entry of entries) {
      const child = `${path}/${entry.name}`;
      const found = await unlessGone(lstat(child));
      const isDirectory = found?.isDirectory() ?? false;
      if (found !== undefined && count(found, isDirectory) && isDirectory) directories.push(child);
    }
  }
  return { usedBytes, inodesUsed };
}

/** Containers change what is walked meanwhile, and may take away the right to look. */
async function unlessGone<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch {
    return undefined;
  }
}
