/** Reads the body of a server-side apply: a configuration that is refused as a whole if anything in it does not fit. */
import type { Shape } from '../../kube/schema/schema.ts';
import { FieldSet, type PathElement, elementText, fieldElement } from './field-set.ts';
import {
  type Json,
  type JsonList,
  type JsonObject,
  PatchError,
  checkDepth,
  fieldOf,
  goKind,
  isList,
  isObject,
  objectIn,
  withField,
} from './json-value.ts';
import {
  ItemIdentityError,
  type TypeShape,
  compareObjects,
  extractFieldSet,
  isNamed,
  layoutOf,
  shapeOfField,
} from './layout.ts';
import type { Writer } from './managed-fields.ts';

interface Expected {
  readonly apiVersion: string;
  readonly kind: string;
  readonly shape: Shape<unknown>;
}

export function readApplied(applied: Json, { apiVersion, kind, shape }: Expected): JsonObject {
  if (!isObject(applied)) {
    const text = `json: cannot unmarshal ${goKind(applied)} into Go value of type map[string]interface {}`;
    throw new PatchError('malformed', `error decoding patch: ${text}`);
  }
  checkDepth(applied);
  if (fieldOf(applied, 'apiVersion') !== apiVersion || fieldOf(applied, 'kind') !== kind) {
    throw new PatchError('malformed', `invalid object type: ${kindText(applied)}`);
  }
  if ((fieldOf(objectIn(applied, 'metadata'), 'managedFields') ?? null) !== null) {
    throw new PatchError('malformed', 'metadata.managedFields must be nil');
  }
  const problem = appliedProblem(applied, shape);
  if (problem === undefined) return applied;
  throw new PatchError('malformed', `failed to create typed patch object (${nameText(applied)}): ${problem}`);
}

/** `shop/web; /v1, Kind=Pod` */
export function nameText(object: JsonObject): string {
  const metadata = objectIn(object, 'metadata');
  return `${textOf(metadata, 'namespace')}/${textOf(metadata, 'name')}; ${kindText(object)}`;
}

/** `/v1, Kind=Pod` or `coordination.k8s.io/v1, Kind=Lease`. */
function kindText(object: JsonObject): string {
  const version = textOf(object, 'apiVersion');
  return `${version.includes('/') ? '' : '/'}${version}, Kind=${textOf(object, 'kind')}`;
}

function textOf(object: JsonObject, name: string): string {
  const value = fieldOf(object, name);
  return typeof value === 'string' ? value : '';
}

/**
 * Checks that an applied configuration fits the shape. Server-side apply is stricter than other writes: an unknown field is an error,
 * and so is an item that cannot be distinguished from another. All problems in one text, as the API server words it, without values:
 * they may be a Secret's. Undefined where there are none.
 */
function appliedProblem(object: Json, shape: TypeShape): string | undefined {
  const problems = [...problemsOf(object, shape, '')];
  return problems.length > 1 ? ['errors:', ...problems.map((problem) => `  ${problem}`)].join('\n') : problems[0];
}

function* problemsOf(value: Json, shape: TypeShape, path: string): Generator<string> {
  if (value === null || shape === undefined || shape.type === 'any') return;
  const expected = expectation(shape, value);
  const at = path === '' ? '' : `${path}: `;
  if (expected !== undefined) yield `${at}expected ${expected}, got ${goKind(value)}`;
  else if (isObject(value)) yield* fieldProblems(value, shape, path);
  else if (isList(value)) yield* itemProblems(value, shape, path);
}

function* fieldProblems(value: JsonObject, shape: Shape<unknown>, path: string): Generator<string> {
  for (const [name, field] of Object.entries(value)) {
    const inner = `${path}${elementText(fieldElement(name))}`;
    if (shape.type === 'object' && !isNamed(shape, name)) yield `${inner}: field not declared in schema`;
    else yield* problemsOf(field, shapeOfField(shape, name), inner);
  }
}

function* itemProblems(items: JsonList, shape: Shape<unknown>, path: string): Generator<string> {
  const layout = layoutOf(shape, items);
  const seen = new Set<PathElement>();
  for (const [index, item] of items.entries()) {
    let inner = `${path}[${index}]`;
    if (layout.kind === 'items') {
      const element = identityOf(item, layout.elementOf);
      if (element instanceof ItemIdentityError) {
        yield `${path}: element ${index}: ${element.message}`;
        return;
      }
      if (seen.has(element)) yield `${path}: duplicate entries for key ${elementText(element)}`;
      seen.add(element);
      inner = `${path}${elementText(element)}`;
    }
    yield* problemsOf(item, shape.item, inner);
  }
}

function identityOf(item: Json, elementOf: (item: Json) => PathElement): PathElement | ItemIdentityError {
  try {
    return elementOf(item);
  } catch (error) {
    if (error instanceof ItemIdentityError) return error;
    throw error;
  }
}

/** What should be there instead of this value; undefined where the value fits. */
function expectation(shape: Shape<unknown>, value: Json): string | undefined {
  switch (shape.type) {
    case 'string':
    case 'bytes':
    case 'time':
    case 'microTime':
      return typeof value === 'string' ? undefined : 'string';
    case 'integer':
    case 'number':
      return typeof value === 'number' ? undefined : 'numeric (int or float)';
    case 'boolean':
      return typeof value === 'boolean' ? undefined : 'boolean';
    case 'quantity':
    case 'intOrString':
      return typeof value === 'object' ? 'any scalar' : undefined;
    case 'list':
      return isList(value) ? undefined : 'list';
    case 'map':
    case 'object':
      return isObject(value) ? undefined : 'map';
    case 'any':
      return undefined;
  }
}

/**
 * The bridge from client-side to server-side apply. `kubectl apply` used to keep its configuration in an annotation; when the same
 * kubectl turns to server-side apply, what it applied then does not conflict now, and the annotation stays up to date.
 */
const annotation = 'kubectl.kubernetes.io/last-applied-configuration';
/** All annotations of an object together. */
const annotationBytesMax = 256 * 1024;

/** The fields that kubectl itself put there and that still have that value; none for any other manager. */
export function fieldsAgreedBefore({ manager, apiVersion, shape }: Writer, live: JsonObject): FieldSet {
  if (manager !== 'kubectl') return new FieldSet();
  const last = parsed(fieldOf(annotationsOf(live), annotation));
  if (last === undefined || fieldOf(last, 'apiVersion') !== apiVersion) return new FieldSet();
  if (appliedProblem(last, shape) !== undefined) return new FieldSet();
  const { added, modified, removed } = compareObjects(last, live, shape);
  return extractFieldSet(last, shape).difference(modified).difference(added).difference(removed);
}

/** Only where the annotation is there already: kubectl asks for it to be gone by removing it. */
export function refreshLastApplied(object: JsonObject, applied: JsonObject): JsonObject {
  const annotations = annotationsOf(object);
  const present = fieldOf(annotations, annotation);
  if (typeof present !== 'string' || present === '') return object;
  const text = `${JSON.stringify(withAnnotation(applied, undefined))}\n`;
  const others = Object.entries(annotations).filter(([key]) => key !== annotation);
  const bytes = others.reduce((sum, [key, value]) => sum + byteLength(key) + byteLength(value), byteLength(annotation));
  return withAnnotation(object, bytes + byteLength(text) > annotationBytesMax ? undefined : text);
}

function withAnnotation(object: JsonObject, text: string | undefined): JsonObject {
  const annotations = withField(annotationsOf(object), annotation, text);
  const isGone = Object.keys(annotations).length === 0;
  const metadata = withField(objectIn(object, 'metadata'), 'annotations', isGone ? undefined : annotations);
  return withField(object, 'metadata', metadata);
}

function annotationsOf(object: JsonObject): JsonObject {
  return objectIn(objectIn(object, 'metadata'), 'annotations');
}

function parsed(text: Json | undefined): JsonObject | undefined {
  if (typeof text !== 'string' || text === '') return undefined;
  try {
    const value = JSON.parse(text) as Json;
    checkDepth(value);
    return isObject(value) ? value : undefined;
  } catch (error) {
    // An annotation may contain anything; then nothing was agreed.
    if (error instanceof SyntaxError || error instanceof PatchError) return undefined;
    throw error;
  }
}

function byteLength(value: Json): number {
  return Buffer.byteLength(typeof value === 'string' ? value : '');
}
