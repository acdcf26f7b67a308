/** The rules of a kind as a table: what an object is, and what validation says of it in the API server's words. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject, ResourceKind } from '../../kube/schema/kind.ts';
import { decoded, messagesOf } from './builders.ts';

interface KindCase {
  readonly it: string;
  /** Its metadata are added to those that every object has. */
  readonly object: object;
  /** With it, the rule is one for updates. */
  readonly old?: object;
  readonly errors?: readonly string[];
  /** What defaults make of its spec. */
  readonly spec?: object;
}

export function testKind<T extends KubeObject>(kind: ResourceKind<T>, cases: readonly KindCase[]): void {
  const metadata = { name: 'x', resourceVersion: '1', ...(kind.namespaced && { namespace: 'shop' }) };
  const from = (parts: { readonly metadata?: object }): T =>
    kind.complete(decoded(kind.shape, { ...parts, metadata: { ...metadata, ...parts.metadata } }));
  for (const { it, object, old, errors = [], spec } of cases) {
    test(`${kind.kind} ${it}`, () => {
      const completed = from(object);
      const found = old === undefined ? kind.validate(completed) : kind.validateUpdate(completed, from(old));
      assert.deepEqual(messagesOf(found), errors);
      if (spec !== undefined) assert.deepEqual(JSON.parse(JSON.stringify(completed)).spec, spec);
      assert.deepEqual(kind.complete(completed), completed, 'defaults of defaults');
    });
  }
}
