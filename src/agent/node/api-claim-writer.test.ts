/** Against the real API server, as the node that the claim's pod runs on. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { issueClientCertificate } from '../../apiserver/identity/certificates.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import { persistentVolumeClaims, pods, withShape } from '../../client/api/resource-reference.ts';
import { ensureDefaultObjects } from '../../controllers/default-objects.ts';
import {
  type PersistentVolumeClaim,
  persistentVolumeClaimShape,
} from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { failed, finished, inProgress, infeasible, storageOf } from '../../kube/references/claim-resize.ts';
import { memoryStore } from '../../testing/servers/stores.ts';
import { runningApiServer } from '../../testing/servers/test-api-server.ts';
import type { ClaimWriter } from '../../volumes/expand.ts';
import { apiClaimWriter } from './node-volumes.ts';

const { signal } = new AbortController();
const claims = withShape(persistentVolumeClaims, persistentVolumeClaimShape);
const place = { namespace: 'default', name: 'disk' };
const now = Date.parse('2026-08-20T10:00:00.5Z');

interface World {
  readonly admin: ApiClient;
  readonly writer: ClaimWriter;
  readonly claim: PersistentVolumeClaim;
}

/** A claim that a controller has grown, and a pod of this node that uses it. */
async function world(t: TestContext, status: PersistentVolumeClaim['status']): Promise<World> {
  // Without the loop that binds claims: it would write to this one too, whose volume does not exist.
  const server = await runningApiServer(t, memoryStore(), {
    controllers: (host, until) => ({ settled: ensureDefaultObjects(host, until), done: Promise.resolve() }),
  });
  const admin = server.client();
  const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '2Gi' } }, volumeName: 'pv' };
  await admin.create(claims, { namespace: 'default' }, { metadata: { name: 'disk' }, spec }, signal);
  const statusPlace = { ...place, subresource: 'status', type: 'merge' } as const;
  const claim = await admin.patch(claims, statusPlace, { status: { phase: 'Bound', ...status } }, signal);
  await admin.create(
    pods,
    { namespace: 'default' },
    {
      metadata: { name: 'web' },
      spec: {
        nodeName: 'node-1',
        automountServiceAccountToken: false,
        containers: [{ name: 'app', image: 'app' }],
        volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'disk' } }],
      },
    },
    signal,
  );
  const identity = { user: 'system:node:node-1', groups: ['system:nodes'], now: Date.now(), days: 1 };
  const node = server.client({}, issueClientCertificate(server.authority, identity));
  return { admin, writer: apiClaimWriter(node), claim };
}

const grown = {
  capacity: { storage: '1Gi' },
  allocatedResources: { storage: '2Gi' },
  allocatedResourceStatuses: { storage: 'NodeResizePending' },
  conditions: [
    { type: 'FileSystemResizePending', status: 'True', message: 'Waiting for user to (re-)start a pod' },
    { type: 'Unrelated', status: 'True' },
  ],
};

test('a node writes the progress of an expansion to the claim, from beginning to end', async (t) => {
  const { writer, claim } = await world(t, grown);
  const begun = await writer.patchStatus('default', 'disk', inProgress(claim), signal);
  assert.equal(begun.status?.allocatedResourceStatuses?.['storage'], 'NodeResizeInProgress');
  assert.equal(begun.status?.capacity?.['storage'], '1Gi');
  const over = await writer.patchStatus('default', 'disk', finished(begun, storageOf({ storage: '2Gi' })), signal);
  assert.equal(over.status?.capacity?.['storage'], '2Gi');
  assert.equal(over.status?.allocatedResources?.['storage'], '2Gi');
  assert.equal(over.status?.allocatedResourceStatuses, undefined);
  assert.deepEqual(
    over.status?.conditions?.map(({ type }) => type),
    ['Unrelated'],
  );
});

test('a claim that has changed since it was read is not written', async (t) => {
  const { admin, writer, claim } = await world(t, grown);
  await admin.patch(claims, { ...place, type: 'merge' }, { metadata: { labels: { a: 'b' } } }, signal);
  await assert.rejects(writer.patchStatus('default', 'disk', inProgress(claim), signal), { reason: 'Conflict' });
});

test('a failure is written to a claim that has changed, too, and the first one stays', async (t) => {
  const { admin, writer, claim } = await world(t, grown);
  await admin.patch(claims, { ...place, type: 'merge' }, { metadata: { labels: { a: 'b' } } }, signal);
  const patch = failed(claim, 'no room', now);
  assert.ok(patch);
  const told = await writer.patchStatus('default', 'disk', patch, signal);
  const error = told.status?.conditions?.find(({ type }) => type === 'NodeResizeError');
  assert.deepEqual(
    { ...error },
    {
      type: 'NodeResizeError',
      status: 'True',
      lastTransitionTime: '2026-08-20T10:00:00Z',
      message: 'failed to expand pvc with no room',
    },
  );
  assert.equal(told.status?.conditions?.length, 3);
  assert.equal(failed(told, 'still no room', now), undefined);
  const given = await writer.patchStatus('default', 'disk', infeasible(told, 'never', now), signal);
  assert.equal(given.status?.allocatedResourceStatuses?.['storage'], 'NodeResizeInfeasible');
  assert.equal(given.status?.conditions?.length, 3);
});
