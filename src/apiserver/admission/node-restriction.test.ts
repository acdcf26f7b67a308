import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { CsiDriver } from '../../kube/kinds/storage/csi.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import { type PodParts, aPod } from '../../testing/fakes/builders.ts';
import type { User } from '../identity/user.ts';
import { type Admission, nodeRestriction } from './node-restriction.ts';

const n1: User = { name: 'system:node:n1', uid: '', groups: ['system:nodes'], extra: {} };
const lookup = {
  pod: (_namespace: string, name: string): Pod | undefined => {
    const token = {
      name: 'v',
      projected: {
        sources: [{ serviceAccountToken: { audience: 'vault', path: 't' } }, { serviceAccountToken: { path: 'u' } }],
      },
    };
    const storage = [
      { name: 'inline', csi: { driver: 'inline.example.com' } },
      { name: 'claimed', persistentVolumeClaim: { claimName: 'data' } },
      { name: 'pending', persistentVolumeClaim: { claimName: 'pending' } },
      { name: 'moved', awsElasticBlockStore: { volumeID: 'vol-1' } },
      { name: 'moved-claimed', persistentVolumeClaim: { claimName: 'moved' } },
    ];
    if (name === 'mine') return aPod({ nodeName: 'n1', metadata: { uid: 'p1' }, volumes: [token, ...storage] });
    return name === 'other' ? aPod({ nodeName: 'n2', metadata: { uid: 'p1' } }) : undefined;
  },
  node: (name: string): Node | undefined => (name === 'n1' ? { metadata: { name, uid: 'node-uid' } } : undefined),
  claim: (namespace: string, name: string): PersistentVolumeClaim | undefined =>
    namespace === 'shop' ? { metadata: { name }, spec: name === 'pending' ? {} : { volumeName: name } } : undefined,
  persistentVolume: (name: string): PersistentVolume | undefined => {
    if (name === 'data')
      return { metadata: { name }, spec: { csi: { driver: 'claimed.example.com', volumeHandle: 'h' } } };
    return name === 'moved' ? { metadata: { name }, spec: { cinder: { volumeID: 'vol-2' } } } : undefined;
  },
  csiDriver: (name: string): CsiDriver => ({
    metadata: { name },
    spec: { tokenRequests: [{ audience: name.replace('.example.com', '') }] },
  }),
};

function restrict(admission: Partial<Admission>, user = n1): string {
  const result = nodeRestriction(
    user,
    {
      operation: 'CREATE',
      group: '',
      resource: 'pods',
      subresource: '',
      namespace: 'shop',
      name: 'mine',
      ...admission,
    },
    lookup,
  );
  if (result === undefined) return 'fine';
  return result.kind === 'forbidden' ? result.message : `${result.resource} "${result.name}" not found`;
}

const owner = { apiVersion: 'v1', kind: 'Node', name: 'n1', uid: 'node-uid', controller: true };
const mirror = (
  parts: PodParts = {},
  ownerReferences: readonly (typeof owner & { blockOwnerDeletion?: boolean })[] = [owner],
): Pod =>
  aPod({
    nodeName: 'n1',
    ...parts,
    metadata: { annotations: { 'kubernetes.io/config.mirror': 'hash' }, ownerReferences, ...parts.metadata },
  });

const mirrors: readonly (readonly [string, Pod, string])[] = [
  ['a proper mirror pod', mirror(), 'fine'],
  [
    'a pod that mirrors nothing',
    aPod({ nodeName: 'n1' }),
    'pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods',
  ],
  [
    'a mirror pod of another node',
    mirror({ nodeName: 'n2' }),
    'node "n1" can only create pods with spec.nodeName set to itself',
  ],
  [
    'two owners',
    mirror({}, [owner, owner]),
    'node "n1" can only create pods with a single owner reference set to itself',
  ],
  ['no owner', mirror({}, []), 'node "n1" can only create pods with an owner reference set to itself'],
  [
    'another owner',
    mirror({}, [{ ...owner, name: 'n2' }]),
    'node "n1" can only create pods with an owner reference set to itself',
  ],
  [
    'an owner that is no controller',
    mirror({}, [{ ...owner, controller: false }]),
    'node "n1" can only create pods with a controller owner reference set to itself',
  ],
  [
    'an owner that blocks',
    mirror({}, [{ ...owner, blockOwnerDeletion: true }]),
    'node "n1" must not set blockOwnerDeletion on an owner reference',
  ],
  [
    'an owner of an earlier life',
    mirror({}, [{ ...owner, uid: 'old' }]),
    'node n1 UID mismatch: expected old got node-uid',
  ],
  [
    'a service account',
    mirror({ serviceAccountName: 'x' }),
    'node "n1" can not create pods that reference serviceaccounts',
  ],
  [
    'a pull secret',
    mirror({ imagePullSecrets: [{ name: 'x' }] }),
    'node "n1" can not create pods that reference secrets',
  ],
  [
    'a config map',
    mirror({ volumes: [{ name: 'v', configMap: { name: 'x' } }] }),
    'node "n1" can not create pods that reference configmaps',
  ],
  [
    'a config map without a name',
    mirror({ volumes: [{ name: 'v', configMap: { name: '' } }] }),
    'node "n1" can not create pods that reference configmaps (via configmap volumes)',
  ],
  [
    'a claim',
    mirror({ volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'x' } }] }),
    'node "n1" can not create pods that reference persistentvolumeclaims',
  ],
  [
    'a CSI volume',
    mirror({ volumes: [{ name: 'v', csi: { driver: 'x' } }] }),
    'node "n1" can not create pods that reference csidrivers (via CSI volumes)',
  ],
  [
    'a projected token',
    mirror({ volumes: [{ name: 'v', projected: { sources: [{ serviceAccountToken: { path: 'x' } }] } }] }),
    'node "n1" can not create pods that reference serviceaccounts (via projected volumes)',
  ],
  [
    'a trust bundle',
    mirror({ volumes: [{ name: 'v', projected: { sources: [{ clusterTrustBundle: { path: 'x' } }] } }] }),
    'node "n1" can not create pods that reference clustertrustbundles',
  ],
  [
    'what needs no API',
    mirror({
      volumes: [
        { name: 'v', hostPath: { path: '/x' } },
        { name: 'w', projected: { sources: [{ downwardAPI: {} }] } },
      ],
    }),
    'fine',
  ],
];
for (const [it, object, says] of mirrors) {
  test(`a node creates a pod with ${it}: ${says}`, () => {
    assert.equal(restrict({ object }), says);
  });
}

test('a mirror pod waits for its Node object', () => {
  const n3 = { ...n1, name: 'system:node:n3' };
  assert.equal(
    restrict({ object: mirror({ nodeName: 'n3' }, [{ ...owner, name: 'n3' }]) }, n3),
    'nodes "n3" not found',
  );
});

const podCases: readonly (readonly [string, Partial<Admission>, string])[] = [
  ['deletes its pod', { operation: 'DELETE' }, 'fine'],
  [
    'deletes a pod of another node',
    { operation: 'DELETE', name: 'other' },
    'node "n1" can only delete pods with spec.nodeName set to itself',
  ],
  ['deletes a pod that is gone', { operation: 'DELETE', name: 'gone' }, 'pods "gone" not found'],
  [
    'updates a pod',
    { operation: 'UPDATE' },
    'unexpected operation "UPDATE", node "n1" can only create and delete mirror pods',
  ],
  ['evicts its pod', { subresource: 'eviction' }, 'fine'],
  [
    'evicts a pod of another node',
    { subresource: 'eviction', name: 'other' },
    'node n1 can only evict pods with spec.nodeName set to itself',
  ],
  [
    'binds a pod',
    { subresource: 'binding' },
    `unexpected pod subresource "binding", only 'status' and 'eviction' are allowed`,
  ],
  [
    'reports a status',
    { operation: 'UPDATE', subresource: 'status', object: aPod({ nodeName: 'n1' }), old: aPod({ nodeName: 'n1' }) },
    'fine',
  ],
  [
    'reports a status of another node',
    { operation: 'UPDATE', subresource: 'status', object: aPod({ nodeName: 'n1' }), old: aPod({ nodeName: 'n2' }) },
    'node "n1" can only update pod status for pods with spec.nodeName set to itself',
  ],
  [
    'changes labels in a status',
    {
      operation: 'UPDATE',
      subresource: 'status',
      object: aPod({ nodeName: 'n1', metadata: { labels: { a: 'b' } } }),
      old: aPod({ nodeName: 'n1' }),
    },
    'node "n1" cannot update labels through pod status',
  ],
  ['creates a status', { subresource: 'status' }, 'unexpected operation "CREATE"'],
];
for (const [it, admission, says] of podCases) {
  test(`a node ${it}: ${says}`, () => {
    assert.equal(restrict(admission), says);
  });
}

const aNode = (labels: Record<string, string> = {}, spec: Node['spec'] = {}): Node => ({
  metadata: { name: 'n1', labels },
  spec,
});
const nodeCases: readonly (readonly [string, Partial<Admission>, string])[] = [
  [
    'registers itself',
    {
      object: aNode({
        'kubernetes.io/hostname': 'n1',
        'node.kubernetes.io/x': '',
        'a.kubelet.kubernetes.io/y': '',
        'example.com/z': '',
        plain: '',
      }),
    },
    'fine',
  ],
  ['registers another', { name: 'n2', object: aNode() }, 'node "n1" is not allowed to modify node "n2"'],
  [
    'registers with labels of the cluster',
    { object: aNode({ 'x.k8s.io/b': '', 'kubernetes.io/a': '', 'x.node-restriction.kubernetes.io/c': '' }) },
    'node "n1" is not allowed to set the following labels: kubernetes.io/a, x.k8s.io/b, x.node-restriction.kubernetes.io/c',
  ],
  [
    'registers with a configuration source',
    { object: aNode({}, { configSource: {} }) },
    'node "n1" is not allowed to create pods with a non-nil configSource',
  ],
  [
    'updates nothing of note',
    { operation: 'UPDATE', object: aNode({ 'kubernetes.io/a': '1' }), old: aNode({ 'kubernetes.io/a': '1' }) },
    'fine',
  ],
  [
    'removes a label of the cluster',
    { operation: 'UPDATE', object: aNode(), old: aNode({ 'node-role.kubernetes.io/master': '' }) },
    'is not allowed to modify labels: node-role.kubernetes.io/master',
  ],
  [
    'drops its taints',
    { operation: 'UPDATE', object: aNode(), old: aNode({}, { taints: [{ key: 'k', effect: 'NoSchedule' }] }) },
    'node "n1" is not allowed to modify taints',
  ],
  [
    'adds an owner',
    { operation: 'UPDATE', object: { metadata: { name: 'n1', ownerReferences: [owner] } }, old: aNode() },
    'node "n1" is not allowed to modify ownerReferences',
  ],
];
for (const [it, admission, says] of nodeCases) {
  test(`a node ${it}: ${says}`, () => {
    assert.equal(restrict({ resource: 'nodes', name: 'n1', ...admission }), says);
  });
}

const bound = { apiVersion: 'v1', kind: 'Pod', name: 'mine', uid: 'p1' };
const tokenCases: readonly (readonly [string, object, string])[] = [
  ['for a pod of its own', { boundObjectRef: bound, audiences: ['vault'] }, 'fine'],
  ['for the driver of an inline volume', { boundObjectRef: bound, audiences: ['inline'] }, 'fine'],
  ['for the driver of a claimed volume', { boundObjectRef: bound, audiences: ['claimed'] }, 'fine'],
  [
    'for the driver that has taken over an inline volume',
    { boundObjectRef: bound, audiences: ['ebs.csi.aws.com'] },
    'fine',
  ],
  [
    'for the driver that has taken over a claimed volume',
    { boundObjectRef: bound, audiences: ['cinder.csi.openstack.org'] },
    'fine',
  ],
  ['without an audience that the pod has too', { boundObjectRef: bound }, 'fine'],
  ['bound to nothing', {}, 'node requested token not bound to a pod'],
  ['bound to a secret', { boundObjectRef: { ...bound, kind: 'Secret' } }, 'node requested token not bound to a pod'],
  ['without a uid', { boundObjectRef: { ...bound, uid: '' } }, 'node requested token with a pod binding without a uid'],
  [
    'with an old uid',
    { boundObjectRef: { ...bound, uid: 'x' } },
    'the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated',
  ],
  [
    'for a pod of another node',
    { boundObjectRef: { ...bound, name: 'other' } },
    'node requested token bound to a pod scheduled on a different node',
  ],
  ['for a pod that is gone', { boundObjectRef: { ...bound, name: 'gone' } }, 'pods "gone" not found'],
  ['for two audiences', { boundObjectRef: bound, audiences: ['vault', 'b'] }, 'node may only request 0 or 1 audiences'],
  [
    'for an audience that the pod does not name',
    { boundObjectRef: bound, audiences: ['bank'] },
    'system:node:n1 is not authorized to request tokens for audience "bank"',
  ],
];
for (const [it, spec, says] of tokenCases) {
  test(`a node requests a token ${it}: ${says}`, () => {
    assert.equal(
      restrict({ resource: 'serviceaccounts', subresource: 'token', name: 'robot', object: { spec } }),
      says,
    );
  });
}

test('a node has one lease and one CSINode, and leaves claims alone', () => {
  const lease = { group: 'coordination.k8s.io', resource: 'leases', namespace: 'kube-node-lease' };
  assert.equal(restrict({ ...lease, name: 'n1' }), 'fine');
  assert.equal(
    restrict({ ...lease, name: 'n2' }),
    'can only access node lease with the same name as the requesting node',
  );
  assert.equal(
    restrict({ ...lease, name: 'n1', namespace: 'shop' }),
    'can only access leases in the "kube-node-lease" system namespace',
  );
  assert.equal(
    restrict({ group: 'storage.k8s.io', resource: 'csinodes', name: 'n2' }),
    'can only access CSINode with the same name as the requesting node',
  );
  const claim = { resource: 'persistentvolumeclaims', operation: 'UPDATE' as const };
  const old = { metadata: { name: 'c', resourceVersion: '1' }, spec: {}, status: { phase: 'Bound' } };
  assert.equal(restrict({ ...claim }), 'may only update PVC status');
  assert.equal(
    restrict({
      ...claim,
      subresource: 'status',
      old,
      object: { ...old, metadata: { name: 'c' }, status: { phase: 'Bound', capacity: { storage: '1Gi' } } },
    }),
    'fine',
  );
  assert.match(
    restrict({ ...claim, subresource: 'status', old, object: { ...old, status: { phase: 'Lost' } } }),
    /^node "n1" is not allowed to update fields other than/,
  );
});

test('others are not restricted, and a nameless node always is', () => {
  const admission = { resource: 'nodes', name: 'n2', object: aNode() };
  assert.equal(restrict(admission, { ...n1, name: 'ann' }), 'fine');
  assert.equal(restrict(admission, { ...n1, groups: [] }), 'fine');
  assert.equal(
    restrict(admission, { ...n1, name: 'system:node:' }),
    'could not determine node from user "system:node:"',
  );
});
