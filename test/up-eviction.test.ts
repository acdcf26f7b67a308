/** Disks that fill up under `mountlet up`: who has to go, what the node says of itself, and that it recovers. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { eventually } from './kubectl-program.ts';
import { mountAt, pod } from './manifests.ts';
import { testedRuntime } from './tested-runtime.ts';
import { UpMachine, withNode } from './up-program.ts';

/** Everything of this machine is on a disk of 160 MiB. */
const diskMebibytes = 160;
const machine = new UpMachine();
before(async () => {
  if (withNode.skip !== false) return;
  const { directory } = machine;
  spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${diskMebibytes}m,mode=0777`, 'tmpfs', directory]);
  const settings = {
    apiVersion: 'mountlet.dev/v1alpha1',
    kind: 'AgentConfiguration',
    evictionHard: { 'nodefs.available': '50Mi', 'memory.available': '100Mi', 'imagefs.available': '1Mi' },
    // Long enough to see it.
    evictionPressureTransitionPeriod: '20s',
    volumeStatsAggPeriod: '1s',
  };
  writeFileSync(join(directory, 'agent.yaml'), JSON.stringify(settings));
  await machine.start('--node-name', 'here', '--config', join(directory, 'agent.yaml'));
});
after(() => machine.end());

/** Writes so much to its emptyDir, and then idles. */
const writing = (name: string, mebibytes: number, emptyDir: object = {}, more: object = {}): object =>
  pod(
    name,
    {
      script: `dd if=/dev/zero of=/data/big bs=1M count=${mebibytes} 2>/dev/null; exec sleep 1000`,
      volumeMounts: [mountAt('data', '/data')],
    },
    { volumes: [{ name: 'data', emptyDir }], ...more },
  );

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
}

interface Seen {
  readonly spec: { readonly taints?: readonly { readonly key: string; readonly effect: string }[] };
  readonly status: {
    readonly phase: string;
    readonly reason?: string;
    readonly message?: string;
    readonly conditions?: readonly Condition[];
  };
}

const conditionOf = ({ status }: Seen, type: string): Condition | undefined =>
  status.conditions?.find((one) => one.type === type);

test('thresholds that nothing watches are named at the start', withNode, () => {
  const unwatched = testedRuntime().handler === 'process' ? 'memory.available, imagefs.available' : 'memory.available';
  assert.ok(machine.up.output().includes(`eviction thresholds that evict nothing here: ${unwatched}\n`));
});

test('a pod whose emptyDir is larger than its limit is evicted, and its neighbour is not', withNode, async () => {
  const { kubectl } = machine;
  await kubectl.apply(writing('greedy', 3, { sizeLimit: '1Mi' }), writing('modest', 1, { sizeLimit: '20Mi' }));
  await kubectl.until('pod/greedy', '{.status.reason}', 'Evicted');
  const { status } = await kubectl.json<Seen>('get pod greedy');
  assert.deepEqual(
    [status.phase, status.message],
    ['Failed', 'Usage of EmptyDir volume "data" exceeds the limit "1Mi". '],
  );
  await eventually(async () => assert.match(await kubectl.ok('describe pod greedy'), /Warning +Evicted /));
  const described = await kubectl.ok('describe pod greedy');
  assert.match(described, /^Reason: +Evicted$/m);
  assert.match(described, /Warning +Evicted .*kubelet +Usage of EmptyDir volume "data" exceeds the limit "1Mi"\./);
  await kubectl.running('modest');
});

test('a pod above the limit of its ephemeral storage is evicted', withNode, async () => {
  const { kubectl } = machine;
  const limited = {
    script: 'dd if=/dev/zero of=/data/big bs=1M count=3 2>/dev/null; exec sleep 1000',
    volumeMounts: [mountAt('data', '/data')],
    resources: { limits: { 'ephemeral-storage': '2Mi' } },
  };
  await kubectl.apply(pod('limited', limited, { volumes: [{ name: 'data', emptyDir: {} }] }));
  await kubectl.until('pod/limited', '{.status.reason}', 'Evicted');
  const { status } = await kubectl.json<Seen>('get pod limited');
  assert.equal(status.message, 'Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ');
});

test('on a short disk the largest pod ends, new ones wait, and the node recovers', withNode, async () => {
  const { kubectl } = machine;
  await kubectl.apply(pod('small', { script: 'exec sleep 1000' }));
  await kubectl.running('small');
  await kubectl.apply(writing('large', diskMebibytes - 40));
  await kubectl.until('node/here', '{.status.conditions[?(@.type=="DiskPressure")].status}', 'True');
  // That is written by another.
  await kubectl.until('node/here', '{.spec.taints[0].key}', 'node.kubernetes.io/disk-pressure');
  await kubectl.apply(pod('bound', {}, { nodeName: 'here' }), pod('waiting', { script: 'exec sleep 1000' }));
  const node = await kubectl.json<Seen>('get node here');
  const { reason, message } = conditionOf(node, 'DiskPressure') ?? {};
  assert.deepEqual([reason, message], ['KubeletHasDiskPressure', 'kubelet has disk pressure']);

  await kubectl.until('pod/large', '{.status.reason}', 'Evicted');
  const large = await kubectl.json<Seen>('get pod large');
  assert.match(
    large.status.message ?? '',
    /^The node was low on resource: ephemeral-storage\. Threshold quantity: 50Mi, available: \d+(Ki|Mi)?\. /,
  );
  const disruption = conditionOf(large, 'DisruptionTarget');
  assert.deepEqual([disruption?.status, disruption?.reason], ['True', 'TerminationByKubelet']);
  assert.equal(disruption?.message, large.status.message);
  await eventually(async () => {
    const { items } = await kubectl.json<{
      readonly items: readonly { readonly reason: string; readonly metadata: { readonly annotations?: object } }[];
    }>('get events --field-selector involvedObject.name=large');
    const evicted = items.find((event) => event.reason === 'Evicted');
    assert.match(JSON.stringify(evicted?.metadata.annotations ?? {}), /"starved_resource":"ephemeral-storage"/);
  });

  await kubectl.until('pod/bound', '{.status.reason}', 'Evicted');
  const bound = await kubectl.json<Seen>('get pod bound');
  assert.deepEqual(
    [bound.status.phase, bound.status.reason, bound.status.message],
    ['Failed', 'Evicted', 'Pod was rejected: The node had condition: [DiskPressure]. '],
  );
  // One that ran shows how its container ended instead.
  assert.match(await kubectl.ok('get pods bound'), /^bound +0\/1 +Evicted +0 /m);
  await kubectl.until('node/here', '{.status.conditions[?(@.type=="DiskPressure")].status}', 'False');
  // Until then it could not be scheduled.
  await kubectl.running('small', 'modest', 'waiting');
  await eventually(async () => assert.equal((await kubectl.json<Seen>('get node here')).spec.taints, undefined));
  await eventually(async () => {
    const events = await kubectl.ok('get events --field-selector involvedObject.name=here');
    assert.match(events, /EvictionThresholdMet .*Attempting to reclaim ephemeral-storage/);
    assert.match(events, /NodeHasDiskPressure .*Node here status is now: NodeHasDiskPressure/);
  });
  const ofWaiting = await kubectl.ok('get events --field-selector involvedObject.name=waiting');
  assert.match(ofWaiting, /FailedScheduling .*untolerated taint \{node\.kubernetes\.io\/disk-pressure: \}/);
});
