/** A node that is stopped, or killed in the middle of anything, and the one that comes after it: on a real machine. */
import { test } from 'node:test';
import { needsFileSystem } from '../src/testing/devices.ts';
import { checkRandomRestarts } from './fixtures/random-restarts.ts';
import { RestartLives } from './fixtures/restart-checks.ts';
import type { Life } from './fixtures/restart-checks.ts';
import { volumeNames } from './fixtures/restart-node.ts';

const skip = needsFileSystem('ext4');
const timeout = 60_000;

test(
  'a node that was stopped leaves everything to the next one, which changes nothing about it',
  { skip, timeout },
  async (t) => {
    const lives = new RestartLives(t);
    const everything = { kind: 'add', volumes: volumeNames } as const;
    const peaceful: readonly Life[] = [
      { steps: [everything, { kind: 'add', volumes: ['config', 'disk-0'] }], killAfter: undefined },
      { steps: [{ kind: 'update' }], killAfter: undefined },
      { steps: [{ kind: 'remove', which: 0 }, { kind: 'update' }], killAfter: undefined },
    ];
    for (const life of peaceful) await lives.live(life);
    await lives.end();
  },
);

test(
  'a node that was killed leaves nothing that the next one does not repair or take away',
  { skip, timeout },
  async (t) => {
    const lives = new RestartLives(t);
    const add = { kind: 'add', volumes: volumeNames } as const;
    const [update, remove] = [{ kind: 'update' }, { kind: 'remove', which: 0 }] as const;
    const killed: readonly Life[] = [
      { steps: [add], killAfter: 9 },
      { steps: [add, update], killAfter: 25 },
      { steps: [update, remove, add], killAfter: 14 },
      { steps: [remove, remove], killAfter: 20 },
    ];
    for (const life of killed) await lives.live(life);
    await lives.end();
  },
);

test('wherever a node is killed, the next one makes the machine what the cluster wants', { skip, timeout }, (t) =>
  checkRandomRestarts(t, { runs: 2, livesMax: 3 }),
);
