import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type EndpointSlice, endpointSliceKind } from './endpoint-slice.ts';

const metadata = { name: 's', namespace: 'shop' };
const endpoint = { addresses: ['10.0.0.1'] };
const many = (count: number): string[] => Array.from({ length: count }, (_, index) => `10.0.0.${index}`);

const cases: readonly { it: string; slice: Partial<EndpointSlice>; errors: readonly string[] }[] = [
  { it: 'a slice without anything in it', slice: { addressType: 'IPv4' }, errors: [] },
  { it: 'no kind of address', slice: {}, errors: ['addressType: Required value'] },
  {
    it: 'an unknown kind of address',
    slice: { addressType: 'IP' },
    errors: ['addressType: Unsupported value: "IP": supported values: "FQDN", "IPv4", "IPv6"'],
  },
  {
    it: 'addresses of another kind, and those that mean another machine everywhere',
    slice: { addressType: 'IPv4', endpoints: [{ addresses: ['fd00::1'] }, { addresses: ['127.0.0.1'] }, {}] },
    errors: [
      'endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address',
      'endpoints[1].addresses[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
      'endpoints[2].addresses: Required value: must contain at least 1 address',
    ],
  },
  {
    it: 'a name that is no domain',
    slice: { addressType: 'FQDN', endpoints: [{ addresses: ['db'] }, { addresses: ['db.example.com.'] }] },
    errors: [
      'endpoints[0].addresses[0]: Invalid value: "db": should be a domain with at least two segments separated by dots',
    ],
  },
  {
    it: 'more addresses than one endpoint may have',
    slice: { addressType: 'IPv4', endpoints: [{ addresses: many(101) }] },
    errors: ['endpoints[0].addresses: Too many: 101: must have at most 100 items'],
  },
  {
    it: 'more endpoints than one slice may have',
    slice: { addressType: 'IPv4', endpoints: Array.from({ length: 1_001 }, () => endpoint) },
    errors: ['endpoints: Too many: 1001: must have at most 1000 items'],
  },
  {
    it: 'ports of one name, and an unknown protocol',
    slice: { addressType: 'IPv4', ports: [{ port: 1 }, { port: 2, protocol: 'HTTP' }] },
    errors: [
      'ports[1].name: Duplicate value: ""',
      'ports[1].protocol: Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP"',
    ],
  },
  {
    it: 'a zone twice',
    slice: { addressType: 'IPv4', endpoints: [{ ...endpoint, hints: { forZones: [{ name: 'a' }, { name: 'a' }] } }] },
    errors: ['endpoints[0].hints.forZones[1].name: Duplicate value: "a"'],
  },
];
for (const { it, slice, errors } of cases) {
  test(`an EndpointSlice with ${it}`, () => {
    const whole = endpointSliceKind.complete({ metadata, ...slice });
    assert.deepEqual(
      endpointSliceKind.validate(whole).map(({ message }) => message),
      errors,
    );
  });
}

test('the kind of its addresses stays', () => {
  const old = { metadata: { ...metadata, resourceVersion: '1' }, addressType: 'IPv4' };
  const errors = endpointSliceKind.validateUpdate({ ...old, addressType: 'IPv6' }, old);
  assert.deepEqual(
    errors.map(({ message }) => message),
    ['addressType: Invalid value: "IPv6": field is immutable'],
  );
});
