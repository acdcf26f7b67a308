import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServiceRange, nodePortCandidates } from './service-range.ts';

const range = (text: string): ServiceRange => ServiceRange.parse(text) ?? assert.fail(text);

test('a range is read as a network, and what is none is refused', () => {
  assert.deepEqual([range('10.96.7.9/16').text, range('10.96.0.0/16').first], ['10.96.0.0/16', '10.96.0.1']);
  for (const text of ['', '10.96.0.0', '10.96.0.0/11', '10.96.0.0/30', '10.96.0/16', '10.96.0.0/16/1', 'fd00::/112']) {
    assert.equal(ServiceRange.parse(text), undefined, text);
  }
});

test('the network itself and its last address belong to nobody', () => {
  const small = range('192.168.1.0/29');
  const held = [0, 1, 6, 7, 8].map((last) => small.has(`192.168.1.${last}`));
  assert.deepEqual(held, [false, true, true, false, false]);
  assert.equal(small.has('none'), false);
  assert.deepEqual(
    [...small.candidates(8)].sort(),
    [1, 2, 3, 4, 5, 6].map((last) => `192.168.1.${last}`),
  );
});

test('low addresses and ports come last, and each comes once', () => {
  const all = [...range('10.1.0.0/24').candidates(1_000)];
  assert.equal(new Set(all).size, 254);
  const low = all.slice(-16).map((address) => Number(address.split('.')[3]));
  assert.deepEqual(
    low.toSorted((a, b) => a - b),
    Array.from({ length: 16 }, (_, index) => index + 1),
  );
  const ports = [...nodePortCandidates(5)];
  assert.deepEqual([new Set(ports).size, ports[0], Math.min(...ports.slice(0, -86))], [2768, 30091, 30086]);
});
