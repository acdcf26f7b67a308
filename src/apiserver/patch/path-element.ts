/**
 * One step of a field's path in the form that managedFields spells it. The text is canonical, so that two steps are the same
 * exactly if their texts are:
 *
 *   f:image               a field or a key of a map
 *   k:{"name":"web"}      the item of a list that has these keys, in the order of their names
 *   v:"example.com/hold"  the item of a set
 *   i:0                   the item at this position; read, never written
 */
import { compareByteOrder } from '../../kube/values/byte-order.ts';
import { goJson } from '../../kube/values/go-json.ts';
import { goQuote } from '../../kube/values/go-quote.ts';
import { isList, isObject } from './json-value.ts';
import type { Json } from './json-value.ts';

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
export function readElement(text: string): PathElement | undefined {
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
export function compareElements(a: PathElement, b: PathElement): number {
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
