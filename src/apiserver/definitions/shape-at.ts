import assert from 'node:assert/strict';
import type { Shape } from '../../kube/schema/schema.ts';

/** The shape of a field, below lists and maps: `shapeAt(container, 'env', 'valueFrom')`. */
export function shapeAt(shape: Shape<unknown>, ...path: readonly string[]): Shape<unknown> {
  let here = inner(shape);
  for (const field of path) {
    const next = here.fields?.[field];
    assert(next !== undefined, `no field ${path.join('.')}`);
    here = inner(next);
  }
  return here;
}

function inner(shape: Shape<unknown>): Shape<unknown> {
  return shape.item === undefined ? shape : inner(shape.item);
}
