import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../../../testing/fakes/fake-clock.ts';
import { temporaryDirectory } from '../../../testing/machine/temporary-directory.ts';
import { ContainerLog, logEntries, partBytesMax, splitLines } from './container-log.ts';

const now = Date.UTC(2026, 10, 16, 5, 40, 0, 123);

test('an entry is a time, a stream, a tag and the line as it is', () => {
  const split = splitLines(Buffer.from('a b\n\nrest'), false);
  const text = logEntries('stdout', split, now).toString();
  assert.equal(text, '2026-11-16T05:40:00.123000000Z stdout F a b\n2026-11-16T05:40:00.123000000Z stdout F \n');
  assert.equal(split.used, 5);
});

test('put together again, the entries are the bytes that were printed, however they came', () => {
  const line = fc.integer({ min: 0, max: 3 * partBytesMax }).map((size) => Buffer.alloc(size, 'x'));
  fc.assert(
    fc.property(fc.array(line, { maxLength: 4 }), fc.boolean(), (lines, endsInLine) => {
      const input = Buffer.concat(lines.flatMap((one, index) => (index === 0 ? [one] : [Buffer.from('\n'), one])));
      const all = endsInLine ? Buffer.concat([input, Buffer.from('\n')]) : input;
      const { entries, used } = splitLines(all, true);
      assert.equal(used, all.length);
      assert.ok(entries.every((entry) => entry.line.length <= partBytesMax));
      const again = Buffer.concat(entries.flatMap((entry) => [entry.line, Buffer.from(entry.tag === 'F' ? '\n' : '')]));
      // No newline that was not printed.
      assert.ok(again.equals(all));
    }),
    { numRuns: 30 },
  );
});

test('a log that has grown too long is renamed, and the oldest is deleted', async (t) => {
  const directory = temporaryDirectory(t);
  const clock = new FakeClock(now);
  const log = new ContainerLog(join(directory, 'web', '0.log'), { sizeBytesMax: 50, filesMax: 3 }, clock);
  for (let count = 0; count < 6; count += 1) {
    await log.write('stdout', Buffer.from(`entry number ${count}\n`));
    await clock.advance(1);
  }
  await log.write('stderr', Buffer.from('la'));
  await log.write('stderr', Buffer.from('st'), true);
  await log.close();
  const names = readdirSync(join(directory, 'web')).toSorted();
  assert.deepEqual(names, ['0.log', '0.log.20261116-054000127', '0.log.20261116-054000128']);
  assert.match(readFileSync(join(directory, 'web', '0.log'), 'utf8'), /^\S+ stderr P last\n$/);
  assert.match(readFileSync(join(directory, 'web', names[2] ?? ''), 'utf8'), /entry number 5\n$/);
});

test('rotations of one moment do not overwrite each other', async (t) => {
  const directory = temporaryDirectory(t);
  const log = new ContainerLog(join(directory, '0.log'), { sizeBytesMax: 1, filesMax: 10 }, new FakeClock(now));
  for (let count = 0; count < 4; count += 1) await log.write('stdout', Buffer.from(`${count}\n`));
  await log.close();
  const rotated = readdirSync(directory)
    .toSorted()
    .filter((name) => name !== '0.log');
  assert.deepEqual(
    rotated.map((name) => readFileSync(join(directory, name), 'utf8').slice(-2)),
    ['0\n', '1\n', '2\n', '3\n'],
  );
});
