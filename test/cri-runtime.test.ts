/** Which runtime `mountlet up` takes, and what of the machine a node on containerd takes and gives back. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { RuntimeService, SecurityProfile_ProfileType } from '../src/grpc/messages/cri_pb.ts';
import type { Node } from '../src/kube/kinds/node.ts';
import { readQuantity } from '../src/kube/values/quantity.ts';
import type { Summary } from '../src/stats/summary.ts';
import type { Containerd } from '../src/testing/machine/containerd.ts';
import { mountPointsBelow } from '../src/testing/machine/temporary-directory.ts';
import { type RuntimeRelay, startRuntimeRelay } from '../src/testing/servers/runtime-relay.ts';
import { eventually } from './kubectl-program.ts';
import { configMap, mountAt, pod } from './manifests.ts';
import { mountlet } from './mountlet-program.ts';
import { containerdRuntime, containerdWithImages, thisContainerd } from './tested-runtime.ts';
import { UpMachine, withNode } from './up-program.ts';

test('without a container runtime auto takes processes, and says why', { skip: withNode.skip }, async (t) => {
  const machine = new UpMachine();
  t.after(() => machine.end());
  const endpoint = `unix://${machine.directory}/missing.sock`;
  const up = await machine.start('--runtime', 'auto', '--container-runtime-endpoint', endpoint);
  assert.match(up.output(), /containers are processes of this machine, without images: .*there is no such socket/);
  await eventually(async () => assert.match(await machine.kubectl.ok('get nodes -o wide'), /process:\/\//));
  const { code, stdout } = mountlet(['doctor', '--container-runtime-endpoint', endpoint]);
  assert.equal(code, 0, 'processes can run');
  assert.match(stdout, /no {3}container runtime .*there is no such socket/);
});

describe('a node on containerd', { skip: withNode.skip || containerdRuntime.skip }, () => {
  const atEnd: (() => void | Promise<void>)[] = [];
  let machine: UpMachine;
  let containerd: Containerd;
  let relay: RuntimeRelay;

  before(async () => {
    containerd = await containerdWithImages();
    const from = join(containerd.directory, 'relay.sock');
    relay = await startRuntimeRelay({ after: (act) => atEnd.push(act) }, { from, to: containerd.socket });
    machine = new UpMachine(thisContainerd(containerd, relay.endpoint));
    atEnd.unshift(() => machine.end());
    await machine.start('--runtime', 'auto', '--drain', '--node-name', 'here');
  });
  after(async () => {
    for (const act of atEnd) await act();
  });

  test('auto takes it, and says so; doctor finds it', () => {
    assert.match(machine.up.output(), /containers run in containerd .* at unix:/);
    const { stdout } = mountlet(['doctor', '--container-runtime-endpoint', containerd.endpoint]);
    assert.match(stdout, /yes {2}container runtime .*pods with images in containerd /);
  });

  test('the node lists its images, and keeps back what would evict pods', async () => {
    const { kubectl } = machine;
    await eventually(async () =>
      assert.match(await kubectl.ok('get node here -o jsonpath={.status.images}'), /nginx:1.8/),
    );
    const { status } = await kubectl.json<Node>('get node here');
    const left = (name: string): bigint => {
      const [all, some] = [status?.capacity?.[name], status?.allocatable?.[name]].map((one) =>
        readQuantity(one)?.value(),
      );
      return (all ?? 0n) - (some ?? 0n);
    };
    assert.equal(left('memory'), 100n * 1024n * 1024n);
    assert.ok(left('ephemeral-storage') > 0n);
  });

  test('the runtime is told which addresses the cluster gave to the node', async () => {
    const spec = { podCIDR: '10.9.0.0/24', podCIDRs: ['10.9.0.0/24', 'fd09::/64'] };
    await machine.kubectl.ok(['patch', 'node', 'here', '-p', JSON.stringify({ spec })]);
    await eventually(() => {
      const [first, ...more] = relay.requests(RuntimeService.method.updateRuntimeConfig);
      assert.equal(first?.runtimeConfig?.networkConfig?.podCidr, '10.9.0.0/24,fd09::/64');
      assert.deepEqual(more, []);
    });
  });

  test('what the runtime does not know is done without, or refused for good', async () => {
    const { kubectl } = machine;
    const version = await kubectl.ok('get node here -o jsonpath={.status.nodeInfo.containerRuntimeVersion}');
    const isOld = /:\/\/v?1\./.test(version);
    const volumes = [{ name: 'data', emptyDir: {} }];
    const readOnly = { ...mountAt('data', '/data'), readOnly: true, recursiveReadOnly: 'IfPossible' };
    await kubectl.apply(
      pod('reader', { volumeMounts: [readOnly] }, { volumes }),
      pod('strict', {}, { securityContext: { supplementalGroupsPolicy: 'Strict' } }),
    );
    await kubectl.running('reader');
    assert.equal(
      await kubectl.ok('get pod reader -o jsonpath={.status.containerStatuses[0].volumeMounts[0].recursiveReadOnly}'),
      isOld ? 'Disabled' : 'Enabled',
    );
    const create = relay.requests(RuntimeService.method.createContainer).find(({ config }) => config?.logPath !== '');
    const { seccomp } = create?.config?.linux?.securityContext ?? {};
    assert.equal(seccomp?.profileType, SecurityProfile_ProfileType.Unconfined);
    await eventually(async () =>
      assert.match(
        await kubectl.ok('get pod strict -o jsonpath={.status.phase}:{.status.reason}'),
        isOld ? /^Failed:SupplementalGroupsPolicyNotSupported$/ : /^Running:/,
      ),
    );
    await kubectl.ok('delete pod reader strict');
  });

  test('another node does not use a runtime with pods of this one, and ends none of them', async (t) => {
    await machine.kubectl.apply(pod('keeper'));
    await machine.kubectl.running('keeper');
    const runtime = await thisContainerd(containerd).start();
    const notEnded = { ...runtime, left: () => Promise.resolve([]), close: () => Promise.resolve() };
    const other = new UpMachine({ ...containerdRuntime, start: () => Promise.resolve(notEnded) });
    t.after(() => other.end());
    const refusal = /pods of another node are in this container runtime \(default\/keeper\).*stop the kubelet/;
    await assert.rejects(other.start(), refusal);
    const up = await other.start('--runtime', 'auto');
    assert.match(up.output(), /containers are processes of this machine.*pods of another node/);
    await up.stop();
    assert.match(await machine.kubectl.ok('get pod keeper'), /Running +0/);
  });

  test('auto does not start pods a second time when their runtime is away', async () => {
    const id = await machine.kubectl.ok(['get', 'pod', 'keeper', '-o', 'jsonpath={..containerID}']);
    await machine.up.kill();
    const missing = `unix://${machine.directory}/missing.sock`;
    const start = machine.start('--runtime', 'auto', '--container-runtime-endpoint', missing);
    await assert.rejects(start, /Cannot go on with the pods of this node, .*there is no such socket/);
    await machine.start('--runtime', 'auto', '--drain', '--node-name', 'here');
    await machine.kubectl.running('keeper');
    assert.equal(await machine.kubectl.ok(['get', 'pod', 'keeper', '-o', 'jsonpath={..containerID}']), id);
  });

  test('a subPath in a container follows its ConfigMap, through a directory that is shared and given back', async () => {
    const { kubectl } = machine;
    const volumes = [{ name: 'settings', configMap: { name: 'settings' } }];
    const volumeMounts = [{ ...mountAt('settings', '/etc/key'), subPath: 'key' }];
    await kubectl.apply(configMap('settings', { key: 'one' }), pod('follower', { volumeMounts }, { volumes }));
    await kubectl.running('follower');
    assert.equal(await kubectl.ok('exec follower -- cat /etc/key'), 'one');
    await kubectl.apply(configMap('settings', { key: 'two' }));
    await eventually(async () => assert.equal(await kubectl.ok('exec follower -- cat /etc/key'), 'two'));
    assert.match(await kubectl.ok('top pods -A --containers'), /^default +follower +main +\d+m +\d+Mi/m);
    const port = await kubectl.ok('get node here -o jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}');
    const raw = ['--server', `https://127.0.0.1:${port}`, 'get', '--raw', '/stats/summary'];
    const [uses] = (JSON.parse(await kubectl.ok(raw)) as Summary).pods;
    assert.ok((uses?.process_stats?.process_count ?? 0) > 1, 'its sandbox too');
    const { rssBytes = 0, pageFaults = 0, workingSetBytes = Infinity } = uses?.containers[0]?.memory ?? {};
    assert.ok(rssBytes > 0 && pageFaults > 0 && workingSetBytes <= (uses?.memory?.workingSetBytes ?? 0));
    assert.equal(uses?.network?.name, 'eth0');
    const pods = join(machine.up.directory, 'node', 'pods');
    assert.ok(mountPointsBelow(pods).includes(pods));
    assert.equal(await machine.up.stop(), 0);
    assert.deepEqual(mountPointsBelow(pods), []);
  });
});
