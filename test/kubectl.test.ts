/** Real kubectl against the real program: the best critic of an API server. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { eventually, noKubectl, withoutCollector } from './kubectl-program.ts';

const project = fileURLToPath(new URL('../../', import.meta.url));
const options = { skip: noKubectl };

let directory = '';
let server: ChildProcess | undefined;

before(async () => {
  if (noKubectl !== false) return;
  directory = mkdtempSync(join(tmpdir(), 'mountlet-test-'));
  server = spawn(
    process.execPath,
    [join(project, 'bin', 'mountlet.js'), 'apiserver', '--data', directory, '--listen', '127.0.0.1:0'],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const lines = createInterface({ input: server.stdout ?? process.stdin });
  await Promise.race([once(lines, 'line'), once(server, 'exit').then(() => assert.fail('the server ended'))]);
});

after(async () => {
  if (server === undefined || server.exitCode !== null) return;
  const ended = once(server, 'exit');
  server.kill('SIGTERM');
  const [code] = (await ended) as [number | null];
  rmSync(directory, { recursive: true, force: true });
  assert.equal(code, 0, 'SIGTERM ends the server cleanly');
});

interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function run(
  args: readonly string[],
  { input = '', env = {} }: { input?: string; env?: Record<string, string> } = {},
): Ran {
  const { status, stdout, stderr } = spawnSync('kubectl', args, {
    input,
    encoding: 'utf8',
    timeout: 120_000,
    env: {
      PATH: process.env['PATH'],
      HOME: directory,
      KUBECONFIG: join(directory, 'kubeconfig'),
      ...withoutCollector,
      ...env,
    },
  });
  return { code: status, stdout, stderr };
}

/** Arguments separated by blanks; what fails is shown. */
function kubectl(line: string, extra: { input?: string; env?: Record<string, string> } = {}): string {
  const { code, stdout, stderr } = run(line.split(' '), extra);
  assert.equal(code, 0, `kubectl ${line}\n${stdout}${stderr}`);
  return stdout;
}

function fails(line: string, says: RegExp, extra: { input?: string } = {}): void {
  const { code, stdout, stderr } = run(line.split(' '), extra);
  assert.notEqual(code, 0, `kubectl ${line} succeeded: ${stdout}`);
  assert.match(stderr, says);
}

/** A namespace for one test, so that tests do not see each other's objects. */
let namespaces = 0;
function namespace(): string {
  namespaces += 1;
  const name = `t${namespaces}`;
  kubectl(`create namespace ${name}`);
  return name;
}

const configMap = (name: string, data: Record<string, string>): string =>
  JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data });

test('kubectl knows the server: version, api-resources, api-versions, health', options, () => {
  assert.match(kubectl('version'), /Server Version: v1\./);
  const resources = kubectl('api-resources');
  for (const line of [
    /^configmaps +cm +v1 +true +ConfigMap$/m,
    /^pods +po +v1 +true +Pod$/m,
    /^leases +coordination\.k8s\.io\/v1 +true +Lease$/m,
  ]) {
    assert.match(resources, line);
  }
  assert.match(kubectl('api-versions'), /^events\.k8s\.io\/v1$/m);
  assert.equal(kubectl('get --raw /healthz'), 'ok');
  assert.match(kubectl('cluster-info'), /Kubernetes control plane.*is running at/);
});

test('kubectl create configmap and secret from literals and files, get in every output', options, () => {
  const ns = namespace();
  writeFileSync(join(directory, 'redis.conf'), 'port=6379\n');
  writeFileSync(join(directory, 'binary'), Buffer.from([0, 255, 1, 254]));
  assert.equal(
    kubectl(
      `create configmap web -n ${ns} --from-literal=a=b --from-file=${directory}/redis.conf --from-file=${directory}/binary`,
    ),
    'configmap/web created\n',
  );
  assert.equal(kubectl(`get cm web -n ${ns} -o jsonpath={.data.a}`), 'b');
  assert.equal(
    kubectl(`get cm web -n ${ns} -o jsonpath={.binaryData.binary}`),
    Buffer.from([0, 255, 1, 254]).toString('base64'),
  );
  assert.match(kubectl(`get cm web -n ${ns}`), /^NAME +DATA +AGE\nweb +3 +\d+s\n$/);
  assert.equal(kubectl(`get cm web -n ${ns} -o name`), 'configmap/web\n');
  assert.match(kubectl(`get cm web -n ${ns} -o yaml`), /^kind: ConfigMap$/m);
  assert.match(kubectl(`get cm -A --sort-by=.metadata.name -o wide`), /kube-root-ca\.crt/);
  assert.match(kubectl(`get cm web -n ${ns} --show-labels`), /<none>/);
  assert.match(kubectl(`get cm web -n ${ns} -o custom-columns=N:.metadata.name,A:.data.a`), /^N +A\nweb +b\n$/);
  assert.equal(kubectl(`create secret generic s -n ${ns} --from-literal=password=x`), 'secret/s created\n');
  assert.match(kubectl(`get secret s -n ${ns}`), /^s +Opaque +1 +/m);
  kubectl(
    `create secret docker-registry pull -n ${ns} --docker-server=quay.io --docker-username=u --docker-password=p`,
  );
  assert.match(kubectl(`get secret pull -n ${ns} -o jsonpath={.type}`), /dockerconfigjson/);
  fails(`create configmap web -n ${ns}`, /configmaps "web" already exists/);
  fails(`get cm nope -n ${ns}`, /configmaps "nope" not found/);
});

test('kubectl create secret tls', options, (t) => {
  if (spawnSync('openssl', ['version']).status !== 0) return t.skip('needs openssl');
  const ns = namespace();
  spawnSync('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-subj',
    '/CN=x',
    '-keyout',
    join(directory, 'tls.key'),
    '-out',
    join(directory, 'tls.crt'),
  ]);
  kubectl(`create secret tls t -n ${ns} --cert=${directory}/tls.crt --key=${directory}/tls.key`);
  assert.match(kubectl(`get secret t -n ${ns}`), /^t +kubernetes\.io\/tls +2 +/m);
});

test('kubectl get pages with --chunk-size and watches with -w', options, async () => {
  const ns = namespace();
  for (const name of ['a', 'b', 'c', 'd', 'e']) kubectl(`create -n ${ns} -f -`, { input: configMap(name, {}) });
  const names = kubectl(`get cm -n ${ns} --chunk-size=2 -o name`).trim().split('\n');
  assert.deepEqual(
    names,
    ['a', 'b', 'c', 'd', 'e', 'kube-root-ca.crt'].map((name) => `configmap/${name}`),
  );
  const watch = spawn('kubectl', ['get', 'cm', 'a', '-n', ns, '-w', '-o', 'jsonpath={.data.k}{"\\n"}'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'], HOME: directory, KUBECONFIG: join(directory, 'kubeconfig') },
  });
  const seen: string[] = [];
  const ended = once(watch, 'exit');
  const lines = createInterface({ input: watch.stdout });
  const first = once(lines, 'line');
  lines.on('line', (line) => seen.push(line));
  await first;
  const second = once(lines, 'line');
  kubectl(`patch cm a -n ${ns} --type=merge -p {"data":{"k":"changed"}}`);
  await second;
  watch.kill('SIGKILL');
  await ended;
  assert.deepEqual(seen, ['', 'changed']);
});

test('kubectl apply creates, leaves alone, configures and removes keys', options, () => {
  const ns = namespace();
  const apply = (data: Record<string, string>): string =>
    kubectl(`apply -n ${ns} -f -`, { input: configMap('web', data) });
  assert.equal(apply({ a: '1', b: '2' }), 'configmap/web created\n');
  assert.equal(apply({ a: '1', b: '2' }), 'configmap/web unchanged\n');
  assert.equal(apply({ a: '9' }), 'configmap/web configured\n');
  assert.equal(kubectl(`get cm web -n ${ns} -o jsonpath={.data}`), '{"a":"9"}');
  const diff = run(['diff', '-n', ns, '-f', '-'], { input: configMap('web', { a: '10' }) });
  assert.equal(diff.code, 1, diff.stderr);
  assert.match(diff.stdout, /^\+ {2}a: "10"$/m);
  fails(`apply -n ${ns} -f -`, /unknown field "dta"/, {
    input: '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"dta":{}}',
  });
});

test('kubectl apply --server-side keeps track of owners and reports conflicts', options, () => {
  const ns = namespace();
  const input = configMap('web', { a: '1' });
  kubectl(`apply --server-side --field-manager=one -n ${ns} -f -`, { input });
  kubectl(`apply --server-side --field-manager=two -n ${ns} -f -`, { input: configMap('web', { b: '2' }) });
  assert.equal(kubectl(`get cm web -n ${ns} -o jsonpath={.data}`), '{"a":"1","b":"2"}');
  const conflicting = configMap('web', { a: '3' });
  fails(`apply --server-side --field-manager=two -n ${ns} -f -`, /conflict with "one".*\.data\.a/s, {
    input: conflicting,
  });
  kubectl(`apply --server-side --force-conflicts --field-manager=two -n ${ns} -f -`, { input: conflicting });
  assert.equal(kubectl(`get cm web -n ${ns} -o jsonpath={.data}`), '{"a":"3"}');
});

test('a pod is applied by the client, then by the server, then by the client again', options, () => {
  const ns = namespace();
  kubectl(`wait --for=create serviceaccount/default -n ${ns} --timeout=100s`);
  const pod = (image: string): string =>
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'web', labels: { app: 'web' } },
      spec: {
        containers: [
          {
            name: 'main',
            image,
            resources: { requests: { cpu: '100m', memory: '1Gi' } },
            ports: [{ containerPort: 80 }],
            env: [{ name: 'A', value: 'b' }],
            volumeMounts: [{ name: 'tmp', mountPath: '/tmp' }],
          },
        ],
        volumes: [{ name: 'tmp', emptyDir: {} }],
        // With a volume more than it knows of, kubectl orders them anew each time.
        automountServiceAccountToken: false,
      },
    });
  const apply = (image: string, ...words: readonly string[]): string =>
    kubectl(`apply ${words.join(' ')} -n ${ns} -f -`.replace('  ', ' '), { input: pod(image) });
  const image = (): string => kubectl(`get pod web -n ${ns} -o jsonpath={.spec.containers[*].image}`);
  assert.equal(apply('one:1'), 'pod/web created\n');
  assert.equal(apply('two:1', '--server-side', '--force-conflicts'), 'pod/web serverside-applied\n');
  assert.equal(image(), 'two:1');
  const spec = kubectl(`get pod web -n ${ns} -o jsonpath={.spec}`);
  // kubectl keeps what it applied in another form than the server does: `"annotations":{}`.
  assert.equal(apply('two:1'), 'pod/web configured\n');
  assert.equal(apply('two:1'), 'pod/web unchanged\n');
  assert.equal(kubectl(`get pod web -n ${ns} -o jsonpath={.spec}`), spec);
  assert.equal(apply('three:1'), 'pod/web configured\n');
  assert.equal(image(), 'three:1');
  assert.equal(apply('four:1', '--server-side', '--force-conflicts'), 'pod/web serverside-applied\n');
  assert.equal(apply('four:1', '--server-side'), 'pod/web serverside-applied\n');
  assert.equal(image(), 'four:1');
});

test('kubectl edit, patch, replace, label and annotate', options, () => {
  const ns = namespace();
  const editor = join(directory, 'editor.sh');
  writeFileSync(editor, '#!/bin/sh\nsed -i "s/k: old/k: new/" "$1"\n');
  chmodSync(editor, 0o755);
  kubectl(`create configmap web -n ${ns} --from-literal=k=old`);
  assert.match(kubectl(`edit cm web -n ${ns}`, { env: { KUBE_EDITOR: editor } }), /edited/);
  assert.equal(kubectl(`get cm web -n ${ns} -o jsonpath={.data.k}`), 'new');
  kubectl(`patch cm web -n ${ns} -p {"data":{"s":"strategic"}}`);
  kubectl(`patch cm web -n ${ns} --type=merge -p {"data":{"m":"merge"}}`);
  kubectl(`patch cm web -n ${ns} --type=json -p [{"op":"add","path":"/data/j","value":"json"}]`);
  assert.equal(
    kubectl(`get cm web -n ${ns} -o jsonpath={.data}`),
    '{"j":"json","k":"new","m":"merge","s":"strategic"}',
  );
  kubectl(`label cm web -n ${ns} tier=front`);
  kubectl(`annotate cm web -n ${ns} note=hello`);
  assert.match(kubectl(`get cm -n ${ns} -l tier=front -o name`), /^configmap\/web\n$/);
  const object = JSON.parse(kubectl(`get cm web -n ${ns} -o json`)) as { data: object };
  assert.match(kubectl(`replace -f -`, { input: JSON.stringify({ ...object, data: { only: 'this' } }) }), /replaced/);
  assert.equal(kubectl(`get cm web -n ${ns} -o jsonpath={.data}`), '{"only":"this"}');
  fails(`replace -f -`, /the object has been modified/, { input: JSON.stringify({ ...object, data: { stale: 'x' } }) });
});

test('kubectl delete by name, label, all; waits for finalizers', options, async () => {
  const ns = namespace();
  for (const name of ['a', 'b', 'c']) kubectl(`create configmap ${name} -n ${ns}`);
  kubectl(`label cm a -n ${ns} x=y`);
  assert.match(kubectl(`delete cm -l x=y -n ${ns}`), /^configmap "a" deleted( from \S+ namespace)?\n$/);
  kubectl(`delete cm --all -n ${ns}`);
  kubectl(`wait --for=create cm/kube-root-ca.crt -n ${ns} --timeout=100s`);
  kubectl(`create configmap held -n ${ns}`);
  kubectl(`patch cm held -n ${ns} --type=merge -p {"metadata":{"finalizers":["example.com/hold"]}}`);
  assert.match(kubectl(`delete cm held -n ${ns} --wait=false`), /deleted/);
  assert.match(kubectl(`get cm held -n ${ns} -o jsonpath={.metadata.deletionTimestamp}`), /^\d{4}-/);
  kubectl(`patch cm held -n ${ns} --type=merge -p {"metadata":{"finalizers":null}}`);
  fails(`get cm held -n ${ns}`, /not found/);
  kubectl(`delete namespace ${ns}`);
  fails(`get namespace ${ns}`, /not found/);
});

test('kubectl immutable objects, key rules and namespaces are guarded', options, () => {
  const ns = namespace();
  kubectl(`create -n ${ns} -f -`, {
    input: JSON.stringify({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'fixed' },
      immutable: true,
      data: { a: '1' },
    }),
  });
  fails(`patch cm fixed -n ${ns} --type=merge -p {"data":{"a":"2"}}`, /field is immutable when `immutable` is set/);
  fails(`create -n ${ns} -f -`, /a valid config key must consist of/, { input: configMap('bad', { 'a/b': 'x' }) });
  fails(`create configmap x -n nowhere`, /namespaces "nowhere" not found/);
  fails('delete namespace default', /this namespace may not be deleted/);
});

test('kubectl explain, describe, events, auth and tokens', options, () => {
  const ns = namespace();
  assert.match(kubectl('explain pod.spec.volumes.configMap'), /FIELD|FIELDS/);
  assert.match(kubectl('explain configmap'), /binaryData/);
  kubectl(`create configmap web -n ${ns} --from-literal=a=b`);
  assert.match(kubectl(`describe cm web -n ${ns}`), /^a:\n----\nb\n/m);
  assert.match(kubectl(`describe namespace ${ns}`), /Status: +Active/);
  kubectl(`events -n ${ns}`);
  assert.equal(kubectl('auth can-i create pods').trim(), 'yes');
  assert.match(kubectl('auth whoami'), /system:masters/);
  kubectl(`create serviceaccount app -n ${ns}`);
  const token = kubectl(`create token app -n ${ns} --duration=600s`).trim();
  const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { sub: string };
  assert.equal(claims.sub, `system:serviceaccount:${ns}:app`);
  fails(`create token app -n ${ns} --duration=30s`, /may not specify a duration less than 10 minutes/);
});

test('kubectl run makes a pod that waits for a node and says why', options, async () => {
  const ns = namespace();
  kubectl(`wait --for=create serviceaccount/default -n ${ns} --timeout=100s`);
  kubectl(`run web --image=nginx -n ${ns}`);
  assert.match(kubectl(`get pods -n ${ns}`), /^web +0\/1 +Pending +0 +/m);
  const pod = JSON.parse(kubectl(`get pod web -n ${ns} -o json`)) as {
    spec: { volumes: { name: string }[]; serviceAccountName: string };
  };
  assert.match(pod.spec.volumes[0]?.name ?? '', /^kube-api-access-[a-z0-9]{5}$/);
  assert.equal(pod.spec.serviceAccountName, 'default');
  kubectl(`wait --for=jsonpath={.status.conditions[0].reason}=Unschedulable pod/web -n ${ns} --timeout=100s`);
  await eventually(() => assert.match(kubectl(`describe pod web -n ${ns}`), /FailedScheduling/));
  kubectl(`delete pod web -n ${ns} --now`);
});

test('the kubeconfig is private and names the server by its address', options, () => {
  const text = readFileSync(join(directory, 'kubeconfig'), 'utf8');
  assert.match(text, /"server": "https:\/\/127\.0\.0\.1:\d+"/);
  assert.equal(statSync(join(directory, 'kubeconfig')).mode & 0o7777, 0o600);
  assert.ok(!text.includes('insecure-skip-tls-verify'));
});
