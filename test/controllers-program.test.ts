/** The control plane in processes of its own: an API server without loops, `mountlet controllers` beside it, and a node that joins. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { AgentMachine } from './agent-machine.ts';
import { type RunningApiServer, startApiServerProgram, writeNodeKubeconfig } from './api-server-program.ts';
import { Kubectl, eventually, noKubectl } from './kubectl-program.ts';
import { mountAt, pod } from './manifests.ts';
import { mountlet } from './mountlet-program.ts';
import { UpMachine, withNode } from './up-program.ts';

const withKubectl = { skip: noKubectl };

interface Scene {
  readonly machine: AgentMachine;
  readonly directory: string;
  readonly server: RunningApiServer;
  readonly kubectl: Kubectl;
  readonly controllers: (...args: readonly string[]) => ReturnType<AgentMachine['spawn']>;
}

async function scene(t: TestContext): Promise<Scene> {
  const machine = new AgentMachine(t);
  const directory = machine.directory();
  const server = await startApiServerProgram(join(directory, 'data'), {
    args: ['--controllers=none', '--scheduler=none'],
  });
  machine.own(server.process);
  return {
    machine,
    directory,
    server,
    kubectl: new Kubectl(server.kubeconfig),
    controllers: (...args) => machine.spawn(['controllers', '--kubeconfig', server.kubeconfig, ...args]),
  };
}

const claim = (name: string): object => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
});

test(
  'a claim is provisioned, used and deleted with API server, controllers and node in three processes',
  withNode,
  async (t) => {
    const { machine, directory, server, kubectl, controllers } = await scene(t);
    // An API server alone makes namespaces, its Service and what servers beside it need; the rest is left to others.
    assert.match(await kubectl.ok('get namespaces,services -o name'), /kube-system[^]*service\/kubernetes/);
    const made = await kubectl.ok('get serviceaccounts,configmaps -A -o name');
    assert.equal(made, 'configmap/extension-apiserver-authentication\n');
    const loops = controllers('--controllers=*,garbage-collector-controller');
    assert.match(await loops.line(), /^running on https:.*garbage-collector-controller.*kube-scheduler$/);
    await eventually(async () => assert.match(await kubectl.ok('get sa,cm -o name'), /default[^]*kube-root-ca/));
    const root = join(directory, 'node');
    const agent = await machine.start([
      '--kubeconfig',
      server.kubeconfig,
      '--root-dir',
      root,
      '--register-with-taints=',
      '--local-path',
    ]);
    const directories = (): readonly string[] => {
      const path = join(root, 'local-path');
      return existsSync(path) ? readdirSync(path) : [];
    };
    await eventually(async () => assert.match(await kubectl.ok('get storageclass'), /local-path \(default\)/));
    const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }];
    const container = { script: 'echo kept >/data/file; sleep 1000', volumeMounts: [mountAt('data', '/data')] };
    await kubectl.apply(claim('data'), pod('web', container, { volumes }));
    await kubectl.running('web');
    await kubectl.until('pvc/data', '{.status.phase}', 'Bound');
    const name = await kubectl.ok('get pvc data -o jsonpath={.spec.volumeName}');
    assert.deepEqual(directories(), [name]);
    await eventually(() => assert.equal(readFileSync(join(root, 'local-path', name, 'file'), 'utf8'), 'kept\n'));
    // The claim first: it waits for its pod, and its volume for it.
    await kubectl.ok('delete pvc data --wait=false');
    assert.equal(await kubectl.ok('get pvc data -o jsonpath={.status.phase}'), 'Bound');
    await kubectl.ok('delete pod web --now');
    await kubectl.ok(`wait pvc/data pv/${name} --for=delete --timeout=100s`);
    await eventually(() => assert.deepEqual(directories(), []));
    await kubectl.ok('create namespace shop');
    await kubectl.ok('create configmap web -n shop');
    await kubectl.ok('delete namespace shop --timeout=100s');
    loops.child.kill('SIGTERM');
    assert.equal(await loops.ended, 0, loops.stderr());
    const spec = await kubectl.ok('get lease mountlet-controllers -n kube-system -o jsonpath={.spec.holderIdentity}');
    assert.equal(spec, '', 'the lease is free for the next');
    agent.child.kill('SIGTERM');
    assert.equal(await agent.ended, 0, agent.stderr());
    await server.stop();
  },
);

test(
  'of two one works; when it is killed or stopped the other takes over, and two never work',
  withKubectl,
  async (t) => {
    const { kubectl, controllers } = await scene(t);
    const first = controllers();
    await first.line();
    const second = controllers();
    const holder = (): Promise<string> =>
      kubectl.ok('get lease mountlet-controllers -n kube-system -o jsonpath={.spec.holderIdentity}');
    const before = await holder();
    await eventually(() => assert.match(second.stderr(), /standing by: .* leads/));
    /** A namespace gets its account exactly while somebody works. */
    const works = async (namespace: string): Promise<void> => {
      await kubectl.ok(`create namespace ${namespace}`);
      await eventually(() => kubectl.ok(`get serviceaccount default -n ${namespace}`));
    };
    await works('one');
    first.child.kill('SIGKILL');
    await first.ended;
    assert.match(await second.line(), /^running on /);
    assert.notEqual(await holder(), before);
    await works('two');
    // A process that stood still for too long writes nothing when it goes on, and ends.
    const third = controllers();
    await eventually(() => assert.match(third.stderr(), /standing by/));
    second.child.kill('SIGSTOP');
    await third.line();
    const now = await holder();
    second.child.kill('SIGCONT');
    assert.equal(await second.ended, 1);
    await eventually(() => assert.match(second.stderr(), /error: Lost the lease "kube-system\/mountlet-controllers"/));
    assert.equal(await holder(), now);
    await works('three');
    assert.equal(
      await kubectl.ok('get lease mountlet-controllers -n kube-system -o jsonpath={.spec.leaseTransitions}'),
      '2',
    );
  },
);

test('mountlet up leaves claims and pods to controllers beside it, and still makes volumes', withNode, async (t) => {
  const up = new UpMachine();
  t.after(() => up.end());
  const { kubectl } = await up.start('--node-name', 'here', '--controllers=none', '--scheduler=none');
  const machine = new AgentMachine(t);
  await kubectl.ok('create serviceaccount default');
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }];
  await kubectl.apply(claim('data'), pod('web', { script: 'sleep 1000' }, { volumes }));
  assert.equal(await kubectl.ok('get pod web -o jsonpath={.spec.nodeName}'), '');
  assert.equal(await kubectl.ok('get events --field-selector involvedObject.name=data -o name'), '');
  const kubeconfig = join(up.directory, 'state', 'kubeconfig');
  await machine.spawn(['controllers', '--kubeconfig', kubeconfig, '--leader-elect=false']).line();
  await kubectl.running('web');
  assert.equal(await kubectl.ok('get leases -n kube-system -o name'), '', 'a process that is alone needs no lease');
  await kubectl.ok('delete pod web --now');
  await kubectl.ok('delete pvc data --timeout=100s');
});

test('an unknown name is an error that lists the known ones', () => {
  for (const command of ['up --state /nonexistent', 'apiserver --data /nonexistent', 'controllers']) {
    const { code, stderr } = mountlet([...command.split(' '), '--controllers=*,-typo']);
    assert.equal(code, 1, stderr);
    assert.match(stderr, /^error: Cannot run "-typo": .* persistentvolume-binder-controller, /);
  }
});

test('a node whose credentials allow no volumes says what to grant, once, and goes on', withNode, async (t) => {
  const { machine, directory, server, kubectl, controllers } = await scene(t);
  await controllers().line();
  const kubeconfig = writeNodeKubeconfig(server, join(directory, 'data'), 'here');
  const root = join(directory, 'node');
  const agent = await machine.start([
    '--kubeconfig',
    kubeconfig,
    '--root-dir',
    root,
    '--register-with-taints=',
    '--local-path',
  ]);
  await eventually(() => assert.match(agent.stderr(), /--local-path makes no volumes: .* create persistentvolumes/));
  assert.match(agent.stderr(), /Grant them a ClusterRole with persistentvolumes get list watch create update delete; /);
  await kubectl.apply(pod('web', { script: 'sleep 1000' }));
  await kubectl.running('web');
  assert.equal(agent.stderr().split('--local-path makes no volumes').length, 2);
  assert.equal(await kubectl.ok('get storageclass -o name'), '');
  await kubectl.ok('delete pod web --now');
});
