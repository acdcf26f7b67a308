import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { ObjectMeta } from '../../kube/schema/meta.ts';
import type { Resource } from '../model/resource.ts';
import { namespaces } from '../resources/cluster.ts';
import { configMaps } from '../resources/configuration.ts';
import { pods } from '../resources/pod.ts';
import { planDeletion } from './plan-deletion.ts';

const now = Date.parse('2026-01-01T00:01:00Z');

function plan(resource: Resource, object: object, options = {}): { kind: string; metadata?: ObjectMeta } {
  const result = planDeletion(resource, object as Pod, options, now);
  return result.kind === 'leave' ? { kind: 'leave' } : { kind: result.kind, metadata: result.object.metadata };
}

const running = {
  metadata: { name: 'p', generation: 1 },
  spec: { containers: [], nodeName: 'n', terminationGracePeriodSeconds: 30 },
};
const ending = (timestamp: string, seconds: number): object => ({
  ...running,
  metadata: { name: 'p', generation: 2, deletionTimestamp: timestamp, deletionGracePeriodSeconds: seconds },
});

const cases = [
  { it: 'removes a plain object at once', resource: configMaps, object: { metadata: { name: 'c' } }, says: 'remove' },
  {
    it: 'marks an object with finalizers, with no grace',
    resource: configMaps,
    object: { metadata: { name: 'c', finalizers: ['a/b'] } },
    says: 'mark 2026-01-01T00:01:00Z 0 a/b',
  },
  {
    it: 'gives a pod on a node its own time',
    resource: pods,
    object: running,
    says: 'mark 2026-01-01T00:01:30Z 30 g2',
  },
  {
    it: 'takes the time that is asked for',
    resource: pods,
    object: running,
    options: { gracePeriodSeconds: 5 },
    says: 'mark 2026-01-01T00:01:05Z 5 g2',
  },
  {
    it: 'takes a negative time for one second',
    resource: pods,
    object: running,
    options: { gracePeriodSeconds: -3 },
    says: 'mark 2026-01-01T00:01:01Z 1 g2',
  },
  {
    it: 'removes a pod at once when forced',
    resource: pods,
    object: running,
    options: { gracePeriodSeconds: 0 },
    says: 'remove 2026-01-01T00:01:00Z 0 g2',
  },
  {
    it: 'removes a pod without a node at once',
    resource: pods,
    object: { ...running, spec: { containers: [] } },
    says: 'remove 2026-01-01T00:01:00Z 0 g2',
  },
  {
    it: 'removes a finished pod at once',
    resource: pods,
    object: { ...running, status: { phase: 'Succeeded' } },
    says: 'remove 2026-01-01T00:01:00Z 0 g2',
  },
  {
    it: 'leaves a pod that ends sooner anyway',
    resource: pods,
    object: ending('2026-01-01T00:01:10Z', 30),
    options: { gracePeriodSeconds: 30 },
    says: 'leave',
  },
  {
    it: 'leaves a pod that is ending when no time is asked for',
    resource: pods,
    object: ending('2026-01-01T00:01:10Z', 30),
    says: 'leave',
  },
  {
    it: 'brings the end nearer',
    resource: pods,
    object: ending('2026-01-01T00:01:25Z', 30),
    options: { gracePeriodSeconds: 10 },
    says: 'mark 2026-01-01T00:01:05Z 10 g2',
  },
  {
    it: 'never brings the end into the past',
    resource: pods,
    object: ending('2026-01-01T00:01:10Z', 60),
    options: { gracePeriodSeconds: 2 },
    says: 'mark 2026-01-01T00:01:00Z 1 g2',
  },
  {
    it: 'removes an ending pod when forced',
    resource: pods,
    object: ending('2026-01-01T00:01:10Z', 30),
    options: { gracePeriodSeconds: 0 },
    says: 'remove 2026-01-01T00:01:00Z 0 g2',
  },
  {
    it: 'removes a pod whose time was zero on any further request',
    resource: pods,
    object: ending('2026-01-01T00:01:00Z', 0),
    says: 'remove 2026-01-01T00:01:00Z 0 g2',
  },
  {
    it: 'adds a finalizer for the foreground',
    resource: configMaps,
    object: { metadata: { name: 'c' } },
    options: { propagationPolicy: 'Foreground' },
    says: 'mark 2026-01-01T00:01:00Z 0 foregroundDeletion',
  },
  {
    it: 'adds a finalizer for orphans, by the old name too',
    resource: configMaps,
    object: { metadata: { name: 'c' } },
    options: { orphanDependents: true },
    says: 'mark 2026-01-01T00:01:00Z 0 orphan',
  },
  {
    it: 'marks a namespace and gives it no grace period',
    resource: namespaces,
    object: { metadata: { name: 'n' }, spec: { finalizers: ['kubernetes'] } },
    says: 'mark 2026-01-01T00:01:00Z',
  },
  {
    it: 'removes a namespace that nothing holds',
    resource: namespaces,
    object: { metadata: { name: 'n' }, spec: {} },
    says: 'remove',
  },
];
for (const { it, resource, object, options, says } of cases) {
  test(`deletion ${it}`, () => {
    const { kind, metadata } = plan(resource, object, options);
    const shown = [
      kind,
      metadata?.deletionTimestamp,
      metadata?.deletionGracePeriodSeconds,
      metadata?.generation === undefined ? undefined : `g${metadata.generation}`,
      metadata?.finalizers?.join(' '),
    ];
    assert.equal(shown.filter((part) => part !== undefined).join(' '), says);
  });
}
