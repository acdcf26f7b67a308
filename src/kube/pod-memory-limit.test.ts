import assert from 'node:assert/strict';
import { test } from 'node:test';
import { podMemoryLimit } from './pod-memory-limit.ts';

const limited = (memory?: string | number): { name: string; resources?: { limits: { memory: string | number } } } =>
  memory === undefined ? { name: 'c' } : { name: 'c', resources: { limits: { memory } } };
const sidecar = (memory: string): ReturnType<typeof limited> & { restartPolicy: string } => ({
  ...limited(memory),
  restartPolicy: 'Always',
});

const cases = [
  {
    it: 'containers run together, so their limits add up',
    spec: { containers: [limited('1Gi'), limited('512Mi')] },
    limit: 1536,
  },
  {
    it: 'one container without a limit leaves the pod without one',
    spec: { containers: [limited('1Gi'), limited()] },
    limit: undefined,
  },
  { it: 'a limit of 0 is none', spec: { containers: [limited('1Gi'), limited(0)] }, limit: undefined },
  {
    it: 'an init container without a limit counts as well',
    spec: { initContainers: [limited()], containers: [limited('1Gi')] },
    limit: undefined,
  },
  {
    it: 'the largest init container counts if it needs more than all others',
    spec: { initContainers: [limited('3Gi'), limited('1Gi')], containers: [limited('1Gi')] },
    limit: 3072,
  },
  {
    it: 'a sidecar runs with the init containers after it and with the others',
    spec: { initContainers: [limited('2Gi'), sidecar('1Gi'), limited('2Gi')], containers: [limited('1Gi')] },
    limit: 3072,
  },
  {
    it: 'a limit of the pod itself beats the sum',
    spec: { resources: { limits: { memory: '4Gi' } }, containers: [limited('1Gi'), limited()] },
    limit: 4096,
  },
  {
    it: 'overhead is added to a limit',
    spec: { overhead: { memory: '1Mi' }, containers: [limited('1Gi')] },
    limit: 1025,
  },
  {
    it: 'overhead alone is no limit',
    spec: { overhead: { memory: '1Mi' }, containers: [limited()] },
    limit: undefined,
  },
  { it: 'a pod without containers has none', spec: { containers: [] }, limit: undefined },
];
for (const { it, spec, limit } of cases) {
  test(`memory of a pod: ${it}`, () => {
    const bytes = podMemoryLimit({ spec })?.value();
    assert.equal(bytes, limit === undefined ? undefined : BigInt(limit) * 1024n * 1024n);
  });
}
