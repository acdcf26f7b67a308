import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeRoute, subresourcesOf } from './node-access.ts';

const cases: readonly { readonly path: string; readonly is: object | undefined }[] = [
  { path: '/healthz', is: { kind: 'healthz' } },
  { path: '/configz', is: { kind: 'configz' } },
  { path: '/metrics/resource', is: { kind: 'resourceMetrics' } },
  { path: '/stats/summary', is: { kind: 'summary' } },
  { path: '/pods', is: { kind: 'pods' } },
  { path: '/runningpods/', is: { kind: 'runningPods' } },
  { path: '/metrics', is: { kind: 'metrics' } },
  { path: '/containerLogs/a/b/c', is: { kind: 'logs', namespace: 'a', pod: 'b', container: 'c' } },
  { path: '/containerLogs/a/b', is: undefined },
  { path: '/exec/a/b/c', is: { kind: 'exec', namespace: 'a', pod: 'b', uid: '', container: 'c' } },
  { path: '/exec/a/b/u/c', is: { kind: 'exec', namespace: 'a', pod: 'b', uid: 'u', container: 'c' } },
  { path: '/attach/a/b/c', is: { kind: 'attach', namespace: 'a', pod: 'b', uid: '', container: 'c' } },
  { path: '/portForward/a/b', is: { kind: 'portForward', namespace: 'a', pod: 'b', uid: '' } },
  { path: '/portForward/a/b/u', is: { kind: 'portForward', namespace: 'a', pod: 'b', uid: 'u' } },
  { path: '/exec/a//c', is: undefined },
  { path: '/exec/a/%zz/c', is: undefined },
  { path: '/exec/a/b%2Fc/d', is: { kind: 'exec', namespace: 'a', pod: 'b/c', uid: '', container: 'd' } },
  { path: '/', is: undefined },
  { path: '', is: undefined },
  { path: '/logs/', is: undefined },
];
for (const { path, is } of cases) {
  test(`nodeRoute reads ${JSON.stringify(path)}`, () => assert.deepEqual(nodeRoute(path), is));
}

test('requests are allowed under the subresources that the kubelet asks for', () => {
  assert.deepEqual(subresourcesOf({ kind: 'pods' }), ['pods', 'proxy']);
  assert.deepEqual(subresourcesOf({ kind: 'healthz' }), ['healthz', 'proxy']);
  assert.deepEqual(subresourcesOf({ kind: 'configz' }), ['configz', 'proxy']);
  assert.deepEqual(subresourcesOf({ kind: 'metrics' }), ['metrics']);
  assert.deepEqual(subresourcesOf({ kind: 'logs', namespace: '', pod: '', container: '' }), ['proxy']);
});
