/** The network of pods under `mountlet up`, as kubectl and the pods see it. What a runtime does for it: runtimes/process/networks.test.ts. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from './kubectl-program.ts';
import { pod, programsOfMachine } from './manifests.ts';
import { testedRuntime } from './tested-runtime.ts';
import { UpMachine, freePort, withNode } from './up-program.ts';

const machine = new UpMachine();
before(async () => void (withNode.skip === false && (await machine.start(...testedRuntime().forClients))));
after(() => machine.end());

const port = 8080;
const field = async (name: string, path: string): Promise<string> =>
  await machine.kubectl.ok(['get', 'pod', name, '-o', `jsonpath={${path}}`]);
const getText = async (host: string, at: number): Promise<string> =>
  await (await fetch(`http://${host}:${at}/`, { headers: { connection: 'close' } })).text();

describe('networks', { concurrency: 4 }, () => {
  test('replicas that listen on one port are all ready, each at its own address', withNode, async () => {
    const { kubectl } = machine;
    const probes = {
      startupProbe: { tcpSocket: { port }, periodSeconds: 1, failureThreshold: 60 },
      readinessProbe: { httpGet: { port, path: '/' }, periodSeconds: 1 },
    };
    const names = ['replica-0', 'replica-1', 'replica-2'];
    await kubectl.apply(
      ...names.map((name) => pod(name, { script: testedRuntime().httpServer(port, name), ...probes })),
    );
    await kubectl.ok(['wait', ...names.map((name) => `pod/${name}`), '--for=condition=Ready', '--timeout=120s']);
    const addresses = await Promise.all(names.map((name) => field(name, '.status.podIP')));
    assert.equal(new Set(addresses).size, names.length);
    assert.deepEqual(await Promise.all(addresses.map((address) => getText(address, port))), names);
    assert.equal(await field('replica-0', '.status.podIPs[*].ip'), addresses[0]);
    assert.notEqual(await field('replica-0', '.status.hostIP'), addresses[0]);
    assert.ok((await kubectl.exec('replica-0', 'cat', '/etc/hosts')).endsWith(`${addresses[0]}\treplica-0\n`));
    assert.match(await kubectl.ok('get pods -o wide'), new RegExp(`replica-1 .* ${addresses[1]} `));
  });

  test('a pod knows its addresses, and that of its node, from variables', withNode, async () => {
    const { kubectl } = machine;
    const from = (name: string, fieldPath: string): object => ({ name, valueFrom: { fieldRef: { fieldPath } } });
    const env = [from('OWN', 'status.podIP'), from('ALL', 'status.podIPs'), from('NODE', 'status.hostIP')];
    await kubectl.apply(pod('known', { script: 'echo "$OWN $ALL $NODE"; sleep infinity', env }));
    await kubectl.running('known');
    const [own, host] = [await field('known', '.status.podIP'), await field('known', '.status.hostIP')];
    await eventually(async () => assert.equal(await kubectl.ok('logs known'), `${own} ${own} ${host}\n`));
  });

  test('a pod with a service account may do at the API what its role says, and nothing else', withNode, async () => {
    const { kubectl } = machine;
    const script = `cd /var/run/secrets/kubernetes.io/serviceaccount
      ask() { path=$1; shift; curl -sS --cacert ca.crt -H "Authorization: Bearer $(cat token)" "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT$path" "$@"; }
      ask /version; ask /apis/authentication.k8s.io/v1/selfsubjectreviews -X POST -H 'Content-Type: application/json' -d '{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
      for kind in configmaps secrets; do ask /api/v1/namespaces/default/$kind -o /dev/null -w "$kind %{http_code}\n"; done`;
    const { volumes, volumeMounts } = programsOfMachine;
    await kubectl.ok('create serviceaccount client');
    await kubectl.ok('create role client --verb=list --resource=configmaps');
    await kubectl.ok('create rolebinding client --role=client --serviceaccount=default:client');
    const spec = { restartPolicy: 'Never', volumes, serviceAccountName: 'client' };
    await kubectl.apply(pod('client', { script, volumeMounts }, spec));
    await kubectl.until('pod/client', '{.status.containerStatuses[0].state.terminated.exitCode}', '0');
    const said = await kubectl.ok('logs client');
    assert.match(said, /"gitVersion": *"v1/);
    assert.match(said, /"username": *"system:serviceaccount:default:client"/);
    assert.match(said, /configmaps 200\nsecrets 403\n/);
  });

  test('a hostPort leads to its pod, and hostNetwork is the network of the machine', withNode, async () => {
    const { kubectl } = machine;
    const [hostPort, own] = [await freePort(), await freePort()];
    await kubectl.apply(
      pod('published', {
        script: testedRuntime().httpServer(port, 'published'),
        ports: [{ containerPort: port, hostPort }],
      }),
      pod('shared', { script: testedRuntime().httpServer(own, 'shared') }, { hostNetwork: true }),
    );
    await kubectl.running('published', 'shared');
    await eventually(async () => assert.equal(await getText('127.0.0.1', hostPort), 'published'));
    await eventually(async () => assert.equal(await getText('127.0.0.1', own), 'shared'));
    assert.equal(await field('shared', '.status.podIP'), await field('shared', '.status.hostIP'));
    await kubectl.ok('delete pod published --now');
    await eventually(async () => await assert.rejects(getText('127.0.0.1', hostPort)));
  });
});
