import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type Range,
  addressIn,
  chooseSubnet,
  firstPod,
  lastPod,
  macOf,
  networkNames,
  numberIn,
  prefixBits,
  rangeOf,
  routedRanges,
} from './subnet.ts';

function isFree(subnet: string, taken: readonly Range[]): boolean {
  const own = rangeOf(subnet, prefixBits);
  return taken.every(({ first, last }) => last < own.first || own.last < first);
}

test('every node has names of its own, short enough for interfaces', () => {
  const [one, other] = [networkNames('/var/lib/one'), networkNames('/var/lib/other')];
  assert.notEqual(one.bridge, other.bridge);
  assert.ok(`${one.endPrefix}${lastPod}`.length <= 15);
  assert.deepEqual(networkNames('/var/lib/one'), one);
});

test('addresses and numbers follow from each other', () => {
  assert.equal(addressIn('10.212.4.0', 1), '10.212.4.1');
  assert.equal(addressIn('10.212.4.0', 300), '10.212.5.44');
  assert.equal(macOf('10.212.5.44'), '0a:58:0a:d4:05:2c');
  for (const number of [firstPod, 256, lastPod]) {
    assert.equal(numberIn('10.212.4.0', addressIn('10.212.4.0', number)), number);
  }
  assert.ok(numberIn('10.212.4.0', '10.212.3.9') < 0);
});

test('a subnet is chosen that nothing on the machine uses, or none', () => {
  const range = fc
    .tuple(fc.constantFrom('10.212.8.1', '10.0.0.1', '172.30.1.1', '192.168.1.1', '10.214.200.9'), fc.nat(32))
    .map(([address, bits]) => rangeOf(address, bits));
  fc.assert(
    fc.property(fc.string(), fc.array(range, { maxLength: 6 }), (directory, taken) => {
      const subnet = chooseSubnet(directory, taken);
      if (subnet !== undefined) assert.ok(isFree(subnet, taken));
      else assert.ok(!isFree('192.168.100.0', taken), 'there was none');
    }),
  );
  const everything = [rangeOf('0.0.0.0', 0)];
  assert.equal(chooseSubnet('/state', everything), undefined);
  assert.match(chooseSubnet('/state', [rangeOf('10.0.0.0', 8)]) ?? '', /^172\.30\./);
});

test('a node keeps its subnet for as long as nothing else has taken it', () => {
  const [before, elsewhere] = ['10.214.8.0', rangeOf('10.213.0.0', 16)];
  assert.notEqual(chooseSubnet('/state', [elsewhere]), before);
  assert.equal(chooseSubnet('/state', [elsewhere], before), before);
  assert.notEqual(chooseSubnet('/state', [rangeOf('10.214.9.0', 24)], before), before);
  assert.match(chooseSubnet('/state', [], 'broken') ?? '', /^10\.212\./);
});

test('routes are read from the table of the kernel, the default one aside', () => {
  const table = [
    'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT',
    'eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0',
    'eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0',
    'broken',
    '',
  ].join('\n');
  assert.deepEqual(routedRanges(table), [rangeOf('192.0.2.0', 24)]);
});
