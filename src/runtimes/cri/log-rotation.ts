/**
 * Keeps the logs of running containers small. The runtime writes them and never looks at their size: a file that is too large gets
 * another name, the runtime is told to open a new one, and files before it are compressed and in the end removed.
 *
 *   0.log                        what the container writes now
 *   0.log.20260102-030405        what it wrote before; who follows the log is still reading it
 *   0.log.20260102-030304.gz     what it wrote before that
 */
import { createReadStream, createWriteStream } from 'node:fs';
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { Clock } from '../../base/clock.ts';
import { errorCode, messageOf } from '../../base/errors.ts';

const checkEveryMs = 10_000;
const compressed = '.gz';
const temporary = '.tmp';

export interface LogLimits {
  readonly bytesMax: number;
  /** With the one that is written to. */
  readonly filesMax: number;
}

interface LogRotationDeps {
  readonly clock: Clock;
  /** Of containers that run. */
  readonly logs: () => readonly { readonly id: string; readonly logPath: string }[];
  /** Makes the runtime go on in a new file at the path of the log. */
  readonly reopen: (containerId: string, signal: AbortSignal) => Promise<unknown>;
  readonly report: (message: string) => void;
}

export class LogRotation {
  readonly #deps: LogRotationDeps;
  readonly #limits: LogLimits;
  /** Logs whose last rotation failed; reported once. */
  readonly #failing = new Set<string>();

  constructor(limits: LogLimits, deps: LogRotationDeps) {
    this.#limits = limits;
    this.#deps = deps;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    while (!signal.aborted) {
      await clock.sleep(checkEveryMs, signal).catch(() => {});
      if (!signal.aborted) await this.rotateAll(signal);
    }
  }

  async rotateAll(signal: AbortSignal): Promise<void> {
    const logs = this.#deps.logs();
    const paths = new Set(logs.map(({ logPath }) => logPath));
    for (const path of this.#failing) if (!paths.has(path)) this.#failing.delete(path);
    for (const { id, logPath } of logs) {
      try {
        await this.#rotate(id, logPath, signal);
        this.#failing.delete(logPath);
      } catch (thrown) {
        if (signal.aborted) return;
        // A container may end at any moment, and its log go with it.
        if (!this.#failing.has(logPath) && (await sizeOf(logPath)) !== undefined)
          this.#deps.report(`cannot rotate the log "${logPath}": ${messageOf(thrown)}`);
        this.#failing.add(logPath);
      }
    }
  }

  async #rotate(id: string, path: string, signal: AbortSignal): Promise<void> {
    const { clock, reopen } = this.#deps;
    const size = await sizeOf(path);
    if (size === undefined) return void (await reopen(id, signal));
    if (size < this.#limits.bytesMax) return;
    const plan = planRotation(basename(path), await readdir(dirname(path)), this.#limits.filesMax);
    const place = (name: string): string => join(dirname(path), name);
    for (const name of plan.removed) await rm(place(name), { force: true });
    for (const name of plan.compressed) await compress(place(name));
    const rotated = `${path}.${timeIn(clock.now())}`;
    await rename(path, rotated);
    try {
      await reopen(id, signal);
    } catch (thrown) {
      await rename(rotated, path); // the runtime writes to it still
      throw thrown;
    }
  }
}

/** `20260102-030405` */
function timeIn(ms: number): string {
  return new Date(ms).toISOString().replace(/[-:]/g, '').replace('T', '-').slice(0, 15);
}

/** What happens to the files beside a log before it is rotated itself. */
export function planRotation(
  log: string,
  names: readonly string[],
  filesMax: number,
): { readonly removed: readonly string[]; readonly compressed: readonly string[] } {
  const rotated = names.filter((name) => name.startsWith(`${log}.`)).toSorted();
  const isUsed = (name: string): boolean =>
    !name.endsWith(temporary) && (name.endsWith(compressed) || !rotated.includes(`${name}${compressed}`));
  const used = rotated.filter(isUsed);
  // The log and the file that it becomes are counted too.
  const excess = Math.max(0, used.length - Math.max(0, filesMax - 2));
  return {
    removed: [...rotated.filter((name) => !isUsed(name)), ...used.slice(0, excess)],
    compressed: used.slice(excess).filter((name) => !name.endsWith(compressed)),
  };
}

async function compress(path: string): Promise<void> {
  const { mode } = await stat(path);
  const unfinished = `${path}${temporary}`;
  try {
    await pipeline(createReadStream(path), createGzip(), createWriteStream(unfinished, { mode }));
    await rename(unfinished, `${path}${compressed}`);
  } finally {
    await rm(unfinished, { force: true });
  }
  await rm(path, { force: true });
}

async function sizeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return undefined;
    throw thrown;
  }
}
