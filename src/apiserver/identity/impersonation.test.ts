import assert from 'node:assert/strict';
import { test } from 'node:test';
import { impersonationOf } from './impersonation.ts';

type Impersonation = NonNullable<ReturnType<typeof impersonationOf>>;

function asked(headers: Readonly<Record<string, readonly string[]>>): Impersonation | undefined {
  return impersonationOf({
    headerNames: () => Object.keys(headers),
    headerValues: (name) => (Object.hasOwn(headers, name) ? (headers[name] ?? []) : []),
  });
}

/** `users/bob`, `userextras/scopes.authentication.k8s.io/view`, `serviceaccounts/robot@shop` */
function permissionsOf(impersonation: Impersonation | undefined): readonly string[] {
  return (impersonation?.permissions ?? []).map(({ verb, resource, subresource, group, namespace, name }) => {
    assert.equal(verb, 'impersonate');
    const what = `${resource}${subresource && `/${subresource}`}${group && `.${group}`}`;
    return `${what}/${name}${namespace && `@${namespace}`}`;
  });
}

const cases: readonly (readonly [
  it: string,
  headers: Readonly<Record<string, readonly string[]>>,
  groups: readonly string[],
  permissions: readonly string[],
])[] = [
  ['a user', { 'impersonate-user': ['bob'] }, ['system:authenticated'], ['users/bob']],
  [
    'a user with groups',
    { 'impersonate-user': ['bob'], 'impersonate-group': ['dev, ops', 'qa'] },
    ['dev, ops', 'qa', 'system:authenticated'],
    ['users/bob', 'groups/dev, ops', 'groups/qa'],
  ],
  [
    'a user who is said to be authenticated',
    { 'impersonate-user': ['bob'], 'impersonate-group': ['system:authenticated'] },
    ['system:authenticated'],
    ['users/bob', 'groups/system:authenticated'],
  ],
  ['nobody', { 'impersonate-user': ['system:anonymous'] }, ['system:unauthenticated'], ['users/system:anonymous']],
  [
    'a service account, with the groups it has',
    { 'impersonate-user': ['system:serviceaccount:shop:robot'] },
    ['system:serviceaccounts', 'system:serviceaccounts:shop', 'system:authenticated'],
    ['serviceaccounts/robot@shop'],
  ],
  [
    'a service account with groups that are given',
    { 'impersonate-user': ['system:serviceaccount:shop:robot'], 'impersonate-group': ['dev'] },
    ['dev', 'system:authenticated'],
    ['serviceaccounts/robot@shop', 'groups/dev'],
  ],
  [
    'a name that only looks like an account',
    { 'impersonate-user': ['system:serviceaccount:shop:a:b'] },
    ['system:authenticated'],
    ['users/system:serviceaccount:shop:a:b'],
  ],
  [
    'a UID and more',
    {
      'impersonate-user': ['bob'],
      'impersonate-uid': ['7'],
      'impersonate-extra-scopes': ['view', 'edit'],
      'impersonate-extra-acme.com%2fproject': ['x'],
      'impersonate-extra-50%': ['y'],
    },
    ['system:authenticated'],
    [
      'users/bob',
      'userextras/scopes.authentication.k8s.io/view',
      'userextras/scopes.authentication.k8s.io/edit',
      'userextras/acme.com/project.authentication.k8s.io/x',
      'userextras/50%.authentication.k8s.io/y',
      'uids.authentication.k8s.io/7',
    ],
  ],
];
for (const [it, headers, groups, permissions] of cases) {
  test(`impersonation of ${it}`, () => {
    const impersonation = asked(headers);
    assert.deepEqual(impersonation?.user.groups, groups);
    assert.equal(impersonation?.user.name, headers['impersonate-user']?.[0]);
    assert.deepEqual(permissionsOf(impersonation), permissions);
  });
}

test('a UID and extra values are those of the user', () => {
  const headers = { 'impersonate-user': ['bob'], 'impersonate-uid': ['7'], 'impersonate-extra-__proto__': ['x'] };
  const user = asked(headers)?.user;
  assert.equal(user?.uid, '7');
  assert.deepEqual(Object.entries(user?.extra ?? {}), [['__proto__', ['x']]]);
});

test('a request without these headers asks for nothing, and one for parts of nobody is refused', () => {
  assert.equal(asked({ accept: ['x'] }), undefined);
  assert.equal(asked({ 'impersonate-user': [''] }), undefined);
  const refusals: readonly (readonly [string, string])[] = [
    ['impersonate-group', '[{Group  x    }]'],
    ['impersonate-uid', '[{UID  x  authentication.k8s.io/v1  }]'],
    ['impersonate-extra-scopes', '[{UserExtra  x  authentication.k8s.io/v1  scopes}]'],
  ];
  for (const [header, shown] of refusals) {
    const message = `requested ${shown} without impersonating a user`;
    assert.throws(() => asked({ [header]: ['x'] }), { code: 400, message });
  }
});
