/** As many pods in containers of containerd as a small machine takes. */
import './with-containerd.ts';
import { test } from 'node:test';
import { deletePodsWhileTheyStart, startAndStopPods } from './many-pods.ts';
import { withNode } from './up-program.ts';

test('fifty pods start, follow their ConfigMap, stop, and leave nothing', withNode, (t) => startAndStopPods(50, t));

test('five hundred pods are deleted while they start, and leave nothing', withNode, (t) =>
  deletePodsWhileTheyStart(500, t, { startMsMax: 8_000, goneMsMax: 120_000 }),
);
