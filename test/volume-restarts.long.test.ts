/** Many random lives of a node that is stopped and killed; the short test has a few. */
import { test } from 'node:test';
import { needsFileSystem } from '../src/testing/devices.ts';
import { checkRandomRestarts } from './fixtures/random-restarts.ts';

const skip = needsFileSystem('ext4');

test(
  'whenever a node is killed, the next one makes the machine what the cluster wants',
  { skip, timeout: 900_000 },
  (t) => checkRandomRestarts(t, { runs: 60, livesMax: 6 }),
);
