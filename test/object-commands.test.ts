/** `mountlet apply` and `mountlet get` against the embedded API server, as on a machine without kubectl. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { makeCertificateRequest } from '../src/apiserver/identity/certificates.ts';
import { resources } from '../src/apiserver/resources/resources.ts';
import { accepted, collectionOf } from '../src/testing/servers/garbage.ts';
import { AdminClient } from './admin-client.ts';
import { type RunningApiServer, readAuthority, startApiServerProgram } from './api-server-program.ts';
import { eventually } from './kubectl-program.ts';
import type { Ran } from './mountlet-program.ts';
import { mountlet } from './mountlet-program.ts';

const directory = mkdtempSync(join(tmpdir(), 'mountlet-test-'));
let server: RunningApiServer;
before(async () => {
  server = await startApiServerProgram(join(directory, 'data'));
});
after(async () => {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

const run = (args: readonly string[], input = ''): Ran =>
  mountlet([...args, '--kubeconfig', server.kubeconfig], { input });

const manifests = `
apiVersion: v1
kind: Pod
metadata: { name: web, namespace: shop }
spec:
  containers:
    - name: web
      image: nginx
      env: [{ name: POD, valueFrom: { fieldRef: { fieldPath: metadata.name } } }]
      volumeMounts: [{ name: config, mountPath: /etc/config }]
  volumes:
    - { name: config, configMap: { name: web } }
---
apiVersion: v1
kind: List
items:
  - { apiVersion: v1, kind: ConfigMap, metadata: { name: web, namespace: shop, labels: { app: web } }, data: { a: "1" } }
  - { apiVersion: v1, kind: Namespace, metadata: { name: shop } }
`;

test('apply creates namespaces first and pods last, and then finds them unchanged', () => {
  const first = run(['apply', '-f', '-'], manifests);
  assert.deepEqual(
    [first.stdout, first.code],
    ['namespace/shop created\nconfigmap/web created\npod/web created\n', 0],
    first.stderr,
  );
  const again = run(['apply', '-f', '-'], manifests);
  assert.match(again.stdout, /configmap\/web unchanged\npod\/web unchanged/);
  const changed = run(['apply', '-f', '-'], manifests.replace('a: "1"', 'a: "2"'));
  assert.match(changed.stdout, /configmap\/web configured/);
});

test('get prints tables, wide ones, names, JSON and YAML', () => {
  assert.match(run(['get', 'cm', '-n', 'shop', '-l', 'app=web']).stdout, /^NAME {3}DATA {3}AGE\nweb {4}1 {6}\d+s\n$/);
  assert.match(run(['get', 'pods', '-A', '-o', 'wide']).stdout, /^NAMESPACE {3}NAME .*NODE/);
  assert.equal(run(['get', 'configmaps', 'web', '-n', 'shop', '-o', 'name']).stdout, 'configmap/web\n');
  const json = JSON.parse(run(['get', 'cm', 'web', '-n', 'shop', '-o', 'json']).stdout) as { data: object };
  assert.deepEqual(json.data, { a: '2' });
  assert.match(run(['get', 'namespace', 'shop', '-o', 'yaml']).stdout, /^kind: Namespace$/m);
  const empty = run(['get', 'leases', '-n', 'shop']);
  assert.deepEqual([empty.code, empty.stdout, empty.stderr], [0, '', 'No leases found in namespace shop.\n']);
});

const refused = [
  { args: ['get', 'widgets'], says: /error: the server doesn't have a resource type "widgets"; it has .*configmaps/ },
  { args: ['get', 'cm', 'nope'], says: /error: configmaps "nope" not found/ },
  { args: ['get', 'cm', '../secrets'], says: /error: Cannot make a path of the name/ },
  {
    args: ['apply', '-f', '-'],
    input: 'kind: ConfigMap\n',
    says: /error: <stdin>:1:1: apiVersion and kind must be set/,
  },
  { args: ['apply', '-f', '-'], input: '- 1\n', says: /error: <stdin>:1:1: this is no Kubernetes object/ },
  { args: ['apply', '-f', '-'], input: 'a: [\n', says: /error: <stdin>:\d+:\d+: / },
  { args: ['apply', '-f', '-'], input: '', says: /error: no objects found/ },
  {
    args: ['apply', '-f', '-'],
    input: 'apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n',
    says: /metadata\.name of this ConfigMap must be set/,
  },
  {
    args: ['apply', '-f', '-'],
    input: 'apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n',
    says: /^error: <stdin>:1:1: Widget "a": no matches for kind "Widget" in version "example.com\/v1": this API server does not have it\n$/,
  },
];
for (const { args, input = '', says } of refused) {
  test(`${args.join(' ')} with ${JSON.stringify(input)} is refused with a reason`, () => {
    const { code, stderr, stdout } = run(args, input);
    assert.equal(code, 1);
    assert.match(stderr, says);
    assert.equal(stdout, '');
  });
}

const partly = `
apiVersion: example.com/v1
kind: Widget
metadata: { name: odd }
---
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Pod
    metadata: { name: bare }
    spec:
      containers: [{ name: a }]
      restartPolicy: Often
  - apiVersion: v1
    kind: ConfigMap
    metadata: { name: nested }
    data:
      bootstrap.yml:
        server: { port: 80 }
  - { apiVersion: v1, kind: ConfigMap, metadata: { name: kept } }
`;
const refusedParts = [
  '<stdin>:2:1: Widget "odd": no matches for kind "Widget" in version "example.com/v1": this API server does not have it',
  '<stdin>:19:7: ConfigMap "nested": data[bootstrap.yml]: expected a string, got a map (for a file with this text write "bootstrap.yml: |", and the text indented below)',
  '<stdin>:13:20: Pod "bare" is invalid: spec.containers[0].image: Required value',
  '<stdin>:14:7: Pod "bare" is invalid: spec.restartPolicy: Unsupported value: "Often": supported values: "Always", "OnFailure", "Never"',
  '3 of 4 objects were refused; the others are applied',
];

test('what is refused is listed at the end with file and line, and the rest is applied', () => {
  const { code, stdout, stderr } = run(['apply', '-f', '-'], partly);
  assert.deepEqual([code, stdout], [1, 'configmap/kept created\n']);
  assert.equal(stderr, refusedParts.map((line) => `error: ${line}\n`).join(''));
});

test('of a key that stands twice the last counts, as kubectl reads it', () => {
  const twice = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice}\ndata: {a: "1", a: "2"}\n';
  assert.deepEqual(run(['apply', '-f', '-'], twice), { code: 0, stdout: 'configmap/twice created\n', stderr: '' });
  assert.match(run(['get', 'cm', 'twice', '-o', 'yaml']).stdout, /^ {2}a: "?2"?$/m);
});

test('what get prints can be applied, whatever the server wrote into it meanwhile', () => {
  run(['apply', '-f', '-'], 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: again}\ndata: {a: "1"}\n');
  const printed = run(['get', 'cm', 'again', '-o', 'yaml']).stdout;
  assert.doesNotMatch(printed, /managedFields/);
  for (const value of ['2', '3']) {
    // The same file twice: its version of the object is an old one by then.
    const applied = run(['apply', '-f', '-'], printed.replace('a: "1"', `a: "${value}"`));
    assert.deepEqual([applied.stdout, applied.code], ['configmap/again configured\n', 0], applied.stderr);
  }
  const all = run(['get', 'cm', '-A', '-o', 'json']).stdout;
  assert.equal(run(['apply', '-f', '-'], all).code, 0);
});

test('an object of every kind that is served can be applied as the server shows it', async (t) => {
  const bare = await startApiServerProgram(join(directory, 'bare'), {
    args: ['--controllers=serviceaccount-controller', '--scheduler=none'],
  });
  t.after(async () => await bare.stop());
  const admin = await AdminClient.connect(bare);
  t.after(() => admin.close());
  const client: Parameters<typeof accepted>[0] = {
    async send(path, { method, body }) {
      const { code, text } = await admin.request(method, path, JSON.parse(body) as object);
      return { status: code, json: JSON.parse(text) as unknown };
    },
  };
  // No error of the server leads to a certificate, or to a request for one.
  const bundle = {
    metadata: { name: 'seed-clustertrustbundles' },
    spec: { trustBundle: readAuthority(join(directory, 'bare')).certificatePem },
  };
  await admin.ask('POST', '/apis/certificates.k8s.io/v1beta1/clustertrustbundles', bundle);
  const { requestPem } = makeCertificateRequest({ user: 'me', groups: [], hosts: ['me'] });
  const request = {
    metadata: { name: 'seed-certificatesigningrequests' },
    spec: {
      request: Buffer.from(requestPem).toString('base64'),
      signerName: 'example.com/any',
      usages: ['client auth'],
    },
  };
  await admin.ask('POST', '/apis/certificates.k8s.io/v1/certificatesigningrequests', request);
  // Without it no pod is accepted.
  await eventually(async () => await admin.ask('GET', '/api/v1/namespaces/default/serviceaccounts/default'));
  const items: object[] = [];
  for (const resource of resources) {
    const { isStored, verbs, plural } = resource;
    if (!isStored || !verbs.includes('create') || !verbs.includes('patch')) continue;
    await accepted(client, resource);
    items.push(await admin.ask('GET', `${collectionOf(resource)}/seed-${plural}`));
  }
  const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
  const applied = mountlet(['apply', '-f', '-', '--kubeconfig', bare.kubeconfig], { input: list });
  assert.deepEqual([applied.code, applied.stderr], [0, '']);
  assert.equal(applied.stdout.split('\n').length - 1, items.length);
  const again = mountlet(['apply', '-f', '-', '--kubeconfig', bare.kubeconfig], { input: list });
  // An object that is applied in two versions in turn belongs to the last of them.
  const changed = again.stdout.split('\n').filter((line) => !/^$| unchanged$|^(event|clustertrustbundle)\W/.test(line));
  assert.deepEqual(changed, []);
});

test('without a cluster the error says how to name one', () => {
  const { code, stderr } = mountlet(['get', 'pods'], {
    asOrdinaryUser: true,
    env: { XDG_DATA_HOME: join(directory, 'nothing') },
  });
  assert.equal(code, 1);
  assert.match(stderr, /error: Cannot tell which API server to use: start mountlet up, give --kubeconfig, or/);
});

test('a server that does not run is named, and why it does not answer', async () => {
  const stopped = await startApiServerProgram(join(directory, 'stopped'));
  await stopped.stop();
  const { code, stderr } = mountlet(['get', 'pods', '--kubeconfig', stopped.kubeconfig]);
  assert.equal(code, 1);
  assert.match(stderr, /^error: Cannot connect to "https:\/\/127\.0\.0\.1:\d+": nothing listens there$/m);
});

test('a file that is broken leaves everything as it was', () => {
  const good = join(directory, 'good.yaml');
  const bad = join(directory, 'bad.yaml');
  writeFileSync(good, 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: half}\n');
  writeFileSync(bad, 'a: [\n');
  assert.equal(run(['apply', '-f', good, bad]).code, 1);
  assert.match(run(['get', 'cm', 'half']).stderr, /not found/);
});
