/** Counts what was read of a stream, or of all of them, until it is worth telling the sender. */

// Half of the 64 KiB that a sender may have under way at the beginning.
const stepBytes = 32 * 1024;

export class Window {
  #bytes = 0;

  /** How many bytes to announce now: mostly none. */
  read(bytes: number): number {
    this.#bytes += bytes;
    if (this.#bytes < stepBytes) return 0;
    const read = this.#bytes;
    this.#bytes = 0;
    return read;
  }
}
