import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reviewAccess, reviewedUser } from './reviews.ts';
import type { RequestAttributes, User } from '../identity/user.ts';

const me: User = { name: 'me', uid: '', groups: [], extra: {} };

function asked(spec: Parameters<typeof reviewAccess>[2]): RequestAttributes {
  let seen: RequestAttributes | undefined;
  reviewAccess({ authorize: (_user, request) => ((seen = request), { allowed: true, reason: '' }) }, me, spec);
  assert.ok(seen !== undefined);
  return seen;
}

test('a review asks the same question that a request would', () => {
  const resourceAttributes = {
    namespace: 'shop',
    verb: 'get',
    group: 'g',
    version: 'v1',
    resource: 'pods',
    subresource: 'log',
    name: 'web',
  };
  assert.deepEqual(asked({ resourceAttributes }), { kind: 'resource', ...resourceAttributes, fieldEquals: {} });
  assert.deepEqual(asked({ nonResourceAttributes: { path: '/metrics', verb: 'get' } }), {
    kind: 'path',
    verb: 'get',
    path: '/metrics',
  });
});

test('field selectors of a review count if they pin a field to one value', () => {
  const fieldsOf = (
    fieldSelector: NonNullable<NonNullable<Parameters<typeof asked>[0]['resourceAttributes']>['fieldSelector']>,
  ): unknown => {
    const request = asked({ resourceAttributes: { resource: 'pods', fieldSelector } });
    return request.kind === 'resource' ? request.fieldEquals : undefined;
  };
  assert.deepEqual(fieldsOf({ rawSelector: 'spec.nodeName=n1,status.phase!=Failed,a==b' }), {
    'spec.nodeName': 'n1',
    a: 'b',
  });
  assert.deepEqual(fieldsOf({ rawSelector: 'a\\=b=c,,x' }), {});
  const requirements = [
    { key: 'spec.nodeName', operator: 'In', values: ['n1'] },
    { key: 'b', operator: 'In', values: ['1', '2'] },
    { key: 'c', operator: 'NotIn', values: ['1'] },
  ];
  assert.deepEqual(fieldsOf({ requirements }), { 'spec.nodeName': 'n1' });
});

test('the status has a reason only where there is one', () => {
  const spec = { nonResourceAttributes: { path: '/', verb: 'get' } };
  assert.deepEqual(reviewAccess({ authorize: () => ({ allowed: false, reason: 'why' }) }, me, spec), {
    allowed: false,
    reason: 'why',
  });
  assert.deepEqual(reviewAccess({ authorize: () => ({ allowed: true, reason: '' }) }, me, spec), { allowed: true });
});

test('a review about another user takes them as described', () => {
  assert.deepEqual(reviewedUser({ user: 'ann', groups: ['dev'], extra: { a: ['b'] } }), {
    name: 'ann',
    uid: '',
    groups: ['dev'],
    extra: { a: ['b'] },
  });
});
