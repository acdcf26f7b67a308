/** Cuts bytes into lines as they come. A line longer than any runtime writes is dropped as a whole and costs no more memory. */
const newline = 0x0a;
const lineBytesMax = 1024 * 1024;

export class LineSplitter {
  #pieces: Buffer[] = [];
  #bytes = 0;

  *split(chunk: Buffer): Generator<Buffer> {
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      const line = this.#finish(chunk.subarray(start, end));
      start = end + 1;
      if (line !== undefined) yield line;
    }
    this.#hold(chunk.subarray(start));
  }

  /** What came after the last newline, if anything did. */
  rest(): Buffer | undefined {
    return this.#bytes === 0 ? undefined : this.#finish(Buffer.alloc(0));
  }

  #hold(piece: Buffer): void {
    if (piece.length === 0) return;
    this.#bytes += piece.length;
    if (this.#bytes > lineBytesMax) this.#pieces = [];
    // Copied: the chunk's memory is used again for the next read.
    else this.#pieces.push(Buffer.from(piece));
  }

  #finish(end: Buffer): Buffer | undefined {
    const isTooLong = this.#bytes + end.length > lineBytesMax;
    const line = this.#pieces.length === 0 ? end : Buffer.concat([...this.#pieces, end]);
    this.#pieces = [];
    this.#bytes = 0;
    return isTooLong ? undefined : line;
  }
}
