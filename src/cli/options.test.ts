import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseListen } from './options.ts';

const good = [
  { text: '127.0.0.1:6443', is: { host: '127.0.0.1', port: 6443 } },
  { text: '[::1]:0', is: { host: '::1', port: 0 } },
  { text: ':8443', is: { host: '127.0.0.1', port: 8443 } },
  { text: 'localhost:1', is: { host: 'localhost', port: 1 } },
];
for (const { text, is } of good) test(`--listen ${text} is understood`, () => assert.deepEqual(parseListen(text), is));

for (const text of ['', '127.0.0.1', '6443', '::1:6443', 'a:b', 'host:65536', 'host:-1', '[::1]']) {
  test(`--listen ${JSON.stringify(text)} is refused`, () =>
    assert.throws(() => parseListen(text), { reason: 'InvalidListenAddress' }));
}
