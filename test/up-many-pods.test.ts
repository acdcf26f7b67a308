import { test } from 'node:test';
import { deletePodsWhileTheyStart, startAndStopPods } from './many-pods.ts';
import { withNode } from './up-program.ts';

test('twenty pods start, follow an update, stop, and leave nothing', withNode, (t) => startAndStopPods(20, t));

test('sixty pods are deleted while they start, and leave nothing', withNode, (t) => deletePodsWhileTheyStart(60, t));
