import assert from 'node:assert/strict';
import { test } from 'node:test';
import { goTime } from './go-time.ts';

test('goTime leaves out a fraction of zeros', () => {
  assert.equal(goTime(Date.UTC(2026, 7, 20, 18, 59, 46)), '2026-08-20 18:59:46 +0000 UTC');
  assert.equal(goTime(Date.UTC(2026, 7, 20, 18, 59, 40, 500)), '2026-08-20 18:59:40.5 +0000 UTC');
});
