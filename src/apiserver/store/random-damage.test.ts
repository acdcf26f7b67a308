/** Random damage to whatever files a store has: it is refused with a sentence, or served without what is damaged; never a crash. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { openStore, put, remove, valueOf } from '../../testing/servers/stores.ts';

const trials = 40;
const objects = 300;
const pageBytes = 4096;
const prefix = '/registry/core/configmaps/a/';

/** Deterministic, so that a failure can be repeated. */
function randomOf(seed: number): (below: number) => number {
  let state = (seed + 1) * 2_654_435_761;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
    return ((state ^ (state >>> 13)) >>> 0) % below;
  };
}

/** One page of one file, mostly one in use: random bytes, zeros, a flipped bit, a few of its first bytes, or another page. */
function damage(directory: string, random: (below: number) => number): string {
  const files = readdirSync(directory).filter((name) => statSync(join(directory, name)).size > 0);
  const name = files[random(files.length)] ?? '';
  const bytes = readFileSync(join(directory, name));
  const pages = Math.ceil(bytes.length / pageBytes);
  const pick = (): number => {
    for (let tries = 0; tries < 1000; tries += 1) {
      const at = random(pages) * pageBytes;
      if (bytes.subarray(at, at + pageBytes).some((byte) => byte !== 0)) return at;
    }
    return 0;
  };
  const at = pick();
  const page = bytes.subarray(at, at + pageBytes);
  const way = random(5);
  if (way === 0) page.forEach((_, index) => (page[index] = random(256)));
  else if (way === 1) page.fill(0);
  else if (way === 2) bytes.copyWithin(at, pick(), pick() + pageBytes);
  else {
    for (let count = way === 3 ? 1 : 16; count > 0; count -= 1) {
      const index = random(way === 3 ? page.length : Math.min(200, page.length));
      page[index] = (page[index] ?? 0) ^ (1 << random(8));
    }
  }
  writeFileSync(join(directory, name), bytes);
  return `${name} at ${at}, way ${way}`;
}

/** Opens each directory, reads all of it, changes all of it twice, and opens it again. A line for each before and after. */
const child = `
  const [stores, ...directories] = process.argv.slice(1);
  const { openStore, put } = await import(stores);
  for (const directory of directories) {
    const outcome = { directory, served: [] };
    console.log(JSON.stringify({ directory }));
    try {
      for (const round of [1, 2]) {
        const store = await openStore(directory);
        outcome.damaged ??= store.damaged.map(({ key }) => key);
        if (round === 1) outcome.served = store.list({ prefix: '/', leavesOutDamaged: true }).items;
        for (const count of [1, 2]) {
          const writes = outcome.served.map(({ key }) => put(store, key, 'y'.repeat(count * 2000)));
          await Promise.all(writes);
        }
        await store.close();
      }
    } catch (error) {
      outcome.error = { reason: error.reason, message: error.message };
    }
    console.log(JSON.stringify(outcome));
  }
`;

interface Outcome {
  readonly directory: string;
  readonly damaged?: readonly string[];
  readonly served?: readonly { readonly key: string; readonly value: string }[];
  readonly error?: { readonly reason?: string; readonly message: string };
}

test('random damage of a store ends in a sentence that names the command to restore a backup, never in a crash', async (t) => {
  const root = temporaryDirectory(t);
  const whole = join(root, 'whole');
  const store = await openStore(whole);
  const values = new Map<string, string>();
  for (let count = 0; count < 2 * objects; count += 1) {
    const key = `${prefix}${count % objects}`;
    const text = 'x'.repeat((count * 37) % 6000);
    const { revision } = await put(store, key, text);
    values.set(key, valueOf(text, revision));
    if (count % 5 === 4 && values.delete(`${prefix}${count % 97}`)) await remove(store, `${prefix}${count % 97}`);
  }
  // As a machine that stopped leaves it: part of it in the tables, part in the log.
  const image = join(root, 'image');
  cpSync(whole, image, { recursive: true, filter: (path) => !path.endsWith('.lock') });
  await store.close();

  const damages = new Map<string, string>();
  for (let seed = 0; seed < trials; seed += 1) {
    const directory = join(root, `trial-${seed}`);
    cpSync(seed % 2 === 0 ? image : whole, directory, { recursive: true });
    damages.set(directory, damage(directory, randomOf(seed)));
  }
  const stores = new URL('../../testing/servers/stores.js', import.meta.url).href;
  const ran = spawnSync(process.execPath, ['--input-type=module', '-e', child, stores, ...damages.keys()], {
    encoding: 'utf8',
    maxBuffer: 1024 ** 3,
  });
  const outcomes = ran.stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Outcome);
  const last = outcomes.at(-1);
  assert.equal(ran.status, 0, `${ran.signal} after ${damages.get(last?.directory ?? '')}: ${ran.stderr}`);
  const ended = outcomes.filter(({ served }) => served !== undefined);
  assert.equal(ended.length, trials);
  for (const { directory, error, damaged = [], served = [] } of ended) {
    const what = damages.get(directory) ?? '';
    if (error !== undefined) {
      assert.match(error.message, /mountlet apiserver restore FILE --data/, what);
      assert.ok(error.reason !== undefined, `${what}: ${error.message}`);
    }
    if (damaged.length > 0 || error !== undefined) continue;
    // What opens without a word is whole.
    assert.deepEqual(new Map(served.map(({ key, value }) => [key, value])), values, what);
  }
  const refused = ended.filter(({ error }) => error !== undefined).length;
  assert.ok(refused > 0 && refused < trials, `${refused} refused`);
});
