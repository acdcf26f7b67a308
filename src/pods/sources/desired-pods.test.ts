import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withAnnotations } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { aContainer, aPod } from '../../testing/fakes/builders.ts';
import { DesiredPods } from './desired-pods.ts';
import { type MirrorApi, isMirrorOf, mirrorPodOf, reconcileMirror } from './mirror-pods.ts';

const { signal } = new AbortController();
const node = { name: 'node-1', uid: 'node-uid' };
const annotations = { 'kubernetes.io/config.source': 'file', 'kubernetes.io/config.hash': 'h1' };
const staticPod = aPod({ metadata: { uid: 'static', annotations } });
const mirror = aPod({
  metadata: {
    uid: 'mirror',
    annotations: { 'kubernetes.io/config.source': 'api', 'kubernetes.io/config.mirror': 'h1' },
  },
});

test('DesiredPods finds pods by UID and name, and keeps mirrors apart', () => {
  const pods = new DesiredPods();
  pods.put(staticPod);
  pods.put(mirror);
  assert.deepEqual(pods.pods(), [staticPod]);
  assert.deepEqual(pods.mirrors(), [mirror]);
  assert.equal(pods.get('static'), staticPod);
  assert.equal(pods.get('mirror'), undefined);
  assert.equal(pods.getByFullName('web_shop'), staticPod);
  assert.equal(pods.mirrorOf(staticPod), mirror);
  assert.equal(pods.apiPodOf(staticPod), mirror);
  assert.equal(pods.staticPodOf(mirror), staticPod);
  assert.deepEqual(pods.orphanMirrors(), []);
  pods.remove(staticPod);
  assert.deepEqual(pods.orphanMirrors(), [mirror]);
});

test('DesiredPods forgets a pod without forgetting its successor of the same name', () => {
  const pods = new DesiredPods();
  const successor = aPod({ metadata: { uid: 'second' } });
  pods.put(aPod({ metadata: { uid: 'first' } }));
  pods.put(successor);
  pods.remove(aPod({ metadata: { uid: 'first' } }));
  assert.equal(pods.getByFullName('web_shop'), successor);
  assert.equal(pods.apiPodOf(successor), successor);
});

test('DesiredPods knows a pod as the API server had it last, whichever is in hand', () => {
  const pods = new DesiredPods();
  const newer = aPod({ status: { phase: 'Running' } });
  pods.put(aPod());
  pods.put(newer);
  assert.equal(pods.apiPodOf(aPod()), newer);
});

test('a mirror is a copy owned by the node, with the hash of its pod', () => {
  const copy = mirrorPodOf(staticPod, node);
  assert.equal(copy.metadata.uid, undefined);
  assert.equal(copy.metadata.annotations?.['kubernetes.io/config.mirror'], 'h1');
  assert.deepEqual(copy.metadata.ownerReferences, [
    { apiVersion: 'v1', kind: 'Node', name: 'node-1', uid: 'node-uid', controller: true },
  ]);
  assert.ok(isMirrorOf(copy, staticPod));
});

test('a mirror refers to no objects, which no node may do: neither by volumes nor by variables nor by its account', () => {
  const container = aContainer({
    env: [
      { name: 'A', value: 'a' },
      { name: 'B', valueFrom: { configMapKeyRef: { name: 'c', key: 'k' } } },
      { name: 'C', valueFrom: { secretKeyRef: { name: 's', key: 'k' } } },
    ],
    envFrom: [{ configMapRef: { name: 'c' } }, { secretRef: { name: 's' } }],
    volumeMounts: ['config', 'secret', 'claim', 'token', 'work'].map((name) => ({ name, mountPath: `/${name}` })),
  });
  const volumes = [
    { name: 'config', configMap: { name: 'c' } },
    { name: 'secret', secret: { secretName: 's' } },
    { name: 'claim', persistentVolumeClaim: { claimName: 'p' } },
    { name: 'token', projected: { sources: [{ serviceAccountToken: { path: 'token' } }] } },
    { name: 'work', emptyDir: {} },
  ];
  const pod = aPod({ containers: [container], volumes, serviceAccountName: 'app', imagePullSecrets: [{ name: 's' }] });
  const { spec } = mirrorPodOf(pod, node);
  const [shown] = spec.containers;
  assert.deepEqual(shown?.env, [{ name: 'A', value: 'a' }]);
  assert.deepEqual(shown?.envFrom, []);
  assert.deepEqual(shown?.volumeMounts, [{ name: 'work', mountPath: '/work' }]);
  assert.deepEqual(spec.volumes, [{ name: 'work', emptyDir: {} }]);
  assert.equal(spec.serviceAccountName, undefined);
  assert.equal(spec.imagePullSecrets, undefined);
});

const dying = { ...mirror, metadata: { ...mirror.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } };
const outdated = withAnnotations(mirror, { 'kubernetes.io/config.mirror': 'h0' });
const cases: readonly {
  it: string;
  mirror?: Pod;
  present?: Pod;
  node?: undefined;
  calls: readonly string[];
  fails?: RegExp;
}[] = [
  { it: 'leaves a current mirror alone', mirror, calls: [] },
  { it: 'makes a missing one', calls: ['create'] },
  { it: 'makes none while the node is unknown', node: undefined, calls: [] },
  { it: 'replaces one that is being deleted', mirror: dying, calls: ['delete mirror', 'create'] },
  { it: 'replaces one of an older version', mirror: outdated, calls: ['delete mirror', 'create'] },
  { it: 'takes one that is there already with the same hash', present: mirror, calls: ['create', 'get'] },
  {
    it: 'fails when a stranger has the name',
    present: aPod(),
    calls: ['create', 'get'],
    fails: /another pod has its name/,
  },
];
for (const { it, mirror: known, present, calls, fails, ...rest } of cases) {
  test(`reconcileMirror ${it}`, async () => {
    const called: string[] = [];
    const api: MirrorApi = {
      get: async () => (called.push('get'), present),
      delete: async (_namespace, _name, uid) => void called.push(`delete ${uid}`),
      create: async () => (called.push('create'), present === undefined),
    };
    const owner = 'node' in rest ? undefined : node;
    const done = reconcileMirror(api, staticPod, known, owner, signal);
    await (fails === undefined ? done : assert.rejects(done, fails));
    assert.deepEqual(called, calls);
  });
}
