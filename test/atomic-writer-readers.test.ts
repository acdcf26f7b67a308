/** No reader ever sees half an update: a process reads without pause while another writes. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { AtomicWriter } from '../src/disk/writer/atomic-writer.ts';
import { temporaryDirectory } from '../src/testing/machine/temporary-directory.ts';

const reader = join(dirname(fileURLToPath(import.meta.url)), 'fixtures', 'volume-reader.js');
const updates = 300;

for (const under of [undefined, '/dev/shm']) {
  test(`a reader never sees a mix of two versions (${under ?? 'temporary directory'})`, async (t) => {
    const base = temporaryDirectory(t, under);
    const volume = join(base, 'volume');
    const stopFile = join(base, 'stop');
    mkdirSync(volume);
    const child = spawn(process.execPath, [reader, volume, stopFile], { stdio: ['ignore', 'pipe', 'inherit'] });
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    await lines.next(); // it is reading
    const writer = new AtomicWriter(volume);
    for (let update = 0; update < updates; update += 1) {
      const data = Buffer.alloc(4096, 65 + (update % 50));
      writer.write(new Map(Array.from({ length: 8 }, (_, file) => [`file-${file}`, { data, mode: 0o644 }])));
      await setImmediate();
    }
    writeFileSync(stopFile, '');
    const { value } = await lines.next();
    const { mixed, complete, versions } = JSON.parse(String(value)) as Record<string, number>;
    assert.equal(mixed, 0);
    assert.ok(Number(complete) > 0 && Number(versions) > 1, `it read ${complete} times, ${versions} versions`);
  });
}
