import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { OperatingError } from '../../base/errors.ts';
import { Quantity, QuantityError } from '../values/quantity.ts';
import {
  type ContainerResources,
  type PodResources,
  type ResourceList,
  type ResourcePod,
  type Resources,
  environmentResourceValue,
  podLimits,
  podMemoryLimitBytes,
  qualityOfService,
  resourceFieldValue,
  tmpfsSizeBytes,
  volumeResourceValue,
} from './pod-resources.ts';

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
  { it: 'overhead is not a limit', pod: { containers: [{}], overhead: { memory: '1Mi' } }, limit: undefined },
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
  test(`the size of a tmpfs is ${it}`, () => {
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

const resources = {
  limits: {
    cpu: '1200m',
    memory: '100Mi',
    'ephemeral-storage': '1.5Gi',
    'hugepages-2Mi': '6Mi',
    'hugepages-__proto__': '1',
  },
  requests: { cpu: '100m', memory: 100.5, 'hugepages-1Gi': '1Gi' },
};
const values: [resource: string, divisor: string | number | undefined, value: string][] = [
  ['limits.cpu', undefined, '2'],
  ['limits.cpu', '0', '2'],
  ['limits.cpu', 1, '2'],
  ['limits.cpu', '1m', '1200'],
  ['limits.cpu', '100m', '12'],
  ['requests.cpu', undefined, '1'],
  ['requests.cpu', '100m', '1'],
  ['limits.memory', undefined, '104857600'],
  ['limits.memory', '1Mi', '100'],
  ['limits.memory', '1M', '105'],
  ['limits.memory', '1k', '104858'],
  ['limits.memory', '1m', '104857600'],
  ['requests.memory', '1', '101'],
  ['limits.ephemeral-storage', '1Gi', '2'],
  ['requests.ephemeral-storage', '1Gi', '0'],
  ['limits.hugepages-2Mi', '2Mi', '3'],
  ['requests.hugepages-1Gi', '1Mi', '1024'],
  ['limits.hugepages-absent', '1', '0'],
];
for (const [resource, divisor, value] of values) {
  test(`${resource} by ${divisor ?? 'nothing'} is ${value}`, () => {
    assert.equal(resourceFieldValue(resources, { resource, ...(divisor === undefined ? {} : { divisor }) }), value);
  });
}

for (const resource of [
  '',
  'cpu',
  'limits.',
  'limits.cpus',
  'limits.example.com/gpu',
  'Limits.cpu',
  'limits.toString',
]) {
  test(`${JSON.stringify(resource)} is not a resource of a container`, () => {
    const error = new OperatingError('InvalidResourceField', `unsupported container resource : ${resource}`);
    assert.throws(() => resourceFieldValue(resources, { resource }), error);
  });
}

test('a value beyond 64 bits is the largest 64-bit number', () => {
  assert.equal(resourceFieldValue({ limits: { memory: '9Ei' } }, { resource: 'limits.memory' }), '9223372036854775807');
  assert.equal(resourceFieldValue({ limits: { memory: '12E' } }, { resource: 'limits.memory' }), '9223372036854775807');
});

test('a limit that is not a quantity is reported as such', () => {
  assert.throws(() => resourceFieldValue({ limits: { cpu: 'much' } }, { resource: 'limits.cpu' }), QuantityError);
});

const node: ResourceList = { cpu: '6', memory: '4Gi', 'hugepages-2Mi': '8Mi' };
const both = { cpu: 'limits.cpu', memory: 'limits.memory' };

interface Case {
  readonly it: string;
  readonly limits?: ResourceList;
  readonly ofPod?: ResourceList;
  readonly volume: readonly [cpu: string, memory: string];
  readonly variable: readonly [cpu: string, memory: string];
}
const [gi4, mi1, mi5] = ['4294967296', '1048576', '5242880'];
const cases: Case[] = [
  { it: 'no limits', volume: ['6', gi4], variable: ['6', gi4] },
  { it: 'zero limits', limits: { cpu: '0', memory: '0' }, volume: ['6', gi4], variable: ['6', gi4] },
  { it: 'a cpu limit', limits: { cpu: '1', memory: '0' }, volume: ['1', gi4], variable: ['1', gi4] },
  { it: 'a memory limit', limits: { memory: '1Mi' }, volume: ['6', mi1], variable: ['6', mi1] },
  {
    it: 'a pod memory limit',
    ofPod: { cpu: '0', memory: '1Mi' },
    volume: ['6', gi4],
    variable: ['6', mi1],
  },
  { it: 'a pod cpu limit', ofPod: { cpu: '1', memory: '0' }, volume: ['6', gi4], variable: ['1', gi4] },
  {
    it: 'pod limits and a memory limit',
    limits: { cpu: '0', memory: '1Mi' },
    ofPod: { cpu: '1', memory: '5Mi' },
    volume: ['6', mi1],
    variable: ['1', mi1],
  },
  {
    it: 'pod limits and a cpu limit',
    limits: { cpu: '2' },
    ofPod: { cpu: '3', memory: '5Mi' },
    volume: ['2', gi4],
    variable: ['2', mi5],
  },
];
for (const { it, limits, ofPod, volume, variable } of cases) {
  test(`with ${it} a volume shows ${volume.join(' and ')}, a variable ${variable.join(' and ')}`, () => {
    const container = { name: 'foo', resources: limits === undefined ? {} : { limits } };
    const pod: ResourcePod = { containers: [container], ...(ofPod && { resources: { limits: ofPod } }) };
    const own = (resource: string): string => environmentResourceValue(pod, container, { resource }, node);
    const named = (resource: string): string =>
      environmentResourceValue(pod, { name: 'other' }, { resource, containerName: 'foo' }, node);
    const file = (resource: string): string => volumeResourceValue(pod, { resource, containerName: 'foo' }, node);
    assert.deepEqual([file(both.cpu), file(both.memory)], volume);
    assert.deepEqual([own(both.cpu), own(both.memory)], variable);
    assert.deepEqual([named(both.cpu), named(both.memory)], variable);
  });
}

test('requests and huge pages are never made up, and nothing comes from a node that has nothing', () => {
  const pod: ResourcePod = { containers: [{ name: 'foo' }] };
  const file = (resource: string): string => volumeResourceValue(pod, { resource, containerName: 'foo' }, node);
  assert.deepEqual(['requests.cpu', 'limits.hugepages-2Mi', 'limits.ephemeral-storage'].map(file), ['0', '0', '0']);
});

test('a pod limit counts for a variable only where the node has that resource', () => {
  const pod: ResourcePod = { containers: [{ name: 'foo' }], resources: { limits: { cpu: '1', memory: '1Mi' } } };
  const reference = { resource: 'limits.memory', containerName: 'foo' };
  assert.equal(environmentResourceValue(pod, { name: 'foo' }, reference, { cpu: '6' }), '0');
});

test('a named init container is found after the containers, and gets defaults in a volume only', () => {
  const pod: ResourcePod = {
    containers: [{ name: 'twin', resources: { limits: { cpu: '1' } } }],
    initContainers: [{ name: 'twin', resources: { limits: { cpu: '2' } } }, { name: 'first' }],
  };
  const [twin, first] = ['twin', 'first'].map((containerName) => ({ resource: 'limits.cpu', containerName }));
  assert.ok(twin && first);
  assert.equal(volumeResourceValue(pod, twin, node), '1');
  assert.equal(volumeResourceValue(pod, first, node), '6');
  assert.equal(environmentResourceValue(pod, { name: 'twin' }, first, node), '0');
  assert.equal(environmentResourceValue(pod, { name: 'first' }, { resource: 'limits.cpu' }, node), '6');
});

test('a container that the pod does not have is named', () => {
  const pod: ResourcePod = { containers: [{ name: 'foo' }] };
  const error = new OperatingError('InvalidResourceField', 'container bar not found');
  const reference = { resource: 'limits.cpu', containerName: 'bar' };
  assert.throws(() => volumeResourceValue(pod, reference, node), error);
  assert.throws(() => environmentResourceValue(pod, { name: 'foo' }, reference, node), error);
});

test('the value times the divisor covers the limit, and one less does not', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 40 }), fc.integer({ min: 1, max: 2 ** 20 }), (limit, divisor) => {
      const value = Number(resourceFieldValue({ limits: { memory: limit } }, { resource: 'limits.memory', divisor }));
      assert.ok(value * divisor >= limit && (value - 1) * divisor < limit);
    }),
  );
});
