/** The kinds that most charts have besides their workloads, with a real kubectl: made, shown, and answered honestly. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { AdminClient } from './admin-client.ts';
import { type RunningApiServer, startApiServerProgram } from './api-server-program.ts';
import { Kubectl, noKubectl } from './kubectl-program.ts';

const directory = mkdtempSync(join(tmpdir(), 'mountlet-test-'));
const options = { skip: noKubectl };
let server: RunningApiServer;
let kubectl: Kubectl;

before(async () => {
  server = await startApiServerProgram(join(directory, 'data'));
  kubectl = new Kubectl(server.kubeconfig);
});
after(async () => {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

const created: readonly {
  readonly args: string;
  readonly warns?: RegExp;
  readonly shows: string;
  readonly is: RegExp;
}[] = [
  {
    args: 'create ingress web --rule=web.example.com/*=web:80 --class=nginx',
    warns:
      /^Warning: mountlet stores this Ingress, but nothing here acts on it: no request from outside is routed by it$/m,
    shows: 'get ing web --no-headers',
    is: /^web +nginx +web\.example\.com +80 +\d+s\n$/,
  },
  {
    args: 'create quota few --hard=pods=2,limits.cpu=1',
    warns: /stores this ResourceQuota, but nothing here acts on it/,
    shows: 'get quota few --no-headers',
    is: /^few +pods: 0\/2 +limits.cpu: 0\/1 +\d+s\n$/,
  },
  {
    args: 'create poddisruptionbudget web --selector=app=web --min-available=50%',
    shows: 'get pdb web --no-headers',
    is: /^web +50% +N\/A +0 +\d+s\n$/,
  },
  {
    args: 'create priorityclass high --value=1000 --description=x',
    shows: 'get pc --no-headers',
    is: /^high +1000 +false +\d+s +PreemptLowerPriority\nsystem-cluster-critical +2000000000 .*\nsystem-node-critical +2000001000 .*\n$/,
  },
];
for (const { args, warns, shows, is } of created) {
  test(`kubectl ${args}`, options, async () => {
    const ran = await kubectl.run(args.split(' '));
    assert.equal(ran.code, 0, ran.stderr);
    if (warns === undefined) assert.equal(ran.stderr, '');
    else assert.match(ran.stderr, warns);
    assert.match((await kubectl.run(shows.split(' '))).stdout, is);
  });
}

const applied = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: web }
spec: { podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ namespaceSelector: {} }], ports: [{ port: 80, protocol: TCP }] }] }
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: { name: web }
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: web }
  maxReplicas: 3
---
apiVersion: v1
kind: LimitRange
metadata: { name: bounds }
spec: { limits: [{ type: Pod, max: { cpu: "1" } }] }
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: { name: nginx }
spec: { controller: example.com/nginx }
`;

test(
  'a chart with the rest is applied, each kind that has no effect says so, and is unchanged when applied again',
  options,
  async () => {
    const first = await kubectl.run(['apply', '-f', '-'], { input: applied });
    assert.equal(first.code, 0, first.stderr);
    assert.match(
      first.stderr,
      /stores this NetworkPolicy, but nothing here acts on it: all traffic of pods is allowed/,
    );
    assert.match(first.stderr, /stores this HorizontalPodAutoscaler, .*: it changes no number of replicas/);
    assert.match(first.stderr, /stores this LimitRange/);
    assert.doesNotMatch(first.stderr, /IngressClass/);
    const again = await kubectl.run(['apply', '-f', '-'], { input: applied });
    assert.equal(again.stdout.match(/unchanged/g)?.length, 4, again.stdout);
    const shown = (await kubectl.run('get hpa,netpol --no-headers'.split(' '))).stdout;
    assert.match(shown, /autoscaler.autoscaling\/web +Deployment\/web +cpu: <unknown>\/80% +1 +3 +0 /);
    assert.match(shown, /networkpolicy.networking.k8s.io\/web +app=web /);
  },
);

const pod = (spec: object): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { generateName: 'p-' },
    spec: { containers: [{ name: 'a', image: 'b' }], ...spec },
  });
const priorities: readonly {
  readonly it: string;
  readonly spec: object;
  readonly has?: string;
  readonly says?: RegExp;
}[] = [
  { it: 'a class gives pods its number', spec: { priorityClassName: 'high' }, has: 'high 1000 PreemptLowerPriority' },
  {
    it: 'classes of the system are there',
    spec: { priorityClassName: 'system-node-critical' },
    has: 'system-node-critical 2000001000 PreemptLowerPriority',
  },
  { it: 'without a class the priority is zero', spec: {}, has: ' 0 PreemptLowerPriority' },
  {
    it: 'an unknown class is refused',
    spec: { priorityClassName: 'none' },
    says: /pods "p-\w*" is forbidden: no PriorityClass with name none was found/,
  },
  {
    it: 'a number of its own is refused',
    spec: { priority: 7 },
    says: /the integer value of priority \(7\) must not be provided in pod spec; priority admission controller computed 0 /,
  },
];
for (const { it, spec, has, says } of priorities) {
  test(it, options, async () => {
    const shown = 'jsonpath={.spec.priorityClassName} {.spec.priority} {.spec.preemptionPolicy}';
    const ran = await kubectl.run(['create', '-f', '-', '-o', shown], { input: pod(spec) });
    if (says === undefined) assert.equal(ran.stdout, has, ran.stderr);
    else assert.match(ran.stderr, says);
  });
}

test('one class is the default, and those of the system stay', options, async () => {
  assert.equal((await kubectl.run('create pc usual --value=5 --global-default'.split(' '))).code, 0);
  const second = await kubectl.run('create pc other --value=6 --global-default'.split(' '));
  assert.match(second.stderr, /PriorityClass usual is already marked as default. Only one default can exist/);
  const ran = await kubectl.run(['create', '-f', '-', '-o', 'jsonpath={.spec.priorityClassName} {.spec.priority}'], {
    input: pod({}),
  });
  assert.equal(ran.stdout, 'usual 5');
  await kubectl.run('delete pc usual'.split(' '));
  const kept = await kubectl.run('delete pc system-node-critical'.split(' '));
  assert.match(kept.stderr, /this is a system priority class and cannot be deleted/);
});

/** What the caches of kube-controller-manager and kube-scheduler of 1.26 to 1.36 list and watch before either does anything. */
const waitedFor: Readonly<Record<string, string>> = {
  '/api/v1':
    'configmaps endpoints events limitranges namespaces nodes persistentvolumeclaims persistentvolumes pods podtemplates ' +
    'replicationcontrollers resourcequotas secrets serviceaccounts services',
  '/apis/admissionregistration.k8s.io/v1':
    'mutatingwebhookconfigurations validatingadmissionpolicies validatingadmissionpolicybindings validatingwebhookconfigurations',
  '/apis/admissionregistration.k8s.io/v1beta1': 'validatingadmissionpolicies validatingadmissionpolicybindings',
  '/apis/apiextensions.k8s.io/v1': 'customresourcedefinitions',
  '/apis/apps/v1': 'controllerrevisions daemonsets deployments replicasets statefulsets',
  '/apis/autoscaling/v2': 'horizontalpodautoscalers',
  '/apis/batch/v1': 'cronjobs jobs',
  '/apis/certificates.k8s.io/v1': 'certificatesigningrequests',
  '/apis/certificates.k8s.io/v1beta1': 'clustertrustbundles',
  '/apis/coordination.k8s.io/v1': 'leases',
  '/apis/discovery.k8s.io/v1': 'endpointslices',
  '/apis/flowcontrol.apiserver.k8s.io/v1': 'flowschemas prioritylevelconfigurations',
  '/apis/flowcontrol.apiserver.k8s.io/v1beta3': 'flowschemas prioritylevelconfigurations',
  '/apis/networking.k8s.io/v1': 'ingressclasses ingresses ipaddresses networkpolicies servicecidrs',
  '/apis/networking.k8s.io/v1beta1': 'ipaddresses servicecidrs',
  '/apis/node.k8s.io/v1': 'runtimeclasses',
  '/apis/policy/v1': 'poddisruptionbudgets',
  '/apis/rbac.authorization.k8s.io/v1': 'clusterrolebindings clusterroles rolebindings roles',
  '/apis/resource.k8s.io/v1': 'deviceclasses resourceclaims resourceclaimtemplates resourceslices',
  '/apis/resource.k8s.io/v1beta1': 'deviceclasses resourceclaims resourceclaimtemplates resourceslices',
  '/apis/resource.k8s.io/v1beta2': 'deviceclasses resourceclaims resourceclaimtemplates resourceslices',
  '/apis/scheduling.k8s.io/v1': 'priorityclasses',
  '/apis/storage.k8s.io/v1':
    'csidrivers csinodes csistoragecapacities storageclasses volumeattachments volumeattributesclasses',
};

test('whatever a real controller manager or scheduler waits for can be listed and watched', async (t) => {
  const client = await AdminClient.connect(server);
  t.after(() => client.close());
  const paths = Object.entries(waitedFor).flatMap(([group, names]) =>
    names.split(' ').map((plural) => `${group}/${plural}`),
  );
  for (const path of paths) {
    const { code, text } = await client.request('GET', `${path}?limit=500&resourceVersion=0`);
    assert.equal(code, 200, `${path}: ${text}`);
    const { kind, items, metadata } = JSON.parse(text) as {
      kind: string;
      items: object[];
      metadata: { resourceVersion: string };
    };
    assert.ok(kind.endsWith('List') && Array.isArray(items), path);
    const watch = await client.watch(
      `${path}?watch=true&allowWatchBookmarks=true&resourceVersion=${metadata.resourceVersion}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan`,
    );
    let seen = '';
    for await (const piece of watch.setEncoding('utf8')) {
      seen += String(piece);
      if (seen.includes('"k8s.io/initial-events-end":"true"')) break;
    }
    assert.match(seen, /initial-events-end/, path);
  }
  const found = await client.request(
    'GET',
    '/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication',
  );
  assert.equal(found.code, 200, found.text);
});

test('what others wait for is there, empty, and announced to no client', options, async () => {
  const [namespaced, watched] = [
    '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims',
    '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations',
  ];
  const list = JSON.parse((await kubectl.run(['get', '--raw', `${namespaced}?limit=500`])).stdout) as object;
  assert.deepEqual(
    { ...list, metadata: {} },
    { kind: 'ResourceClaimList', apiVersion: 'resource.k8s.io/v1', metadata: {}, items: [] },
  );
  const watch = await kubectl.run([
    'get',
    '--raw',
    `${watched}?watch=true&timeoutSeconds=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan`,
  ]);
  assert.match(watch.stdout, /"type":"BOOKMARK".*initial-events-end/);
  for (const name of ['crd', 'servicecidr']) {
    assert.match((await kubectl.run(['get', name])).stderr, /the server doesn't have a resource type "\w+"/);
  }
  const refused = await kubectl.run(['create', '--raw', namespaced, '-f', '-'], { input: '{}' });
  assert.match(refused.stderr, /the server does not allow this method/);
  const groups = (await kubectl.run('api-versions'.split(' '))).stdout;
  assert.doesNotMatch(groups, /resource.k8s.io|admissionregistration|apiextensions|flowcontrol/);
});

test('autoscalers are written as autoscaling/v2 alone', options, async () => {
  const old = { apiVersion: 'autoscaling/v1', kind: 'HorizontalPodAutoscaler', metadata: { name: 'old' }, spec: {} };
  const refused = await kubectl.run(['apply', '-f', '-'], { input: JSON.stringify(old) });
  assert.match(refused.stderr, /no matches for kind "HorizontalPodAutoscaler" in version "autoscaling\/v1"/);
});

test('kinds without rules are kept as they came', options, async () => {
  const input = JSON.stringify({
    apiVersion: 'storage.k8s.io/v1',
    kind: 'VolumeAttributesClass',
    metadata: { name: 'fast' },
    driverName: 'example.com',
    parameters: { iops: '100' },
  });
  assert.equal((await kubectl.run(['create', '-f', '-'], { input })).stderr, '');
  assert.match((await kubectl.run('get vac --no-headers'.split(' '))).stdout, /^fast +example.com +\d+s\n$/);
  const unknown = await kubectl.run(['apply', '-f', '-'], { input: input.replace('driverName', 'driver') });
  assert.match(unknown.stderr, /unknown field "driver"/);
});
