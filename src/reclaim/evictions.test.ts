import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { Filesystems } from './disk-pressure.ts';
import { hasLocalLimits, limitEviction, pressureEviction } from './evictions.ts';
import { type PodUsage, rankForEviction, usageOf } from './pod-usage.ts';
import { readThresholds } from './thresholds.ts';

const mebi = 1024 * 1024;

interface Given {
  readonly requests?: string;
  readonly limits?: string;
  readonly priority?: number;
  readonly spec?: Partial<Pod['spec']>;
}

function pod(name: string, { requests, limits, priority, spec }: Given = {}): Pod {
  const resources = {
    ...(requests !== undefined && { requests: { 'ephemeral-storage': requests } }),
    ...(limits !== undefined && { limits: { 'ephemeral-storage': limits } }),
  };
  return {
    metadata: { name, uid: name, namespace: 'shop' },
    spec: {
      containers: [{ name: 'main', image: 'x', resources }],
      ...(priority !== undefined && { priority }),
      ...spec,
    },
  };
}

function usage(
  name: string,
  parts: Partial<PodUsage> & { readonly root?: number; readonly logs?: number } = {},
): PodUsage {
  const { root = 0, logs = 0, ...rest } = parts;
  const container = {
    name: 'main',
    rootfs: { usedBytes: root, inodesUsed: 1 },
    logs: { usedBytes: logs, inodesUsed: 1 },
  };
  return { podRef: { uid: name }, containers: [container], ...rest };
}

const volume = { name: 'cache', emptyDir: {} };

const ranks: readonly {
  readonly it: string;
  readonly pods: readonly Pod[];
  readonly usage: readonly PodUsage[];
  readonly signal?: 'nodefs.available' | 'nodefs.inodesFree' | 'imagefs.available';
  readonly dedicated?: boolean;
  readonly order: string;
}[] = [
  {
    it: 'puts pods above what they asked for first',
    pods: [pod('modest', { requests: '10Mi' }), pod('greedy', { requests: '1Mi' })],
    usage: [usage('modest', { root: 9 * mebi }), usage('greedy', { root: 2 * mebi })],
    order: 'greedy modest',
  },
  {
    it: 'puts a lower priority before a larger use',
    pods: [pod('large', { priority: 10 }), pod('small', { priority: 1 })],
    usage: [usage('large', { root: 100 }), usage('small', { root: 1 })],
    order: 'small large',
  },
  {
    it: 'puts the one that is furthest above its request first',
    pods: [pod('a'), pod('b', { requests: '5Mi' }), pod('c')],
    usage: [usage('a', { root: 2 * mebi }), usage('b', { root: 6 * mebi }), usage('c', { root: 3 * mebi })],
    order: 'c a b',
  },
  {
    it: 'puts pods of which nothing is known before all others',
    pods: [pod('known'), pod('unknown', { priority: 5 })],
    usage: [usage('known', { root: 100 })],
    order: 'unknown known',
  },
  {
    it: 'counts logs and volumes on the disk of the node, and roots on that of images',
    pods: [pod('root'), pod('logs'), pod('volume', { spec: { volumes: [volume] } })],
    usage: [
      usage('root', { root: 9 * mebi }),
      usage('logs', { logs: 2 * mebi }),
      usage('volume', { volume: [{ name: 'cache', usedBytes: 3 * mebi }] }),
    ],
    dedicated: true,
    order: 'volume logs root',
  },
  {
    it: 'counts roots alone on a disk of images',
    pods: [pod('logs'), pod('root')],
    usage: [usage('logs', { logs: 9 * mebi }), usage('root', { root: 1 })],
    signal: 'imagefs.available',
    dedicated: true,
    order: 'root logs',
  },
  {
    it: 'counts no volume in memory and no claim',
    pods: [
      pod('memory', { spec: { volumes: [{ name: 'cache', emptyDir: { medium: 'Memory' } }] } }),
      pod('claim', { spec: { volumes: [{ name: 'cache', persistentVolumeClaim: { claimName: 'c' } }] } }),
      pod('disk', { spec: { volumes: [volume] } }),
    ],
    usage: ['memory', 'claim', 'disk'].map((name, index) =>
      usage(name, { volume: [{ name: 'cache', usedBytes: name === 'disk' ? 10 : 1000 * (3 - index) }] }),
    ),
    order: 'disk memory claim',
  },
  {
    it: 'counts inodes when those are short',
    pods: [pod('bytes'), pod('files', { spec: { volumes: [volume] } })],
    usage: [
      usage('bytes', { root: 99 }),
      usage('files', { volume: [{ name: 'cache', usedBytes: 1, inodesUsed: 50 }] }),
    ],
    signal: 'nodefs.inodesFree',
    order: 'files bytes',
  },
];

for (const { it, pods, usage: known, signal = 'nodefs.available', dedicated = false, order } of ranks) {
  test(`rankForEviction ${it}`, () => {
    const resource = signal === 'nodefs.inodesFree' ? 'inodes' : 'ephemeral-storage';
    const ranked = rankForEviction(pods, usageOf(known), signal, resource, dedicated);
    assert.equal(ranked.map(({ metadata }) => metadata.name).join(' '), order);
  });
}

const disks: Filesystems = {
  node: { availableBytes: 512 * mebi, capacityBytes: 10_240 * mebi, inodesFree: 1_500, inodes: 100_000 },
  image: undefined,
  isImageDedicated: false,
};

function thresholds(texts: Parameters<typeof readThresholds>[0]): Parameters<typeof pressureEviction>[2] {
  const [first, ...others] = readThresholds(texts, []).given;
  assert.ok(first);
  return [first, ...others];
}

test('the message of an eviction names what is short and who used more than it asked for', () => {
  const greedy = pod('greedy', { requests: '1Mi' });
  const met = thresholds({ evictionHard: { 'nodefs.available': '1Gi' } });
  const used = usage('greedy', { root: 2 * mebi, logs: 1024 });
  assert.deepEqual(pressureEviction(greedy, used, met, disks, 60), {
    message:
      'The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 512Mi. ' +
      'Container main was using 2049Ki, request is 1Mi, has larger consumption of ephemeral-storage. ',
    graceSeconds: 1,
    annotations: {
      offending_containers: 'main',
      offending_containers_usage: '2049Ki',
      starved_resource: 'ephemeral-storage',
    },
    isDisruption: true,
  });
});

test('nobody is blamed for inodes, and a percentage is shown as what it comes to', () => {
  const met = thresholds({ evictionHard: { 'nodefs.inodesFree': '5%' } });
  const { message, annotations } = pressureEviction(pod('a'), usage('a', { root: mebi }), met, disks, 0);
  assert.equal(message, 'The node was low on resource: inodes. Threshold quantity: 5k, available: 1500. ');
  assert.deepEqual(annotations, {
    offending_containers: '',
    offending_containers_usage: '',
    starved_resource: 'inodes',
  });
});

test('a pod of which nothing is known is evicted without details', () => {
  const { message, annotations } = pressureEviction(
    pod('a'),
    undefined,
    thresholds({ evictionHard: { 'nodefs.available': '1Gi' } }),
    disks,
    0,
  );
  assert.equal(message, 'The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 512Mi. ');
  assert.equal(annotations, undefined);
});

for (const [own, most, expected] of [
  [undefined, 20, 20],
  [5, 20, 5],
  [60, 20, 20],
] as const) {
  test(`a soft threshold leaves a pod with a grace of ${own} at most ${expected} s`, () => {
    const soft = { evictionSoft: { 'nodefs.available': '1Gi' }, evictionSoftGracePeriod: { 'nodefs.available': '1s' } };
    const spec = own === undefined ? {} : { terminationGracePeriodSeconds: own };
    const { graceSeconds } = pressureEviction(pod('a', { spec }), usage('a'), thresholds(soft), disks, most);
    assert.equal(graceSeconds, expected);
  });
}

const limits: readonly {
  readonly it: string;
  readonly pod: Pod;
  readonly usage: PodUsage;
  readonly dedicated?: boolean;
  readonly message: string | undefined;
}[] = [
  {
    it: 'finds an emptyDir above its limit',
    pod: pod('a', { spec: { volumes: [{ name: 'cache', emptyDir: { sizeLimit: '1Mi' } }] } }),
    usage: usage('a', { volume: [{ name: 'cache', usedBytes: mebi + 1 }] }),
    message: 'Usage of EmptyDir volume "cache" exceeds the limit "1Mi". ',
  },
  {
    it: 'leaves an emptyDir at its limit',
    pod: pod('a', { spec: { volumes: [{ name: 'cache', emptyDir: { sizeLimit: '1Mi' } }] } }),
    usage: usage('a', { volume: [{ name: 'cache', usedBytes: mebi }] }),
    message: undefined,
  },
  {
    it: 'takes a limit of zero for none',
    pod: pod('a', { spec: { volumes: [{ name: 'cache', emptyDir: { sizeLimit: '0' } }] } }),
    usage: usage('a', { volume: [{ name: 'cache', usedBytes: 1 }] }),
    message: undefined,
  },
  {
    it: 'finds a pod above the sum of its containers',
    pod: pod('a', { spec: { containers: ['x', 'y'].map((name) => limited(name, '1Mi')) } }),
    usage: usage('a', { 'ephemeral-storage': { usedBytes: 3 * mebi } }),
    message: 'Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ',
  },
  {
    it: 'names the emptyDir before the pod',
    pod: pod('a', { limits: '1Mi', spec: { volumes: [{ name: 'cache', emptyDir: { sizeLimit: '1Ki' } }] } }),
    usage: usage('a', {
      volume: [{ name: 'cache', usedBytes: 2 * mebi }],
      'ephemeral-storage': { usedBytes: 2 * mebi },
    }),
    message: 'Usage of EmptyDir volume "cache" exceeds the limit "1Ki". ',
  },
  {
    it: 'finds a container above its own limit by its logs and its root',
    pod: pod('a', { spec: { containers: [limited('main', '1Mi'), limited('other', '1Gi')] } }),
    usage: usage('a', { root: 700 * 1024, logs: 700 * 1024 }),
    message: 'Container main exceeded its local ephemeral storage limit "1Mi". ',
  },
  {
    it: 'does not count roots that are on a disk of images',
    pod: pod('a', { limits: '1Mi' }),
    usage: usage('a', { root: 700 * mebi, logs: 700 * 1024 }),
    dedicated: true,
    message: undefined,
  },
  {
    it: 'finds a sidecar, and no ordinary init container',
    pod: pod('a', {
      spec: {
        containers: [limited('main', '1Gi')],
        initContainers: [limited('init', '1Ki'), { ...limited('side', '1Ki'), restartPolicy: 'Always' }],
      },
    }),
    usage: {
      podRef: { uid: 'a' },
      containers: ['init', 'side'].map((name) => ({ name, logs: { usedBytes: mebi } })),
    },
    message: 'Container side exceeded its local ephemeral storage limit "1Ki". ',
  },
  {
    it: 'finds nothing in a pod without limits',
    pod: pod('a', { spec: { volumes: [volume] } }),
    usage: usage('a', { root: 1e12, volume: [{ name: 'cache', usedBytes: 1e12 }] }),
    message: undefined,
  },
];

function limited(name: string, limit: string): Pod['spec']['containers'][number] {
  return { name, image: 'x', resources: { limits: { 'ephemeral-storage': limit } } };
}

for (const { it, pod: given, usage: used, dedicated = false, message } of limits) {
  test(`limitEviction ${it}`, () => {
    const expected = message === undefined ? undefined : { message, graceSeconds: 1, isDisruption: false };
    assert.deepEqual(limitEviction(given, used, dedicated), expected);
    if (message !== undefined) assert.ok(hasLocalLimits(given));
  });
}
