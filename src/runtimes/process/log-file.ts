/** A container's log file: appended to, renamed when it has grown too long, the oldest of its predecessors deleted. */
import { closeSync, fstatSync, mkdirSync, openSync, readdirSync, renameSync, rmSync, writeSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

export interface LogLimits {
  readonly sizeBytesMax: number;
  /** The one that is written to included. */
  readonly filesMax: number;
}

export class LogFile {
  readonly #path: string;
  readonly #limits: LogLimits;
  #descriptor: number | undefined;
  #sizeBytes = 0;

  constructor(path: string, limits: LogLimits) {
    this.#path = path;
    this.#limits = limits;
  }

  append(entries: Buffer, nowMs: number): void {
    if (entries.length === 0) return;
    const descriptor = this.#open();
    for (let done = 0; done < entries.length;) done += writeSync(descriptor, entries, done);
    this.#sizeBytes += entries.length;
    if (this.#sizeBytes >= this.#limits.sizeBytesMax) this.#rotate(nowMs);
  }

  /** The next entry goes to the file that has the name then; also makes it, so that readers find one. */
  reopen(): void {
    this.close();
    this.#open();
  }

  close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  #open(): number {
    if (this.#descriptor !== undefined) return this.#descriptor;
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o755 });
    this.#descriptor = openSync(this.#path, 'a', 0o640);
    this.#sizeBytes = fstatSync(this.#descriptor).size;
    return this.#descriptor;
  }

  /** `0.log` becomes `0.log.20261116-054000123`: sorted by name is sorted by age. */
  #rotate(nowMs: number): void {
    this.close();
    const [day = '', time = ''] = new Date(nowMs)
      .toISOString()
      .replace(/[-:.Z]/g, '')
      .split('T');
    const prefix = `${basename(this.#path)}.`;
    let target = `${this.#path}.${day}-${time}`;
    const older = this.#rotated(prefix);
    if (older.includes(basename(target)))
      target = `${older.at(-1)}-${older.length}`.replace(/^/, `${dirname(this.#path)}/`);
    renameSync(this.#path, target);
    const excess = this.#rotated(prefix).slice(0, -(this.#limits.filesMax - 1) || undefined);
    for (const name of excess) rmSync(join(dirname(this.#path), name), { force: true });
    this.#open();
  }

  #rotated(prefix: string): string[] {
    return readdirSync(dirname(this.#path))
      .filter((name) => name.startsWith(prefix) && /^\d{8}-/.test(name.slice(prefix.length)))
      .sort();
  }
}
