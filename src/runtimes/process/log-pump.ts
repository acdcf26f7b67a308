/**
 * Brings what containers print from the raw files, which the launcher fills whether this program runs or not, to their logs.
 *
 *   container ─pipe─▶ cat ─▶ spool/<id>.out ─▶ this ─▶ 0.log
 *
 * Nothing is lost while this program is away and no container ever waits for it; lines printed meanwhile carry the time at
 * which they were read. How far each file was read is kept beside it, and is written after the log: a kill in between
 * repeats lines, and never skips one. What was read is punched out of the raw file, so that it holds unread output alone.
 */
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import type { Clock } from '../../base/clock.ts';
import { logEntries, partBytesMax, splitLines, type StreamName } from './cri-log.ts';
import { LogFile, type LogLimits } from './log-file.ts';

export type OutputListener = (stream: StreamName, chunk: Buffer) => void;

interface Pump {
  readonly file: LogFile;
  readonly listeners: Set<OutputListener>;
  readonly sources: readonly Source[];
  /** One reader at a time; asked again meanwhile, it looks once more. */
  running: Promise<void> | undefined;
  again: boolean;
}

interface Source {
  readonly stream: StreamName;
  readonly path: string;
  handle: FileHandle | undefined;
  /** Where the first line starts that is not in the log yet. */
  offset: number;
  /** How much of the unread rest the listeners have. */
  told: number;
  punched: number;
}

const readBytes = 256 * 1024; // well above a part, so that every read makes progress
const punchBytes = 4 * 1024 * 1024;
const streams: readonly (readonly [StreamName, string])[] = [
  ['stdout', 'out'],
  ['stderr', 'err'],
];

export class LogPumps {
  readonly #directory: string;
  readonly #limits: LogLimits;
  readonly #clock: Clock;
  readonly #pumps = new Map<string, Pump>();
  #stopWatching: () => void = () => {};

  constructor(directory: string, limits: LogLimits, clock: Clock) {
    this.#directory = directory;
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Where the launcher writes: with `.out` and `.err`. */
  spool(id: string): string {
    return join(this.#directory, id);
  }

  watch(): void {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    const watcher = watch(this.#directory, (_, name) => {
      const id = name?.replace(/\.(out|err)$/, '');
      if (id !== undefined && this.#pumps.has(id)) void this.drain(id);
    });
    watcher.on('error', () => {}); // the sweep of the runtime drains too
    watcher.unref();
    this.#stopWatching = () => watcher.close();
  }

  async close(): Promise<void> {
    this.#stopWatching();
    for (const [id, pump] of this.#pumps) {
      await pump.running;
      await this.#forget(id, pump);
    }
  }

  /** Starts, or after a restart goes on, with a container's output. */
  add(id: string, logPath: string): void {
    if (this.#pumps.has(id)) return;
    const offsets = this.#readOffsets(id);
    const pump: Pump = {
      file: new LogFile(logPath, this.#limits),
      listeners: new Set(),
      sources: streams.map(([stream, end]) => {
        const offset = offsets[stream] ?? 0;
        return { stream, path: `${this.spool(id)}.${end}`, handle: undefined, offset, told: 0, punched: offset };
      }),
      running: undefined,
      again: false,
    };
    pump.file.reopen();
    this.#pumps.set(id, pump);
    void this.drain(id);
  }

  listen(id: string, listener: OutputListener): () => void {
    const listeners = this.#pumps.get(id)?.listeners;
    listeners?.add(listener);
    return () => listeners?.delete(listener);
  }

  reopen(id: string): void {
    this.#pumps.get(id)?.file.reopen();
  }

  /** Resolves when everything that was printed before the call is in the log. */
  async drain(id: string): Promise<void> {
    const pump = this.#pumps.get(id);
    if (pump === undefined) return;
    pump.again = true;
    pump.running ??= this.#run(id, pump).finally(() => {
      pump.running = undefined;
    });
    await pump.running;
  }

  /** Of a container that has ended: the rest, an unfinished last line included, then the raw files go. */
  async finish(id: string): Promise<void> {
    const pump = this.#pumps.get(id);
    if (pump === undefined) return;
    await this.drain(id);
    for (const source of pump.sources) await this.#copy(id, pump, source, true);
    await this.#forget(id, pump);
    for (const end of ['out', 'err', 'offsets']) rmSync(`${this.spool(id)}.${end}`, { force: true });
  }

  async #forget(id: string, pump: Pump): Promise<void> {
    this.#pumps.delete(id);
    pump.file.close();
    for (const { handle } of pump.sources) await handle?.close();
  }

  async #run(id: string, pump: Pump): Promise<void> {
    while (pump.again) {
      pump.again = false;
      for (const source of pump.sources) {
        while (await this.#copy(id, pump, source, false));
      }
    }
  }

  /** Whether there may be more. */
  async #copy(id: string, pump: Pump, source: Source, ended: boolean): Promise<boolean> {
    try {
      source.handle ??= await open(source.path, 'r');
    } catch (thrown) {
      if (errorCode(thrown) === 'ENOENT') return false;
      throw thrown;
    }
    const { size } = await source.handle.stat();
    const length = Math.min(Math.max(size - source.offset, 0), readBytes);
    // Most looks find nothing new, and must cost nothing: a node has many containers that say nothing for hours.
    if (length <= source.told && !ended) return false;
    const { bytesRead, buffer } = await source.handle.read(Buffer.allocUnsafe(length), 0, length, source.offset);
    const input = buffer.subarray(0, bytesRead);
    if (bytesRead > source.told) {
      for (const tell of pump.listeners) tell(source.stream, input.subarray(source.told));
    }
    const split = splitLines(input, ended);
    source.told = Math.max(bytesRead, source.told) - split.used;
    if (split.used === 0) return false;
    pump.file.append(logEntries(source.stream, split, this.#clock.now()), this.#clock.now());
    source.offset += split.used;
    this.#writeOffsets(id, pump);
    if (source.offset - source.punched >= punchBytes) this.#punch(source);
    return bytesRead === readBytes || input.length - split.used > partBytesMax;
  }

  #punch(source: Source): void {
    const length = source.offset - source.punched;
    const args = ['--punch-hole', '--offset', String(source.punched), '--length', String(length), source.path];
    source.punched = source.offset;
    execFile('fallocate', args, () => {}); // a file system that cannot keeps the bytes until the container ends
  }

  #readOffsets(id: string): Partial<Record<StreamName, number>> {
    try {
      return JSON.parse(readFileSync(`${this.spool(id)}.offsets`, 'utf8')) as Partial<Record<StreamName, number>>;
    } catch {
      return {}; // none yet, or cut short by a crash of the machine: then lines are repeated
    }
  }

  #writeOffsets(id: string, { sources }: Pump): void {
    const offsets = Object.fromEntries(sources.map(({ stream, offset }) => [stream, offset]));
    writeFileSync(`${this.spool(id)}.offsets`, JSON.stringify(offsets), { mode: 0o600 });
  }
}
