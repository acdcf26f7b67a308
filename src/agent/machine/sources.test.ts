import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { readSources } from './manifests-folder-reader.ts';
import { DiskError } from '../../disk/mounts/disk-error.ts';

async function* pieces(...all: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* all;
}

test('sources come in the order they were named, standard input among them', async (t) => {
  const path = join(temporaryDirectory(t), 'a.yaml');
  writeFileSync(path, 'a');
  const bytes = Buffer.from('bü');
  const files = await readSources([path, '-'], () => pieces(bytes.subarray(0, 2), bytes.subarray(2)));
  assert.deepEqual(files, [
    { name: path, text: 'a' },
    { name: '<stdin>', text: 'bü' },
  ]);
});

const refused = [
  {
    it: 'is not text',
    input: () => pieces(Buffer.from([0xff])),
    says: /^Cannot read "<stdin>": it is not UTF-8 text$/,
  },
  {
    it: 'has no end',
    input: () => pieces(...Array.from({ length: 65 }, () => Buffer.alloc(1024 * 1024))),
    says: /^Cannot read "<stdin>": it is larger than 64 MiB/,
  },
];
for (const { it, input, says } of refused) {
  test(`standard input that ${it} is refused`, async () => {
    await assert.rejects(
      readSources(['-'], input),
      (error) => error instanceof DiskError && error.reason === 'UnreadableSource' && says.test(error.message),
    );
  });
}
