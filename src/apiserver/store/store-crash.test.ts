/**
 * Kills a process in the middle of writing, again and again, and looks at what is left. The writer is this file started
 * as a program; it prints a line for every write that was acknowledged.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { openStore, put } from '../../testing/servers/stores.ts';
import { storeDefaults } from './durable-store.ts';
import { encryptionKey } from './encryption.ts';

const program = fileURLToPath(import.meta.url);
const options = {
  keys: [encryptionKey(Buffer.alloc(32, 9))],
  // Small, so that compaction is always under way too.
  limits: { ...storeDefaults, changesMin: 50, ageMsMin: -1, changesMax: 100 },
};
const writers = 8;
const keyOf = (writer: number): string => `/registry/core/${writer % 2 === 0 ? 'secrets' : 'configmaps'}/a/${writer}`;
const textOf = (count: number, scale: number): string =>
  `${count} ${'x'.repeat((count * 997 * scale) % (9_000 * scale))}`;
/** With large values the log is full, and moved to the tables, every twenty writes; with small ones hardly ever. */
const scales = [1, 12];

if (process.argv[2] === 'writer') await write(process.argv[3] ?? '');
else {
  for (const size of scales) {
    test(`kill -9 at any moment, values of ${size * 9} kB: acknowledged writes are there, revisions go up, nothing is torn`, (t) =>
      killAndLook(temporaryDirectory(t), size));
  }
}

async function killAndLook(directory: string, size: number): Promise<void> {
  let lastRevision = 0;
  let lastAcknowledged = 0;
  for (let kill = 0; kill < 8; kill += 1) {
    const acknowledged = await writeUntilKilled(directory, 1 + ((kill * 67) % 150), size);
    const store = await openStore(directory, options);
    assert.deepEqual(store.damaged, []);
    for (const { writer, count, revision } of acknowledged.values()) {
      const object = store.get(keyOf(writer));
      assert.ok(
        object !== undefined && object.revision >= revision,
        `writer ${writer}: revision ${revision} was acknowledged`,
      );
      const found = countOf(object.value);
      assert.ok(found >= count && found <= count + 1, 'the acknowledged write, or the one that was under way');
      lastAcknowledged = Math.max(lastAcknowledged, revision);
    }
    assert.ok(store.revision >= lastAcknowledged && store.revision >= lastRevision);
    const { items } = store.list({ prefix: '/' });
    for (const { value, revision } of items) {
      assert.equal(JSON.parse(value).data.text, textOf(countOf(value), size), 'whole');
      assert.ok(revision <= store.revision);
    }
    const changes = store.changesAfter(store.compactedRevision, '/');
    assert.deepEqual(
      changes.map(({ revision }) => revision),
      changes.map((_, i) => store.compactedRevision + 1 + i),
      'no gap',
    );
    for (const { key, value, revision } of changes) {
      const { items: then } = store.list({ prefix: '/', atRevision: revision });
      assert.equal(then.find((object) => object.key === key)?.value, value);
    }
    lastRevision = store.revision;
    await store.close();
  }
  assert.ok(lastAcknowledged > 100, 'it did write');
}

interface Acknowledged {
  readonly writer: number;
  readonly count: number;
  readonly revision: number;
}

/** Resolves to the last acknowledged write of each writer. The kill comes in the middle of what follows the n-th line. */
async function writeUntilKilled(directory: string, lines: number, size: number): Promise<Map<number, Acknowledged>> {
  const child = spawn(process.execPath, [program, 'writer', directory, String(size)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const acknowledged = new Map<number, Acknowledged>();
  let seen = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    const last = JSON.parse(line) as Acknowledged;
    acknowledged.set(last.writer, last);
    seen += 1;
    if (seen === lines) child.kill('SIGKILL');
  }
  assert.ok(seen >= lines, 'the writer ended by itself');
  return acknowledged;
}

async function write(directory: string): Promise<void> {
  const store = await openStore(directory, options);
  await Promise.all(
    Array.from({ length: writers }, async (_, writer) => {
      for (let count = countOf(store.get(keyOf(writer))?.value) + 1; ; count += 1) {
        const { revision } = await put(store, keyOf(writer), textOf(count, Number(process.argv[4])));
        // Waits where nobody reads: what is only queued would be lost with the process.
        writeSync(1, `${JSON.stringify({ writer, count, revision })}\n`);
      }
    }),
  );
}

function countOf(value: string | undefined): number {
  return value === undefined ? 0 : Number.parseInt((JSON.parse(value) as { data: { text: string } }).data.text, 10);
}
