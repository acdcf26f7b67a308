/**
 * Keys in byte order, with positions: how many lie before a key is known without visiting them, which is what makes the
 * count of remaining items in a page cheap. A sorted list cut in pieces: an insertion moves one piece, not everything.
 */
import { compareByteOrder } from '../../kube/values/go-text.ts';

/** At 10,000 keys some 30 pieces: a search touches a few, an insertion moves a few kilobytes. */
const pieceLengthMax = 512;

export class OrderedKeys {
  readonly #pieces: string[][] = [];
  #size = 0;

  /** `sorted` must be in byte order and without doubles. */
  constructor(sorted: readonly string[] = []) {
    // Half filled, so that the first insertions split nothing.
    for (let i = 0; i < sorted.length; i += pieceLengthMax / 2)
      this.#pieces.push(sorted.slice(i, i + pieceLengthMax / 2));
    this.#size = sorted.length;
  }

  get size(): number {
    return this.#size;
  }

  add(key: string): void {
    const at = this.#pieceFor(key);
    const piece = this.#pieces[at];
    if (piece === undefined) {
      this.#pieces.push([key]);
      this.#size += 1;
      return;
    }
    const index = lowerBound(piece, key);
    if (piece[index] === key) return;
    piece.splice(index, 0, key);
    this.#size += 1;
    if (piece.length > pieceLengthMax) this.#pieces.splice(at + 1, 0, piece.splice(piece.length >> 1));
  }

  delete(key: string): void {
    const at = this.#pieceFor(key);
    const piece = this.#pieces[at];
    const index = piece === undefined ? 0 : lowerBound(piece, key);
    if (piece?.[index] !== key) return;
    piece.splice(index, 1);
    this.#size -= 1;
    if (piece.length === 0) this.#pieces.splice(at, 1);
  }

  /** How many keys lie before this one, which need not be there itself. */
  rank(key: string): number {
    const at = this.#pieceFor(key);
    let rank = 0;
    for (let i = 0; i < at; i += 1) rank += this.#pieces[i]?.length ?? 0;
    const piece = this.#pieces[at];
    return piece === undefined ? rank : rank + lowerBound(piece, key);
  }

  /** The keys at positions from `start` up to and without `end`. */
  *between(start: number, end: number): Generator<string> {
    let before = 0;
    for (const piece of this.#pieces) {
      if (before >= end) return;
      const from = Math.max(start - before, 0);
      const to = Math.min(end - before, piece.length);
      for (let i = from; i < to; i += 1) {
        const key = piece[i];
        if (key !== undefined) yield key;
      }
      before += piece.length;
    }
  }

  /** The last piece that begins at or before the key: where it is, or would go. */
  #pieceFor(key: string): number {
    let low = 0;
    let high = this.#pieces.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (compareByteOrder(this.#pieces[middle]?.[0] ?? '', key) <= 0) low = middle;
      else high = middle;
    }
    return low;
  }
}

function lowerBound(sorted: readonly string[], key: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareByteOrder(sorted[middle] ?? '', key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
