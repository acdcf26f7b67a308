import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asPodUid } from '../../volumes/mount-id.ts';
import type { VolumeName } from '../../volumes/mount-id.ts';
import { logLine } from './node-log.ts';
import type { NodeNotice } from './node-notices.ts';

const pod = { uid: asPodUid('u1'), namespace: 'shop', name: 'web' };
const facts = {
  volume: 'kubernetes.io/configmap/u1-config' as VolumeName,
  pod,
  outerNames: ['config'],
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
    notice: { kind: 'PodEvent', type: 'Warning', pod, reason: 'FailedMount', message: 'no' },
    line: 'warning: pod shop/web: FailedMount: no',
  },
  {
    notice: { kind: 'ManifestRefused', file: 'a.yaml', message: 'half', keepsLastGood: true },
    line: 'error: a.yaml: half; what it said before still holds',
  },
  {
    notice: { kind: 'WatchFailed', what: 'watch pods', error: new Error('gone'), isExpected: true },
    line: undefined,
  },
  {
    notice: { kind: 'WatchFailed', what: 'watch pods', error: new Error('no'), isExpected: false },
    line: 'warning: watch pods: no',
  },
  { notice: { kind: 'DesiredStateComplete' }, line: undefined },
];
for (const { notice, line } of cases) {
  test(`the notice ${notice.kind} is ${line === undefined ? 'no line' : `"${line}"`}`, () => {
    const shown = logLine(notice);
    assert.equal(shown && `${shown.level}: ${shown.message}`, line);
  });
}
