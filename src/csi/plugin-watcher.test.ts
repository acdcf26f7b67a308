import assert from 'node:assert/strict';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { type Server, createServer } from 'node:net';
import { basename, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FakeClock, settle } from '../testing/fakes/fake-clock.ts';
import { temporaryDirectory } from '../testing/machine/temporary-directory.ts';
import { type PluginSockets, watchPluginSockets } from './plugin-watcher.ts';

function listenAt(t: TestContext, path: string): Promise<Server> {
  const server = createServer();
  t.after(() => server.close());
  return new Promise((resolve) => server.listen(path, () => resolve(server)));
}

/** Follows a directory below `parent` that may not be there yet, on a clock that stands still: only events are seen. */
class Followed {
  readonly directory: string;
  readonly clock = new FakeClock();
  readonly #stop = new AbortController();
  readonly #sockets: AsyncGenerator<PluginSockets>;
  #last: PluginSockets = new Map();

  constructor(t: TestContext, parent: string) {
    this.directory = join(parent, 'registry');
    this.#sockets = watchPluginSockets(this.directory, this.clock, this.#stop.signal);
    // A watch alone does not keep a process.
    const alive = setInterval(() => {}, 1_000);
    t.after(() => {
      clearInterval(alive);
      this.#stop.abort();
    });
  }

  /** Reads on until these are all. */
  async until(...names: readonly string[]): Promise<PluginSockets> {
    for (;;) {
      const { value } = await this.#sockets.next();
      this.#last = value ?? this.#last;
      const found = [...this.#last.keys()].map((path) => basename(path)).sort();
      if (JSON.stringify(found) === JSON.stringify([...names].sort())) return this.#last;
    }
  }
}

test('sockets that are there, come, move and go are found, below the directory too, without a clock', async (t) => {
  const followed = new Followed(t, temporaryDirectory(t));
  const { directory } = followed;
  mkdirSync(join(directory, 'deep', 'er'), { recursive: true });
  const first = await listenAt(t, join(directory, 'first.sock'));
  await followed.until('first.sock');
  await listenAt(t, join(directory, 'deep', 'er', 'second'));
  await followed.until('first.sock', 'second');
  mkdirSync(join(directory, 'later'));
  await listenAt(t, join(directory, 'later', 'third.sock'));
  await followed.until('first.sock', 'second', 'third.sock');
  renameSync(join(directory, 'later', 'third.sock'), join(directory, 'fourth.sock'));
  await followed.until('first.sock', 'second', 'fourth.sock');
  first.close();
  await followed.until('second', 'fourth.sock');
  rmSync(join(directory, 'deep'), { recursive: true });
  await followed.until('fourth.sock');
});

test('a socket that was removed and made again is another', async (t) => {
  const followed = new Followed(t, temporaryDirectory(t));
  await followed.until();
  const path = join(followed.directory, 'driver.sock');
  const seen = new Set<string | undefined>();
  for (let times = 0; times < 5; times += 1) {
    const server = await listenAt(t, path);
    seen.add((await followed.until('driver.sock')).get(path));
    server.close();
    await followed.until();
  }
  assert.equal(seen.size, 5);
});

test('only sockets count: not files, links or names with a dot, and a thousand of them change nothing', async (t) => {
  const outside = temporaryDirectory(t);
  const followed = new Followed(t, temporaryDirectory(t));
  const { directory } = followed;
  await listenAt(t, join(outside, 'elsewhere.sock'));
  mkdirSync(join(directory, '.hidden'), { recursive: true });
  await listenAt(t, join(directory, '.dot.sock'));
  await listenAt(t, join(directory, '.hidden', 'in.sock'));
  symlinkSync(join(outside, 'elsewhere.sock'), join(directory, 'link.sock'));
  symlinkSync(outside, join(directory, 'linked'));
  for (let index = 0; index < 1_000; index += 1) writeFileSync(join(directory, `file-${index}.sock`), '');
  await followed.until();
  await listenAt(t, join(directory, 'real.sock'));
  await followed.until('real.sock');
});

test('more directories than a node needs are not followed', async (t) => {
  const followed = new Followed(t, temporaryDirectory(t));
  let deepest = followed.directory;
  for (let depth = 0; depth < 20; depth += 1) deepest = join(deepest, String(depth));
  mkdirSync(deepest, { recursive: true });
  for (let index = 0; index < 200; index += 1) mkdirSync(join(followed.directory, `d${index}`));
  await listenAt(t, join(followed.directory, 'real.sock'));
  await followed.until('real.sock');
});

test('a directory that was moved away or removed is made again and followed', async (t) => {
  const followed = new Followed(t, temporaryDirectory(t));
  const { directory } = followed;
  await followed.until();
  for (const away of [() => renameSync(directory, `${directory}-gone`), () => rmSync(directory, { recursive: true })]) {
    away();
    await followed.until();
    const server = await listenAt(t, join(directory, 'new.sock'));
    await followed.until('new.sock');
    server.close();
    await followed.until();
  }
});

test('a sweep reads the directory though nothing was reported', async (t) => {
  const followed = new Followed(t, temporaryDirectory(t));
  await followed.until();
  const again = followed.until();
  await settle();
  await followed.clock.advance(10_000);
  await again;
});
