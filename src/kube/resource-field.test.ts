import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { QuantityError } from './values/quantity.ts';
import {
  environmentResourceValue,
  ResourceFieldError,
  resourceFieldValue,
  type ResourceList,
  type ResourcePod,
  volumeResourceValue,
} from './resource-field.ts';

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
  test(`${JSON.stringify(resource)} is no resource of a container`, () => {
    const error = new ResourceFieldError(`unsupported container resource : ${resource}`);
    assert.throws(() => resourceFieldValue(resources, { resource }), error);
  });
}

test('a value beyond 64 bits is the largest 64-bit number', () => {
  assert.equal(resourceFieldValue({ limits: { memory: '9Ei' } }, { resource: 'limits.memory' }), '9223372036854775807');
  assert.equal(resourceFieldValue({ limits: { memory: '12E' } }, { resource: 'limits.memory' }), '9223372036854775807');
});

test('a limit that is no quantity is told as such', () => {
  assert.throws(() => resourceFieldValue({ limits: { cpu: 'much' } }, { resource: 'limits.cpu' }), QuantityError);
});

const node: ResourceList = { cpu: '6', memory: '4Gi', 'hugepages-2Mi': '8Mi' };
const both = { cpu: 'limits.cpu', memory: 'limits.memory' };

interface Case {
  readonly it: string;
  readonly limits?: ResourceList;
  readonly podLimits?: ResourceList;
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
    podLimits: { cpu: '0', memory: '1Mi' },
    volume: ['6', gi4],
    variable: ['6', mi1],
  },
  { it: 'a pod cpu limit', podLimits: { cpu: '1', memory: '0' }, volume: ['6', gi4], variable: ['1', gi4] },
  {
    it: 'pod limits and a memory limit',
    limits: { cpu: '0', memory: '1Mi' },
    podLimits: { cpu: '1', memory: '5Mi' },
    volume: ['6', mi1],
    variable: ['1', mi1],
  },
  {
    it: 'pod limits and a cpu limit',
    limits: { cpu: '2' },
    podLimits: { cpu: '3', memory: '5Mi' },
    volume: ['2', gi4],
    variable: ['2', mi5],
  },
];
for (const { it, limits, podLimits, volume, variable } of cases) {
  test(`with ${it} a volume shows ${volume.join(' and ')}, a variable ${variable.join(' and ')}`, () => {
    const container = { name: 'foo', resources: limits === undefined ? {} : { limits } };
    const pod: ResourcePod = { containers: [container], ...(podLimits && { resources: { limits: podLimits } }) };
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
  const error = new ResourceFieldError('container bar not found');
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
