import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultClusterRoleBindings, defaultClusterRoles } from '../../kube/kinds/access/default-roles.ts';
import { type RoleBinding, clusterRoleBindingKind, roleBindingKind } from '../../kube/kinds/access/role-binding.ts';
import { type ClusterRole, type Role, accessGroup, clusterRoleKind, roleKind } from '../../kube/kinds/access/role.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { objectKey } from '../model/stored-objects.ts';
import { Authorizer } from './authorization.ts';
import type { NodeRelations } from './node-graph.ts';
import { RoleIndex } from './role-index.ts';
import { type RequestAttributes, type ResourceAttributes, type User, forbiddenMessage } from './user.ts';

const user = (name: string, ...groups: string[]): User => ({
  name,
  uid: '',
  groups: [...groups, 'system:authenticated'],
  extra: {},
});
const n1 = user('system:node:n1', 'system:nodes');
const ann = user('ann', 'dev');
const robot = user('system:serviceaccount:shop:robot', 'system:serviceaccounts');
const anonymous: User = { name: 'system:anonymous', uid: '', groups: ['system:unauthenticated'], extra: {} };

/** `get pods/log.group ns/name`; a namespace of `-` is the cluster. A verb with a path is not a request for a resource. */
function request(text: string, fieldEquals: Record<string, string> = {}): RequestAttributes {
  const [verb = '', what = '', where = '-/'] = text.split(' ');
  if (what.startsWith('/')) return { kind: 'path', verb, path: what };
  const [full = '', ...groupParts] = what.split('.');
  const [resource = '', subresource = ''] = full.split('/');
  const [namespace = '', name = ''] = where.split('/');
  return {
    kind: 'resource',
    verb,
    group: groupParts.join('.'),
    version: 'v1',
    resource,
    subresource,
    namespace: namespace === '-' ? '' : namespace,
    name,
    fieldEquals,
  };
}

/** Everything named `mine` is related to node n1. */
const relations: NodeRelations = { isRelated: (node, _kind, _namespace, name) => node === 'n1' && name === 'mine' };

const roleOf = (kind: string, name: string): RoleBinding['roleRef'] => ({ apiGroup: accessGroup, kind, name });
const index = new RoleIndex();
const put = (kind: Parameters<typeof objectKey>[0], object: KubeObject): void =>
  index.changed({
    key: objectKey(kind, object.metadata.namespace ?? '', object.metadata.name),
    type: 'put',
    value: JSON.stringify(object),
  });
const objects: readonly (readonly [Parameters<typeof objectKey>[0], readonly KubeObject[]])[] = [
  [clusterRoleKind, defaultClusterRoles],
  [clusterRoleBindingKind, defaultClusterRoleBindings],
  [
    roleKind,
    [
      {
        metadata: { name: 'reader', namespace: 'shop' },
        rules: [{ verbs: ['get', 'list'], apiGroups: [''], resources: ['configmaps', 'pods/log'] }],
      } as Role,
    ],
  ],
  [
    roleBindingKind,
    [
      {
        metadata: { name: 'readers', namespace: 'shop' },
        subjects: [
          { kind: 'User', apiGroup: accessGroup, name: 'ann' },
          { kind: 'ServiceAccount', name: 'robot' },
        ],
        roleRef: roleOf('Role', 'reader'),
      } as RoleBinding,
      {
        metadata: { name: 'broken', namespace: 'shop' },
        subjects: [{ kind: 'User', apiGroup: accessGroup, name: 'bob' }],
        roleRef: roleOf('ClusterRole', 'gone'),
      } as RoleBinding,
    ],
  ],
  [
    clusterRoleKind,
    [
      {
        metadata: { name: 'ops' },
        rules: [
          { verbs: ['*'], apiGroups: ['*'], resources: ['*/status'], resourceNames: ['web'] },
          { verbs: ['get'], nonResourceURLs: ['/metrics', '/debug/*'] },
        ],
      } as ClusterRole,
    ],
  ],
  [
    clusterRoleBindingKind,
    [
      {
        metadata: { name: 'ops' },
        subjects: ['nobody', 'ops', 'qa'].map((name) => ({ kind: 'Group', apiGroup: accessGroup, name })),
        roleRef: roleOf('ClusterRole', 'ops'),
      } as RoleBinding,
      {
        // Of which namespace, nobody says.
        metadata: { name: 'nowhere' },
        subjects: [{ kind: 'ServiceAccount', name: 'robot' }],
        roleRef: roleOf('ClusterRole', 'cluster-admin'),
      } as RoleBinding,
    ],
  ],
];
for (const [kind, all] of objects) for (const one of all) put(kind, one);
const authorizer = new Authorizer({ relations, roles: index }, { mode: 'rbac' });

function decide(who: User, text: string, fieldEquals?: Record<string, string>): string {
  const { allowed, reason } = authorizer.authorize(who, request(text, fieldEquals));
  return allowed ? 'yes' : reason === '' ? 'no' : `no: ${reason}`;
}

const unrelated = "no: no relationship found between node 'n1' and this object";
const nodeCases: readonly (readonly [string, string, Record<string, string>?])[] = [
  ['get secrets shop/mine', 'yes'],
  ['list secrets shop/mine', 'yes'],
  ['watch configmaps shop/mine', 'yes'],
  ['get secrets shop/other', unrelated],
  ['list configmaps shop/', 'no: No Object name found'],
  ['list secrets -/', 'no: can only read namespaced object of this type'],
  ['create secrets shop/', 'no: can only read resources of this type'],
  ['get secrets/status shop/mine', 'no: cannot read subresource'],
  ['get persistentvolumeclaims shop/mine', 'yes'],
  ['get persistentvolumeclaims shop/other', unrelated],
  ['list persistentvolumeclaims shop/mine', 'no: can only get individual resources of this type'],
  ['get persistentvolumes/status -/mine', 'no: cannot get subresource'],
  ['get persistentvolumes -/mine', 'yes'],
  ['update persistentvolumeclaims/status shop/mine', 'yes'],
  ['get persistentvolumeclaims/status shop/mine', 'no: can only get/update/patch this type'],
  ['get serviceaccounts shop/mine', 'yes'],
  ['get serviceaccounts shop/other', unrelated],
  ['list serviceaccounts shop/mine', 'no: can only create tokens for individual service accounts'],
  ['create serviceaccounts/token shop/mine', 'yes'],
  ['create serviceaccounts/token shop/other', unrelated],
  ['create serviceaccounts/token shop/', 'no: can only create tokens for individual service accounts'],
  ['create serviceaccounts shop/mine', 'no: can only create token subresource of serviceaccount'],
  ['get pods shop/mine', 'yes'],
  ['get pods shop/other', unrelated],
  ['list pods -/', 'no: can only list/watch pods with spec.nodeName field selector'],
  ['list pods -/', 'yes', { 'spec.nodeName': 'n1' }],
  ['watch pods -/', 'no: can only list/watch pods with spec.nodeName field selector', { 'spec.nodeName': 'n2' }],
  ['watch pods shop/mine', 'yes'],
  ['create pods shop/', 'yes'],
  ['delete pods shop/other', 'yes'],
  ['update pods shop/mine', 'no'],
  ['patch pods/status shop/other', 'yes'],
  ['create pods/eviction shop/other', 'yes'],
  ['get pods/log shop/mine', 'no'],
  ['create pods/exec shop/mine', 'no'],
  ['get nodes -/n1', 'yes'],
  ['watch nodes -/n1', 'yes'],
  ['get nodes -/n2', "no: node 'n1' cannot read 'n2', only its own Node object"],
  ['list nodes -/', "no: node 'n1' cannot read all nodes, only its own Node object"],
  ['create nodes -/', 'yes'],
  ['delete nodes -/n1', 'no'],
  ['patch nodes/status -/n2', 'yes'],
  ['get nodes/proxy -/n1', 'no'],
  ['get leases.coordination.k8s.io kube-node-lease/n1', 'yes'],
  ['create leases.coordination.k8s.io kube-node-lease/', 'yes'],
  [
    'update leases.coordination.k8s.io kube-node-lease/n2',
    'no: can only access node lease with the same name as the requesting node',
  ],
  ['get leases.coordination.k8s.io shop/n1', 'no: can only access leases in the "kube-node-lease" system namespace'],
  [
    'list leases.coordination.k8s.io kube-node-lease/',
    'no: can only get, create, update, patch, or delete a node lease',
  ],
  ['get csinodes.storage.k8s.io -/n1', 'yes'],
  ['create csinodes.storage.k8s.io -/', 'yes'],
  ['get csinodes.storage.k8s.io -/n2', 'no: can only access CSINode with the same name as the requesting node'],
  ['list csinodes.storage.k8s.io -/', 'no: can only get, create, update, patch, or delete a CSINode'],
  ['get volumeattachments.storage.k8s.io -/mine', 'yes'],
  ['get volumeattachments.storage.k8s.io -/other', unrelated],
  ['list volumeattachments.storage.k8s.io -/', 'no: can only get individual resources of this type'],
  ['list services -/', 'yes'],
  ['create events shop/', 'yes'],
  ['patch events.events.k8s.io shop/e', 'yes'],
  ['list events shop/', 'no'],
  ['create tokenreviews.authentication.k8s.io -/', 'yes'],
  ['create subjectaccessreviews.authorization.k8s.io -/', 'yes'],
  ['create selfsubjectaccessreviews.authorization.k8s.io -/', 'yes'],
  ['list runtimeclasses.node.k8s.io -/', 'yes'],
  ['watch csidrivers.storage.k8s.io -/', 'yes'],
  ['get secrets.other.group shop/mine', 'no'],
  ['list namespaces -/', 'no'],
  ['get /version', 'yes'],
  ['get /api/v1', 'yes'],
  ['get /metrics', 'no'],
];
for (const [text, says, fieldEquals] of nodeCases) {
  test(`node n1 asks to ${text}${fieldEquals === undefined ? '' : ` of ${fieldEquals['spec.nodeName']}`}: ${says}`, () => {
    assert.equal(decide(n1, text, fieldEquals), says);
  });
}

test('a node is one by its name and its group together', () => {
  assert.equal(decide(user('system:node:n1'), 'get secrets shop/mine'), 'no');
  assert.equal(decide(user('n1', 'system:nodes'), 'get secrets shop/mine'), 'no');
  assert.equal(
    decide(user('system:node:', 'system:nodes'), 'get secrets shop/mine'),
    'no: unknown node for user "system:node:"',
  );
});

const others: readonly (readonly [User, string, string])[] = [
  [user('root', 'system:masters'), 'delete namespaces -/kube-system', 'yes'],
  [user('root', 'system:masters'), 'get /metrics', 'yes'],
  [ann, 'get configmaps shop/x', 'yes'],
  [ann, 'get configmaps other/x', 'no'],
  [ann, 'list configmaps -/', 'no'],
  [ann, 'get secrets shop/x', 'no'],
  [ann, 'get pods/log shop/x', 'yes'],
  [ann, 'get pods shop/x', 'no'],
  [ann, 'create selfsubjectreviews.authentication.k8s.io -/', 'yes'],
  [ann, 'create selfsubjectrulesreviews.authorization.k8s.io -/', 'yes'],
  [ann, 'create subjectaccessreviews.authorization.k8s.io -/', 'no'],
  [ann, 'get /openapi/v3/api/v1', 'yes'],
  [ann, 'post /openapi/v3', 'no'],
  [ann, 'get /openid/v1/jwks', 'no'],
  [user('system:serviceaccount:a:b', 'system:serviceaccounts'), 'get /openid/v1/jwks', 'yes'],
  [user('olga', 'ops'), 'patch pods/status shop/web', 'yes'],
  [user('olga', 'ops'), 'patch pods/status shop/other', 'no'],
  [user('olga', 'ops'), 'patch pods shop/web', 'no'],
  [user('olga', 'ops'), 'get /debug/pprof/heap', 'yes'],
  [user('olga', 'ops'), 'get /metricsx', 'no'],
  [robot, 'get configmaps shop/x', 'yes'],
  [robot, 'get configmaps other/x', 'no'],
  [user('bob'), 'get pods shop/x', 'no: RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'],
  [user('bob'), 'get pods other/x', 'no'],
  [anonymous, 'get /healthz', 'yes'],
  [anonymous, 'get /version', 'yes'],
  [anonymous, 'get /api', 'no'],
  [anonymous, 'list pods shop/', 'no'],
];
for (const [who, text, says] of others) {
  test(`${who.name} asks to ${text}: ${says}`, () => {
    assert.equal(decide(who, text), says);
  });
}

test('a server for one trusted user allows everything', () => {
  const open = new Authorizer({ relations, roles: index }, { mode: 'alwaysAllow' });
  assert.ok(open.authorize(anonymous, request('delete nodes -/x')).allowed);
  assert.deepEqual(open.rulesFor(anonymous, 'shop').resourceRules, [
    { verbs: ['*'], apiGroups: ['*'], resources: ['*'] },
  ]);
});

test('rules are those of the roles that hold in the namespace; those of a node are incomplete', () => {
  const verbs = (who: User, namespace: string): string[] =>
    authorizer.rulesFor(who, namespace).resourceRules.map((rule) => rule.resources?.join('+') ?? '');
  const basic = ['selfsubjectaccessreviews+selfsubjectrulesreviews', 'selfsubjectreviews'];
  assert.deepEqual(verbs(ann, 'shop'), [...basic, 'configmaps+pods/log']);
  assert.deepEqual(verbs(ann, 'other'), basic);
  assert.equal(authorizer.rulesFor(ann, 'shop').incomplete, false);
  const { incomplete, evaluationError } = authorizer.rulesFor(n1, 'shop');
  assert.deepEqual(
    { incomplete, evaluationError },
    { incomplete: true, evaluationError: 'node authorizer does not support user rule resolution' },
  );
});

test('who is allowed something is told why', () => {
  const why = (who: User, text: string): string => authorizer.authorize(who, request(text)).reason;
  assert.equal(
    why(ann, 'get configmaps shop/x'),
    'RBAC: allowed by RoleBinding "readers/shop" of Role "reader" to User "ann"',
  );
  assert.equal(
    why(robot, 'get configmaps shop/x'),
    'RBAC: allowed by RoleBinding "readers/shop" of Role "reader" to ServiceAccount "robot/shop"',
  );
  assert.equal(
    why(user('olga', 'qa', 'ops'), 'get /metrics'),
    'RBAC: allowed by ClusterRoleBinding "ops" of ClusterRole "ops" to Group "ops"',
  );
});

test('the words of a refusal', () => {
  const messages: readonly (readonly [string, string])[] = [
    [
      'get configmaps ns/x',
      'configmaps "x" is forbidden: User "ann" cannot get resource "configmaps" in API group "" in the namespace "ns"',
    ],
    [
      'list leases.coordination.k8s.io -/',
      'leases.coordination.k8s.io is forbidden: User "ann" cannot list resource "leases" in API group "coordination.k8s.io" at the cluster scope',
    ],
    [
      'create serviceaccounts/token ns/x',
      'serviceaccounts "x" is forbidden: User "ann" cannot create resource "serviceaccounts/token" in API group "" in the namespace "ns"',
    ],
    ['get /x', 'forbidden: User "ann" cannot get path "/x"'],
  ];
  for (const [text, message] of messages) assert.equal(forbiddenMessage(ann, request(text), ''), message);
  assert.equal(
    forbiddenMessage(ann, request('get /x'), 'because'),
    'forbidden: User "ann" cannot get path "/x": because',
  );
});

test('the words of a refusal hold no markup', () => {
  const hostile = request('get configmaps ns/x') as ResourceAttributes;
  const message = forbiddenMessage({ ...ann, name: '<b>&' }, { ...hostile, namespace: '<script>' }, '');
  assert.equal(
    message,
    'configmaps "x" is forbidden: User "&lt;b&gt;&amp;" cannot get resource "configmaps" in API group "" in the namespace "&lt;script&gt;"',
  );
});
