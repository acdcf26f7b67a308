/**
 * The bridge from client-side to server-side apply. `kubectl apply` used to keep its configuration in an annotation; when the same
 * kubectl turns to server-side apply, what it applied then is no conflict now, and the annotation goes on telling the truth.
 */
import { compareObjects } from './compare-objects.ts';
import { extractFieldSet } from './extract-field-set.ts';
import { FieldSet } from './field-set.ts';
import { checkDepth, fieldOf, isObject, objectIn, withField } from './json-value.ts';
import type { Json, JsonObject } from './json-value.ts';
import type { Writer } from './ownership.ts';
import { PatchError } from './patch-error.ts';
import { appliedProblem } from './validate-applied.ts';

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
    // Anybody may write anything into an annotation; then nothing was agreed.
    if (error instanceof SyntaxError || error instanceof PatchError) return undefined;
    throw error;
  }
}

function byteLength(value: Json): number {
  return Buffer.byteLength(typeof value === 'string' ? value : '');
}
