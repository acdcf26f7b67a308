import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addressProblems,
  headerNameProblems,
  portNameProblems,
  portProblems,
  searchDomainProblems,
} from './network-names.ts';
import type { Problems } from './names.ts';

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
