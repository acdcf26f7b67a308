/** `mountlet render` for pods with claims: of StatefulSets, of generic ephemeral volumes, with and without volumes in the manifests. */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { isRoot, mountlet, rootDirectory } from './mountlet-program.ts';

interface Pod {
  readonly name: string;
  readonly volumes: readonly { readonly name: string; readonly plugin: string; readonly path: string }[];
  readonly containers: readonly {
    readonly env: readonly { readonly name: string; readonly value: string }[];
    readonly mounts: readonly { readonly mountPath: string; readonly hostPath: string; readonly readOnly: boolean }[];
  }[];
}

interface Rendered {
  readonly pods: readonly Pod[];
  readonly stderr: string;
}

function render(t: TestContext, manifests: string): Rendered {
  const { code, stdout, stderr } = mountlet(['render', '-f', '-', '--root', rootDirectory(t), '-o', 'json'], {
    input: manifests,
  });
  assert.equal(code, 0, stderr);
  return { pods: (JSON.parse(stdout) as { items: Pod[] }).items, stderr };
}

/** What stands behind each volume, or what is said instead of it. */
const pluginsOf = ({ pods }: Rendered): readonly string[] =>
  pods.flatMap(({ volumes }) => volumes.map(({ name, plugin }) => `${name} ${plugin.replace('kubernetes.io/', '')}`));
const emptied = (claim: string, what: string): string =>
  `note: PersistentVolumeClaim ${claim} (${what}): no PersistentVolume of these manifests is bound to it; render shows an empty volume in its place\n`;

const zookeeper = `
apiVersion: v1
kind: ConfigMap
metadata: { name: zk-config, namespace: data }
data: { zoo.cfg: "dataDir=/var/lib/zookeeper" }
---
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: zk, namespace: data }
spec:
  serviceName: zk-hs
  replicas: 3
  podManagementPolicy: OrderedReady
  updateStrategy: { type: RollingUpdate }
  selector: { matchLabels: { app: zk } }
  template:
    metadata: { labels: { app: zk } }
    spec:
      securityContext: { runAsUser: 1000, fsGroup: 1000 }
      containers:
        - name: server
          image: zookeeper:3.9
          env: [{ name: POD, valueFrom: { fieldRef: { fieldPath: metadata.name } } }]
          volumeMounts:
            - { name: datadir, mountPath: /var/lib/zookeeper }
            - { name: config, mountPath: /etc/zookeeper }
      volumes: [{ name: config, configMap: { name: zk-config } }]
  volumeClaimTemplates:
    - metadata: { name: datadir }
      spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 10Gi } } }
`;

test('a StatefulSet with a claim template: an empty volume stands for what a cluster would provision', (t) => {
  const rendered = render(t, zookeeper);
  assert.deepEqual(pluginsOf(rendered), ['datadir empty-dir', 'config configmap']);
  assert.equal(rendered.stderr, emptied('data/datadir-zk-0', 'default class'));
  const [pod] = rendered.pods;
  assert.deepEqual(pod?.containers[0]?.env, [{ name: 'POD', value: 'zk-0' }]);
  const data = pod?.containers[0]?.mounts.find(({ mountPath }) => mountPath === '/var/lib/zookeeper');
  assert.deepEqual(readdirSync(data?.hostPath ?? ''), []);
  if (isRoot) assert.equal(statSync(data?.hostPath ?? '').gid, 1000);
});

const kafka = `
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: kafka }
spec:
  serviceName: kafka
  replicas: 2
  ordinals: { start: 5 }
  persistentVolumeClaimRetentionPolicy: { whenDeleted: Delete }
  selector: { matchLabels: { app: kafka } }
  template:
    metadata: { labels: { app: kafka } }
    spec:
      containers:
        - name: broker
          image: kafka
          volumeMounts: [{ name: logs, mountPath: /logs }, { name: meta, mountPath: /meta }]
      volumes: [{ name: logs, emptyDir: {} }]
  volumeClaimTemplates:
    - metadata: { name: logs }
      spec: { storageClassName: fast, accessModes: [ReadWriteOnce], resources: { requests: { storage: 100Gi } } }
    - metadata: { name: meta, annotations: { volume.beta.kubernetes.io/storage-class: slow } }
      spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } }
`;

test('the first ordinal is the one that the set says, and every claim names its class', (t) => {
  const rendered = render(t, kafka);
  assert.equal(rendered.pods[0]?.name, 'kafka-5');
  assert.deepEqual(pluginsOf(rendered), ['logs empty-dir', 'meta empty-dir']);
  const notes = emptied('default/logs-kafka-5', 'class fast') + emptied('default/meta-kafka-5', 'class slow');
  assert.equal(rendered.stderr, notes);
});

const directoryVolume = (name: string, path: string, spec = ''): string => `---
apiVersion: v1
kind: PersistentVolume
metadata: { name: ${name}, labels: { disk: ${name} } }
spec: { capacity: { storage: 5Gi }, accessModes: [ReadWriteOnce], hostPath: { path: ${path} }, ${spec} }
`;
const claim = (name: string, spec = ''): string => `---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { name: ${name} }
spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } }, ${spec} }
`;
const podWith = (source: string, use = 'volumeMounts: [{ name: v, mountPath: /v }]'): string => `---
apiVersion: v1
kind: Pod
metadata: { name: web }
spec:
  containers: [{ name: c, image: i, ${use} }]
  volumes: [{ name: v, ${source} }]
`;
const podOf = (claimName: string, use?: string): string =>
  podWith(`persistentVolumeClaim: { claimName: ${claimName} }`, use);

const postgres = (data: string): string => `
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: postgres }
spec:
  serviceName: postgres
  selector: { matchLabels: { app: postgres } }
  template:
    metadata: { labels: { app: postgres } }
    spec:
      containers:
        - { name: db, image: postgres, volumeMounts: [{ name: pgdata, mountPath: /data, subPath: pg }] }
  volumeClaimTemplates:
    - metadata: { name: pgdata }
      spec:
        storageClassName: manual
        selector: { matchLabels: { disk: right } }
        accessModes: [ReadWriteOnce]
        resources: { requests: { storage: 5Gi } }
${directoryVolume('small', '/nowhere', 'storageClassName: manual').replace('5Gi', '4Gi').replace('disk: small', 'disk: right')}
${directoryVolume('wrong', '/nowhere', 'storageClassName: manual')}
${directoryVolume('right', data, 'storageClassName: manual')}`;

test('a volume of the manifests that the binder would choose is used: by class, size and labels', (t) => {
  const data = rootDirectory(t);
  mkdirSync(join(data, 'pg'));
  writeFileSync(join(data, 'pg', 'PG_VERSION'), '17');
  const { pods, stderr } = render(t, postgres(data));
  assert.equal(stderr, '');
  const [mount] = pods[0]?.containers[0]?.mounts ?? [];
  assert.equal(pods[0]?.volumes[0]?.path, data);
  if (isRoot) assert.equal(readFileSync(join(mount?.hostPath ?? '', 'PG_VERSION'), 'utf8'), '17');
});

const onNode = (name: string): string =>
  `nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [{ key: disk, operator: In, values: [${name}] }] }] } }`;

test('a class that waits for the first pod is bound on the node of the pod, and to each volume once', (t) => {
  const path = rootDirectory(t);
  const node = '---\napiVersion: v1\nkind: Node\nmetadata: { name: here, labels: { disk: here } }\n';
  const storageClass =
    '---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: { name: local, annotations: { storageclass.kubernetes.io/is-default-class: "true" } }\nprovisioner: kubernetes.io/no-provisioner\nvolumeBindingMode: WaitForFirstConsumer\n';
  const volumes = ['far', 'here']
    .map((name) => directoryVolume(name, path, `storageClassName: local, ${onNode(name)}`))
    .join('');
  const pods = podOf('one') + podOf('two').replace('name: web', 'name: late');
  const rendered = render(t, node + storageClass + volumes + claim('one') + claim('two') + pods);
  assert.deepEqual(pluginsOf(rendered), ['v host-path', 'v empty-dir']);
  assert.equal(rendered.stderr, emptied('default/two', 'class local'));
});

test('a claim of a volume that is read from elsewhere, of no class, and of a pod that only reads', (t) => {
  const dumped = claim('dumped', 'volumeName: pvc-1').replace(
    'name: dumped',
    'name: dumped, uid: u, annotations: { pv.kubernetes.io/bind-completed: "yes" }',
  );
  const readOnly = podWith('persistentVolumeClaim: { claimName: dumped, readOnly: true }');
  const plain = podOf('static').replace('name: web', 'name: other');
  const { pods, stderr } = render(
    t,
    `${dumped}status: { phase: Bound }\n${claim('static', 'storageClassName: ""')}${readOnly}${plain}`,
  );
  assert.equal(pods[0]?.containers[0]?.mounts[0]?.readOnly, true);
  assert.equal(pods[1]?.containers[0]?.mounts[0]?.readOnly, false);
  const none = 'no class, so a cluster needs a volume made for it';
  assert.equal(stderr, emptied('default/dumped', 'default class') + emptied('default/static', none));
});

test('a generic ephemeral volume has the claim that is made for it', (t) => {
  const template =
    'ephemeral: { volumeClaimTemplate: { spec: { storageClassName: fast, accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } } } }';
  const rendered = render(t, podWith(template));
  assert.deepEqual(pluginsOf(rendered), ['v empty-dir']);
  assert.equal(rendered.stderr, emptied('default/web-v', 'class fast'));
});

test('a raw block device is not shown, and the pod is rendered all the same', (t) => {
  const block = claim('raw', 'volumeMode: Block');
  const { pods, stderr } = render(t, block + podOf('raw', 'volumeDevices: [{ name: v, devicePath: /dev/xvda }]'));
  assert.deepEqual(
    pods[0]?.containers[0]?.mounts.filter(({ mountPath }) => mountPath === '/dev/xvda'),
    [],
  );
  assert.equal(
    stderr,
    'note: volume v of pod default/web is a raw block device (volumeMode Block), which render does not show\n',
  );
});

const unattached = (why: string): string =>
  `error: pod default/web: Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: ${why}\n`;
const failures = [
  {
    it: 'the claim is in no manifest',
    yaml: podOf('data'),
    says: unattached(
      'error processing PVC default/data: failed to fetch PVC from API server: persistentvolumeclaims "data" not found',
    ),
  },
  {
    it: 'nothing runs volumes of the kind',
    yaml: podWith('rbd: { monitors: [a], image: b }'),
    says: unattached(
      'failed to get Plugin from volumeSpec for volume "v" err=no volume plugin matched: rbd volumes are no longer supported by Kubernetes: use the CSI driver rbd.csi.ceph.com',
    ),
  },
  {
    it: 'nothing runs the volume that a claim is bound to',
    yaml:
      directoryVolume('pv', '/tmp').replace(/hostPath: [^}]*}/, 'flexVolume: { driver: a/b }') +
      claim('data') +
      podOf('data'),
    says: unattached(
      `failed to get Plugin from volumeSpec for volume "pv" err=no volume plugin matched: flexVolume volumes are not supported by this node: use a CSI driver of the storage's vendor`,
    ),
  },
  {
    it: 'the volume that a claim names is too small',
    yaml: directoryVolume('pv', '/tmp') + claim('data', 'volumeName: pv').replace('1Gi', '9Gi') + podOf('data'),
    says:
      'note: PersistentVolumeClaim default/data: Cannot bind to requested volume "pv": requested PV is too small\n' +
      unattached('error processing PVC default/data: PVC is not bound'),
  },
  {
    it: 'a claim for a device is mounted',
    yaml: claim('data', 'volumeMode: Block') + podOf('data'),
    says: unattached('volume v has volumeMode Block, but is specified in volumeMounts'),
  },
  {
    it: 'a claim of another owner has the name of the one to be made',
    yaml:
      claim('web-v') +
      podWith(
        'ephemeral: { volumeClaimTemplate: { spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } } } }',
      ),
    says: unattached('PVC default/web-v was not created for pod default/web (pod is not owner)'),
  },
];
for (const { it, yaml, says } of failures) {
  test(`render fails as the kubelet where ${it}`, (t) => {
    const { code, stderr } = mountlet(['render', '-f', '-', '--root', rootDirectory(t)], { input: yaml });
    assert.deepEqual([code, stderr], [1, says]);
  });
}

test('a claim template that no API server would accept is reported where it stands', (t) => {
  const { code, stderr } = mountlet(['render', '-f', '-', '--root', rootDirectory(t)], {
    input: kafka.replace(
      'accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } }',
      'accessModes: [Twice]',
    ),
  });
  assert.equal(code, 1);
  assert.match(
    stderr,
    /^error: <stdin>:\d+:\d+: StatefulSet "kafka" is invalid: spec\.volumeClaimTemplates\[1\]\.spec\.accessModes/m,
  );
});
