/** Warnings travel in headers, one for each: `299 - "text"`. */
import { headerText } from './exchange.ts';

// As the API does: all of them together may be this long, after that each is cut.
const totalLengthMax = 4096;
const cutLength = 256;

export class Warnings {
  readonly #texts = new Set<string>();
  #shownLength = 0;

  /** More than can be shown is not kept: a body of unknown fields has a hundred thousand warnings. */
  add(text: string): void {
    if (this.#shownLength > totalLengthMax || this.#texts.has(text)) return;
    this.#shownLength += Math.min(text.length, cutLength);
    this.#texts.add(text);
  }

  get texts(): readonly string[] {
    return [...this.#texts];
  }

  headers(): Readonly<Record<string, readonly string[]>> {
    if (this.#texts.size === 0) return {};
    const texts = [...this.#texts];
    const isLong = texts.reduce((sum, text) => sum + text.length, 0) > totalLengthMax;
    const lines: string[] = [];
    let length = 0;
    for (const text of texts) {
      const shown = isLong ? text.slice(0, cutLength) : text;
      length += shown.length;
      if (length > totalLengthMax) break;
      lines.push(headerText(`299 - "${escaped(shown)}"`));
    }
    return { warning: lines };
  }
}

/** Control characters would end the header. */
function escaped(text: string): string {
  return text
    .replace(/\p{Cc}/gu, ' ')
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"');
}
