import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bindToken, completeTokenRequest, shortenExpiry, validateTokenRequest } from './token-requests.ts';
import type { BoundObject } from './token-requests.ts';

test('14.8: a token lives an hour for the server itself unless the request says otherwise', () => {
  assert.deepEqual(completeTokenRequest({}, ['api']), { audiences: ['api'], expirationSeconds: 3600 });
  const spec = { audiences: ['vault'], expirationSeconds: 700, boundObjectRef: { kind: 'Pod' } };
  assert.deepEqual(completeTokenRequest(spec, ['api']), spec);
});

test('14.8: ten minutes at least and 2^32 seconds at most', () => {
  const messages = (expirationSeconds?: number): string[] =>
    validateTokenRequest(expirationSeconds === undefined ? {} : { expirationSeconds }).map(({ message }) => message);
  for (const fine of [undefined, 600, 2 ** 32]) assert.deepEqual(messages(fine), []);
  assert.deepEqual(messages(599), [
    'spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes',
  ]);
  assert.deepEqual(messages(2 ** 32 + 1), [
    'spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds',
  ]);
});

test('14.8: a maximum of the server shortens with a warning', () => {
  assert.deepEqual(shortenExpiry(3600, 3600), { expirationSeconds: 3600, warning: undefined });
  assert.deepEqual(shortenExpiry(7200, 3600), {
    expirationSeconds: 3600,
    warning: 'requested expiration of 7200 seconds shortened to 3600 seconds',
  });
});

const objects: Record<string, BoundObject> = {
  'Pod web': { uid: 'p1', serviceAccountName: 'robot', nodeName: 'n1' },
  'Pod stray': { uid: 'p2', serviceAccountName: 'robot', nodeName: 'n9' },
  'Pod waiting': { uid: 'p3', serviceAccountName: 'robot' },
  'Pod alien': { uid: 'p4', serviceAccountName: 'default' },
  'Secret old': { uid: 's1' },
  'Node n1': { uid: 'n-uid' },
};
const find = (kind: string, name: string): BoundObject | undefined => objects[`${kind} ${name}`];

const bindings: readonly (readonly [string, Parameters<typeof bindToken>[0], unknown])[] = [
  ['to nothing', undefined, {}],
  [
    'to a pod and its node',
    { apiVersion: 'v1', kind: 'Pod', name: 'web', uid: 'p1' },
    { pod: { name: 'web', uid: 'p1' }, node: { name: 'n1', uid: 'n-uid' } },
  ],
  [
    'to a pod whose node has no object',
    { kind: 'Pod', name: 'stray' },
    { pod: { name: 'stray', uid: 'p2' }, node: { name: 'n9', uid: '' } },
  ],
  ['to a pod without a node', { kind: 'Pod', name: 'waiting' }, { pod: { name: 'waiting', uid: 'p3' } }],
  ['to a secret', { kind: 'Secret', name: 'old' }, { secret: { name: 'old', uid: 's1' } }],
  ['to a node', { kind: 'Node', name: 'n1' }, { node: { name: 'n1', uid: 'n-uid' } }],
  [
    'to a pod of another account',
    { kind: 'Pod', name: 'alien' },
    [400, 'cannot bind token for serviceaccount "robot" to pod running with different serviceaccount name.'],
  ],
  ['to a pod that is gone', { kind: 'Pod', name: 'gone' }, [404, 'pods "gone" not found']],
  [
    'to an earlier pod',
    { kind: 'Pod', name: 'web', uid: 'old' },
    [
      409,
      'Operation cannot be fulfilled on Pod "web": the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated',
    ],
  ],
  [
    'to a deployment',
    { apiVersion: 'apps/v1', kind: 'Deployment', name: 'x' },
    [400, 'cannot bind token to object of type apps/v1, Kind=Deployment'],
  ],
  [
    'to a config map',
    { apiVersion: 'v1', kind: 'ConfigMap', name: 'x' },
    [400, 'cannot bind token to object of type /v1, Kind=ConfigMap'],
  ],
  [
    'to what is not even a kind',
    { apiVersion: 'v1', kind: 'toString', name: 'x' },
    [400, 'cannot bind token to object of type /v1, Kind=toString'],
  ],
];
for (const [it, reference, expected] of bindings) {
  test(`14.8: a token is bound ${it}`, () => {
    const result = bindToken(reference, 'robot', find);
    assert.deepEqual(result.kind === 'bound' ? result.parts : [result.code, result.message], expected);
  });
}
