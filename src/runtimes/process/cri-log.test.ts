import assert from 'node:assert/strict';
import { readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../../testing/fake-clock.ts';
import { temporaryDirectory } from '../../testing/temporary-directory.ts';
import { logEntries, partBytesMax, splitLines } from './cri-log.ts';
import { LogFile } from './log-file.ts';
import { LogPumps } from './log-pump.ts';

const now = Date.UTC(2026, 10, 16, 5, 40, 0, 123);
const limits = { sizeBytesMax: 1 << 20, filesMax: 5 };

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
      assert.ok(again.equals(all) || again.equals(Buffer.concat([all, Buffer.from('\n')])));
    }),
    { numRuns: 30 },
  );
});

test('a log that has grown too long is renamed, and only so many are kept', (t) => {
  const directory = temporaryDirectory(t);
  const file = new LogFile(join(directory, 'web', '0.log'), { sizeBytesMax: 10, filesMax: 3 });
  for (let count = 0; count < 6; count += 1) file.append(Buffer.from(`entry number ${count}\n`), now + count);
  file.append(Buffer.from('last\n'), now);
  file.close();
  const names = readdirSync(join(directory, 'web')).toSorted();
  assert.deepEqual(names, ['0.log', '0.log.20261116-054000127', '0.log.20261116-054000128']);
  assert.equal(readFileSync(join(directory, 'web', '0.log'), 'utf8'), 'last\n');
  assert.equal(readFileSync(join(directory, 'web', names[2] ?? ''), 'utf8'), 'entry number 5\n');
});

test('rotations of one moment do not overwrite each other', (t) => {
  const directory = temporaryDirectory(t);
  const file = new LogFile(join(directory, '0.log'), { sizeBytesMax: 1, filesMax: 10 });
  for (let count = 0; count < 4; count += 1) file.append(Buffer.from(`${count}\n`), now);
  file.close();
  const rotated = readdirSync(directory)
    .toSorted()
    .filter((name) => name !== '0.log');
  assert.deepEqual(
    rotated.map((name) => readFileSync(join(directory, name), 'utf8')),
    ['0\n', '1\n', '2\n', '3\n'],
  );
});

test('a pump goes on where it was after a restart, and after the log was renamed', async (t) => {
  const directory = temporaryDirectory(t);
  const log = join(directory, '0.log');
  const clock = new FakeClock(now);
  const lines = (): string[] =>
    readFileSync(log, 'utf8')
      .split('\n')
      .map((line) => line.slice(31));
  const first = new LogPumps(join(directory, 'spool'), limits, clock);
  first.watch();
  first.add('c', log);
  writeFileSync(`${first.spool('c')}.out`, 'one\ntw');
  await first.drain('c');
  await first.close();
  assert.deepEqual(lines(), ['stdout F one', '']);

  await appendFile(`${first.spool('c')}.out`, 'o\nthree\n');
  const second = new LogPumps(join(directory, 'spool'), limits, clock);
  second.watch();
  second.add('c', log);
  await second.drain('c');
  assert.deepEqual(lines(), ['stdout F one', 'stdout F two', 'stdout F three', '']);

  renameSync(log, `${log}.old`);
  second.reopen('c');
  await appendFile(`${first.spool('c')}.err`, 'four');
  await second.finish('c');
  assert.deepEqual(lines(), ['stderr F four', '']);
  assert.deepEqual(readdirSync(join(directory, 'spool')), []);
  await second.close();
});

test('listeners get every byte once, unfinished lines included', async (t) => {
  const directory = temporaryDirectory(t);
  const pumps = new LogPumps(join(directory, 'spool'), limits, new FakeClock(now));
  pumps.watch();
  pumps.add('c', join(directory, '0.log'));
  let heard = '';
  const stop = pumps.listen('c', (_, chunk) => (heard += chunk.toString()));
  for (const chunk of ['pro', 'mpt> ', 'done\nnext', '\n']) {
    await appendFile(`${pumps.spool('c')}.out`, chunk);
    await pumps.drain('c');
  }
  stop();
  assert.equal(heard, 'prompt> done\nnext\n');
  await pumps.close();
});
