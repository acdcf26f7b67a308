import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hugePageSizeBytes } from './file-system.ts';

const mebi = 1n << 20n;
const cases = [
  { options: ['rw', 'pagesize=2M'], bytes: 2n * mebi },
  { options: ['pagesize=2Mi'], bytes: 2n * mebi },
  { options: ['pagesize=1024M'], bytes: 1024n * mebi },
  { options: ['pagesize=1G'], bytes: 1024n * mebi },
  { options: ['pagesize=64K'], bytes: 65_536n },
  { options: ['rw', 'pagesizes=2M'], bytes: undefined },
  { options: ['pagesize='], bytes: undefined },
];
for (const { options, bytes } of cases) {
  test(`${options.join()} is a page size of ${bytes}`, () => {
    assert.equal(hugePageSizeBytes({ superOptions: options, options: [] }), bytes);
  });
}
