/** The sizes of a client's terminal as they come. Only the newest is kept: nobody needs to pass through the ones before. */
import type { TerminalSize } from '../../runtimes/runtime.ts';

// A size is some thirty bytes.
const textMax = 1024;

export class TerminalSizes implements AsyncIterable<TerminalSize> {
  #newest: TerminalSize | undefined;
  #isEnded = false;
  #wake: () => void = () => {};
  #text = '';

  /** Bytes of `{"Width":80,"Height":24}`, one after the other, cut anywhere. What is none of these is passed over. */
  add(bytes: Buffer): void {
    this.#text += bytes.toString('latin1');
    for (const [text] of this.#text.matchAll(/\{[^{}]*\}/g)) this.#newest = sizeOf(text) ?? this.#newest;
    this.#text = this.#text.slice(this.#text.lastIndexOf('}') + 1).slice(-textMax);
    this.#wake();
  }

  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TerminalSize> {
    for (;;) {
      const newest = this.#newest;
      this.#newest = undefined;
      if (newest !== undefined) yield newest;
      else if (this.#isEnded) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}

function sizeOf(text: string): TerminalSize | undefined {
  try {
    const { Width: columns, Height: rows } = JSON.parse(text) as { Width?: unknown; Height?: unknown };
    return isSide(columns) && isSide(rows) ? { columns, rows } : undefined;
  } catch {
    return undefined;
  }
}

function isSide(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 0xffff;
}
