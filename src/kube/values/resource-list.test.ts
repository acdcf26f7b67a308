import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Container, containersTogether } from '../kinds/pod/container.ts';
import { isExtendedResource, isNativeResource, roundUpResources } from './quantity.ts';

const names = [
  { name: 'cpu', native: true, extended: false },
  { name: 'kubernetes.io/x', native: true, extended: false },
  { name: 'example.com/gpu', native: false, extended: true },
  { name: 'requests.example.com/gpu', native: false, extended: false },
  { name: `${'a'.repeat(250)}.com/gpu`, native: false, extended: false },
];
for (const { name, native, extended } of names) {
  test(`${name.slice(0, 30)} is ${native ? '' : 'not '}native and ${extended ? '' : 'not '}extended`, () => {
    assert.equal(isNativeResource(name), native);
    assert.equal(isExtendedResource(name), extended);
  });
}

test('roundUpResources changes only what is finer than a thousandth, and leaves nonsense to validation', () => {
  assert.deepEqual(roundUpResources({ cpu: '0.0001', memory: '1Gi', a: 0.5, b: 'x' }), {
    cpu: '1m',
    memory: '1Gi',
    a: 0.5,
    b: 'x',
  });
});

test('containersTogether counts a sidecar in the sum and in every step after its own', () => {
  const sum = containersTogether(
    [asking('1'), asking('1')],
    [asking('5'), { ...asking('1'), restartPolicy: 'Always' }, asking('3')],
    ({ resources }) => resources?.requests,
  );
  // Running: 1 + 1 + 1. Starting: 5 before the sidecar, then 1 + 3.
  assert.equal(String(sum.get('cpu')), '5');
  const later = containersTogether(
    [asking('1')],
    [{ ...asking('1'), restartPolicy: 'Always' }, asking('5')],
    ({ resources }) => resources?.requests,
  );
  assert.equal(String(later.get('cpu')), '6');
});

function asking(cpu: string): Container {
  return { name: 'a', resources: { requests: { cpu } } };
}
