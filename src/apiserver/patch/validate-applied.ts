/**
 * Whether an applied configuration fits the shape. Server-side apply is stricter than other writes: an unknown field is an error,
 * and so is an item that cannot be told from another. Values are never shown: they may be a Secret's.
 */
import type { Shape } from '../../kube/objects/schema.ts';
import { goKind } from './go-value.ts';
import { isList, isObject } from './json-value.ts';
import type { Json, JsonList, JsonObject } from './json-value.ts';
import { ItemIdentityError, isNamed, layoutOf, shapeOfField } from './layout.ts';
import type { TypeShape } from './layout.ts';
import { elementText, fieldElement } from './path-element.ts';
import type { PathElement } from './path-element.ts';

/** One text with all problems, as the API server words it; undefined where there are none. */
export function appliedProblem(object: Json, shape: TypeShape): string | undefined {
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
