/** Many pods at once in containers of containerd. More of them: the long test. */
import './with-containerd.ts';
import { test } from 'node:test';
import { deletePodsWhileTheyStart, startAndStopPods } from './many-pods.ts';
import { withNode } from './up-program.ts';

test('eight pods start, follow their ConfigMap, stop, and leave nothing', withNode, (t) => startAndStopPods(8, t));

test('thirty pods are deleted while they start, and leave nothing', withNode, (t) =>
  deletePodsWhileTheyStart(30, t, { startMsMax: 4_000, goneMsMax: 60_000 }),
);
