/**
 * The last revision that was committed, in a file outside the store: a store that was emptied, or has lost its newest writes,
 * must not pass for a whole one. It is written after the commit and not synced, so it may be behind the store, but never ahead.
 */
import { closeSync, constants, openSync, readFileSync, write } from 'node:fs';
import { promisify } from 'node:util';
import { StoreLostError } from './store-errors.ts';

const writeAt = promisify(write);

export class StoreMarker {
  readonly #descriptor: number;
  #revision = 0;
  #writing: Promise<void> | undefined;

  private constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  /** Throws a StoreLostError when the store has been further than `revision`. */
  static open(path: string, directory: string, revision: number): StoreMarker {
    const { O_RDWR, O_CREAT, O_NOFOLLOW } = constants;
    const descriptor = openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600);
    try {
      const text = readFileSync(descriptor, 'utf8');
      // One that cannot be read says at least that there was a store.
      const reached = text === '' ? 0 : Math.max(1, Number(text) || 0);
      if (reached > revision) throw new StoreLostError(directory, path, revision, reached);
    } catch (thrown) {
      closeSync(descriptor);
      throw thrown;
    }
    const marker = new StoreMarker(descriptor);
    if (revision > 0) marker.record(revision);
    return marker;
  }

  record(revision: number): void {
    this.#revision = revision;
    this.#writing ??= this.#write();
  }

  async close(): Promise<void> {
    await this.#writing;
    closeSync(this.#descriptor);
  }

  /** A failure is no loss: the marker is then behind. */
  async #write(): Promise<void> {
    for (let written = 0; written !== this.#revision;) {
      written = this.#revision;
      // All of one length, so that each replaces the one before it.
      const text = Buffer.from(String(written).padStart(16, '0'));
      await writeAt(this.#descriptor, text, 0, text.length, 0).catch(() => {});
    }
    this.#writing = undefined;
  }
}
