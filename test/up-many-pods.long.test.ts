import { test } from 'node:test';
import { deletePodsWhileTheyStart, startAndStopPods } from './many-pods.ts';
import { withNode } from './up-program.ts';

test('a hundred pods start, follow an update, stop, and leave nothing', withNode, (t) => startAndStopPods(100, t));

test('five hundred pods are deleted while they start, and leave nothing', withNode, (t) =>
  deletePodsWhileTheyStart(500, t),
);
