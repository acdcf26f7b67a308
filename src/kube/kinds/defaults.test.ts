import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded } from '../../testing/fakes/builders.ts';
import type { Of, Shape } from '../schema/schema.ts';
import { nodeKind, nodeShape } from './node.ts';
import { serviceKind, serviceShape } from './service.ts';
import { claimKind, persistentVolumeClaimShape } from './storage/persistent-volume-claim.ts';
import { persistentVolumeKind, persistentVolumeShape } from './storage/persistent-volume.ts';

const metadata = { name: 'a' };

function completes<S extends Shape<unknown>>(
  complete: (object: Of<S>) => Of<S>,
  shape: S,
  given: object,
  wanted: object,
): void {
  const once = complete(decoded(shape, { metadata, ...given }) as Of<S>);
  assert.deepEqual(once, { metadata, ...wanted });
  assert.deepEqual(complete(once), once);
}

test('defaultPersistentVolume keeps what is released and mounts it as files', () => {
  completes(
    persistentVolumeKind.complete,
    persistentVolumeShape,
    { spec: { capacity: { storage: '1.0001' }, hostPath: { path: '/a' } } },
    {
      spec: {
        capacity: { storage: '1001m' },
        hostPath: { path: '/a', type: '' },
        persistentVolumeReclaimPolicy: 'Retain',
        volumeMode: 'Filesystem',
      },
      status: { phase: 'Pending' },
    },
  );
});

test('defaultPersistentVolumeClaim waits for files', () => {
  completes(
    claimKind.complete,
    persistentVolumeClaimShape,
    { spec: { resources: { requests: { storage: '1Gi' } } } },
    { spec: { resources: { requests: { storage: '1Gi' } }, volumeMode: 'Filesystem' }, status: { phase: 'Pending' } },
  );
});

test('defaultNode lets pods have all that a node has', () => {
  completes(
    nodeKind.complete,
    nodeShape,
    { status: { capacity: { cpu: '4' } } },
    { status: { capacity: { cpu: '4' }, allocatable: { cpu: '4' } } },
  );
});

test('defaultService gives a cluster address and targets the same port', () => {
  completes(
    serviceKind.complete,
    serviceShape,
    { spec: { ports: [{ port: 80 }, { port: 81, targetPort: 'web', protocol: 'UDP' }] } },
    {
      spec: {
        type: 'ClusterIP',
        sessionAffinity: 'None',
        internalTrafficPolicy: 'Cluster',
        ports: [
          { port: 80, protocol: 'TCP', targetPort: 80 },
          { port: 81, protocol: 'UDP', targetPort: 'web' },
        ],
      },
    },
  );
});

test('defaultService opens a load balancer to the outside', () => {
  completes(
    serviceKind.complete,
    serviceShape,
    { spec: { type: 'LoadBalancer', sessionAffinity: 'ClientIP' } },
    {
      spec: {
        type: 'LoadBalancer',
        sessionAffinity: 'ClientIP',
        sessionAffinityConfig: { clientIP: { timeoutSeconds: 10800 } },
        externalTrafficPolicy: 'Cluster',
        internalTrafficPolicy: 'Cluster',
        allocateLoadBalancerNodePorts: true,
      },
    },
  );
});
