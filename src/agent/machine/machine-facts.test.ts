import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { release } from 'node:os';
import { test } from 'node:test';
import { readQuantity } from '../../kube/values/quantity.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { defaultInterface, machineFacts, osImageOf } from './machine-facts.ts';

test('the facts of this machine are all there', (t) => {
  const facts = machineFacts(temporaryDirectory(t), undefined);
  for (const name of ['cpu', 'memory', 'ephemeral-storage']) {
    assert.ok((readQuantity(facts.capacity[name])?.mantissa ?? 0n) > 0n, name);
  }
  assert.equal(facts.internalAddresses.length, 1);
  for (const address of facts.internalAddresses) assert.notEqual(isIP(address), 0, address);
  assert.match(facts.bootId, /^[0-9a-f-]{36}$/);
  assert.equal(facts.kernelVersion, release());
  assert.notEqual(facts.osImage, '');
});

test('an address that the operator gave is the node’s', (t) => {
  assert.deepEqual(machineFacts(temporaryDirectory(t), '192.0.2.7').internalAddresses, ['192.0.2.7']);
});

const images: readonly (readonly [text: string, image: string])[] = [
  ['NAME=Debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n', 'Debian GNU/Linux 12 (bookworm)'],
  ["PRETTY_NAME='Alpine'\n", 'Alpine'],
  ['PRETTY_NAME=Plain\n', 'Plain'],
  ['PRETTY_NAME="The \\"best\\" \\$1"\n', 'The "best" $1'],
  ['ID=unknown\n', 'Linux'],
  ['', 'Linux'],
];
for (const [text, image] of images) {
  test(`the system of ${JSON.stringify(text)} is ${image}`, () => {
    assert.equal(osImageOf(text), image);
  });
}

test('the way out is the default route with the lowest metric, and there may be none', () => {
  const head = 'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT';
  const route = (name: string, destination: string, metric: number, mask: string): string =>
    `${name}\t${destination}\t0100000A\t0003\t0\t0\t${metric}\t${mask}\t0\t0\t0`;
  const table = [
    head,
    route('wlan0', '00000000', 600, '00000000'),
    route('eth0', '00000000', 100, '00000000'),
    route('docker0', '000011AC', 0, '0000FFFF'),
  ].join('\n');
  assert.equal(defaultInterface(table), 'eth0');
  assert.equal(defaultInterface(head), undefined);
});
