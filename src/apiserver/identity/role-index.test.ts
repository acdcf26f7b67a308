/** The index of roles against a model that looks at every binding, over random changes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type RoleBinding,
  type Subject,
  clusterRoleBindingKind,
  roleBindingKind,
} from '../../kube/kinds/access/role-binding.ts';
import {
  type ClusterRole,
  type PolicyRule,
  accessGroup,
  clusterRoleKind,
  roleKind,
} from '../../kube/kinds/access/role.ts';
import { objectKey } from '../model/stored-objects.ts';
import { Authorizer } from './authorization.ts';
import { NodeGraph } from './node-graph.ts';
import { RoleIndex } from './role-index.ts';
import type { ResourceAttributes, User } from './user.ts';

interface Step {
  readonly kind: Parameters<typeof objectKey>[0];
  readonly object: Pick<ClusterRole, 'metadata' | 'rules'> & Partial<Pick<RoleBinding, 'subjects' | 'roleRef'>>;
  readonly type: 'put' | 'delete';
}

const pick = (...words: string[]): fc.Arbitrary<string> => fc.constantFrom(...words);
const some = (...words: string[]): fc.Arbitrary<string[]> => fc.subarray(words, { minLength: 1 });

const anyRule: fc.Arbitrary<PolicyRule> = fc
  .tuple(
    some('get', 'create', '*'),
    some('', 'apps', '*'),
    some('pods', 'pods/log', '*/log', '*'),
    some('x', 'y'),
    fc.boolean(),
  )
  .map(([verbs, apiGroups, resources, resourceNames, isNamed]) => ({
    verbs,
    apiGroups,
    resources,
    ...(isNamed && { resourceNames }),
  }));
const anySubject: fc.Arbitrary<Subject> = fc
  .tuple(pick('User', 'Group', 'ServiceAccount'), pick('ann', 'dev'), pick('', 'a', 'b'))
  .map(([kind, name, namespace]) => ({ kind, name, ...(namespace !== '' && { namespace }) }));
const type = fc.constantFrom('put' as const, 'put' as const, 'delete' as const);
const anyRole: fc.Arbitrary<Step> = fc
  .tuple(pick('', 'a', 'b'), pick('r', 's'), fc.array(anyRule, { maxLength: 2 }), type)
  .map(([namespace, name, rules, change]) => ({
    kind: namespace === '' ? clusterRoleKind : roleKind,
    object: { metadata: { name, ...(namespace !== '' && { namespace }) }, rules },
    type: change,
  }));
const anyBinding: fc.Arbitrary<Step> = fc
  .tuple(
    pick('', 'a', 'b'),
    pick('k', 'l'),
    pick('Role', 'ClusterRole'),
    pick('r', 's'),
    fc.array(anySubject, { maxLength: 3 }),
    type,
  )
  .map(([namespace, name, roleKindName, role, subjects, change]) => ({
    kind: namespace === '' ? clusterRoleBindingKind : roleBindingKind,
    object: {
      metadata: { name, ...(namespace !== '' && { namespace }) },
      subjects,
      roleRef: { apiGroup: accessGroup, kind: namespace === '' ? 'ClusterRole' : roleKindName, name: role },
    },
    type: change,
  }));

const users: readonly User[] = [
  { name: 'ann', uid: '', groups: [], extra: {} },
  { name: 'eve', uid: '', groups: ['dev', 'ops'], extra: {} },
  { name: 'system:serviceaccount:a:ann', uid: '', groups: ['system:serviceaccounts'], extra: {} },
];
const requests: readonly ResourceAttributes[] = ['', 'a', 'b'].flatMap((namespace) =>
  ['get pods x', 'get pods/log y', 'create pods ', 'get services/log x'].map((words): ResourceAttributes => {
    const [verb = '', what = '', name = ''] = words.split(' ');
    const [resource = '', subresource = ''] = what.split('/');
    return {
      kind: 'resource',
      verb,
      group: '',
      version: 'v1',
      resource,
      subresource,
      namespace,
      name,
      fieldEquals: {},
    };
  }),
);

/** As the words of the API say it. */
function naive(objects: ReadonlyMap<string, Step>, user: User, request: ResourceAttributes): boolean {
  return [...objects.values()].some(({ object: { metadata, subjects = [], roleRef } }) => {
    if (roleRef === undefined) return false;
    const home = metadata.namespace ?? '';
    const isMeant = subjects.some(({ kind, name, namespace }) => {
      if (kind === 'Group') return user.groups.includes(name);
      return user.name === (kind === 'User' ? name : `system:serviceaccount:${namespace ?? home}:${name}`);
    });
    const role =
      roleRef.kind === 'Role' ? objectKey(roleKind, home, roleRef.name) : objectKey(clusterRoleKind, '', roleRef.name);
    const rules = objects.get(role)?.object.rules ?? [];
    return (home === '' || home === request.namespace) && isMeant && rules.some((rule) => isIn(rule, request));
  });
}

function isIn(
  { verbs, apiGroups = [], resources = [], resourceNames = [] }: PolicyRule,
  asked: ResourceAttributes,
): boolean {
  const { verb, group, resource, subresource, name } = asked;
  const whole = subresource === '' ? [resource] : [`${resource}/${subresource}`, `*/${subresource}`];
  return (
    ['*', verb].some((one) => verbs.includes(one)) &&
    ['*', group].some((one) => apiGroups.includes(one)) &&
    ['*', ...whole].some((one) => resources.includes(one)) &&
    (resourceNames.length === 0 || resourceNames.includes(name))
  );
}

test('the authorizer allows what any binding allows, whatever changed before', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(anyRole, anyBinding), { maxLength: 25 }), (steps) => {
      const roles = new RoleIndex();
      const authorizer = new Authorizer({ relations: new NodeGraph(), roles }, { mode: 'rbac' });
      const objects = new Map<string, Step>();
      for (const step of steps) {
        const { metadata } = step.object;
        const key = objectKey(step.kind, metadata.namespace ?? '', metadata.name);
        if (step.type === 'put') objects.set(key, step);
        else objects.delete(key);
        roles.changed({ key, type: step.type, value: JSON.stringify(step.object) });
      }
      for (const user of users) {
        for (const request of requests) {
          const { allowed } = authorizer.authorize(user, request);
          assert.equal(allowed, naive(objects, user, request), JSON.stringify({ user, request }));
        }
      }
    }),
    { numRuns: 300 },
  );
});
