/** What the API says of Services becomes rules of the machine. The effects: ../services.test.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ServiceForward } from '../../runtime.ts';
import { movedFlows, serviceRules } from './service-rules.ts';
import { networkNames } from './subnet.ts';

const [names, subnet] = [networkNames('/state'), '10.212.4.0'];
const web: ServiceForward = {
  key: 'default/web TCP 80',
  protocol: 'TCP',
  address: '10.96.7.1',
  port: 80,
  nodePort: 0,
  targets: [{ address: '10.212.4.2', port: 8080 }],
  isSticky: false,
};
const rules = (...forwards: readonly ServiceForward[]): string =>
  serviceRules({ names, subnet, machinePorts: [6443], forwards });

test('a port of a Service is one chain, which its address and its node port lead to', () => {
  const text = rules({ ...web, nodePort: 30080 });
  const [, id = ''] = /chain to-([0-9a-f]{16}) \{ meta l4proto tcp dnat to 10\.212\.4\.2:8080; \}/.exec(text) ?? [];
  assert.ok(text.includes(`elements = { 10.96.7.1 . tcp . 80 : goto to-${id} }`), text);
  assert.ok(text.includes(`elements = { tcp . 30080 : goto at-${id} }`));
  assert.ok(text.includes('set addresses { type ipv4_addr; elements = { 10.96.7.1 }; }'));
  const none = rules({ ...web, nodePort: 30080, targets: [] });
  assert.ok(none.includes('elements = { 10.96.7.1 }') && !none.includes('dnat'), 'known, and refused');
  assert.equal(rules(web), rules({ ...web }), 'the same text for the same Services');
});

test('whatever a key contains, the text has only words of its own', () => {
  const sane = /^[a-z0-9 ."{}@:;,!=&|/*+_\n-]*$/i;
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (key) => {
      const text = rules({ ...web, key: `${key}; } } table ip evil { }` });
      assert.match(text, sane);
      assert.ok(!text.includes('evil'));
    }),
  );
});

const wrong: readonly (readonly [string, Partial<ServiceForward>])[] = [
  ['an address with more behind it', { address: '10.96.7.1 }; flush ruleset; {' }],
  ['an IPv6 address', { address: 'fd00::1' }],
  ['a target that is no address', { targets: [{ address: '10.0.0.1:22 accept', port: 80 }] }],
  ['a port that is none', { targets: [{ address: '10.0.0.1', port: Number('80a') }] }],
  ['a port of 0', { port: 0 }],
  ['a node port with a fraction', { nodePort: 30000.5 }],
];
for (const [what, part] of wrong) {
  test(`${what} becomes no rule`, () => {
    assert.throws(() => rules({ ...web, ...part }), { reason: 'RuntimeFailed', message: /^Cannot forward to / });
  });
}

test('no Service takes an address that means something here already, or leads to one of this machine alone', () => {
  for (const address of [
    '127.0.0.1',
    '0.0.0.0',
    '169.254.169.254',
    '224.0.0.1',
    '255.255.255.255',
    '10.212.4.1',
    '10.212.5.9',
  ]) {
    assert.ok(!rules({ ...web, address }).includes('dnat'), address);
  }
  for (const address of ['127.0.0.1', '0.0.0.0', '169.254.169.254', '224.0.0.1', '255.255.255.255']) {
    assert.ok(!rules({ ...web, targets: [{ address, port: 8080 }] }).includes('dnat'), address);
  }
  const ofServer = (port: number): string => rules({ ...web, targets: [{ address: '127.0.0.1', port }] });
  assert.ok(ofServer(6443).includes('dnat to 127.0.0.1:6443'), 'what pods may reach anyway');
  assert.ok(!ofServer(6444).includes('dnat'));
});

test('UDP is sent elsewhere from now on where a target is gone or was not there, and is left alone where one has come', () => {
  const at = (...addresses: readonly string[]): ServiceForward => ({
    ...web,
    protocol: 'UDP',
    targets: addresses.map((address) => ({ address, port: 53 })),
  });
  const moved = (before: readonly ServiceForward[], after: readonly ServiceForward[]): number =>
    movedFlows(before, after).length;
  assert.deepEqual(movedFlows([], [at('10.0.0.1')]), [{ address: '10.96.7.1', port: 80, nodePort: 0 }]);
  assert.equal(moved([at('10.0.0.1')], [at('10.0.0.2')]), 1);
  assert.equal(moved([at('10.0.0.1')], []), 1);
  assert.equal(moved([at('10.0.0.1')], [at('10.0.0.1', '10.0.0.2')]), 0);
  assert.equal(moved([web], []), 0, 'over TCP connections end by themselves');
});
