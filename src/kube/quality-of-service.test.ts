import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  type ContainerResources,
  podLimits,
  podMemoryLimitBytes,
  type PodResources,
  qualityOfService,
  tmpfsSizeBytes,
} from './quality-of-service.ts';
import { Quantity } from './values/quantity.ts';
import type { Resources } from './resource-field.ts';

const list = (cpu: string, memory: string) => ({ cpu, memory });
const guaranteed: Resources = {
  requests: { ...list('100m', '100Mi'), 'ephemeral-storage': '10Gi' },
  limits: list('0.1', '100Mi'),
};
const bestEffort: Resources[] = [
  {},
  { requests: list('0', '0') },
  { requests: list('0', '0'), limits: list('0', '0') },
  { requests: { 'ephemeral-storage': '10Gi' } },
  { requests: { 'ephemeral-storage': '10Gi' }, limits: { 'ephemeral-storage': '10Gi' } },
];
const burstable: Resources[] = [
  { requests: list('100m', '100Mi'), limits: list('200m', '200Mi') },
  { requests: list('100m', '100Mi'), limits: list('100m', '200Mi') },
  { requests: list('100m', '100Mi'), limits: list('200m', '100Mi') },
  { requests: list('100m', '100Mi') },
  { requests: list('100m', '100Mi'), limits: { cpu: '100m' } },
  { requests: { cpu: '100m' }, limits: { cpu: '100m' } },
];
const single = [
  { resources: guaranteed, quality: 'Guaranteed' },
  ...bestEffort.map((resources) => ({ resources, quality: 'BestEffort' })),
  ...burstable.map((resources) => ({ resources, quality: 'Burstable' })),
];

for (const { resources, quality } of single) {
  test(`one container with ${JSON.stringify(resources)} is ${quality}`, () => {
    assert.equal(qualityOfService({ containers: [{ resources }] }), quality);
    assert.equal(qualityOfService({ containers: [{ resources }], resources: { limits: {}, requests: {} } }), quality);
  });
}

test('two containers share a class only if they have the same, init container or not', () => {
  for (const first of single) {
    for (const second of single) {
      const expected = first.quality === second.quality ? first.quality : 'Burstable';
      const [a, b] = [{ resources: first.resources }, { resources: second.resources }];
      assert.equal(qualityOfService({ containers: [a, b] }), expected);
      assert.equal(qualityOfService({ containers: [a], initContainers: [b] }), expected);
    }
  }
});

test("the pod's own resources decide where it has any that count", () => {
  for (const { resources, quality } of single) {
    const counts = [resources.requests, resources.limits].some((given) => given !== undefined && 'cpu' in given);
    const pod: PodResources = { containers: [{ resources: guaranteed }], resources };
    assert.equal(qualityOfService(pod), counts ? quality : 'Guaranteed', JSON.stringify(resources));
  }
  assert.equal(qualityOfService({ containers: [] }), 'BestEffort');
});

interface LimitCase {
  readonly it: string;
  readonly pod: PodResources;
  readonly limit: string | undefined;
}
const memory = (limit: string): ContainerResources => ({ resources: { limits: { memory: limit } } });
const sidecar = (limit: string): ContainerResources => ({ ...memory(limit), restartPolicy: 'Always' });
const limitCases: LimitCase[] = [
  { it: 'containers are added up', pod: { containers: [memory('1Mi'), memory('2Mi')] }, limit: '3Mi' },
  {
    it: 'a small init container does not matter',
    pod: { containers: [memory('2Mi')], initContainers: [memory('1Mi')] },
    limit: '2Mi',
  },
  {
    it: 'the largest init container counts alone',
    pod: { containers: [memory('1Mi')], initContainers: [memory('3Mi'), memory('2Mi')] },
    limit: '3Mi',
  },
  {
    it: 'a sidecar is added to the containers',
    pod: { containers: [memory('2Mi')], initContainers: [sidecar('1Mi')] },
    limit: '3Mi',
  },
  {
    it: 'a sidecar is added to the init container behind it',
    pod: { containers: [memory('1Mi')], initContainers: [sidecar('2Mi'), memory('5Mi')] },
    limit: '7Mi',
  },
  {
    it: 'a sidecar is not added to the init container before it',
    pod: { containers: [memory('1Mi')], initContainers: [memory('5Mi'), sidecar('2Mi')] },
    limit: '5Mi',
  },
  {
    it: 'two sidecars start one after the other and stay',
    pod: { containers: [memory('1Mi')], initContainers: [sidecar('2Mi'), sidecar('3Mi')] },
    limit: '6Mi',
  },
  {
    it: 'a limit of the pod replaces the sum',
    pod: { containers: [memory('1Mi')], resources: { limits: { memory: '9Mi' } } },
    limit: '9Mi',
  },
  {
    it: 'overhead is added to a limit',
    pod: { containers: [memory('1Mi')], overhead: { memory: '1Mi', cpu: '1' } },
    limit: '2Mi',
  },
  { it: 'overhead is no limit', pod: { containers: [{}], overhead: { memory: '1Mi' } }, limit: undefined },
];
for (const { it, pod, limit } of limitCases) {
  test(`in the limits of a pod ${it}`, () => {
    assert.equal(podLimits(pod).get('memory')?.toString(), limit);
  });
}

test('a pod without cpu limits has none, whatever its memory', () => {
  assert.equal(podLimits({ containers: [memory('1Mi')] }).has('cpu'), false);
});

const mebibyte = 1024n ** 2n;
const bounds: { it: string; pod: PodResources; bytes: bigint | undefined }[] = [
  { it: 'a guaranteed pod', pod: { containers: [{ resources: guaranteed }] }, bytes: 100n * mebibyte },
  {
    it: 'a pod where every container has one',
    pod: { containers: [memory('1Mi'), memory('2Mi')] },
    bytes: 3n * mebibyte,
  },
  { it: 'a pod where one container has none', pod: { containers: [memory('1Mi'), {}] }, bytes: undefined },
  {
    it: 'a pod where an init container has none',
    pod: { containers: [memory('1Mi')], initContainers: [{}] },
    bytes: undefined,
  },
  {
    it: 'a pod with a limit of its own',
    pod: { containers: [memory('1Mi'), {}], resources: { limits: { memory: '5Mi' } } },
    bytes: 5n * mebibyte,
  },
  { it: 'a best-effort pod', pod: { containers: [{}] }, bytes: undefined },
];
for (const { it, pod, bytes } of bounds) {
  test(`the memory limit of ${it} is ${bytes ?? 'none'}`, () => {
    assert.equal(podMemoryLimitBytes(pod), bytes);
  });
}

const sizes: { it: string; node: string; pod?: PodResources; sizeLimit?: string; bytes: bigint }[] = [
  { it: "the node's memory", node: '8Mi', bytes: 8n * mebibyte },
  { it: 'the pod limit', node: '8Mi', pod: { containers: [memory('2Mi')] }, bytes: 2n * mebibyte },
  { it: 'not a pod limit beyond the node', node: '8Mi', pod: { containers: [memory('9Mi')] }, bytes: 8n * mebibyte },
  { it: 'the size limit', node: '8Mi', sizeLimit: '1Mi', bytes: mebibyte },
  { it: 'not a size limit of zero', node: '8Mi', sizeLimit: '0', bytes: 8n * mebibyte },
  { it: 'not a negative size limit', node: '8Mi', sizeLimit: '-1', bytes: 8n * mebibyte },
  {
    it: 'not a size limit beyond the pod',
    node: '8Mi',
    pod: { containers: [memory('2Mi')] },
    sizeLimit: '3Mi',
    bytes: 2n * mebibyte,
  },
  {
    it: 'the size limit within the pod limit',
    node: '8Mi',
    pod: { containers: [memory('2Mi')] },
    sizeLimit: '1500m',
    bytes: 2n,
  },
  { it: 'nothing on a node that knows nothing', node: '0', sizeLimit: '1Mi', bytes: 0n },
];
for (const { it, node, pod = { containers: [{}] }, sizeLimit, bytes } of sizes) {
  test(`projection invariant 63: the size of a tmpfs is ${it}`, () => {
    assert.equal(tmpfsSizeBytes(Quantity.parse(node), pod, sizeLimit), bytes);
  });
}

test('the limit of a pod covers each of its containers and never exceeds them all together', () => {
  const container = fc.record({ mebibytes: fc.integer({ min: 1, max: 9 }), sidecar: fc.boolean() });
  fc.assert(
    fc.property(fc.array(container, { minLength: 1 }), fc.array(container), (regular, init) => {
      const limit = podLimits({
        containers: regular.map(({ mebibytes }) => memory(`${mebibytes}Mi`)),
        initContainers: init.map((one) => (one.sidecar ? sidecar : memory)(`${one.mebibytes}Mi`)),
      }).get('memory');
      const all = [...regular, ...init].map(({ mebibytes }) => BigInt(mebibytes) * mebibyte);
      const value = limit?.value() ?? 0n;
      assert.ok(all.every((one) => one <= value) && value <= all.reduce((a, b) => a + b, 0n));
    }),
  );
});
