import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configMapKind } from '../kinds/config-map.ts';
import { nodeKind } from '../kinds/node.ts';
import { podKind } from '../kinds/pod/pod.ts';
import { secretKind } from '../kinds/secret.ts';
import { ManifestError, readManifests } from './manifests.ts';
import type { Manifests } from './manifests.ts';

function read(text: string, namespace = 'default'): Manifests {
  return readManifests([{ name: 'app.yaml', text }], namespace);
}

function problemsOf(text: string): readonly string[] {
  try {
    read(text);
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    return error.message.split('\n');
  }
  return [];
}

test('a Secret comes out as a reader of the API would see it', () => {
  const [secret] = read('apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: x}\n').all(secretKind);
  assert.equal(secret?.type, 'Opaque');
  assert.deepEqual({ ...secret.data }, { a: 'eA==' });
  assert.equal(secret.stringData, undefined);
});

test('objects that name no namespace get the given one, those of the cluster have none', () => {
  const manifests = read(
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: other}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: node1, namespace: odd}\n',
    'shop',
  );
  assert.ok(manifests.get(configMapKind, 'shop', 'a'));
  assert.ok(manifests.get(configMapKind, 'other', 'a'));
  assert.equal(manifests.get(configMapKind, 'default', 'a'), undefined);
  assert.equal(manifests.get(nodeKind, 'anything', 'node1')?.metadata.namespace, undefined);
});

test('a later document replaces an earlier one of the same name', () => {
  const one = (value: string): string =>
    `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: ${value}}\n---\n`;
  const manifests = read(one('first') + one('second'));
  assert.equal(manifests.all(configMapKind).length, 1);
  assert.equal(manifests.get(configMapKind, 'default', 'a')?.data?.['k'], 'second');
});

test('lists are opened, also lists of one kind whose items do not repeat it', () => {
  const manifests = read(
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'List',
      items: [
        { apiVersion: 'v1', kind: 'ConfigMapList', items: [{ metadata: { name: 'a' } }, { metadata: { name: 'b' } }] },
      ],
    }),
  );
  assert.deepEqual(
    manifests.all(configMapKind).map(({ metadata }) => metadata.name),
    ['a', 'b'],
  );
});

test('a pod gets a name, a uid and a service account, the same at every reading', () => {
  const text = 'apiVersion: v1\nkind: Pod\nmetadata: {generateName: web-}\nspec: {containers: [{name: a, image: b}]}\n';
  const [pod] = read(text).all(podKind);
  assert.match(pod?.metadata.name ?? '', /^web-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
  assert.match(pod?.metadata.uid ?? '', /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(pod?.spec.serviceAccountName, 'default');
  assert.deepEqual(read(text).all(podKind)[0], pod);
  assert.notEqual(read(text, 'other').all(podKind)[0]?.metadata.uid, pod.metadata.uid);
});

const generated = [
  { kind: 'Job', apiVersion: 'batch/v1', name: /^run-[bcdfghjklmnpqrstvwxz2456789]{5}$/ },
  { kind: 'StatefulSet', apiVersion: 'apps/v1', name: /^run-[bcdfghjklmnpqrstvwxz2456789]{5}-0$/ },
];
for (const { kind, apiVersion, name } of generated) {
  test(`the pod of a ${kind} with a generateName is named after what it becomes`, () => {
    const [pod] = read(`
apiVersion: ${apiVersion}
kind: ${kind}
metadata: {generateName: run-}
spec: {template: {spec: {containers: [{name: a, image: b}]}}}
`).all(podKind);
    assert.match(pod?.metadata.name ?? '', name);
  });
}

test("a StatefulSet's pod has its index as a label and a volume for each claim template", () => {
  const [pod] = read(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  volumeClaimTemplates:
    - {metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: a, image: b, volumeMounts: [{name: data, mountPath: /data}]}]
`).all(podKind);
  assert.equal(pod?.metadata.name, 'db-0');
  assert.equal(pod.metadata.labels?.['apps.kubernetes.io/pod-index'], '0');
  assert.equal(pod.spec.volumes?.[0]?.persistentVolumeClaim?.claimName, 'data-db-0');
});

test('a pod that runs already may have ephemeral containers', () => {
  const [pod] = read(`
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: a, image: b}]
  ephemeralContainers: [{name: debug, image: c, targetContainerName: a}]
`).all(podKind);
  assert.equal(pod?.spec.ephemeralContainers?.[0]?.name, 'debug');
});

const problems: { it: string; text: string; says: readonly string[] }[] = [
  {
    it: 'text that is not an object',
    text: 'just words',
    says: ['app.yaml:1:1: expected a Kubernetes object (a map with apiVersion and kind)'],
  },
  {
    it: 'an object without an apiVersion',
    text: 'kind: Pod\n',
    says: ['app.yaml:1:1: apiVersion: Required value: every Kubernetes object has an apiVersion and a kind'],
  },
  {
    it: 'an item of a list by its place in the list',
    text: 'apiVersion: v1\nkind: List\nitems:\n- {kind: Pod}\n',
    says: ['app.yaml:4:3: items[0].apiVersion: Required value: every Kubernetes object has an apiVersion and a kind'],
  },
  {
    it: 'every problem of every document',
    text: 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: 1, y z: 2}\nextra: 1\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: []\n',
    says: [
      'app.yaml:5:1: ConfigMap "a": extra: unknown field',
      'app.yaml:4:8: ConfigMap "a": data[x]: expected a string, got a number (quote it if you mean text)',
      'app.yaml:4:14: ConfigMap "a": data[y z]: expected a string, got a number (quote it if you mean text)',
      'app.yaml:10:1: ConfigMap "b": data: expected a map, got a list',
    ],
  },
  {
    it: 'a file that is a map instead of text, with what to write',
    text: 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  bootstrap.yml:\n    spring: {}\n',
    says: [
      'app.yaml:5:3: ConfigMap "a": data[bootstrap.yml]: expected a string, got a map (for a file with this text write "bootstrap.yml: |", and the text indented below)',
    ],
  },
  {
    it: 'a key that stands twice, but not in documents that are passed over',
    text: 'apiVersion: example.com/v1\nkind: Widget\nspec: {a: 1, a: 2}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: a\n  x: b\n',
    says: ['app.yaml:10:3: Map keys must be unique: "x" stands twice'],
  },
  {
    it: "a Secret's value that is not base64 without repeating it",
    text: 'apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {password: hunter2!}\n',
    says: ['app.yaml:4:8: Secret "s": data[password]: expected base64 text, got other text'],
  },
  {
    it: 'a kind in the wrong letters',
    text: 'apiVersion: v1\nkind: configmap\nmetadata: {name: a}\n',
    says: ['app.yaml:2:1: no matches for kind "configmap" in version "v1": use ConfigMap of v1'],
  },
  {
    it: 'a version that is gone',
    text: 'apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: a}\n',
    says: ['app.yaml:1:1: no matches for kind "Deployment" in version "extensions/v1beta1": use apps/v1'],
  },
  {
    it: 'a list that contains itself',
    text: '&list {apiVersion: v1, kind: List, items: [*list]}\n',
    says: ['app.yaml:1:44: A value must not contain itself'],
  },
  {
    it: 'ephemeral containers in a template',
    text: `apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  template:
    spec:
      containers: [{name: a, image: b}]
      ephemeralContainers: [{name: debug, image: c}]
`,
    says: [
      'app.yaml:8:7: Deployment "a" is invalid: spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template',
    ],
  },
  {
    it: 'what an ephemeral container may not have',
    text: `apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  volumes: [{name: v, emptyDir: {}}]
  containers: [{name: a, image: b}]
  ephemeralContainers:
  - {name: debug, image: c, volumeMounts: [{name: v, mountPath: /v, subPath: x}]}
`,
    says: [
      'app.yaml:8:69: Pod "a" is invalid: spec.ephemeralContainers[0].volumeMounts[0].subPath: Forbidden: cannot be set for an Ephemeral Container',
    ],
  },
  {
    it: 'a key of stringData in the place where it stands',
    text: 'apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n  metadata: {name: a}\n  stringData:\n    ..bad: x\n  data:\n    ..also: eA==\n',
    says: [
      `app.yaml:10:5: Secret "a" is invalid: data[..also]: Invalid value: "..also": must not start with '..'`,
      `app.yaml:8:5: Secret "a" is invalid: data[..bad]: Invalid value: "..bad": must not start with '..'`,
    ],
  },
  {
    it: 'a key in the place where it stands',
    text: 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  ok: x\n  ..bad: x\n',
    says: [`app.yaml:6:3: ConfigMap "a" is invalid: data[..bad]: Invalid value: "..bad": must not start with '..'`],
  },
];
for (const { it, text, says } of problems) {
  test(`manifests: reports ${it}`, () => {
    assert.deepEqual(problemsOf(text), says);
  });
}

test('a kind of another group that is called like one of ours is passed over', () => {
  assert.deepEqual(
    problemsOf('apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: x}\nspec: {anything: 1}\n'),
    [],
  );
});

test('a key named like a member of every object is a key', () => {
  const [configMap] = read(
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {__proto__: x, constructor: z}\n',
  ).all(configMapKind);
  assert.deepEqual(Object.entries(configMap?.data ?? {}), [
    ['__proto__', 'x'],
    ['constructor', 'z'],
  ]);
});
