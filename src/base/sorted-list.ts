/** Items in order, found by halving: what comes and goes one at a time is not sorted anew. */
export class SortedList<Item> {
  readonly #isBefore: (a: Item, b: Item) => boolean;
  readonly #items: Item[] = [];

  /** Of two different items one is before the other. */
  constructor(isBefore: (a: Item, b: Item) => boolean) {
    this.#isBefore = isBefore;
  }

  get first(): Item | undefined {
    return this.#items[0];
  }

  add(item: Item): void {
    this.#items.splice(this.#placeOf(item), 0, item);
  }

  /** Whatever decides its place must be as it was when it was added. */
  delete(item: Item): void {
    const place = this.#placeOf(item);
    if (this.#items[place] === item) this.#items.splice(place, 1);
  }

  [Symbol.iterator](): Iterator<Item> {
    return this.#items.values();
  }

  /** Of the item, or where it belongs. */
  #placeOf(item: Item): number {
    let [low, high] = [0, this.#items.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = this.#items[middle];
      if (other !== undefined && this.#isBefore(other, item)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
