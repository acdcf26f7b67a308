/** `mountlet apply` and `mountlet get` against the embedded API server, as on a machine without kubectl. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { RunningApiServer } from './api-server-program.ts';
import { startApiServerProgram } from './api-server-program.ts';
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
  { args: ['apply', '-f', '-'], input: 'kind: ConfigMap\n', says: /error: <stdin>:1: apiVersion and kind must be set/ },
  { args: ['apply', '-f', '-'], input: '- 1\n', says: /error: <stdin>:1: this is no Kubernetes object/ },
  { args: ['apply', '-f', '-'], input: 'a: [\n', says: /error: <stdin>:\d+:\d+: / },
  { args: ['apply', '-f', '-'], input: '', says: /error: no objects found/ },
  {
    args: ['apply', '-f', '-'],
    input: 'apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n',
    says: /metadata\.name of this ConfigMap must be set/,
  },
  {
    args: ['apply', '-f', '-'],
    input: 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n',
    says: /no matches for kind "Deployment"/,
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

test('without a cluster the error says how to name one', () => {
  const { code, stderr } = mountlet(['get', 'pods'], {
    asOrdinaryUser: true,
    env: { XDG_DATA_HOME: join(directory, 'nothing') },
  });
  assert.equal(code, 1);
  assert.match(stderr, /error: Cannot tell which API server to use: give --kubeconfig/);
});

test('a file that is broken leaves everything as it was', () => {
  const good = join(directory, 'good.yaml');
  const bad = join(directory, 'bad.yaml');
  writeFileSync(good, 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: half}\n');
  writeFileSync(bad, 'a: [\n');
  assert.equal(run(['apply', '-f', good, bad]).code, 1);
  assert.match(run(['get', 'cm', 'half']).stderr, /not found/);
});
