import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from '../../kube/kinds/node.ts';
import type { Container } from '../../kube/kinds/pod/container.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type PodParts, aContainer, aPod } from '../../testing/fakes/builders.ts';
import { NodeAdmission } from './node-admission.ts';

const node: Node = { metadata: { name: 'here', labels: { disk: 'ssd' } } };
const tainted: Node = { ...node, spec: { taints: [{ key: 'broken', effect: 'NoExecute' }] } };
const cordoned: Node = { ...node, spec: { taints: [{ key: 'broken', effect: 'NoSchedule' }] } };
const allocatable = { cpu: '2', memory: '1Gi', 'ephemeral-storage': '10G', 'example.com/gpu': '1' };
const runtime = { supports: () => true };
const admission = new NodeAdmission(
  { isUnderDiskPressure: () => false, runtime },
  { podsMax: 3, allowedUnsafeSysctls: ['kernel.msg*', 'net.core.somaxconn'] },
);

const asking = (requests: Record<string, string>, more: Partial<Container> = {}): Container =>
  aContainer({ resources: { requests }, ...more });
const named = (name: string, parts: PodParts = {}): Pod => aPod({ ...parts, metadata: { name, uid: name } });
const listening = (hostPort: number, more: object = {}): PodParts => ({
  containers: [aContainer({ ports: [{ containerPort: 80, hostPort, ...more }] })],
});
const staticPod = { annotations: { 'kubernetes.io/config.source': 'file' } };
const sysctl = (name: string, parts: PodParts = {}): PodParts => ({
  ...parts,
  securityContext: { sysctls: [{ name, value: '1' }] },
});
const required = (values: readonly string[]): PodParts => ({
  affinity: {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [{ matchExpressions: [{ key: 'disk', operator: 'In', values: [...values] }] }],
      },
    },
  },
});

interface Case {
  readonly it: string;
  readonly pod: PodParts;
  readonly others?: readonly Pod[];
  readonly on?: Node | undefined;
  /** Undefined: it is taken. */
  readonly refused?: readonly [reason: string, message: string] | undefined;
}

const half = named('half', { containers: [asking({ cpu: '1500m', memory: '1Mi' })] });
const nginx = named('nginx', listening(8080));
const taintMessage = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
const affinityMessage = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
const cases: readonly Case[] = [
  { it: 'a pod among few', pod: {}, others: [named('a'), named('b')] },
  {
    it: 'one pod too many',
    pod: {},
    others: [named('a'), named('b'), named('c')],
    refused: ['OutOfpods', "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"],
  },
  {
    it: 'more cpu than is left',
    pod: { containers: [asking({ cpu: '501m' })] },
    others: [half],
    refused: ['OutOfcpu', "Node didn't have enough resource: cpu, requested: 501, used: 1500, capacity: 2000"],
  },
  { it: 'just what is left', pod: { containers: [asking({ cpu: '0.5' })] }, others: [half] },
  { it: 'no cpu, on a node that gave too much away', pod: {}, others: [half, named('x', half.spec)] },
  {
    it: 'memory and disk for which there is no room: the first is named',
    pod: { containers: [asking({ memory: '2Gi', 'ephemeral-storage': '11G' })] },
    refused: [
      'OutOfmemory',
      "Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824",
    ],
  },
  {
    it: 'more disk than there is',
    pod: { containers: [asking({ 'ephemeral-storage': '11G' })] },
    refused: [
      'OutOfephemeral-storage',
      "Node didn't have enough resource: ephemeral-storage, requested: 11000000000, used: 0, capacity: 10000000000",
    ],
  },
  {
    it: 'an init container, its sidecar and the overhead together',
    pod: {
      initContainers: [asking({ cpu: '1' }, { name: 's', restartPolicy: 'Always' }), asking({ cpu: '1' })],
      overhead: { cpu: '1m' },
    },
    refused: ['OutOfcpu', "Node didn't have enough resource: cpu, requested: 2001, used: 0, capacity: 2000"],
  },
  {
    it: 'requests of the pod as a whole, which count instead of those of its containers',
    pod: { containers: [asking({ cpu: '4' })], resources: { requests: { cpu: '1' } } },
  },
  {
    it: 'a device that is taken',
    pod: { containers: [asking({ 'example.com/gpu': '1' })] },
    others: [named('a', { containers: [asking({ 'example.com/gpu': '1' })] })],
    refused: [
      'OutOfexample.com/gpu',
      "Node didn't have enough resource: example.com/gpu, requested: 1, used: 1, capacity: 1",
    ],
  },
  { it: 'a device that the node does not know', pod: { containers: [asking({ 'example.com/fpga': '1' })] } },
  {
    it: 'huge pages that the node does not have',
    pod: { containers: [asking({ 'hugepages-2Mi': '2Mi' })] },
    refused: [
      'OutOfhugepages-2Mi',
      "Node didn't have enough resource: hugepages-2Mi, requested: 2097152, used: 0, capacity: 0",
    ],
  },
  {
    it: 'a pod for another operating system',
    pod: { os: { name: 'windows' } },
    refused: ['PodOSNotSupported', "Failed to admit pod as the OS field doesn't match node OS"],
  },
  { it: 'a pod for this operating system', pod: { os: { name: 'linux' } } },
  {
    it: 'a pod labelled for another operating system',
    pod: { metadata: { labels: { 'kubernetes.io/os': 'windows' } } },
    refused: [
      'PodOSSelectorNodeLabelDoesNotMatch',
      "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
    ],
  },
  {
    it: 'a selector of other nodes',
    pod: { nodeSelector: { disk: 'hdd' } },
    refused: ['NodeAffinity', affinityMessage],
  },
  { it: 'an affinity to other nodes', pod: required(['hdd']), refused: ['NodeAffinity', affinityMessage] },
  { it: 'an affinity to this node', pod: { ...required(['ssd']), nodeSelector: { disk: 'ssd' } } },
  { it: 'any selector before the labels are known', pod: { nodeSelector: { disk: 'hdd' } }, on: undefined },
  { it: 'a pod that does not tolerate NoExecute', pod: {}, on: tainted, refused: ['TaintToleration', taintMessage] },
  {
    it: 'a pod that tolerates it for a while',
    pod: { tolerations: [{ operator: 'Exists', tolerationSeconds: 9 }] },
    on: tainted,
  },
  { it: 'a static pod whatever the taints', pod: { metadata: staticPod }, on: tainted },
  { it: 'a pod for which it is too late to look elsewhere', pod: {}, on: cordoned },
  {
    it: 'a host port in use, and names its pod',
    pod: listening(8080),
    others: [named('other', listening(8081)), nginx],
    refused: [
      'NodePorts',
      'Predicate NodePorts failed: node(s) didn\'t have free ports for the requested pod ports: TCP port 8080 is used by pod "shop/nginx"',
    ],
  },
  {
    it: 'a host port in use by a sidecar at one address only',
    pod: listening(53, { protocol: 'UDP', hostIP: '0.0.0.0' }),
    others: [
      named('dns', {
        initContainers: [
          aContainer({
            restartPolicy: 'Always',
            ports: [{ containerPort: 53, hostPort: 53, protocol: 'UDP', hostIP: '192.0.2.1' }],
          }),
        ],
      }),
    ],
    refused: [
      'NodePorts',
      'Predicate NodePorts failed: node(s) didn\'t have free ports for the requested pod ports: UDP port 53 is used by pod "shop/dns"',
    ],
  },
  { it: 'the same port of another protocol', pod: listening(8080, { protocol: 'UDP' }), others: [nginx] },
  {
    it: 'the same port at another address',
    pod: listening(80, { hostIP: '192.0.2.1' }),
    others: [named('a', listening(80, { hostIP: '192.0.2.2' }))],
  },
  { it: 'a port that is only the container’s', pod: listening(0), others: [nginx] },
  { it: 'a safe sysctl', pod: sysctl('net.ipv4.tcp_syncookies') },
  { it: 'a sysctl that the operator allows', pod: sysctl('kernel.msgmax') },
  { it: 'a sysctl written with slashes', pod: sysctl('kernel/shm_rmid_forced') },
  {
    it: 'any other sysctl',
    pod: sysctl('kernel.shmmax'),
    refused: ['SysctlForbidden', 'forbidden sysctl: "kernel.shmmax" not allowlisted'],
  },
  {
    it: 'a sysctl of a network that is the host’s',
    pod: sysctl('net.core.somaxconn', { hostNetwork: true }),
    refused: ['SysctlForbidden', 'forbidden sysctl: "net.core.somaxconn" not allowed with host Net enabled'],
  },
  {
    it: 'a sysctl of IPC that is the host’s',
    pod: sysctl('kernel.shm_rmid_forced', { hostIPC: true }),
    refused: ['SysctlForbidden', 'forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host IPC enabled'],
  },
];

for (const { it, pod, others = [], refused, ...more } of cases) {
  test(`the node ${refused === undefined ? 'takes' : 'refuses'} ${it}`, () => {
    const on = 'on' in more ? more.on : node;
    const { refusal, preempted } = admission.admit(aPod(pod), others, on, allocatable);
    assert.deepEqual(refusal && [refusal.reason, refusal.message], refused);
    assert.equal(preempted, undefined);
  });
}

const critical = { priority: 2_000_000_000 };
const cpu = (name: string, amount: string, limits = false): Pod =>
  named(name, {
    containers: [
      aContainer({
        resources: {
          requests: { cpu: amount, memory: '1Mi' },
          ...(limits && { limits: { cpu: amount, memory: '1Mi' } }),
        },
      }),
    ],
  });

const preemptions: readonly { it: string; pod: Pod; others: readonly Pod[]; ends: readonly string[] | string }[] = [
  {
    it: 'the pod of the lowest class for one that needs only a place',
    pod: named('static', { metadata: staticPod, ...critical }),
    others: [cpu('burstable', '1m'), named('idle'), cpu('guaranteed', '1m', true)],
    ends: ['idle'],
  },
  {
    it: 'the one pod that suffices, not two smaller ones',
    pod: aPod({ ...critical, containers: [asking({ cpu: '1' })] }),
    others: [cpu('small', '400m'), cpu('large', '1200m')],
    ends: ['large'],
  },
  {
    it: 'as many as it takes, and those with guarantees last',
    pod: aPod({ ...critical, containers: [asking({ cpu: '2' })] }),
    others: [cpu('guaranteed', '1', true), cpu('burstable', '1'), named('idle')],
    ends: ['guaranteed', 'burstable'],
  },
  {
    it: 'nothing that is critical itself',
    pod: aPod({ metadata: staticPod, containers: [asking({ cpu: '2' })] }),
    others: [cpu('small', '100m'), named('agent', { ...critical, containers: [asking({ cpu: '1' })] })],
    ends: 'UnexpectedAdmissionError Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 1100), ]',
  },
  {
    it: 'nothing when room alone would not help',
    pod: aPod({ ...critical, nodeSelector: { disk: 'hdd' }, containers: [asking({ cpu: '2' })] }),
    others: [cpu('small', '100m')],
    ends: `NodeAffinity ${affinityMessage}`,
  },
];

for (const { it, pod, others, ends } of preemptions) {
  test(`a critical pod ends ${it}`, () => {
    const { refusal, preempted } = admission.admit(pod, others, node, allocatable);
    assert.deepEqual(
      refusal === undefined ? preempted?.map(({ metadata }) => metadata.name) : `${refusal.reason} ${refusal.message}`,
      ends,
    );
  });
}

test('strict supplemental groups need a runtime that knows them', () => {
  const settings = { podsMax: 3, allowedUnsafeSysctls: [] };
  const old = new NodeAdmission({ isUnderDiskPressure: () => false, runtime: { supports: () => false } }, settings);
  const strict = named('web', { securityContext: { supplementalGroupsPolicy: 'Strict' } });
  const message = 'SupplementalGroupsPolicy=Strict is not supported in this node';
  const refusal = { reason: 'SupplementalGroupsPolicyNotSupported', message };
  assert.deepEqual(old.admit(strict, [], node, allocatable), { refusal });
  assert.equal(old.admit(named('web'), [], node, allocatable).refusal, undefined);
  assert.equal(admission.admit(strict, [], node, allocatable).refusal, undefined);
});

test('under disk pressure only pods that the node depends on are taken', () => {
  const full = new NodeAdmission(
    { isUnderDiskPressure: () => true, runtime },
    { podsMax: 3, allowedUnsafeSysctls: [] },
  );
  const refusal = { reason: 'Evicted', message: 'The node had condition: [DiskPressure]. ' };
  assert.deepEqual(full.admit(named('web'), [], node, allocatable), { refusal });
  assert.equal(full.admit(named('dns', critical), [], node, allocatable).refusal, undefined);
  const fromFile = aPod({ metadata: { name: 'static', uid: 's', ...staticPod } });
  assert.equal(full.admit(fromFile, [], node, allocatable).refusal, undefined);
});
