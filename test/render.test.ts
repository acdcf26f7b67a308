/** `mountlet render` as a user runs it: manifests in, files and output looked at. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  statSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { parse } from 'yaml';
import { isRoot, mountlet, rootDirectory } from './mountlet-program.ts';
import type { Ran, RunOptions } from './mountlet-program.ts';

interface Item {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly volumes: readonly {
    readonly name: string;
    readonly plugin: string;
    readonly path: string;
    readonly files: readonly { path: string; mode: string; uid: number; gid: number; size: number; sha256: string }[];
  }[];
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
  readonly pullCredentials: readonly { registry: string; username: string; images: readonly string[] }[];
}
interface Container {
  readonly name: string;
  readonly env: readonly { name: string; value: string }[];
  readonly mounts: readonly { mountPath: string; hostPath: string; readOnly: boolean; subPath?: string }[];
}

interface Rendered extends Ran {
  readonly root: string;
  readonly items: readonly Item[];
  readonly item: Item;
}

function render(
  t: TestContext,
  manifests: string,
  args: readonly string[] = [],
  options: RunOptions & { root?: string } = {},
): Rendered {
  const root = options.root ?? rootDirectory(t);
  const ran = mountlet(['render', '-f', '-', '--root', root, '-o', 'json', ...args], { input: manifests, ...options });
  const items = ran.stdout.startsWith('{') ? (JSON.parse(ran.stdout) as { items: Item[] }).items : [];
  const none = { namespace: '', name: '', uid: '', volumes: [], containers: [], pullCredentials: [] };
  return { ...ran, root, items, item: items[0] ?? none };
}

function succeed(rendered: Rendered): Rendered {
  assert.equal(rendered.code, 0, rendered.stderr);
  return rendered;
}

/** What a pod sees: path and text of each file, read through the public path. */
function filesOf({ item }: Rendered, volume = item.volumes[0]?.name): Record<string, string> {
  const found = item.volumes.find(({ name }) => name === volume);
  assert.ok(found, `no volume ${volume}`);
  return Object.fromEntries(found.files.map(({ path }) => [path, readFileSync(join(found.path, path), 'utf8')]));
}

function modesOf({ item }: Rendered): Record<string, string> {
  return Object.fromEntries((item.volumes[0]?.files ?? []).map(({ path, mode }) => [path, mode]));
}

function envOf({ item }: Rendered): Record<string, string> {
  return Object.fromEntries((item.containers[0]?.env ?? []).map(({ name, value }) => [name, value]));
}

const configMap = (name: string, rest: string): string => `
apiVersion: v1
kind: ConfigMap
metadata: {name: ${name}}
${rest}
---`;
const secret = (name: string, rest: string): string => `
apiVersion: v1
kind: Secret
metadata: {name: ${name}}
${rest}
---`;
/** A pod with one container that mounts volume `v` at /v. */
const podWith = (volume: string, { spec = '', container = '', mount = '' } = {}): string => `
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web, tier: front}
  annotations: {note: 'say "hi"', lines: "one\\ntwo"}
spec:
  containers:
  - name: main
    image: busybox
    volumeMounts: [{name: v, mountPath: /v${mount}}]
${container}
  volumes: [{name: v, ${volume}}]
${spec}
---`;
/** A pod with one container and no volume. */
const plainPod = (container: string, spec = ''): string => `
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: main
    image: busybox
${container}
${spec}
---`;

test('render puts a ConfigMap on disk in the layout of the kubelet', (t) => {
  const rendered = succeed(
    render(t, configMap('c', 'data: {redis.conf: "port=6379\\n"}') + podWith('configMap: {name: c}')),
  );
  const { item, root } = rendered;
  assert.deepEqual([item.namespace, item.name], ['default', 'web']);
  const volume = item.volumes[0];
  assert.ok(volume);
  assert.equal(volume.plugin, 'kubernetes.io/configmap');
  assert.equal(volume.path, join(root, 'pods', item.uid, 'volumes', 'kubernetes.io~configmap', 'v'));
  assert.match(readlinkSync(join(volume.path, '..data')), /^\.\.\d{4}(_\d\d){5}\.\d+$/);
  assert.equal(readlinkSync(join(volume.path, 'redis.conf')), '..data/redis.conf');
  const [file] = volume.files;
  assert.equal(file?.path, 'redis.conf');
  assert.equal(file.mode, '0644');
  assert.equal(file.size, 10);
  assert.equal(file.sha256, createHash('sha256').update('port=6379\n').digest('hex'));
  assert.deepEqual(item.containers[0]?.mounts[0], { mountPath: '/v', hostPath: volume.path, readOnly: true });
  if (isRoot) assert.equal(statSync(volume.path).mode & 0o7777, 0o777);
  assert.ok(existsSync(join(root, 'pods', item.uid, 'plugins', 'kubernetes.io~empty-dir', 'wrapped_v', 'ready')));
});

const payloads: {
  it: string;
  yaml: string;
  files: Record<string, string>;
  modes?: Record<string, string>;
  root?: boolean;
}[] = [
  {
    it: 'data and binaryData, all keys',
    yaml: configMap('c', 'data: {a: x}\nbinaryData: {b: aGk=}') + podWith('configMap: {name: c}'),
    files: { a: 'x', b: 'hi' },
  },
  {
    it: 'an empty items list as all keys',
    yaml: configMap('c', 'data: {a: x, b: "y"}') + podWith('configMap: {name: c, items: []}'),
    files: { a: 'x', b: 'y' },
  },
  {
    it: 'listed keys under nested paths with their own modes',
    yaml:
      configMap('c', 'data: {a: x, b: "y", c: z}') +
      podWith(
        'configMap: {name: c, defaultMode: 0400, items: [{key: a, path: etc/deep/a.conf, mode: 0777}, {key: b, path: b}]}',
      ),
    files: { 'etc/deep/a.conf': 'x', b: 'y' },
    modes: { 'etc/deep/a.conf': '0777', b: '0400' },
  },
  {
    it: 'one key at several paths',
    yaml:
      configMap('c', 'data: {a: x}') +
      podWith('configMap: {name: c, items: [{key: a, path: one}, {key: a, path: two}]}'),
    files: { one: 'x', two: 'x' },
  },
  {
    it: 'nothing for an optional ConfigMap that is missing',
    yaml: podWith('configMap: {name: gone, optional: true}'),
    files: {},
  },
  {
    it: 'what there is of an optional ConfigMap',
    yaml:
      configMap('c', 'data: {a: x}') +
      podWith('configMap: {name: c, optional: true, items: [{key: a, path: a}, {key: nope, path: nope}]}'),
    files: { a: 'x' },
  },
  {
    it: 'a mode in decimal',
    yaml: configMap('c', 'data: {a: x}') + podWith('configMap: {name: c, defaultMode: 256}'),
    files: { a: 'x' },
    modes: { a: '0400' },
  },
  {
    it: 'paths that clean to something shorter',
    yaml: configMap('c', 'data: {a: x}') + podWith('configMap: {name: c, items: [{key: a, path: ./foo//bar}]}'),
    files: { 'foo/bar': 'x' },
  },
  {
    it: 'a Secret whose stringData wins over data',
    yaml: secret('s', 'data: {a: b2xk, b: a2VwdA==}\nstringData: {a: new}') + podWith('secret: {secretName: s}'),
    files: { a: 'new', b: 'kept' },
  },
  {
    it: 'fsGroup adding read permission for the group',
    yaml:
      secret('s', 'stringData: {a: x}') +
      podWith('secret: {secretName: s, defaultMode: 0400}', { spec: '  securityContext: {fsGroup: 2000}' }),
    files: { a: 'x' },
    modes: { a: '0440' },
    root: true,
  },
  {
    it: 'downward API fields',
    yaml: podWith(
      'downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}, {path: notes, fieldRef: {fieldPath: metadata.annotations}}, {path: ns, fieldRef: {fieldPath: metadata.namespace}}, {path: one, fieldRef: {fieldPath: "metadata.annotations[\'note\']"}}, {path: d//name, fieldRef: {fieldPath: metadata.name}}]}',
    ),
    files: {
      labels: 'app="web"\ntier="front"',
      notes: 'lines="one\\ntwo"\nnote="say \\"hi\\""',
      ns: 'default',
      one: 'say "hi"',
      'd/name': 'web',
    },
  },
  {
    it: 'downward API resources, rounded up, limits from the node where the container has none',
    yaml:
      `
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, ephemeral-storage: 10Gi}}
---` +
      podWith(
        'downwardAPI: {items: [{path: cpu, resourceFieldRef: {containerName: main, resource: limits.cpu}}, {path: milli, resourceFieldRef: {containerName: main, resource: requests.cpu, divisor: 1m}}, {path: mem, resourceFieldRef: {containerName: main, resource: limits.memory, divisor: 1Mi}}, {path: req, resourceFieldRef: {containerName: main, resource: requests.memory}}]}',
        { container: '    resources: {requests: {cpu: 250m}}' },
      ),
    files: { cpu: '4', milli: '250', mem: '8192', req: '0' },
  },
  {
    it: 'projected sources merged, the last one winning',
    yaml:
      configMap('c1', 'data: {a: first, b: b}') +
      configMap('c2', 'data: {a: second}') +
      secret('s', 'stringData: {k: v}') +
      podWith(
        'projected: {sources: [{configMap: {name: c1}}, {configMap: {name: c2}}, {secret: {name: s, items: [{key: k, path: sub/k}]}}, {downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}}, {configMap: {name: gone, optional: true}}]}',
      ),
    files: { a: 'second', b: 'b', namespace: 'default', 'sub/k': 'v' },
  },
];
for (const { it, yaml, files, modes, root } of payloads) {
  test(`render shows ${it}`, (t) => {
    if (root === true && !isRoot) return t.skip('needs root: gives files to a group');
    const rendered = succeed(render(t, yaml));
    assert.deepEqual(filesOf(rendered), files);
    if (modes !== undefined) assert.deepEqual(modesOf(rendered), modes);
  });
}

test('render projects a token, the CA and the namespace as examples/projected.yaml asks', (t) => {
  const root = rootDirectory(t);
  const { code, stdout, stderr } = mountlet(['render', '-f', 'examples/projected.yaml', '--root', root, '-o', 'json']);
  assert.equal(code, 0, stderr);
  const item = (JSON.parse(stdout) as { items: Item[] }).items[0];
  const access = item?.volumes.find(({ name }) => name === 'api-access');
  assert.deepEqual(
    access?.files.map(({ path }) => path),
    ['ca.crt', 'namespace', 'token'],
  );
  const token = readFileSync(join(access?.path ?? '', 'token'), 'utf8');
  const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<string, unknown>;
  assert.equal(claims['sub'], 'system:serviceaccount:default:reader');
  assert.equal(Number(claims['exp']) - Number(claims['iat']), 3607);
  assert.ok(!stdout.includes(token));
});

const failures: { it: string; yaml: string; says: string }[] = [
  {
    it: 'a ConfigMap is missing',
    yaml: podWith('configMap: {name: web}')
      .replace('name: v, configMap', 'name: cfg, configMap')
      .replace('name: v, mountPath', 'name: cfg, mountPath'),
    says: 'MountVolume.SetUp failed for volume "cfg" : configmap "web" not found',
  },
  {
    it: 'a Secret is missing',
    yaml: podWith('secret: {secretName: s}'),
    says: 'MountVolume.SetUp failed for volume "v" : secret "s" not found',
  },
  {
    it: 'a listed key is missing in a ConfigMap',
    yaml: configMap('c', 'data: {a: x}') + podWith('configMap: {name: c, items: [{key: nope, path: nope}]}'),
    says: 'MountVolume.SetUp failed for volume "v" : configmap references non-existent config key: nope',
  },
  {
    it: 'a listed key is missing in a Secret',
    yaml: secret('s', 'stringData: {a: x}') + podWith('secret: {secretName: s, items: [{key: nope, path: nope}]}'),
    says: 'MountVolume.SetUp failed for volume "v" : references non-existent secret key: nope',
  },
  {
    it: 'a ConfigMap stands in another namespace',
    yaml:
      'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: other}\n---' + podWith('configMap: {name: c}'),
    says: 'configmap "c" not found',
  },
  {
    it: 'a host path is not what its type says',
    yaml: podWith('hostPath: {path: /etc/passwd, type: Directory}'),
    says: 'hostPath type check failed: /etc/passwd is not a directory',
  },
  {
    it: 'a claim is not there',
    yaml: podWith('persistentVolumeClaim: {claimName: data}'),
    says: 'Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: error processing PVC default/data: failed to fetch PVC from API server: persistentvolumeclaims "data" not found',
  },
  {
    it: 'no plugin knows the volume',
    yaml: podWith('cephfs: {monitors: [a]}'),
    says: 'no volume plugin matched',
  },
  {
    it: 'a variable asks for a key that is not there',
    yaml:
      configMap('c', 'data: {a: x}') +
      plainPod('    env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: nope}}}]'),
    says: "couldn't find key nope in ConfigMap default/c",
  },
  {
    it: 'a variable asks for a Secret that is not there',
    yaml: plainPod('    env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]'),
    says: 'secret "s" not found',
  },
  {
    it: 'envFrom asks for a ConfigMap that is not there',
    yaml: plainPod('    envFrom: [{configMapRef: {name: c}}]'),
    says: 'configmap "c" not found',
  },
  {
    it: 'a subPathExpr names a variable that is empty',
    yaml: podWith('emptyDir: {}', { mount: ', subPathExpr: $(NO)' }),
    says: 'missing value for NO',
  },
];
for (const { it, yaml, says } of failures) {
  test(`render fails in the kubelet's words when ${it}, and leaves nothing behind`, (t) => {
    const { code, stderr, root, items } = render(t, yaml);
    assert.equal(code, 1);
    assert.ok(stderr.includes(says), stderr);
    assert.deepEqual(items, []);
    assert.deepEqual(readdirSync(root), []);
  });
}

const invalid: { it: string; yaml: string; says: string | RegExp }[] = [
  {
    it: 'broken YAML',
    yaml: 'apiVersion: v1\nkind: Pod\nmetadata: {name: [\n',
    says: /^error: <stdin>:\d+:\d+: /m,
  },
  {
    it: 'a field of the wrong type',
    yaml: 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  port: 6379\n',
    says: 'error: <stdin>:6:3: ConfigMap "c": data[port]: expected a string, got a number (quote it if you mean text)',
  },
  {
    it: 'a field that does not exist',
    yaml: 'apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  volums: []\n  containers: [{name: a, image: b}]\n',
    says: 'error: <stdin>:5:3: Pod "p": spec.volums: unknown field',
  },
  {
    it: 'a path that leaves the volume',
    yaml: podWith('configMap: {name: c, items: [{key: a, path: ../../etc/passwd}]}'),
    says: /<stdin>:\d+:\d+: Pod "web" is invalid: spec\.volumes\[0\]\.configMap\.items\[0\]\.path: Invalid value: "\.\.\/\.\.\/etc\/passwd": must not contain '\.\.'/,
  },
  {
    it: 'a mode that is none',
    yaml: podWith('configMap: {name: c, defaultMode: 01000}'),
    says: 'spec.volumes[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive',
  },
  {
    it: 'a mount without its volume',
    yaml: plainPod('    volumeMounts: [{name: gone, mountPath: /x}]'),
    says: 'spec.containers[0].volumeMounts[0].name: Not found: "gone"',
  },
  {
    it: 'a key that no file may have',
    yaml: configMap('c', 'data: {"a/b": x}') + podWith('configMap: {name: c}'),
    says: 'ConfigMap "c" is invalid: data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters',
  },
  {
    it: 'a pod inside a Deployment',
    yaml: 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  template:\n    spec:\n      containers:\n      - name: Bad_Name\n        image: x\n',
    says: /<stdin>:8:9: Deployment "d" is invalid: spec\.template\.spec\.containers\[0\]\.name: Invalid value: "Bad_Name"/,
  },
  {
    it: 'an object without a kind',
    yaml: 'apiVersion: v1\nmetadata: {name: x}\n',
    says: '<stdin>:1:1: kind: Required value',
  },
  {
    it: 'a version that does not exist',
    yaml: 'apiVersion: v2\nkind: Pod\nmetadata: {name: x}\n',
    says: '<stdin>:1:1: no matches for kind "Pod" in version "v2": use v1',
  },
  { it: 'no pod at all', yaml: configMap('c', 'data: {}'), says: 'Cannot find a pod in these manifests' },
  {
    it: 'a kind that is misspelled',
    yaml: 'apiVersion: v1\nkind: Pood\nmetadata: {name: a}\n',
    says: 'give at least one Pod or a workload with a pod template (not Pood)',
  },
  {
    it: 'a uid that is a path',
    yaml: plainPod('').replace('metadata: {name: web', 'metadata: {uid: ../../x, name: web'),
    says: /<stdin>:\d+:\d+: Pod "web" is invalid: metadata\.uid: Invalid value: "\.\.\/\.\.\/x"/,
  },
];
for (const { it, yaml, says } of invalid) {
  test(`render refuses ${it}, says where, and writes nothing`, (t) => {
    const root = join(rootDirectory(t), 'not', 'yet');
    const { code, stderr, stdout } = render(t, yaml, [], { root });
    assert.equal(code, 1, stderr);
    if (typeof says === 'string') assert.ok(stderr.includes(says), stderr);
    else assert.match(stderr, says);
    assert.equal(stdout, '');
    assert.ok(!existsSync(root));
  });
}

test('render refuses an object of one file for the sake of all files', (t) => {
  const directory = rootDirectory(t);
  writeFileSync(join(directory, 'a.yaml'), configMap('c', 'data: {a: x}') + podWith('configMap: {name: c}'));
  writeFileSync(join(directory, 'b.yml'), 'kind: ConfigMap\napiVersion: v1\nmetadata: {name: d}\ndata: {a: 1}\n');
  writeFileSync(join(directory, 'notes.txt'), 'not a manifest');
  const { code, stderr } = mountlet(['render', '-f', directory, '--root', join(directory, 'root')]);
  assert.equal(code, 1);
  assert.ok(stderr.includes(`${join(directory, 'b.yml')}:4:8: ConfigMap "d": data[a]: expected a string`), stderr);
  assert.ok(!existsSync(join(directory, 'root')));
});

test('render resolves env as the kubelet does', (t) => {
  const yaml =
    configMap('c', 'data: {FROM: cfg, dotted.key: odd}') +
    secret('s', 'stringData: {PASS: s3cr3t}') +
    `
apiVersion: v1
kind: Service
metadata: {name: my-db}
spec: {clusterIP: 10.0.0.9, ports: [{name: sql, port: 5432}]}
---` +
    plainPod(
      `    envFrom: [{prefix: P_, configMapRef: {name: c}}, {secretRef: {name: s}}, {configMapRef: {name: gone, optional: true}}]
    env:
    - {name: A, value: "1"}
    - {name: B, value: "$(A)-$(LATER)-$$(A)-$(MY_DB_SERVICE_HOST)"}
    - {name: LATER, value: x}
    - {name: URL, value: "db://$(PASS)@x"}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: NONE, valueFrom: {configMapKeyRef: {name: gone, key: k, optional: true}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
    resources: {limits: {cpu: 1500m}}`,
      '  nodeName: n7',
    );
  const hidden = succeed(render(t, yaml));
  assert.deepEqual(envOf(hidden), {
    P_FROM: 'cfg',
    'P_dotted.key': 'odd',
    PASS: '***',
    A: '1',
    B: '1-$(LATER)-$(A)-10.0.0.9',
    LATER: 'x',
    URL: '***',
    NODE: 'n7',
    CPU: '1500',
    MY_DB_SERVICE_HOST: '10.0.0.9',
    MY_DB_SERVICE_PORT: '5432',
    MY_DB_SERVICE_PORT_SQL: '5432',
    MY_DB_PORT: 'tcp://10.0.0.9:5432',
    MY_DB_PORT_5432_TCP: 'tcp://10.0.0.9:5432',
    MY_DB_PORT_5432_TCP_PROTO: 'tcp',
    MY_DB_PORT_5432_TCP_PORT: '5432',
    MY_DB_PORT_5432_TCP_ADDR: '10.0.0.9',
  });
  assert.ok(!hidden.stdout.includes('s3cr3t') && !hidden.stderr.includes('s3cr3t'));
  const shown = envOf(succeed(render(t, yaml, ['--show-secrets'])));
  assert.deepEqual([shown['PASS'], shown['URL']], ['s3cr3t', 'db://s3cr3t@x']);
});

test('render binds a subPath, makes a missing one a directory, and refuses one that leaves the volume', (t) => {
  const yaml =
    configMap('c', 'data: {a: x, b: "y"}') +
    podWith('configMap: {name: c}', { mount: ', subPath: a}, {name: e, mountPath: /e, subPath: made/here' }).replace(
      'volumes: [',
      'volumes: [{name: e, emptyDir: {}}, ',
    );
  const { item } = succeed(render(t, yaml));
  const [file, directory] = item.containers[0]?.mounts ?? [];
  assert.equal(readFileSync(file?.hostPath ?? '', 'utf8'), 'x');
  assert.equal(file?.subPath, 'a');
  assert.ok(statSync(directory?.hostPath ?? '').isDirectory());
  assert.equal(directory?.readOnly, false);
});

test('render never follows a link out of a volume for a subPath', (t) => {
  const outside = rootDirectory(t);
  writeFileSync(join(outside, 'x'), 'outside');
  const inside = rootDirectory(t);
  mkdirSync(join(inside, 'v'));
  const yaml = podWith(`hostPath: {path: ${join(inside, 'v')}}`, { mount: ', subPath: link/x' });
  symlinkSync(outside, join(inside, 'v', 'link'));
  const { code, stderr } = render(t, yaml);
  assert.equal(code, 1);
  assert.match(stderr, /failed to prepare subPath for volumeMount "v" of container "main"/);
  assert.ok(!stderr.includes(outside));
});

test('render lists pull credentials with the images they are for and never a password', (t) => {
  const config = JSON.stringify({
    auths: {
      'https://index.docker.io/v1/': { auth: Buffer.from('bob:hunter2').toString('base64') },
      'registry.example.com:5000/team': { username: 'ci', password: 'hunter3' },
    },
  });
  const yaml =
    secret('pull', `type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '${config}'}`) +
    plainPod('', '  imagePullSecrets: [{name: pull}, {name: gone}]').replace(
      'image: busybox',
      'image: registry.example.com:5000/team/app:1',
    );
  const { item, stdout, stderr } = succeed(render(t, yaml));
  assert.deepEqual(item.pullCredentials, [
    { registry: 'registry.example.com:5000/team', username: 'ci', images: ['registry.example.com:5000/team/app:1'] },
    { registry: 'index.docker.io', username: 'bob', images: [] },
  ]);
  assert.ok(!/hunter/.test(stdout + stderr));
  assert.match(
    stderr,
    /Unable to retrieve some image pull secrets \(gone\); attempting to pull the image may not succeed\./,
  );
});

test('render takes pull secrets from the service account when the pod has none', (t) => {
  const yaml =
    secret(
      'pull',
      `type: kubernetes.io/dockercfg\nstringData: {.dockercfg: '{"quay.io": {"username": "u", "password": "p"}}'}`,
    ) +
    '\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: builder}\nimagePullSecrets: [{name: pull}]\n---' +
    plainPod('', '  serviceAccountName: builder');
  assert.deepEqual(succeed(render(t, yaml)).item.pullCredentials, [{ registry: 'quay.io', username: 'u', images: [] }]);
});

const workloads = [
  { kind: 'Deployment', version: 'apps/v1', pod: 'web' },
  { kind: 'ReplicaSet', version: 'apps/v1', pod: 'web' },
  { kind: 'DaemonSet', version: 'apps/v1', pod: 'web' },
  { kind: 'StatefulSet', version: 'apps/v1', pod: 'web-0' },
  { kind: 'Job', version: 'batch/v1', pod: 'web' },
  { kind: 'CronJob', version: 'batch/v1', pod: 'web' },
];
for (const { kind, version, pod } of workloads) {
  test(`render reads the pod template of a ${kind}`, (t) => {
    const template = {
      metadata: { labels: { app: 'web' } },
      spec: {
        restartPolicy: kind.endsWith('ob') ? 'Never' : 'Always',
        containers: [
          {
            name: 'main',
            image: 'x',
            env: [{ name: 'LABEL', valueFrom: { fieldRef: { fieldPath: "metadata.labels['app']" } } }],
          },
        ],
      },
    };
    const spec = kind === 'CronJob' ? { schedule: '* * * * *', jobTemplate: { spec: { template } } } : { template };
    const object = { apiVersion: version, kind, metadata: { name: 'web', namespace: 'shop' }, spec };
    const rendered = succeed(render(t, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [object] })));
    assert.deepEqual([rendered.item.namespace, rendered.item.name], ['shop', pod]);
    assert.equal(envOf(rendered)['LABEL'], 'web');
  });
}

test('render passes over kinds that put nothing on a node', (t) => {
  const yaml =
    'apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {anything: [1]}\n---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i}\n---' +
    plainPod('');
  assert.equal(succeed(render(t, yaml)).items.length, 1);
});

test('render --pod chooses pods, -n names the namespace of objects that have none', (t) => {
  const yaml = plainPod('') + plainPod('').replace('name: web,', 'name: other,');
  const { items } = succeed(render(t, yaml, ['--pod', 'other', '-n', 'shop']));
  assert.deepEqual(
    items.map(({ namespace, name }) => `${namespace}/${name}`),
    ['shop/other'],
  );
  const missing = render(t, yaml, ['--pod', 'nope']);
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /Cannot find pod "nope" in these manifests: they have web, other/);
});

test('render again changes nothing when nothing changed, and swaps when something did', (t) => {
  const root = rootDirectory(t);
  const yaml = (value: string): string => configMap('c', `data: {a: "${value}"}`) + podWith('configMap: {name: c}');
  const first = succeed(render(t, yaml('x'), [], { root }));
  const link = join(first.item.volumes[0]?.path ?? '', '..data');
  const version = readlinkSync(link);
  assert.equal(succeed(render(t, yaml('x'), [], { root })).item.uid, first.item.uid);
  assert.equal(readlinkSync(link), version);
  assert.deepEqual(filesOf(succeed(render(t, yaml('y'), [], { root }))), { a: 'y' });
  assert.notEqual(readlinkSync(link), version);
});

test('render that fails leaves what an earlier one put there as it was', (t) => {
  const root = rootDirectory(t);
  const pod = podWith('configMap: {name: c}');
  const first = succeed(render(t, configMap('c', 'data: {a: x}') + pod, [], { root }));
  const failed = render(t, pod, [], { root });
  assert.equal(failed.code, 1);
  assert.deepEqual(filesOf(first), { a: 'x' });
});

test('render removes a volume that the pod no longer has', (t) => {
  const root = rootDirectory(t);
  const first = succeed(
    render(t, secret('s', 'stringData: {a: x}') + podWith('secret: {secretName: s}'), [], { root }),
  );
  const old = first.item.volumes[0]?.path ?? '';
  assert.ok(existsSync(old));
  succeed(render(t, podWith('emptyDir: {}'), [], { root }));
  assert.ok(!existsSync(old));
});

test('render --clean takes everything down again', (t) => {
  const root = rootDirectory(t);
  const yaml =
    secret('s', 'stringData: {a: x, b: "y"}') +
    podWith('secret: {secretName: s}', { mount: ', subPath: a}, {name: m, mountPath: /m' }).replace(
      'volumes: [',
      'volumes: [{name: m, emptyDir: {medium: Memory}}, ',
    );
  const { item } = succeed(render(t, yaml, [], { root }));
  assert.equal(item.volumes.length, 2);
  const cleaned = render(t, yaml, ['--clean'], { root });
  assert.equal(cleaned.code, 0, cleaned.stderr);
  assert.deepEqual(readdirSync(root), []);
});

const tmpfsMagic = 0x01021994;
test('render keeps Secrets, downward API and projected volumes in memory', (t) => {
  const yaml = secret('s', 'stringData: {a: x}') + podWith('secret: {secretName: s}');
  const rendered = succeed(render(t, yaml));
  assert.equal(statfsSync(join(rendered.item.volumes[0]?.path ?? '', 'a')).type, tmpfsMagic);
});

test('render as an ordinary user keeps Secrets in an existing tmpfs and says so once', (t) => {
  const yaml =
    secret('s', 'stringData: {a: x}') +
    podWith('secret: {secretName: s}') +
    podWith('secret: {secretName: s}').replace('name: web', 'name: two');
  const root = rootDirectory(t);
  const rendered = succeed(render(t, yaml, [], { root, asOrdinaryUser: true }));
  assert.deepEqual(filesOf(rendered), { a: 'x' });
  for (const { volumes } of rendered.items) {
    assert.equal(statfsSync(join(volumes[0]?.path ?? '', 'a')).type, tmpfsMagic);
  }
  assert.equal(rendered.stderr.split('\n').filter((line) => line.startsWith('note:')).length, 1, rendered.stderr);
  const cleaned = render(t, yaml, ['--clean'], { root, asOrdinaryUser: true });
  assert.equal(cleaned.code, 0, cleaned.stderr);
  assert.deepEqual(readdirSync(root), []);
});

test('render gives files the owners of defaultUser and user', (t) => {
  if (!isRoot) return t.skip('needs root: gives files away');
  const yaml =
    configMap('c', 'data: {a: x, b: "y"}') +
    podWith('configMap: {name: c, defaultUser: 1234, items: [{key: a, path: a}, {key: b, path: b, user: 99}]}');
  const { item } = succeed(render(t, yaml));
  assert.deepEqual(
    item.volumes[0]?.files.map(({ path, uid }) => [path, uid]),
    [
      ['a', 1234],
      ['b', 99],
    ],
  );
});

test('render sets up only volumes that a container uses', (t) => {
  const yaml = podWith('emptyDir: {}').replace('volumes: [', 'volumes: [{name: unused, configMap: {name: gone}}, ');
  assert.deepEqual(
    succeed(render(t, yaml)).item.volumes.map(({ name }) => name),
    ['v'],
  );
});

test('render makes emptyDirs with the mode that is asked for', (t) => {
  const { item } = succeed(render(t, podWith('emptyDir: {mode: 01770}')));
  assert.equal(lstatSync(item.volumes[0]?.path ?? '').mode & 0o7777, 0o1770);
});

test('render follows a claim to its volume', (t) => {
  if (!isRoot) return t.skip('needs root: binds a local volume');
  const data = rootDirectory(t);
  writeFileSync(join(data, 'table'), 'rows');
  const yaml =
    `apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv1}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], local: {path: ${data}}, claimRef: {namespace: default, name: data}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}]}}}\n---\n` +
    'apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n---' +
    podWith('persistentVolumeClaim: {claimName: data}');
  const { item } = succeed(render(t, yaml));
  assert.equal(item.volumes[0]?.plugin, 'kubernetes.io/local-volume');
  assert.equal(readFileSync(join(item.volumes[0]?.path ?? '', 'table'), 'utf8'), 'rows');
});

test('render writes the managed hosts file for a pod with an address', (t) => {
  const yaml = plainPod('', '  hostAliases: [{ip: 10.1.2.3, hostnames: [a.local, b.local]}]').replace(
    '---',
    'status: {podIP: 10.9.8.7, podIPs: [{ip: 10.9.8.7}]}\n---',
  );
  const { item } = succeed(render(t, yaml));
  const mount = item.containers[0]?.mounts.find(({ mountPath }) => mountPath === '/etc/hosts');
  const text = readFileSync(mount?.hostPath ?? '', 'utf8');
  assert.ok(text.startsWith('# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n'));
  assert.ok(text.endsWith('10.9.8.7\tweb\n\n# Entries added by HostAliases.\n10.1.2.3\ta.local\tb.local\n'), text);
});

test('render -o yaml prints what -o json prints', (t) => {
  const root = rootDirectory(t);
  const yaml = configMap('c', 'data: {a: x}') + podWith('configMap: {name: c}');
  const json = succeed(render(t, yaml, [], { root }));
  const asYaml = mountlet(['render', '-f', '-', '--root', root, '-o', 'yaml'], { input: yaml });
  assert.deepEqual(parse(asYaml.stdout), JSON.parse(json.stdout));
});

test('render -o tree shows names, modes, owners, links and sizes, and no secret', (t) => {
  const yaml =
    secret('s', 'stringData: {a: "hunter2"}') +
    podWith('secret: {secretName: s}', {
      container: '    env: [{name: P, valueFrom: {secretKeyRef: {name: s, key: a}}}]',
    });
  const { stdout, code } = mountlet(['render', '-f', '-', '--root', rootDirectory(t)], { input: yaml });
  assert.equal(code, 0);
  assert.match(stdout, /^pod default\/web \S+\/pods\/[0-9a-f-]{36}$/m);
  assert.match(stdout, /── \.\.data -> \.\.\d{4}_/);
  assert.match(stdout, /── a -> \.\.data\/a$/m);
  assert.match(stdout, /── a -rw-r--r-- \S+:\S+ 7 B$/m);
  assert.match(stdout, /── P=\*\*\*$/m);
  assert.ok(!stdout.includes('hunter2'));
  assert.ok(!stdout.includes('\u001b['), 'colour only on a terminal');
});

const usage = [
  { it: 'no -f', args: ['render'], says: /required option '-f, --filename/ },
  { it: 'an unknown output', args: ['render', '-f', 'x', '-o', 'xml'], says: /Allowed choices are tree, json, yaml/ },
  { it: 'an unknown command', args: ['rendr'], says: /unknown command 'rendr'/ },
  { it: 'an unknown option', args: ['render', '-f', 'x', '--rot', 'y'], says: /unknown option '--rot'[\s\S]*--root/ },
];
for (const { it, args, says } of usage) {
  test(`mountlet calls ${it} wrong usage`, () => {
    const { code, stderr } = mountlet(args);
    assert.equal(code, 2);
    assert.match(stderr, says);
  });
}

test('mountlet prints help and version', () => {
  assert.match(mountlet([]).stdout, /render/);
  assert.equal(mountlet(['--help']).code, 0);
  assert.match(mountlet(['render', '--help']).stdout, /--show-secrets/);
  assert.match(mountlet(['--version']).stdout, /^\d+\.\d+\.\d+\n$/);
  assert.match(
    mountlet(['apiserver', 'backup', '--help']).stdout,
    /^Usage: mountlet apiserver backup <file> --data <dir>$/m,
  );
  assert.match(
    mountlet(['apiserver', 'restore', '--help']).stdout,
    /^Usage: mountlet apiserver restore <file> --data <dir>$/m,
  );
  assert.match(
    mountlet(['apiserver', 'rotate-keys', '--help']).stdout,
    /^Usage: mountlet apiserver rotate-keys --data <dir>$/m,
  );
});

test('the examples can be rendered together: none replaces an object of another', (t) => {
  const files = ['deployment', 'hello', 'projected', 'redis', 'secret'].map((name) => `examples/${name}.yaml`);
  const summary = (args: readonly string[]): readonly string[] => {
    const { code, stdout, stderr } = mountlet(['render', '--root', rootDirectory(t), '-o', 'json', '-f', ...args]);
    assert.equal(code, 0, stderr);
    const { items } = JSON.parse(stdout) as { items: Item[] };
    return items.map(({ name, volumes }) => {
      const paths = volumes.flatMap((volume) => volume.files.map(({ path, size }) => `${volume.name}/${path} ${size}`));
      return `${name}: ${paths.join(', ')}`;
    });
  };
  assert.deepEqual(
    summary(['examples/']),
    files.flatMap((file) => summary([file])),
  );
});

test('render says which file it cannot read', () => {
  const { code, stderr } = mountlet(['render', '-f', '/does/not/exist.yaml']);
  assert.equal(code, 1);
  assert.match(stderr, /^error: Cannot read "\/does\/not\/exist\.yaml": there is no such file or directory$/m);
});
