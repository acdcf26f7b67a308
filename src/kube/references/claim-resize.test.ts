import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PersistentVolumeClaim } from '../kinds/storage/persistent-volume-claim.ts';
import {
  failed,
  finished,
  hasResizeProgress,
  inProgress,
  infeasible,
  resizeStatusOf,
  storageOf,
} from './claim-resize.ts';

function claim(status: NonNullable<PersistentVolumeClaim['status']>, resourceVersion?: string): PersistentVolumeClaim {
  return { metadata: { name: 'disk', ...(resourceVersion !== undefined && { resourceVersion }) }, spec: {}, status };
}

const now = Date.parse('2026-08-20T10:00:00.999Z');
const size = storageOf({ storage: '2Gi' });
const error = {
  type: 'NodeResizeError',
  status: 'True',
  lastTransitionTime: '2026-08-20T10:00:00Z',
  message: 'failed to expand pvc with no room',
};

const cases = [
  {
    it: 'growing has begun',
    patch: inProgress(claim({}, '7')),
    is: {
      metadata: { resourceVersion: '7' },
      status: { allocatedResourceStatuses: { storage: 'NodeResizeInProgress' } },
    },
  },
  {
    it: 'a claim that was not grown by steps has its size',
    patch: finished(claim({ capacity: { storage: '1Gi' } }, '7'), size),
    is: { metadata: { resourceVersion: '7' }, status: { capacity: { storage: '2Gi' } } },
  },
  {
    it: 'a claim that was grown by steps has its size, no status and none of the conditions about it',
    patch: finished(
      claim({
        allocatedResourceStatuses: { storage: 'NodeResizeInProgress' },
        conditions: [
          { type: 'Resizing', status: 'True' },
          { type: 'Other', status: 'True' },
          { type: 'FileSystemResizePending', status: 'True' },
        ],
      }),
      size,
    ),
    is: {
      status: {
        capacity: { storage: '2Gi' },
        allocatedResourceStatuses: null,
        conditions: [
          { type: 'Resizing', $patch: 'delete' },
          { type: 'FileSystemResizePending', $patch: 'delete' },
        ],
      },
    },
  },
  {
    it: 'the status of another resource stays',
    patch: finished(claim({ allocatedResourceStatuses: { storage: 'NodeResizeInProgress', iops: 'x' } }), size),
    is: { status: { capacity: { storage: '2Gi' }, allocatedResourceStatuses: { storage: null } } },
  },
  {
    it: 'it will never be done',
    patch: infeasible(claim({}, '7'), 'no room', now),
    is: { status: { allocatedResourceStatuses: { storage: 'NodeResizeInfeasible' }, conditions: [error] } },
  },
  {
    it: 'it will never be done, and the claim has a failure already',
    patch: infeasible(claim({ conditions: [{ type: 'NodeResizeError', status: 'True' }] }), 'no room', now),
    is: { status: { allocatedResourceStatuses: { storage: 'NodeResizeInfeasible' } } },
  },
  { it: 'it failed', patch: failed(claim({}, '7'), 'no room', now), is: { status: { conditions: [error] } } },
  {
    it: 'it failed once more',
    patch: failed(claim({ conditions: [{ type: 'NodeResizeError', status: 'True' }] }), 'no room', now),
    is: undefined,
  },
  {
    it: 'it failed again after it had not',
    patch: failed(claim({ conditions: [{ type: 'NodeResizeError', status: 'False' }] }), 'no room', now),
    is: { status: { conditions: [error] } },
  },
];
for (const { it, patch, is } of cases) {
  test(`the claim's status: ${it}`, () => {
    assert.deepEqual(patch, is);
  });
}

test('a claim says how far its expansion has come, or nothing', () => {
  assert.equal(
    resizeStatusOf(claim({ allocatedResourceStatuses: { storage: 'NodeResizePending' } })),
    'NodeResizePending',
  );
  assert.equal(resizeStatusOf({ metadata: { name: 'disk' }, spec: {} }), '');
  assert.equal(hasResizeProgress(claim({ capacity: { storage: '1Gi' } })), false);
  assert.equal(hasResizeProgress(claim({ allocatedResources: {} })), true);
  assert.equal(hasResizeProgress(claim({ allocatedResourceStatuses: { storage: 'NodeResizePending' } })), true);
  assert.equal(storageOf({ cpu: '1' }).isZero(), true);
});
