import assert from 'node:assert/strict';
import type { FieldError } from '../kube/validation/field-errors.ts';
import { decode } from '../kube/objects/schema.ts';
import type { Shape } from '../kube/objects/schema.ts';

/** An object as a user would write it. A test that writes a field the shape does not know is itself wrong. */
export function decoded<T>(shape: Shape<T>, json: unknown): T {
  const { value, problems } = decode(shape, json);
  assert.deepEqual(problems, []);
  return value;
}

export function messagesOf(errors: readonly FieldError[]): string[] {
  return errors.map(({ message }) => message);
}
