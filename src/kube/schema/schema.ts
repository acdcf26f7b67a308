/**
 * Shapes of Kubernetes objects as data. One description of a kind serves as its TypeScript type (`Of<typeof pod>`),
 * as the decoder of what a user wrote, and as the place where merge keys are known. Rules that need more than one
 * field to be judged are not shapes: they are in the validation files.
 *
 * Decoding follows the API server: null counts as absent, an unknown field is reported and left out, a required
 * field that is absent gets its zero value (validation then says which value is missing, in the server's words).
 */
import { Quantity, QuantityError } from '../values/quantity.ts';
import { parseTime } from '../values/times.ts';

export interface Shape<T> {
  readonly type:
    | 'string'
    | 'integer'
    | 'number'
    | 'boolean'
    | 'quantity'
    | 'time'
    | 'microTime'
    | 'intOrString'
    | 'bytes'
    | 'any'
    | 'list'
    | 'map'
    | 'object';
  /** What an absent required field becomes; undefined where the shape has no natural zero. */
  readonly zero: () => T | undefined;
  readonly item?: Shape<unknown>;
  readonly fields?: Fields;
  /** Lists whose items have an identity: the fields that tell them apart when two versions are merged. */
  readonly keys?: readonly string[];
  /** Lists whose items are their own identity. */
  readonly isSet?: boolean;
  /** Server-side apply sets and owns it as a whole. Without this mark, maps and objects are owned field by field. */
  readonly isAtomic?: boolean;
  /** A strategic merge patch replaces it as a whole, although its items have an identity. */
  readonly isReplaced?: boolean;
  /** What an absent key of an item counts as, where that is not the zero value: `TCP` of a port's protocol. */
  readonly absentMeans?: T;
  readonly required?: boolean;
  /** A whole number of 32 bits. */
  readonly isShort?: boolean;
  readonly documentation?: Documentation;
}

/** What clients show of an object's shape when users ask: `kubectl explain`. */
interface Documentation<Field extends string = string> {
  /** Of the component that other shapes refer to. A kind is named after its group, version and kind instead. */
  readonly name?: string;
  readonly text: string;
  readonly fields: { readonly [K in Field]?: string };
  /** Fields that decoding always fills in and that a user may nevertheless leave out. */
  readonly optional?: readonly Field[];
}

type Fields = Readonly<Record<string, Shape<unknown>>>;
export type Of<S> = S extends Shape<infer T> ? T : never;

type RequiredKeys<F> = { [K in keyof F]: F[K] extends { readonly required: true } ? K : never }[keyof F];
type ObjectOf<F> = { readonly [K in RequiredKeys<F>]: Of<F[K]> } & {
  readonly [K in Exclude<keyof F, RequiredKeys<F>>]?: Of<F[K]>;
};

const plain = <T>(type: Shape<T>['type'], zero: () => T | undefined): Shape<T> => ({ type, zero });

export const string = plain<string>('string', () => '');
export const integer = plain<number>('integer', () => 0);
/** Clients in Go and Java keep it in 32 bits: a larger one, in one object, would break every list that they read. */
export const int32: Shape<number> = { ...integer, isShort: true };
export const number = plain<number>('number', () => 0);
export const boolean = plain<boolean>('boolean', () => false);
/** Text or a bare number: `500m`, `1`, `0.5`. Decoding leaves the API server's own form of it, which is text. */
export const quantity = plain<string | number>('quantity', () => '0');
/** A point in time as RFC 3339 writes it. Decoding leaves UTC and whole seconds; the zero time counts as absent. */
export const time = plain<string>('time', () => undefined);
/** The same with six digits of a fraction. */
export const microTime = plain<string>('microTime', () => undefined);
export const intOrString = plain<number | string>('intOrString', () => 0);
/** Base64 text. It stays text in the object, as JSON carries it. */
export const bytes = plain<string>('bytes', () => '');
/** Carried along without a look inside. */
export const any = plain<unknown>('any', () => undefined);

/**
 * `keys` are the API's merge keys (`name` of containers); a list without them is replaced as a whole. Server-side apply uses
 * all of them, a strategic merge patch only the first. Where the two disagree further, see `atomic` and `replacedByPatch`.
 */
export function list<T>(item: Shape<T>, ...keys: string[]): Shape<readonly T[]> {
  return { type: 'list', zero: () => [], item, keys };
}

/** A list without doubles, in which order means nothing: `finalizers`. Merging unites. */
export function setOf<T>(item: Shape<T>): Shape<readonly T[]> {
  return { ...list(item), isSet: true };
}

export function atomic<T>(shape: Shape<T>): Shape<T> {
  return { ...shape, isAtomic: true };
}

/** Takes the mark of `atomic` away again, for the one field that uses an atomic shape otherwise: a volume's `claimRef`. */
export function granular<T>(shape: Shape<T>): Shape<T> {
  return { ...shape, isAtomic: false };
}

export function replacedByPatch<T>(shape: Shape<T>): Shape<T> {
  return { ...shape, isReplaced: true };
}

export function absentMeans<T>(value: T, shape: Shape<T>): Shape<T> {
  return { ...shape, absentMeans: value };
}

export function map<T>(item: Shape<T>): Shape<Readonly<Record<string, T>>> {
  return { type: 'map', zero: () => ({}), item };
}

/** Amounts by the name of a resource: `{ cpu: 500m }`. */
export const resourceList = map(quantity);

export function object<F extends Fields>(fields: F): Shape<ObjectOf<F>> {
  const shape: Shape<ObjectOf<F>> = { type: 'object', zero: () => decode(shape, {}).value, fields };
  return shape;
}

export function required<T>(shape: Shape<T>): Shape<T> & { readonly required: true } {
  return { ...shape, required: true };
}

export function described<T>(documentation: Documentation<keyof NoInfer<T> & string>, shape: Shape<T>): Shape<T> {
  return { ...shape, documentation };
}

/** A field of an object, the key of a map or an index of a list, from the root down: `['spec', 'volumes', 0, 'name']`. */
export type FieldPath = readonly (string | number)[];

/**
 * The part of a path that names a map's key: printed in brackets, `metadata.annotations[example.com/a]`.
 * No field's name begins with a bracket, which distinguishes a key from a field.
 */
export function keyPart(key: string): string {
  return `[${key}]`;
}

export interface ShapeProblem {
  readonly kind: 'type' | 'unknown';
  readonly path: FieldPath;
  readonly message: string;
}

interface Decoded<T> {
  readonly value: T;
  readonly problems: readonly ShapeProblem[];
}

/** Turns parsed JSON or YAML into a value of the shape, and reports everything that does not fit. Never throws. */
export function decode<T>(shape: Shape<T>, json: unknown, path: FieldPath = []): Decoded<T> {
  const problems: ShapeProblem[] = [];
  const value = decodeInto(shape, json, [...path], problems);
  // A type problem leaves a hole that the type does not admit; callers check the problems first.
  return { value: value as T, problems };
}

/** One path is shared by the whole descent and copied where a problem is reported. */
type Way = (string | number)[];

function decodeInto(shape: Shape<unknown>, json: unknown, way: Way, problems: ShapeProblem[]): unknown {
  if (json === null || json === undefined) return shape.zero();
  if (!accepts(shape, json)) {
    const message = `expected ${expectation[shape.type]}, got ${describe(json, shape)}${adviceFor(shape, json, way.at(-1))}`;
    problems.push({ kind: 'type', path: [...way], message });
    return shape.zero();
  }
  switch (shape.type) {
    case 'list':
      return (json as unknown[]).map((item, index) => decodeStep(shape.item ?? any, item, index, way, problems));
    case 'map': {
      const result: Record<string, unknown> = emptyRecord();
      for (const [key, item] of Object.entries(json)) {
        result[key] = decodeStep(shape.item ?? any, item, keyPart(key), way, problems);
      }
      return result;
    }
    case 'quantity':
      return canonicalQuantity(typeof json === 'number' ? String(json) : (json as string), way, problems);
    case 'time':
    case 'microTime':
      return canonicalTime(shape, json as string, way, problems);
    case 'object':
      return decodeFields(shape.fields ?? {}, json as Record<string, unknown>, way, problems);
    default:
      return json;
  }
}

function canonicalQuantity(text: string, way: Way, problems: ShapeProblem[]): string {
  try {
    return Quantity.parse(text).toString();
  } catch (error) {
    if (!(error instanceof QuantityError)) throw error;
    problems.push({ kind: 'type', path: [...way], message: error.message });
    return '0';
  }
}

function canonicalTime(shape: Shape<unknown>, text: string, way: Way, problems: ShapeProblem[]): unknown {
  const at = parseTime(text);
  if (at === undefined) {
    const message = `expected ${expectation[shape.type]}, got other text`;
    problems.push({ kind: 'type', path: [...way], message });
  }
  if (at === undefined || at.isZero) return shape.zero();
  return shape.type === 'time' ? at.seconds : at.microseconds;
}

function decodeStep(
  shape: Shape<unknown>,
  json: unknown,
  step: string | number,
  way: Way,
  problems: ShapeProblem[],
): unknown {
  way.push(step);
  const value = decodeInto(shape, json, way, problems);
  way.pop();
  return value;
}

function decodeFields(fields: Fields, json: Record<string, unknown>, way: Way, problems: ShapeProblem[]): object {
  const result: Record<string, unknown> = {};
  for (const key of Object.keys(json)) {
    if (!Object.hasOwn(fields, key)) problems.push({ kind: 'unknown', path: [...way, key], message: 'unknown field' });
  }
  for (const key of Object.keys(fields)) {
    const shape = fields[key] ?? any;
    const value = Object.hasOwn(json, key) ? json[key] : undefined;
    if (value !== null && value !== undefined) result[key] = decodeStep(shape, value, key, way, problems);
    else if (shape.required) result[key] = shape.zero();
  }
  return result;
}

function isInt32(json: unknown): boolean {
  return typeof json === 'number' && Number.isInteger(json) && json >= -(2 ** 31) && json < 2 ** 31;
}

function accepts(shape: Shape<unknown>, json: unknown): boolean {
  switch (shape.type) {
    case 'string':
    case 'time':
    case 'microTime':
      return typeof json === 'string';
    case 'bytes':
      return typeof json === 'string' && isBase64(json);
    case 'integer':
      return shape.isShort === true ? isInt32(json) : Number.isSafeInteger(json);
    case 'number':
      return typeof json === 'number';
    case 'boolean':
      return typeof json === 'boolean';
    case 'quantity':
      return typeof json === 'string' || typeof json === 'bigint' || Number.isFinite(json);
    case 'intOrString':
      return typeof json === 'string' || isInt32(json);
    case 'list':
      return Array.isArray(json);
    case 'map':
    case 'object':
      return typeof json === 'object' && !Array.isArray(json);
    case 'any':
      return true;
  }
}

const expectation: Record<Shape<unknown>['type'], string> = {
  string: 'a string',
  bytes: 'base64 text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  quantity: 'a quantity (a number or text such as "500m")',
  time: 'a time (RFC 3339, such as 2006-01-02T15:04:05Z)',
  microTime: 'a time (RFC 3339, such as 2006-01-02T15:04:05.000000Z)',
  intOrString: 'a whole number or a string',
  list: 'a list',
  map: 'a map',
  object: 'a map',
  any: 'anything',
};

/** Names the kind of value and never the value: it may be a Secret's. */
function describe(json: unknown, { type }: Shape<unknown>): string {
  if (Array.isArray(json)) return 'a list';
  if (typeof json === 'object') return 'a map';
  if (typeof json === 'string') return type === 'bytes' ? 'other text' : 'a string';
  const wantsText = type === 'string' || type === 'bytes';
  const hint = wantsText ? ' (quote it if you mean text)' : '';
  if (typeof json === 'boolean') return `a boolean${hint}`;
  if (type === 'integer' || type === 'intOrString')
    return Number.isInteger(json) || typeof json === 'bigint' ? 'one that is too large' : 'one with a fraction';
  return `a number${hint}`;
}

/** A file of a ConfigMap that was written as YAML instead of as text, as many tutorials print it. */
function adviceFor({ type }: Shape<unknown>, json: unknown, step: string | number | undefined): string {
  const isKey = typeof step === 'string' && step.startsWith('[');
  if (type !== 'string' || !isKey || typeof json !== 'object') return '';
  return ` (for a file with this text write "${step.slice(1, -1)}: |", and the text indented below)`;
}

/** Standard alphabet with padding; line breaks are ignored, as Go's decoder does. */
function isBase64(text: string): boolean {
  const packed = text.replace(/[\r\n]/g, '');
  return packed.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(packed);
}

/** User-chosen keys go into an object without a prototype, so that a key named `__proto__` is a key like any other. */
function emptyRecord(): Record<string, unknown> {
  return Object.create(null) as Record<string, unknown>;
}
