/** Reading a container's log: its records, its end, and what becomes of it while it is read. */
import assert from 'node:assert/strict';
import { appendFileSync, renameSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import type { PodLogOptions } from '../kube/kinds/pod/pod-requests.ts';
import { FakeClock } from '../testing/fakes/fake-clock.ts';
import { temporaryDirectory } from '../testing/machine/temporary-directory.ts';
import { LineSplitter, fixedTime, parseLogLine, tailStart } from './log-lines.ts';
import { openLog, readLog } from './read-log.ts';

const time = '2026-08-20T18:59:46.304985622Z';

const records: readonly { readonly it: string; readonly line: string; readonly is: string | undefined }[] = [
  { it: 'a full line', line: `${time} stdout F hello world`, is: 'stdout F hello world' },
  { it: 'a partial line', line: `${time} stderr P hel`, is: 'stderr P hel' },
  { it: 'an empty line', line: `${time} stdout F `, is: 'stdout F ' },
  { it: 'further tags', line: `${time} stdout P:later hel`, is: 'stdout P hel' },
  { it: 'another stream', line: `${time} stdwhat F x`, is: undefined },
  { it: 'no time', line: 'yesterday stdout F x', is: undefined },
  { it: 'no tag', line: `${time} stdout`, is: undefined },
  { it: 'nothing', line: '', is: undefined },
];
for (const { it, line, is } of records) {
  test(`parseLogLine reads ${it}`, () => {
    const record = parseLogLine(Buffer.from(line));
    assert.equal(record && `${record.stream} ${record.isPartial ? 'P' : 'F'} ${record.text.toString()}`, is);
  });
}

test('times of a log are all of one width', () => {
  assert.equal(fixedTime('2026-08-20T18:59:46Z'), '2026-08-20T18:59:46.000000000Z');
  assert.equal(fixedTime('2026-08-20T18:59:46.5+02:00'), '2026-08-20T18:59:46.500000000+02:00');
  assert.equal(fixedTime(time), time);
});

test('LineSplitter gives the same lines however the bytes are cut', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 20 })), fc.integer({ min: 1, max: 30 }), (texts, size) => {
      const bytes = Buffer.from(texts.map((text) => `${text.replaceAll('\n', '')}\n`).join('') + 'rest');
      const splitter = new LineSplitter();
      const seen: string[] = [];
      for (let at = 0; at < bytes.length; at += size) {
        for (const line of splitter.split(bytes.subarray(at, at + size))) seen.push(line.toString());
      }
      assert.deepEqual([...seen, splitter.rest()?.toString()], bytes.toString().split('\n'));
    }),
  );
});

test('LineSplitter drops a line that is longer than any runtime writes', () => {
  const splitter = new LineSplitter();
  const long = Buffer.alloc(700_000, 'x');
  assert.deepEqual([...splitter.split(long), ...splitter.split(long)], []);
  assert.deepEqual(
    Array.from(splitter.split(Buffer.from('y\nnext\n')), (line) => line.toString()),
    ['next'],
  );
});

test('tailStart finds where the last lines begin, as counting from the front does', async (t) => {
  const file = join(temporaryDirectory(t), '0.log');
  const record = fc.record({
    isPartial: fc.boolean(),
    size: fc.oneof(fc.nat(60), fc.integer({ min: 60_000, max: 70_000 })),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(record, { maxLength: 12 }), fc.nat(8), fc.boolean(), async (all, wanted, isCut) => {
      const texts = all.map(({ isPartial, size }) => `${time} stdout ${isPartial ? 'P' : 'F'} ${'x'.repeat(size)}\n`);
      const text = isCut ? texts.join('').slice(0, -1) : texts.join('');
      writeFileSync(file, text);
      // Lines end where a record that is not partial ends; what is left over at the end is a line too.
      const starts = [0];
      let at = 0;
      for (const [index, one] of texts.entries()) {
        at += one.length;
        if (all[index]?.isPartial === false && index < texts.length - 1) starts.push(at);
      }
      const lineStarts = texts.length === 0 ? [] : starts;
      const expected = wanted === 0 ? text.length : (lineStarts.at(-wanted) ?? 0);
      const handle = await open(file, 'r');
      try {
        assert.equal(await tailStart(handle, text.length, wanted), expected);
      } finally {
        await handle.close();
      }
    }),
    { numRuns: 60 },
  );
});

const none: PodLogOptions = {
  follow: false,
  previous: false,
  timestamps: false,
  stream: 'All',
  insecureSkipTLSVerifyBackend: false,
};
const { signal } = new AbortController();
const line = (text: string): string => `${time} stdout F ${text}\n`;

async function read(path: string, options: Partial<PodLogOptions>, clock = new FakeClock()): Promise<string> {
  const pieces: Buffer[] = [];
  const source = { path, isRunning: () => false };
  for await (const bytes of readLog(clock, await openLog(path), source, { ...none, ...options }, signal))
    pieces.push(bytes);
  return Buffer.concat(pieces).toString();
}

const log = [
  '2026-08-20T18:00:00.000000001Z stdout F one',
  'this is no record',
  '2026-08-20T18:30:00.000000001Z stderr P tw',
  '2026-08-20T18:30:00.000000002Z stdout F three',
  '2026-08-20T18:30:00.000000003Z stderr F o',
  '2026-08-20T18:59:00.000000001Z stdout F four',
].join('\n');
const readings: readonly { readonly asked: Partial<PodLogOptions>; readonly text: string }[] = [
  { asked: {}, text: 'one\ntwthree\no\nfour\n' },
  { asked: { tailLines: 1 }, text: 'four\n' },
  { asked: { tailLines: 0 }, text: '' },
  { asked: { tailLines: 100 }, text: 'one\ntwthree\no\nfour\n' },
  { asked: { limitBytes: 5 }, text: 'one\nt' },
  { asked: { sinceSeconds: 60 }, text: 'four\n' },
  { asked: { sinceTime: '2026-08-20T18:30:00.000000003Z' }, text: 'o\nfour\n' },
  { asked: { stream: 'Stderr' }, text: 'two\n' },
  {
    asked: { timestamps: true, stream: 'Stderr' },
    text: '2026-08-20T18:30:00.000000001Z two\n',
  },
  { asked: { timestamps: true, tailLines: 1, limitBytes: 32 }, text: '2026-08-20T18:59:00.000000001Z f' },
];
for (const { asked, text } of readings) {
  test(`readLog gives what was asked: ${JSON.stringify(asked)}`, async (t) => {
    const path = join(temporaryDirectory(t), '0.log');
    writeFileSync(path, log);
    assert.equal(await read(path, asked), text);
  });
}

test('readLog without following ends where the log ended when it began', async (t) => {
  const path = join(temporaryDirectory(t), '0.log');
  writeFileSync(path, line('one') + line('two'));
  const file = await openLog(path);
  const stat = file.stat.bind(file);
  t.mock.method(file, 'stat', async () => {
    const facts = await stat();
    appendFileSync(path, line('meanwhile'));
    return facts;
  });
  const pieces: Buffer[] = [];
  const source = { path, isRunning: () => true };
  for await (const bytes of readLog(new FakeClock(), file, source, { ...none, tailLines: 1 }, signal))
    pieces.push(bytes);
  assert.equal(Buffer.concat(pieces).toString(), 'two\n');
});

class Follower {
  readonly clock = new FakeClock();
  isRunning = true;
  readonly #stop = new AbortController();
  readonly #lines: AsyncGenerator<Buffer>;

  private constructor(lines: (signal: AbortSignal, follower: Follower) => AsyncGenerator<Buffer>) {
    this.#lines = lines(this.#stop.signal, this);
  }

  static async of(t: TestContext, path: string, options: Partial<PodLogOptions> = {}): Promise<Follower> {
    const file = await openLog(path);
    const follower = new Follower((stop, self) =>
      readLog(self.clock, file, { path, isRunning: () => self.isRunning }, { ...none, follow: true, ...options }, stop),
    );
    t.after(() => follower.stop());
    return follower;
  }

  /** What comes next, or undefined at the end. The clock goes on, as it does when no sign of a change comes. */
  async next(): Promise<string | undefined> {
    const state = { isDone: false };
    const next = this.#lines.next().finally(() => (state.isDone = true));
    while (!state.isDone) {
      await new Promise((resolve) => setImmediate(resolve));
      await this.clock.advance(1000);
    }
    const { value, done } = await next;
    return done === true ? undefined : value.length === 0 ? this.next() : value.toString();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#lines.return(undefined).catch(() => {});
  }
}

test('readLog follows what is appended and ends when the container has ended', async (t) => {
  const path = join(temporaryDirectory(t), '0.log');
  writeFileSync(path, line('one') + line('two'));
  const follower = await Follower.of(t, path, { tailLines: 1 });
  assert.equal(await follower.next(), 'two\n');
  appendFileSync(path, `${time} stdout F thr`);
  appendFileSync(path, 'ee\n');
  assert.equal(await follower.next(), 'three\n');
  follower.isRunning = false;
  appendFileSync(path, line('last words'));
  assert.equal(await follower.next(), 'last words\n');
  assert.equal(await follower.next(), undefined);
});

test('readLog follows over a rotation and misses nothing on either side of it', async (t) => {
  const path = join(temporaryDirectory(t), '0.log');
  writeFileSync(path, line('one'));
  const follower = await Follower.of(t, path);
  assert.equal(await follower.next(), 'one\n');
  renameSync(path, `${path}.1`);
  appendFileSync(`${path}.1`, line('between'));
  writeFileSync(path, line('new'));
  assert.equal(await follower.next(), 'between\n');
  assert.equal(await follower.next(), 'new\n');
  writeFileSync(path, '2026-08-20T18:59:46Z stdout F x\n');
  assert.equal(await follower.next(), 'x\n', 'a file that became shorter is read from its beginning');
});

test('readLog ends when its reader leaves', async (t) => {
  const path = join(temporaryDirectory(t), '0.log');
  writeFileSync(path, line('one'));
  const follower = await Follower.of(t, path);
  assert.equal(await follower.next(), 'one\n');
  await follower.stop();
  assert.equal(await follower.next(), undefined);
});
