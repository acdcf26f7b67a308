/** Roles and bindings: their rules by exact messages, their defaults, what covers what, and the default roles. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { messagesOf } from '../../../testing/fakes/builders.ts';
import { testKind } from '../../../testing/fakes/kind-cases.ts';
import type { KubeObject, ResourceKind } from '../../schema/kind.ts';
import { defaultClusterRoleBindings, defaultClusterRoles, defaultRoleBindings, defaultRoles } from './default-roles.ts';
import { clusterRoleBindingKind, roleBindingKind } from './role-binding.ts';
import { type PolicyRule, clusterRoleKind, roleKind } from './role.ts';
import { coverage } from './rule-coverage.ts';

const pods = { verbs: ['get'], apiGroups: [''], resources: ['pods'] };
const paths = { verbs: ['get'], nonResourceURLs: ['/metrics'] };

testKind(roleKind, [
  { it: 'takes rules on resources, under a name with a colon', object: { metadata: { name: 'a:b' }, rules: [pods] } },
  { it: 'may allow nothing', object: {} },
  {
    it: 'has rules that are whole',
    object: { rules: [{}, { ...pods, verbs: [] }] },
    errors: [
      'rules[0].verbs: Required value: verbs must contain at least one value',
      'rules[0].apiGroups: Required value: resource rules must supply at least one api group',
      'rules[0].resources: Required value: resource rules must supply at least one resource',
      'rules[1].verbs: Required value: verbs must contain at least one value',
    ],
  },
  {
    it: 'has no rules on paths',
    object: { rules: [paths] },
    errors: [
      'rules[0].nonResourceURLs: Invalid value: ["/metrics"]: namespaced rules cannot apply to non-resource URLs',
    ],
  },
  {
    it: 'has a name that fits into a path',
    object: { metadata: { name: 'a/b', namespace: 'shop' } },
    errors: [`metadata.name: Invalid value: "a/b": may not contain '/'`],
  },
]);

const selector = { matchLabels: { a: 'b' } };
testKind(clusterRoleKind, [
  { it: 'takes rules on paths', object: { rules: [paths, pods] } },
  { it: 'takes rules of others', object: { aggregationRule: { clusterRoleSelectors: [selector] } } },
  {
    it: 'has no rule on both',
    object: { rules: [{ ...pods, ...paths }] },
    errors: [
      'rules[0].nonResourceURLs: Invalid value: ["/metrics"]: rules cannot apply to both regular resources and non-resource URLs',
    ],
  },
  {
    it: 'says whose rules it takes',
    object: { aggregationRule: {} },
    errors: [
      'aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil',
    ],
  },
]);

const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' };
testKind(roleBindingKind, [
  {
    it: 'takes subjects whose groups go without saying',
    object: {
      roleRef: { kind: 'Role', name: 'reader' },
      subjects: [
        { kind: 'User', name: 'ann' },
        { kind: 'Group', name: 'dev' },
        { kind: 'ServiceAccount', name: 'robot' },
      ],
    },
  },
  {
    it: 'needs a role of a known kind',
    object: { roleRef: { apiGroup: 'x', kind: 'Rule', name: '' } },
    errors: [
      'roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"',
      'roleRef.kind: Unsupported value: "Rule": supported values: "Role", "ClusterRole"',
      'roleRef.name: Required value',
    ],
  },
  {
    it: 'has subjects that can be somebody',
    object: {
      roleRef,
      subjects: [
        { kind: 'user', name: 'ann' },
        { kind: 'User', name: '', apiGroup: 'x' },
        { kind: 'ServiceAccount', name: 'A', apiGroup: 'x' },
      ],
    },
    errors: [
      'subjects[0].kind: Unsupported value: "user": supported values: "ServiceAccount", "User", "Group"',
      'subjects[1].name: Required value',
      'subjects[1].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"',
      `subjects[2].name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
      'subjects[2].apiGroup: Unsupported value: "x": supported values: ""',
    ],
  },
  { it: 'may get other subjects', object: { roleRef, subjects: [{ kind: 'User', name: 'ann' }] }, old: { roleRef } },
  {
    it: 'keeps its role',
    object: { roleRef: { ...roleRef, name: 'edit' } },
    old: { roleRef },
    errors: [
      'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"edit"}: cannot change roleRef',
    ],
  },
]);
testKind(clusterRoleBindingKind, [
  {
    it: 'is of a ClusterRole, and of accounts with a namespace',
    object: { roleRef: { kind: 'Role', name: 'reader' }, subjects: [{ kind: 'ServiceAccount', name: 'robot' }] },
    errors: [
      'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
      'subjects[0].namespace: Required value',
    ],
  },
]);

test('the default roles and bindings keep to the rules of their kinds, and name roles that are there', () => {
  const check = <T extends KubeObject>(kind: ResourceKind<T>, objects: readonly T[]): void => {
    for (const object of objects) {
      assert.deepEqual(messagesOf(kind.validate(kind.complete(object))), [], object.metadata.name);
    }
    assert.equal(new Set(objects.map(({ metadata }) => metadata.name)).size, objects.length);
  };
  check(clusterRoleKind, defaultClusterRoles);
  check(roleKind, defaultRoles);
  check(clusterRoleBindingKind, defaultClusterRoleBindings);
  check(roleBindingKind, defaultRoleBindings);
  const names = new Set([...defaultClusterRoles, ...defaultRoles].map(({ metadata }) => metadata.name));
  for (const binding of [...defaultClusterRoleBindings, ...defaultRoleBindings]) {
    assert.ok(names.has(binding.roleRef.name), binding.metadata.name);
  }
});

const rule = (verbs: string, resources: string, names = '', groups = ''): PolicyRule => ({
  verbs: verbs.split(','),
  apiGroups: groups.split(','),
  resources: resources.split(','),
  ...(names !== '' && { resourceNames: names.split(',') }),
});
const onPaths = (verbs: string, urls: string): PolicyRule => ({
  verbs: verbs.split(','),
  nonResourceURLs: urls.split(','),
});
const covered: readonly (readonly [it: string, held: PolicyRule[], wanted: PolicyRule[], missing: PolicyRule[]])[] = [
  ['nothing is covered by nothing', [], [], []],
  ['a rule by itself', [rule('get', 'pods')], [rule('get', 'pods')], []],
  ['two verbs by two rules', [rule('get', 'pods'), rule('list', 'pods')], [rule('get,list', 'pods')], []],
  ['what is missing is told', [rule('get', 'pods')], [rule('get,list', 'pods')], [rule('list', 'pods')]],
  ['by stars', [rule('*', '*', '', '*')], [rule('get,*', 'pods,*/scale,*', 'a', 'apps')], []],
  ['no star by all that there is', [rule('get,list', 'pods')], [rule('*', 'pods')], [rule('*', 'pods')]],
  ['a subresource by that of any', [rule('get', '*/scale')], [rule('get', 'x/scale')], []],
  ['no subresource by its resource', [rule('get', 'pods')], [rule('get', 'pods/log')], [rule('get', 'pods/log')]],
  ['names by all names', [rule('get', 'pods')], [rule('get', 'pods', 'a,b')], []],
  ['names by some names', [rule('get', 'pods', 'a')], [rule('get', 'pods', 'a,b')], [rule('get', 'pods', 'b')]],
  ['all names by no names', [rule('get', 'pods', 'a')], [rule('get', 'pods')], [rule('get', 'pods')]],
  ['paths below by a star', [onPaths('get', '/a/*')], [onPaths('get', '/a/b,/a/*,/a/')], []],
  ['no path above', [onPaths('get', '/a/*')], [onPaths('get', '/a')], [onPaths('get', '/a')]],
  ['no paths by resources', [rule('*', '*', '', '*')], [onPaths('get', '/a')], [onPaths('get', '/a')]],
];
for (const [it, held, wanted, missing] of covered) {
  test(`coverage: ${it}`, () => assert.deepEqual(coverage(held, wanted), { missing, isCut: false }));
}

/** Each combination by itself, as the words of the rules say. */
function naiveMissing(held: readonly PolicyRule[], wanted: readonly PolicyRule[]): Set<string> {
  const has = (list: readonly string[] = [], item: string): boolean => list.includes('*') || list.includes(item);
  const missing = new Set<string>();
  for (const [verb, group, resource, name] of wanted.flatMap(combinations)) {
    const isHeld = held.some(
      (one) =>
        has(one.verbs, verb) &&
        has(one.apiGroups, group) &&
        (has(one.resources, resource) || one.resources?.includes(`*/${resource.split('/')[1] ?? '-'}`) === true) &&
        (one.resourceNames === undefined || (name !== '' && one.resourceNames.includes(name))),
    );
    if (!isHeld) missing.add([verb, group, resource, name].join('|'));
  }
  return missing;
}

type Combination = [verb: string, group: string, resource: string, name: string];

function combinations({ verbs, apiGroups = [], resources = [], resourceNames = [''] }: PolicyRule): Combination[] {
  return verbs.flatMap((verb) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) => resourceNames.map((name): Combination => [verb, group, resource, name])),
    ),
  );
}

test('coverage finds what one look at each combination finds', () => {
  const some = (...words: string[]): fc.Arbitrary<string[]> => fc.subarray(words, { minLength: 1 });
  const anyRule: fc.Arbitrary<PolicyRule> = fc
    .tuple(
      some('get', 'list', '*'),
      some('', 'apps', '*'),
      some('pods', 'pods/log', '*/log', 'x/log', '*'),
      fc.option(some('a', 'b'), { nil: undefined }),
    )
    .map(([verbs, apiGroups, resources, resourceNames]) => ({
      verbs,
      apiGroups,
      resources,
      ...(resourceNames && { resourceNames }),
    }));
  fc.assert(
    fc.property(fc.array(anyRule, { maxLength: 4 }), fc.array(anyRule, { maxLength: 2 }), (held, wanted) => {
      const missing = coverage(held, wanted).missing.flatMap(combinations);
      assert.deepEqual(new Set(missing.map((one) => one.join('|'))), naiveMissing(held, wanted));
    }),
    { numRuns: 300 },
  );
});

test('coverage of billions of combinations is found at once, or not at all', () => {
  const many = (word: string): string => Array.from({ length: 2000 }, (_, index) => `${word}${index}`).join();
  const hostile = rule(many('v'), many('r'), many('n'), many('g'));
  assert.deepEqual(coverage([rule('*', '*', '', '*')], [hostile]), { missing: [], isCut: false });
  assert.equal(coverage([rule('get', 'pods')], [hostile]).missing.length, 1);
  const held = Array.from({ length: 60 }, (_, index) => rule(`v${index}`, `r${index}`, `n${index}`, `g${index}`));
  assert.equal(coverage(held, [hostile]).isCut, true);

  // A namespace's admin can come to hold thousands of rules on names of one resource, and grant as many.
  const large = Array.from({ length: 9000 }, (_, index) => rule('get', 'pods', `n${index}`));
  assert.deepEqual(coverage(large, large), { missing: [], isCut: false });
  const names = rule('get', 'pods', large.flatMap(({ resourceNames = [] }) => resourceNames).join());
  assert.deepEqual(coverage([names], [names]), { missing: [], isCut: false });
  const prefixes = Array.from({ length: 9000 }, (_, index) => onPaths('get', `/${index}/*`));
  assert.equal(coverage(prefixes, prefixes).isCut, true);
});

test('coverage of all names is no rule on the empty name', () => {
  const empty = { verbs: ['get'], apiGroups: [''], resources: ['pods'], resourceNames: [''] };
  assert.deepEqual(coverage([empty], [rule('get', 'pods')]).missing, [rule('get', 'pods')]);
  assert.deepEqual(coverage([rule('get', 'pods')], [empty]).missing, []);
});
