import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Problems } from './names.ts';
import {
  type IpFamily,
  addressProblems,
  headerNameProblems,
  orderPodIps,
  parseIpAddress,
  portNameProblems,
  portProblems,
  searchDomainProblems,
} from './network-names.ts';

const notAnAddress = 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)';
const cases: readonly { rule: (value: never) => Problems; value: string | number; problems: Problems }[] = [
  { rule: addressProblems, value: '10.0.0.1', problems: [] },
  { rule: addressProblems, value: 'FE80:0:0:0:0:0:0:0abc', problems: [] },
  { rule: addressProblems, value: '::1', problems: [] },
  { rule: addressProblems, value: '', problems: [notAnAddress] },
  { rule: addressProblems, value: '10.0.0', problems: [notAnAddress] },
  { rule: addressProblems, value: '10.0.0.256', problems: [notAnAddress] },
  { rule: addressProblems, value: 'fe80::1%eth0', problems: [notAnAddress] },
  { rule: addressProblems, value: '10.0.0.01', problems: ['must not have leading 0s'] },
  { rule: addressProblems, value: '::ffff:10.0.0.1', problems: ['must not be an IPv4-mapped IPv6 address'] },
  { rule: addressProblems, value: '::ffff:a00:1', problems: ['must not be an IPv4-mapped IPv6 address'] },
  { rule: portProblems, value: 1, problems: [] },
  { rule: portProblems, value: 65535, problems: [] },
  { rule: portProblems, value: 0, problems: ['must be between 1 and 65535, inclusive'] },
  { rule: portNameProblems, value: 'http-2', problems: [] },
  {
    rule: portNameProblems,
    value: '',
    problems: [
      'must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
      'must contain at least one letter (a-z)',
    ],
  },
  { rule: portNameProblems, value: '80', problems: ['must contain at least one letter (a-z)'] },
  { rule: headerNameProblems, value: 'X-A', problems: [] },
  { rule: searchDomainProblems, value: '_tcp.example.com', problems: [] },
];
for (const { rule, value, problems } of cases) {
  test(`${rule.name} has ${problems.length} for "${value}"`, () => {
    assert.deepEqual(rule(value as never), problems);
  });
}

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
  { it: 'drops what is not an address', ips: 'x 10.0.0.1', ordered: '10.0.0.1' },
  { it: 'gives nothing for nothing', ips: '', ordered: '' },
];
for (const { it, node = 'IPv4', ips, ordered } of orders) {
  test(`orderPodIps ${it}`, () => {
    assert.equal(orderPodIps(ips.split(' '), node).join(' '), ordered);
  });
}
