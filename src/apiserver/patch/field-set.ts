/**
 * A set of fields of an object, as a tree of path steps. Managed fields say with it who owns what. A field in the set does not
 * mean that the fields below it are in it too, or the other way round: `data` (written `.`) and `data.key` are owned apart.
 *
 * Sets grow by `insert` while they are made; after that they share their parts and must not change. Every operation leaves its
 * operands alone.
 */
import { compareByteOrder, goJson, goQuote } from '../../kube/values/go-text.ts';
import { type Json, type JsonFields, type JsonObject, isList, isObject, setField } from './json-value.ts';

export type ElementPath = readonly PathElement[];

interface Node {
  readonly isMember: boolean;
  readonly below: FieldSet;
}

/** What a set looks like at one step. */
interface Step {
  readonly element: PathElement;
  readonly isMember: boolean;
  readonly below: FieldSet;
}

export class FieldSet {
  readonly #nodes = new Map<PathElement, Node>();

  static of(...paths: readonly ElementPath[]): FieldSet {
    const set = new FieldSet();
    for (const path of paths) set.insert(path);
    return set;
  }

  /** By halves, so that many small sets cost no more than their fields times the logarithm of their number. */
  static unionOf(sets: readonly FieldSet[]): FieldSet {
    const half = sets.length >> 1;
    if (half === 0) return sets[0] ?? nothing;
    return FieldSet.unionOf(sets.slice(0, half)).union(FieldSet.unionOf(sets.slice(half)));
  }

  /** Puts this one field into the set, and not those above it. The empty path is the whole object, which has no owner. */
  insert(path: ElementPath, start = 0): void {
    const element = path[start];
    if (element === undefined) return;
    const { isMember, below } = this.#nodes.get(element) ?? { isMember: false, below: nothing };
    if (start === path.length - 1) {
      this.#nodes.set(element, { isMember: true, below });
      return;
    }
    const inner = below === nothing ? new FieldSet() : below;
    if (below === nothing) this.#nodes.set(element, { isMember, below: inner });
    inner.insert(path, start + 1);
  }

  get isEmpty(): boolean {
    for (const node of this.#nodes.values()) if (node.isMember || !node.below.isEmpty) return false;
    return true;
  }

  has(element: PathElement): boolean {
    return this.#nodes.get(element)?.isMember === true;
  }

  /** What is in the set below this step, without the step. */
  below(element: PathElement): FieldSet {
    return this.#nodes.get(element)?.below ?? nothing;
  }

  /** In the order of the API server. */
  steps(): readonly Step[] {
    return [...this.#nodes]
      .sort(([a], [b]) => compareElements(a, b))
      .map(([element, { isMember, below }]) => ({ element, isMember, below }));
  }

  /** All fields of the set: at each level first those that end there. */
  *paths(prefix: ElementPath = []): Generator<ElementPath> {
    const steps = this.steps();
    for (const { element, isMember } of steps) if (isMember) yield [...prefix, element];
    for (const { element, below } of steps) yield* below.paths([...prefix, element]);
  }

  union(other: FieldSet): FieldSet {
    if (other.#nodes.size === 0) return this;
    const result = this.#combine(other, 'keep', (mine, theirs) => ({
      isMember: mine.isMember || theirs.isMember,
      below: mine.below.union(theirs.below),
    }));
    for (const [element, node] of other.#nodes) if (!this.#nodes.has(element)) result.#nodes.set(element, node);
    return result;
  }

  intersection(other: FieldSet): FieldSet {
    return this.#combine(other, 'drop', (mine, theirs) => ({
      isMember: mine.isMember && theirs.isMember,
      below: mine.below.intersection(theirs.below),
    }));
  }

  /** Takes away exactly the fields of the other set; what lies below them stays. */
  difference(other: FieldSet): FieldSet {
    return this.#combine(other, 'keep', (mine, theirs) => ({
      isMember: mine.isMember && !theirs.isMember,
      below: mine.below.difference(theirs.below),
    }));
  }

  /** Takes away the fields of the other set with everything below them. */
  without(other: FieldSet): FieldSet {
    return this.#combine(other, 'keep', (mine, theirs) => ({
      isMember: mine.isMember && !theirs.isMember,
      below: theirs.isMember ? nothing : mine.below.without(theirs.below),
    }));
  }

  /** The same steps, each with what `change` makes of it. */
  map(change: (step: Step) => Omit<Step, 'element'>): FieldSet {
    const result = new FieldSet();
    for (const [element, node] of this.#nodes) {
      const { isMember, below } = change({ element, ...node });
      if (isMember || below.#nodes.size > 0) result.#nodes.set(element, { isMember, below });
    }
    return result;
  }

  equals(other: FieldSet): boolean {
    return this.difference(other).isEmpty && other.difference(this).isEmpty;
  }

  /** The `fieldsV1` of managed fields. */
  toJson(): JsonObject {
    const result: JsonFields = {};
    for (const { element, isMember, below } of this.steps()) {
      if (below.isEmpty && !isMember) continue;
      setField(result, element, isMember && !below.isEmpty ? { '.': {}, ...below.toJson() } : below.toJson());
    }
    return result;
  }

  /** Reads `fieldsV1`; steps of an unknown kind are left out. Throws a SyntaxError for what cannot be read. */
  static fromJson(json: Json): FieldSet {
    if (!isObject(json)) throw new SyntaxError('fieldsV1 is not an object');
    const result = new FieldSet();
    for (const [text, value] of Object.entries(json)) {
      const element = text === '.' ? undefined : readElement(text);
      if (element === undefined) continue;
      const below = FieldSet.fromJson(value);
      const isMember = below.#nodes.size === 0 || (isObject(value) && Object.hasOwn(value, '.'));
      result.#nodes.set(element, { isMember, below });
    }
    return result;
  }

  /** Steps that only this set has are kept or dropped as they are; what both have is combined. */
  #combine(other: FieldSet, onlyMine: 'keep' | 'drop', combine: (mine: Node, theirs: Node) => Node): FieldSet {
    if (other.#nodes.size === 0) return onlyMine === 'keep' ? this : nothing;
    const result = new FieldSet();
    for (const [element, mine] of this.#nodes) {
      const theirs = other.#nodes.get(element);
      if (theirs === undefined) {
        if (onlyMine === 'keep') result.#nodes.set(element, mine);
        continue;
      }
      const node = combine(mine, theirs);
      // A step that leads nowhere would make an empty set look like a full one.
      if (node.isMember || node.below.#nodes.size > 0) result.#nodes.set(element, node);
    }
    return result;
  }
}

/** Stands below every leaf. It is never inserted into. */
const nothing = new FieldSet();

/**
 * One step of a field's path in the form that managedFields spells it. The text is canonical, so that two steps are the same
 * exactly if their texts are:
 *
 *   f:image               a field or a key of a map
 *   k:{"name":"web"}      the item of a list that has these keys, in the order of their names
 *   v:"example.com/hold"  the item of a set
 *   i:0                   the item at this position; read, never written
 */
export type PathElement = string & { readonly __brand: 'PathElement' };

export function fieldElement(name: string): PathElement {
  return `f:${name}` as PathElement;
}

/** The name that `fieldElement` was given; undefined for the other kinds of steps. */
export function fieldName(element: PathElement): string | undefined {
  return element.startsWith('f:') ? element.slice(2) : undefined;
}

export function keyElement(keys: readonly (readonly [string, Json])[]): PathElement {
  const sorted = [...keys].sort(([a], [b]) => compareByteOrder(a, b));
  return `k:{${sorted.map(([name, value]) => `${goJson(name)}:${canonical(value)}`).join(',')}}` as PathElement;
}

export function valueElement(value: Json): PathElement {
  return `v:${canonical(value)}` as PathElement;
}

/** Undefined for a kind of step that is not known, as a later version may write one. Throws for a known one that is broken. */
function readElement(text: string): PathElement | undefined {
  if (!/^.:/su.test(text)) throw new SyntaxError(`missing colon: ${text}`);
  const content = text.slice(2);
  switch (text[0]) {
    case 'f':
      return fieldElement(content);
    case 'k':
      return keyElement(keysIn(content));
    case 'v':
      return valueElement(JSON.parse(content) as Json);
    case 'i':
      if (!/^-?\d+$/.test(content)) throw new SyntaxError(`not an index: ${text}`);
      return `i:${Number(content)}` as PathElement;
    default:
      return undefined;
  }
}

/** A path as messages show it: `.spec.containers[name="web"].image`. */
export function pathText(path: readonly PathElement[]): string {
  return path.map(elementText).join('');
}

export function elementText(element: PathElement): string {
  const content = element.slice(2);
  switch (element[0]) {
    case 'f':
      return `.${content}`;
    case 'k':
      return `[${keysIn(content)
        .map(([name, value]) => `${name}=${valueText(value)}`)
        .join(',')}]`;
    case 'v':
      return `[=${valueText(JSON.parse(content) as Json)}]`;
    default:
      return `[${content}]`;
  }
}

/** Fields, then keyed items, then items of sets, then positions; each by content. */
function compareElements(a: PathElement, b: PathElement): number {
  const kinds = 'fkvi';
  if (a[0] !== b[0]) return kinds.indexOf(a[0] ?? '') - kinds.indexOf(b[0] ?? '');
  const [x, y] = [a.slice(2), b.slice(2)];
  if (a[0] === 'f') return compareByteOrder(x, y);
  if (a[0] === 'i') return Number(x) - Number(y);
  if (a[0] === 'v') return compareValues(JSON.parse(x) as Json, JSON.parse(y) as Json);
  return compareKeys(keysIn(x), keysIn(y));
}

type Keys = readonly (readonly [string, Json])[];

function keysIn(content: string): Keys {
  const keys = JSON.parse(content) as Json;
  if (!isObject(keys)) throw new SyntaxError(`not a map of keys: ${content}`);
  return Object.entries(keys);
}

function compareKeys(a: Keys, b: Keys): number {
  for (const [index, [name, value]] of a.entries()) {
    const other = b[index];
    if (other === undefined) return 1;
    const order = compareByteOrder(name, other[0]) || compareValues(value, other[1]);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

function compareValues(a: Json, b: Json): number {
  const byKind = kindRank(a) - kindRank(b);
  if (byKind !== 0) return byKind;
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return compareByteOrder(canonicalText(a), canonicalText(b));
}

function kindRank(value: Json): number {
  const kinds = ['number', 'string', 'boolean'];
  return kinds.includes(typeof value) ? kinds.indexOf(typeof value) : kinds.length;
}

function canonicalText(value: Json): string {
  return typeof value === 'string' ? value : canonical(value);
}

function canonical(value: Json): string {
  return goJson(sortedFields(value));
}

function sortedFields(value: Json): Json {
  if (isList(value)) return value.map(sortedFields);
  if (!isObject(value)) return value;
  const names = Object.keys(value).sort(compareByteOrder);
  return Object.fromEntries(names.map((name) => [name, sortedFields(value[name] ?? null)]));
}

function valueText(value: Json): string {
  return typeof value === 'string' ? goQuote(value) : canonical(value);
}
