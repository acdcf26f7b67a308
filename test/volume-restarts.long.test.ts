/** Many random lives of a node that is stopped and killed; the short test has a few. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { needsFileSystem } from '../src/testing/machine/devices.ts';
import { checkRandomRestarts } from './fixtures/random-restarts.ts';
import { RestartLives } from './fixtures/restart-checks.ts';
import { whyNoStrace } from './fixtures/traced-write.ts';

const skip = needsFileSystem('ext4');

for (const hasDriver of [false, true]) {
  test(
    `whenever a node is killed, the next one makes the machine what the cluster wants${hasDriver ? ', with disks of a driver' : ''}`,
    { skip, timeout: 900_000 },
    (t) => checkRandomRestarts(t, { runs: 60, livesMax: 6, hasDriver }),
  );
}

const noStrace = whyNoStrace();
const projected = ['config', 'secret', 'scratch', 'memory'] as const;
const calls = ['mkdir', 'mount', 'umount2', 'rmdir', 'unlink', 'rename', 'symlink', 'chmod'];
for (const call of calls) {
  test(
    `killed at any ${call}, a node leaves nothing that the next one does not repair`,
    { skip, timeout: 900_000 },
    async (t) => {
      if (noStrace !== undefined) return t.skip(noStrace);
      let killed = 0;
      for (let when = 1; ; when += 1) {
        const lives = await RestartLives.begin(t);
        await lives.live({
          steps: [
            { kind: 'add', volumes: projected },
            { kind: 'add', volumes: projected },
          ],
          killAfter: undefined,
        });
        const steps = [{ kind: 'remove', which: 0 }, { kind: 'update' }, { kind: 'add', volumes: projected }] as const;
        const wasKilled = await lives.dieAt({ call, when }, steps);
        await lives.end();
        if (!wasKilled) break;
        killed += 1;
      }
      t.diagnostic(`${killed} kills`);
      assert.ok(killed > 0 || call === 'mount', `nothing calls ${call}`);
    },
  );
}
