import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTarget, requestInfo } from './request-info.ts';

/** `verb group/version resource namespace/name/subresource`, or the path. */
function show(method: string, target: string): string {
  const parsed = parseTarget(target);
  if (parsed === undefined) return 'nothing';
  const info = requestInfo(method, parsed);
  if (info.kind === 'path') return `${info.verb} ${info.path}`;
  const { verb, group, version, resource, namespace, name, subresource } = info;
  return `${verb} ${group}/${version} ${resource} ${namespace}/${name}/${subresource}`;
}

const cases = [
  ['GET', '/api/v1/pods', 'list /v1 pods //'],
  ['GET', '/api/v1/pods/', 'list /v1 pods //'],
  ['GET', '/api/v1/pods?watch=true', 'watch /v1 pods //'],
  ['GET', '/api/v1/pods?watch=1', 'watch /v1 pods //'],
  ['GET', '/api/v1/pods?watch=false', 'list /v1 pods //'],
  ['GET', '/api/v1/pods?watch=0', 'list /v1 pods //'],
  ['GET', '/api/v1/watch/namespaces/a/pods', 'watch /v1 pods a//'],
  ['GET', '/api/v1/namespaces/a/pods/b', 'get /v1 pods a/b/'],
  ['HEAD', '/api/v1/namespaces/a/pods/b', 'get /v1 pods a/b/'],
  ['PATCH', '/api/v1/namespaces/a/pods/b/status', 'patch /v1 pods a/b/status'],
  ['POST', '/api/v1/namespaces/a/pods/b/binding', 'create /v1 pods a/b/binding'],
  ['DELETE', '/api/v1/namespaces/a/pods', 'deletecollection /v1 pods a//'],
  ['DELETE', '/api/v1/namespaces/a/pods/b', 'delete /v1 pods a/b/'],
  ['GET', '/api/v1/namespaces', 'list /v1 namespaces //'],
  ['GET', '/api/v1/namespaces/a', 'get /v1 namespaces a/a/'],
  ['PUT', '/api/v1/namespaces/a/finalize', 'update /v1 namespaces a/a/finalize'],
  ['GET', '/api/v1/nodes/n/status', 'get /v1 nodes /n/status'],
  ['PUT', '/apis/coordination.k8s.io/v1/namespaces/a/leases/b', 'update coordination.k8s.io/v1 leases a/b/'],
  ['OPTIONS', '/api/v1/pods', ' /v1 pods //'],
  ['GET', '/api', 'get /api'],
  ['GET', '/api/v1', 'get /api/v1'],
  ['GET', '/apis/apps/v1', 'get /apis/apps/v1'],
  ['GET', '/healthz', 'get /healthz'],
  ['GET', '/', 'get /'],
  ['GET', '/api/v1//pods', 'get /api/v1//pods'],
  ['GET', '/api/v1/namespaces/a%2Fpods/b', 'get /v1 pods a/b/'],
  ['GET', '/api/v1/namespaces/../secrets', 'nothing'],
  ['GET', '/api/v1/namespaces/%2e%2e/secrets', 'nothing'],
  ['GET', '/api/v1/pods/a%00b', 'nothing'],
  ['GET', '/api/v1/pods/%zz', 'nothing'],
  ['GET', '/api/v1/pods/%ff', 'nothing'],
  ['GET', 'http://elsewhere/api', 'nothing'],
  ['GET', '*', 'nothing'],
  ['GET', `/${'a'.repeat(9000)}`, 'nothing'],
] as const;
for (const [method, target, expected] of cases) {
  test(`${method} ${target.slice(0, 60)} asks for ${expected}`, () => {
    assert.equal(show(method, target), expected);
  });
}
