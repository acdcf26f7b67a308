/** What becomes a rule or a file of the machine. The effects: ../networks.test.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PortMapping } from '../../runtime.ts';
import { packetRules } from './packet-rules.ts';
import { resolverText } from './resolvers.ts';
import { networkNames } from './subnet.ts';

function rulesFor(port: Partial<PortMapping>): string {
  const mapping: PortMapping = { protocol: 'TCP', containerPort: 80, hostPort: 8080, hostIp: '', ...port };
  return packetRules({
    names: networkNames('/state'),
    subnet: '10.212.4.0',
    hostPorts: [{ ...mapping, address: '10.212.4.2' }],
    machinePorts: [],
  });
}

test('a hostPort is a rule for its protocol, everywhere or at one address', () => {
  assert.match(rulesFor({}), /^ {4}tcp dport 8080 dnat to 10\.212\.4\.2:80$/m);
  assert.match(rulesFor({ protocol: 'UDP', hostIp: '0.0.0.0' }), /^ {4}udp dport 8080 dnat to 10\.212\.4\.2:80$/m);
  assert.match(rulesFor({ hostIp: '192.0.2.7' }), /^ {4}ip daddr 192\.0\.2\.7 tcp dport 8080 dnat to/m);
});

const wrong: readonly Partial<PortMapping>[] = [
  { hostIp: '::1' },
  { hostIp: '1.2.3.4 accept; add rule' },
  { hostPort: 65536 },
  { containerPort: 0 },
  { hostPort: Number.NaN },
];
for (const port of wrong) {
  test(`${JSON.stringify(port)} becomes no rule`, () => {
    assert.throws(() => rulesFor(port), { reason: 'RuntimeFailed', message: /^Cannot publish / });
  });
}

test('what a pod says of its names adds no line that it could not ask for', () => {
  const servers = ['10.0.0.53', '1.1.1.1\nnameserver 6.6.6.6', ''];
  const dns = { servers, searches: ['a.local', 'b c', '# d'], options: ['ndots:5', ';'] };
  assert.equal(resolverText(dns), 'search a.local\nnameserver 10.0.0.53\noptions ndots:5\n');
  assert.equal(resolverText({ servers: [], searches: [], options: [] }), '');
});
