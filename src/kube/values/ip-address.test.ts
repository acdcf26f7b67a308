import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type IpFamily, orderPodIps, parseIpAddress } from './ip-address.ts';

const addresses: [text: string, shown: string | undefined][] = [
  ['10.0.0.1', 'IPv4 10.0.0.1'],
  ['010.000.000.001', 'IPv4 10.0.0.1'],
  ['fd01:0:0:0:0:0:0:1234', 'IPv6 fd01::1234'],
  ['FD01::1234', 'IPv6 fd01::1234'],
  ['::', 'IPv6 ::'],
  ['1:0:0:2:0:0:0:3', 'IPv6 1:0:0:2::3'],
  ['::ffff:1.2.3.4', 'IPv4 1.2.3.4'],
  ['::ffff:0102:0304', 'IPv4 1.2.3.4'],
  ['256.0.0.1', undefined],
  ['1.2.3', undefined],
  ['1.2.3.4.5', undefined],
  ['0x1.2.3.4', undefined],
  ['1.2.3.4 ', undefined],
  ['fe80::1%eth0', undefined],
  ['1::2::3', undefined],
  ['::1]/@[::2', undefined],
  ['', undefined],
  ['pod', undefined],
];
for (const [text, shown] of addresses) {
  test(`${JSON.stringify(text)} is ${shown ?? 'no address'}`, () => {
    const address = parseIpAddress(text);
    assert.equal(address && `${address.family} ${address.text}`, shown);
  });
}

const orders: { it: string; node?: IpFamily; ips: string; ordered: string }[] = [
  { it: 'keeps a single address', ips: '10.0.0.1', ordered: '10.0.0.1' },
  { it: 'keeps two in order', ips: '10.0.0.1 fd01::1234', ordered: '10.0.0.1 fd01::1234' },
  { it: "puts the node's family first", ips: 'fd01::1234 10.0.0.1', ordered: '10.0.0.1 fd01::1234' },
  { it: 'puts IPv6 first on an IPv6 node', node: 'IPv6', ips: '10.0.0.1 fd01::1234', ordered: 'fd01::1234 10.0.0.1' },
  { it: 'takes the other family alone', node: 'IPv6', ips: '10.0.0.1', ordered: '10.0.0.1' },
  { it: 'takes one address of a family', ips: '10.0.0.1 10.0.0.2 10.0.0.3', ordered: '10.0.0.1' },
  {
    it: 'takes the first of each family',
    ips: '10.0.0.1 10.0.0.2 fd01::1234 10.0.0.3 fd01::5678',
    ordered: '10.0.0.1 fd01::1234',
  },
  { it: 'writes them in one form', ips: '010.000.000.001 fd01:0:0:0:0:0:0:1234', ordered: '10.0.0.1 fd01::1234' },
  { it: 'drops what is no address', ips: 'x 10.0.0.1', ordered: '10.0.0.1' },
  { it: 'gives nothing for nothing', ips: '', ordered: '' },
];
for (const { it, node = 'IPv4', ips, ordered } of orders) {
  test(`objects invariant 65: orderPodIps ${it}`, () => {
    assert.equal(orderPodIps(ips.split(' '), node).join(' '), ordered);
  });
}
