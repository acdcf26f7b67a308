/** A small file that others replace while we run: a token, a certificate. The last content that could be read stays in use. */
import type { Clock } from '../base/clock.ts';

// A rotated file is in use this long after it was replaced at worst, and at once after a refusal.
const freshMs = 10_000;

export class RotatingFile {
  readonly path: string;
  readonly #readFile: (path: string) => Promise<string>;
  readonly #clock: Clock;
  #content: string | undefined;
  #readAt = -Infinity;
  #reading: Promise<string> | undefined;

  constructor(path: string, readFile: (path: string) => Promise<string>, clock: Clock) {
    this.path = path;
    this.#readFile = readFile;
    this.#clock = clock;
  }

  /** Rejects only when it could never be read. */
  content(): Promise<string> {
    if (this.#content !== undefined && this.#clock.now() - this.#readAt < freshMs)
      return Promise.resolve(this.#content);
    return (this.#reading ??= this.#read());
  }

  /** The next `content` looks at the file. */
  expire(): void {
    this.#readAt = -Infinity;
  }

  async #read(): Promise<string> {
    try {
      this.#content = await this.#readFile(this.path);
      this.#readAt = this.#clock.now();
      return this.#content;
    } catch (error) {
      if (this.#content === undefined) throw error;
      this.#readAt = this.#clock.now();
      return this.#content;
    } finally {
      this.#reading = undefined;
    }
  }
}
