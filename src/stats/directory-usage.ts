/** How much directories and file systems hold. A walk costs what there is to walk, so it is done rarely and its result kept. */
import type { Stats } from 'node:fs';
import { lstat, opendir, stat, statfs } from 'node:fs/promises';
import { within } from '../base/abort.ts';
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

interface MeasuredFileSystem extends FileSystemUsage {
  readonly atMs: number;
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
/** A pod can make more files than anybody wants to count: what is beyond either of these is not counted. */
const entriesMax = 2_000_000;
const walkMsMax = 60_000;
/** Entries of a directory in memory at once. */
const batchSize = 256;
/** How long an answer waits for a new figure before it takes an older one. */
const figureMsMax = 5_000;
/** Questions to disks that may be away, at once: each of those waits for a while. */
const foreignMax = 8;

export type AskForeign = (path: string, signal: AbortSignal) => Promise<FileSystemUsage>;
type Counted = Omit<TreeUsage, 'atMs'>;

/** What is known of a path, and how it is measured anew. */
interface Known<T> {
  usage: T | undefined;
  /** 0: it has never been measured to the end. */
  dueMs: number;
  askedMs: number;
  running: Promise<T> | undefined;
}

/** `soFar` gets what is known before the end. */
type Measure<T> = (soFar: (usage: T) => void) => Promise<T>;

export class DirectoryUsage {
  readonly #clock: Clock;
  readonly #periodMs: number;
  readonly #askForeign: AskForeign;
  readonly #trees = new Map<string, Known<TreeUsage>>();
  readonly #foreign = new Map<string, Known<MeasuredFileSystem>>();
  readonly #walks = new Semaphore(walksMax);
  readonly #foreignCalls = new Semaphore(foreignMax);
  readonly #closing = new AbortController();

  /** A directory is walked once in `periodMs`. `askForeign` measures a disk that may be away, and keeps no thread waiting. */
  constructor(clock: Clock, periodMs: number, askForeign: AskForeign) {
    this.#clock = clock;
    this.#periodMs = periodMs;
    this.#askForeign = askForeign;
  }

  /** Of the node's own disk or memory: whoever asks waits for it. */
  async fileSystem(path: string): Promise<FileSystemUsage> {
    return await fileSystemAt(path);
  }

  /** Of a disk that may be away, such as a server's: what was measured last, if ever. Only the first figure is waited for. */
  async foreignFileSystem(path: string, askDriver?: AskForeign): Promise<MeasuredFileSystem | undefined> {
    const isFirst = !this.#foreign.has(path);
    // A driver that does not answer must not take the turns of disks.
    const permits = askDriver === undefined ? this.#foreignCalls : undefined;
    const ask = askDriver ?? this.#askForeign;
    const known = this.#measured(this.#foreign, permits, path, async () => ({
      ...(await ask(path, this.#closing.signal)),
      atMs: this.#clock.now(),
    }));
    return isFirst && known.running ? await within(this.#clock, figureMsMax, known.running) : known.usage;
  }

  /**
   * Of a directory with all that is in it, or a file; nothing of one that is not there. A figure is older than the period, or
   * too small, only where a walk takes long.
   */
  async tree(path: string, signal: AbortSignal): Promise<TreeUsage> {
    signal.throwIfAborted();
    const known = this.#measured(this.#trees, this.#walks, path, async (soFar) => {
      const atMs = this.#clock.now();
      const isOver = (): boolean => this.#clock.now() - atMs > walkMsMax;
      const counted = await walk(path, isOver, (partly) => soFar({ ...partly, atMs }), this.#closing.signal);
      return { ...counted, atMs };
    });
    const fresh = known.running && (await within(this.#clock, figureMsMax, known.running));
    return fresh ?? known.usage ?? { usedBytes: 0, inodesUsed: 0, atMs: this.#clock.now() };
  }

  /** Ends walks that are under way. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.allSettled([...this.#trees.values()].flatMap(({ running }) => running ?? []));
  }

  /** Starts to measure what is due: one attempt at a time for each path. */
  #measured<T>(
    all: Map<string, Known<T>>,
    permits: Semaphore | undefined,
    path: string,
    measure: Measure<T>,
  ): Known<T> {
    const now = this.#clock.now();
    const known = all.get(path) ?? { usage: undefined, dueMs: 0, askedMs: now, running: undefined };
    known.askedMs = now;
    if (now < known.dueMs || known.running !== undefined) return known;
    forgetOld(all, now);
    all.set(path, known);
    known.running = this.#measure(known, permits, measure).finally(() => (known.running = undefined));
    known.running.catch(() => {}); // who waits for it hears of it
    return known;
  }

  async #measure<T>(known: Known<T>, permits: Semaphore | undefined, measure: Measure<T>): Promise<T> {
    const release = await permits?.acquire(this.#closing.signal);
    try {
      const beganMs = this.#clock.now();
      const usage = await measure((partly) => {
        if (known.dueMs === 0) known.usage = partly;
      });
      const endedMs = this.#clock.now();
      known.usage = usage;
      known.dueMs = endedMs + Math.max(this.#periodMs, (endedMs - beganMs) * restFactor);
      return usage;
    } finally {
      release?.();
    }
  }
}

function forgetOld<T>(all: Map<string, Known<T>>, now: number): void {
  for (const [path, { askedMs, running }] of all) {
    if (running === undefined && askedMs + keptMsMax < now) all.delete(path);
  }
}

export async function fileSystemAt(path: string): Promise<FileSystemUsage> {
  const [{ dev }, { bsize, blocks, bfree, bavail, files, ffree }] = [await stat(path), await statfs(path)];
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

/** Like `du -x`: blocks, not sizes, and what has several names once. */
async function walk(
  root: string,
  isOver: () => boolean,
  soFar: (counted: Counted) => void,
  signal: AbortSignal,
): Promise<Counted> {
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
    if (inodesUsed % batchSize === 0) soFar({ usedBytes, inodesUsed });
    return true;
  };
  const directories = top.isDirectory() ? [root] : [];
  for (let path = directories.pop(); path !== undefined; path = directories.pop()) {
    for await (const name of namesIn(path)) {
      signal.throwIfAborted();
      if (inodesUsed >= entriesMax || isOver()) return { usedBytes, inodesUsed };
      const child = `${path}/${name}`;
      const found = await unlessGone(lstat(child));
      const isDirectory = found?.isDirectory() ?? false;
      if (found !== undefined && count(found, isDirectory) && isDirectory) directories.push(child);
    }
  }
  return { usedBytes, inodesUsed };
}

/** One directory may have millions. */
async function* namesIn(path: string): AsyncGenerator<string> {
  const directory = await unlessGone(opendir(path, { bufferSize: batchSize }));
  try {
    for (let entry = await directory?.read(); entry; entry = await directory?.read()) yield entry.name;
  } catch {
    // As below.
  } finally {
    await directory?.close();
  }
}

/** Containers change what is walked meanwhile, and may take away the right to look. */
async function unlessGone<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch {
    return undefined;
  }
}
