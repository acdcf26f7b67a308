/** A node that is stopped, or killed in the middle of anything, and the one that comes after it: on a real machine. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, lstatSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { podsDirectory, volumeDirectory } from '../src/kube/values/node-layout.ts';
import { needsFileSystem } from '../src/testing/machine/devices.ts';
import { canActAs, temporaryDirectory } from '../src/testing/machine/temporary-directory.ts';
import { checkRandomRestarts } from './fixtures/random-restarts.ts';
import { type Life, RestartLives } from './fixtures/restart-checks.ts';
import { type Truth, contentOf, volumeNames } from './fixtures/restart-node.ts';

const skip = needsFileSystem('ext4');
const timeout = 240_000;

for (const hasDriver of [false, true]) {
  const where = hasDriver ? ', with disks of a driver' : '';
  test(
    `a node that was stopped leaves everything to the next one, which changes nothing about it${where}`,
    { skip, timeout },
    async (t) => {
      const lives = await RestartLives.begin(t, hasDriver);
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
    `a node that was killed leaves nothing that the next one does not repair or take away${where}`,
    { skip, timeout },
    async (t) => {
      const lives = await RestartLives.begin(t, hasDriver);
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

  test(`after a reboot everything that was mounted is mounted again${where}`, { skip, timeout }, async (t) => {
    const lives = await RestartLives.begin(t, hasDriver);
    await lives.live({ steps: [{ kind: 'add', volumes: volumeNames }], killAfter: undefined });
    lives.reboot();
    await lives.end();
  });

  test(
    `wherever a node is killed, the next one makes the machine what the cluster wants${where}`,
    { skip, timeout },
    (t) => checkRandomRestarts(t, { runs: 2, livesMax: 3, hasDriver }),
  );
}

test('an ordinary user, who can mount nothing, finds everything again too', { timeout }, async (t) => {
  if (!canActAs(nobody)) return t.skip('needs root: it acts as another user');
  const place = [temporaryDirectory(t), temporaryDirectory(t), temporaryDirectory(t, '/dev/shm')] as const;
  for (const directory of place) chownSync(directory, nobody, nobody);
  const [root, , memory] = place;
  const volumes = ['config', 'secret', 'scratch'] as const;
  await settleAndDie(place, { pods: { a: volumes }, version: 1 });
  const secret = volumeDirectory(root, 'a', 'kubernetes.io/secret', 'secret');
  assert.ok(lstatSync(secret).isSymbolicLink());
  await settleAndDie(place, { pods: { a: volumes, b: volumes }, version: 2 });
  assert.equal(readFileSync(join(secret, 'file'), 'utf8'), contentOf(2));
  await settleAndDie(place, { pods: { b: volumes }, version: 3 });
  assert.deepEqual([readdirSync(podsDirectory(root)), readdirSync(memory).length], [['b'], 1]);
  await settleAndDie(place, { pods: {}, version: 3 });
  assert.deepEqual([readdirSync(podsDirectory(root)), readdirSync(memory)], [[], []]);
});

const nobody = 65534;

/** A separate process of the user nobody, which does the work and is then killed. */
async function settleAndDie(place: readonly string[], truth: Truth): Promise<void> {
  const program = join(dirname(fileURLToPath(import.meta.url)), 'fixtures/restart-node-program.js');
  const child = spawn(process.execPath, [program, ...place], {
    stdio: ['pipe', 'pipe', 'inherit'],
    uid: nobody,
    gid: nobody,
  });
  const ended = once(child, 'exit');
  child.stdin.write(`${JSON.stringify(truth)}\n`);
  for await (const line of createInterface(child.stdout)) if (line === 'settled') break;
  child.kill('SIGKILL');
  await ended;
}
