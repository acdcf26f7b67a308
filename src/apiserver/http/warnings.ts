/** Warnings travel in headers, one for each: `299 - "text"`. */
import { headerText } from './exchange.ts';

// As the API does: all of them together may be this long, after that each is cut.
const totalLengthMax = 4096;
const cutLength = 256;

export class Warnings {
  readonly #texts = new Set<string>();

  add(text: string): void {
    this.#texts.add(text);
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
