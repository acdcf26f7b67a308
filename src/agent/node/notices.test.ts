import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type VolumeName, asPodUid } from '../../volumes/volume-name.ts';
import { type NodeNotice, eventSink, logLine } from './notices.ts';

const pod = { uid: asPodUid('u1'), namespace: 'shop', name: 'web' };
const facts = {
  volume: 'kubernetes.io/configmap/u1-config' as VolumeName,
  pod,
  podVolumeNames: ['config'],
  plugin: 'kubernetes.io/configmap',
  revision: 2,
  changed: true,
  files: 1,
  hidden: [],
};
const object = { kind: 'ConfigMap', namespace: 'shop', name: 'web' } as const;
const trace = {
  changes: [{ object, resourceVersion: '31', seenAt: 1 }],
  seenAt: 1,
  plannedAt: 1,
  writtenAt: 2,
  visibleAt: 2,
};

const gone = { object, seenAt: 0 };

const failed = {
  kind: 'OperationFailed',
  operation: 'volume_unmount',
  volume: 'v',
  podUid: asPodUid('u1'),
  pod: undefined,
  retryAt: 1_000,
  error: new Error('device busy'),
} as const;

const stuck = { holders: ['process 7 (sh), by an open file'], message: 'UnmountVolume.TearDown failed' };

const cases: readonly { readonly notice: NodeNotice; readonly line: string | undefined }[] = [
  {
    notice: { kind: 'VolumeMounted', tookMs: 3.4, ...facts },
    line: 'info: volume shop/web:config mounted in 3 ms, 1 file',
  },
  {
    notice: { kind: 'VolumeRefreshed', tookMs: 0.2, trace, ...facts, files: 2 },
    line: 'info: volume shop/web:config updated to ConfigMap web at version 31 in 1 ms, 2 files',
  },
  {
    notice: { kind: 'VolumeRefreshed', tookMs: 2, trace, ...facts, changed: false },
    line: 'debug: volume shop/web:config has the content of ConfigMap web at version 31 already',
  },
  {
    notice: { kind: 'VolumeRefreshed', tookMs: 2, trace: { ...trace, changes: [gone, ...trace.changes] }, ...facts },
    line: 'info: volume shop/web:config updated to ConfigMap web at version 31 in 2 ms, 1 file',
  },
  {
    notice: { kind: 'VolumeRefreshed', tookMs: 2, trace: { ...trace, changes: [...trace.changes, gone] }, ...facts },
    line: 'info: volume shop/web:config updated to ConfigMap web (deleted) in 2 ms, 1 file',
  },
  {
    notice: { kind: 'PodEvent', type: 'Warning', pod, reason: 'FailedMount', message: 'no' },
    line: 'warning: pod shop/web: FailedMount: no',
  },
  {
    notice: { kind: 'ManifestRefused', message: 'a.yaml:2:1: half', keepsLastGood: true },
    line: 'error: a.yaml:2:1: half; what it said before still holds',
  },
  { notice: { kind: 'ManifestAccepted', file: 'a.yaml' }, line: 'info: a.yaml is valid again' },
  {
    notice: { kind: 'PodRepeated', pod: 'shop/web', files: ['a.yaml', 'b.yaml'] },
    line: 'warning: pod shop/web is in a.yaml and b.yaml: that of b.yaml counts',
  },
  {
    notice: { kind: 'WatchFailed', what: 'watch pods', error: new Error('gone'), isExpected: true },
    line: 'debug: watch pods: gone',
  },
  {
    notice: { kind: 'WatchFailed', what: 'watch pods', error: new Error('no'), isExpected: false },
    line: 'warning: watch pods: no',
  },
  { notice: { kind: 'DesiredStateComplete' }, line: undefined },
  {
    notice: { ...failed, hasEvent: false },
    line: 'warning: volume_unmount of volume v: device busy; tried again at 1970-01-01T00:00:01.000Z',
  },
  { notice: { ...failed, hasEvent: true }, line: undefined },
  {
    notice: { ...failed, hasEvent: false, stuck },
    line: 'warning: volume_unmount of volume v: device busy; held by process 7 (sh), by an open file; tried again at 1970-01-01T00:00:01.000Z',
  },
  {
    notice: { kind: 'OrphanedPodErrors', first: 'cannot remove a', count: 3 },
    line: 'warning: cannot remove a (and 2 more like it)',
  },
  {
    notice: { kind: 'NodeStatusUnread', message: 'away', retryAt: 1 },
    line: 'warning: nothing is unmounted until the Node object can be read: away',
  },
];
for (const { notice, line } of cases) {
  test(`the notice ${notice.kind} is ${line === undefined ? 'no line' : `"${line}"`}`, () => {
    const shown = logLine(notice);
    assert.equal(shown && `${shown.level}: ${shown.message}`, line);
  });
}

test('a volume that cannot be unmounted is an Event of its pod, which names what holds it', () => {
  const events: string[] = [];
  const record = eventSink({
    record: (event) => void events.push(`${event.object.name}: ${event.reason}: ${event.message}`),
  });
  record({ ...failed, hasEvent: false });
  record({ ...failed, pod, hasEvent: false, stuck });
  record({ ...failed, hasEvent: false, stuck });
  const held = 'held by process 7 (sh), by an open file';
  assert.deepEqual(events, [`web: FailedUnMount: UnmountVolume.TearDown failed; ${held}`]);
});

test('a line has what machines filter on', () => {
  assert.deepEqual(logLine({ kind: 'VolumeRefreshed', tookMs: 1, trace, ...facts }), {
    level: 'info',
    kind: 'VolumeRefreshed',
    message: 'volume shop/web:config updated to ConfigMap web at version 31 in 1 ms, 1 file',
    pod: 'shop/web',
    volume: facts.volume,
    object: 'ConfigMap web',
    version: '31',
  });
  const { pod: podUid, volume, error } = logLine({ ...failed, hasEvent: false }) ?? {};
  assert.deepEqual({ podUid, volume, error }, { podUid: 'u1', volume: 'v', error: 'device busy' });
});

test('an unmounted volume and a static pod that cannot be shown name their pod', () => {
  const unmounted = { kind: 'VolumeUnmounted', ...facts, podUid: pod.uid, message: 'done' } as const;
  assert.equal(logLine(unmounted)?.pod, 'shop/web');
  assert.equal(logLine({ ...unmounted, pod: undefined })?.pod, 'u1');
  assert.equal(logLine({ ...failed, pod, hasEvent: false })?.pod, 'shop/web');
  assert.equal(logLine({ ...failed, hasEvent: false })?.pod, 'u1', 'known no more');
  const unsent = logLine({ kind: 'StatusNotSent', pod: 'web_shop(u1)', message: 'forbidden' });
  assert.deepEqual([unsent?.pod, unsent?.message], ['shop/web', 'status of pod shop/web: forbidden']);
  const mirror = logLine({ kind: 'MirrorFailed', pod: 'shop/web', message: 'forbidden' });
  assert.deepEqual([mirror?.pod, mirror?.message], ['shop/web', 'static pod shop/web: forbidden']);
});

test('a failed step names its pod as its Events do, and a detached volume is a line for debugging', () => {
  const step = { podUid: 'u1', fullName: 'web_shop', state: 'syncing', message: 'back-off 10s' } as const;
  assert.deepEqual(logLine({ kind: 'PodStepFailed', ...step, hasEvent: false }), {
    level: 'warning',
    kind: 'PodStepFailed',
    message: 'pod shop/web: back-off 10s',
    pod: 'shop/web',
  });
  // Its Event is a line of the log already.
  assert.equal(logLine({ kind: 'PodStepFailed', ...step, hasEvent: true })?.level, 'debug');
  const { volume } = facts;
  assert.equal(logLine({ kind: 'VolumeDetached', volume, message: 'Volume detached' })?.level, 'debug');
});
