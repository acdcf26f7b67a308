import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { FakeClock } from '../../testing/fakes/fake-clock.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { LogRotation, planRotation } from './log-rotation.ts';

const plans: readonly {
  readonly it: string;
  readonly names: readonly string[];
  readonly removed?: readonly string[];
  readonly compressed?: readonly string[];
}[] = [
  { it: 'has nothing to do for a first rotation', names: ['0.log', '1.log.20260101-000000'] },
  { it: 'compresses what was rotated before', names: ['0.log', '0.log.1'], compressed: ['0.log.1'] },
  {
    it: 'keeps two files less than there may be, the newest ones',
    names: ['0.log', '0.log.1.gz', '0.log.2.gz', '0.log.3.gz', '0.log.4'],
    removed: ['0.log.1.gz'],
    compressed: ['0.log.4'],
  },
  {
    it: 'removes what a broken rotation left',
    names: ['0.log.1', '0.log.1.gz', '0.log.2.tmp'],
    removed: ['0.log.1', '0.log.2.tmp'],
  },
];
for (const { it, names, removed = [], compressed = [] } of plans) {
  test(`planRotation ${it}`, () => {
    assert.deepEqual(planRotation('0.log', names, 5), { removed, compressed });
  });
}

interface World {
  readonly directory: string;
  readonly log: string;
  readonly clock: FakeClock;
  readonly reports: string[];
  readonly rotation: LogRotation;
  reopen: () => void;
}

const { signal } = new AbortController();

function world(t: TestContext): World {
  const directory = temporaryDirectory(t);
  const log = join(directory, '0.log');
  const clock = new FakeClock(Date.UTC(2026, 0, 2, 3, 4, 5));
  const reports: string[] = [];
  const made: World = {
    directory,
    log,
    clock,
    reports,
    reopen: () => writeFileSync(log, '', { flag: 'a' }),
    rotation: new LogRotation(
      { bytesMax: 100, filesMax: 3 },
      {
        clock,
        logs: () => [{ id: 'c', logPath: log }],
        reopen: async () => made.reopen(),
        report: (message) => void reports.push(message),
      },
    ),
  };
  return made;
}

test('a large log is renamed, then compressed, then removed', async (t) => {
  const { directory, log, clock, rotation } = world(t);
  for (const text of ['a', 'b', 'c']) {
    writeFileSync(log, text.repeat(100));
    await rotation.rotateAll(signal);
    await clock.advance(60_000);
  }
  writeFileSync(log, 'small');
  await rotation.rotateAll(signal);
  assert.deepEqual(readdirSync(directory).sort(), ['0.log', '0.log.20260102-030505.gz', '0.log.20260102-030605']);
  assert.equal(readFileSync(join(directory, '0.log.20260102-030605'), 'utf8'), 'c'.repeat(100));
  const kept = gunzipSync(readFileSync(join(directory, '0.log.20260102-030505.gz'))).toString();
  assert.equal(kept, 'b'.repeat(100));
});

test('a runtime that cannot reopen a log gets it back, and that is reported once', async (t) => {
  const made = world(t);
  const { directory, log, reports, rotation } = made;
  writeFileSync(log, 'x'.repeat(100));
  made.reopen = () => {
    throw new Error('not now');
  };
  await rotation.rotateAll(signal);
  await rotation.rotateAll(signal);
  assert.deepEqual(readdirSync(directory), ['0.log']);
  assert.deepEqual(reports, [`cannot rotate the log "${log}": not now`]);
});

test('a log that somebody has removed is made again', async (t) => {
  const { log, rotation } = world(t);
  await rotation.rotateAll(signal);
  assert.ok(existsSync(log));
});
