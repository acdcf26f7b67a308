/** The committed objects by key, in order, and lists of them as they are now or were at a revision that the log reaches. */
import { compareByteOrder } from '../../kube/values/go-text.ts';
import type { ChangeLog } from './change-log.ts';
import { FutureRevisionError } from './store-errors.ts';
import type { ListRequest, ListResult, StoredObject } from './store.ts';

/** At 10,000 keys some 30 pieces: a search touches a few, an insertion moves a few kilobytes. */
const pieceLengthMax = 512;

/**
 * Keys in byte order, with positions: how many lie before a key is known without visiting them, which is what makes the
 * count of remaining items in a page cheap. A sorted list cut in pieces: an insertion moves one piece, not everything.
 */
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

export class ObjectTree {
  readonly #objects: Map<string, StoredObject>;
  readonly #keys: OrderedKeys;
  #bytes = 0;

  constructor(objects: readonly StoredObject[]) {
    this.#objects = new Map(objects.map((object) => [object.key, object]));
    this.#keys = new OrderedKeys([...this.#objects.keys()].toSorted(compareByteOrder));
    for (const object of objects) this.#bytes += bytesOf(object);
  }

  /** Of all keys and values, roughly. */
  get bytes(): number {
    return this.#bytes;
  }

  get(key: string): StoredObject | undefined {
    return this.#objects.get(key);
  }

  set(object: StoredObject): void {
    const old = this.#objects.get(object.key);
    if (old === undefined) this.#keys.add(object.key);
    else this.#bytes -= bytesOf(old);
    this.#objects.set(object.key, object);
    this.#bytes += bytesOf(object);
  }

  delete(key: string): void {
    const old = this.#objects.get(key);
    if (old === undefined) return;
    this.#objects.delete(key);
    this.#keys.delete(key);
    this.#bytes -= bytesOf(old);
  }

  list({ prefix, after, limit = Infinity, atRevision }: ListRequest, revision: number, log: ChangeLog): ListResult {
    const start = this.#keys.rank(after === undefined || compareByteOrder(after, prefix) < 0 ? prefix : `${after}\0`);
    const end = Math.max(start, this.#keys.rank(endOf(prefix)));
    if (atRevision === undefined || atRevision === revision) {
      const items: StoredObject[] = [];
      for (const key of this.#keys.between(start, Math.min(end, start + limit))) {
        const object = this.#objects.get(key);
        if (object !== undefined) items.push(object);
      }
      return { items, revision, remaining: end - start - items.length };
    }
    if (atRevision > revision) throw new FutureRevisionError(atRevision, revision);
    const past = pastOf(
      log,
      atRevision,
      (key) => key.startsWith(prefix) && (after === undefined || compareByteOrder(key, after) > 0),
    );
    return { ...this.#merged(start, end, limit, past), revision: atRevision };
  }

  /** The present between two positions, with what was different then put in its place. */
  #merged(
    start: number,
    end: number,
    limit: number,
    past: ReadonlyMap<string, StoredObject | undefined>,
  ): Pick<ListResult, 'items' | 'remaining'> {
    // Gone since then, in order: they stand between keys of today.
    const gone = [...past.values()]
      .filter((object) => object !== undefined)
      .filter(({ key }) => !this.#objects.has(key))
      .toSorted((a, b) => compareByteOrder(a.key, b.key));
    let total = end - start + gone.length;
    for (const [key, object] of past) if (object === undefined && this.#objects.has(key)) total -= 1;
    const items: StoredObject[] = [];
    let nextGone = 0;
    for (const key of this.#keys.between(start, end)) {
      for (
        let object = gone[nextGone];
        object !== undefined && compareByteOrder(object.key, key) < 0;
        object = gone[nextGone]
      ) {
        items.push(object);
        nextGone += 1;
      }
      const object = past.has(key) ? past.get(key) : this.#objects.get(key);
      if (object !== undefined) items.push(object);
      if (items.length >= limit) break;
    }
    const page = [...items, ...gone.slice(nextGone)].slice(0, limit);
    return { items: page, remaining: total - page.length };
  }
}

/** What was different at that revision: the oldest previous content among the changes since. */
function pastOf(
  log: ChangeLog,
  atRevision: number,
  concerns: (key: string) => boolean,
): Map<string, StoredObject | undefined> {
  const past = new Map<string, StoredObject | undefined>();
  for (const { key, previous, previousRevision } of log.after(atRevision)) {
    if (past.has(key) || !concerns(key)) continue;
    past.set(key, previous === undefined ? undefined : { key, value: previous, revision: previousRevision });
  }
  return past;
}

/** The first key that lies behind all that begin with the prefix. */
function endOf(prefix: string): string {
  return `${prefix.slice(0, -1)}${String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1)}`;
}

function bytesOf({ key, value }: StoredObject): number {
  return key.length + value.length;
}
