import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type HostAlias, hostNetworkHostsFile, podHostsFile, wantsHostsFile } from './hosts-file.ts';

const head = `# Kubernetes-managed hosts file.
127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
fe00::0	ip6-localnet
fe00::0	ip6-mcastprefix
fe00::1	ip6-allnodes
fe00::2	ip6-allrouters
`;
const aliases: HostAlias[] = [
  { ip: '123.45.67.89', hostnames: ['foo', 'bar', 'baz'] },
  { ip: '456.78.90.123', hostnames: ['park', 'doo', 'boo'] },
];
const aliasLines = `
# Entries added by HostAliases.
123.45.67.89	foo	bar	baz
456.78.90.123	park	doo	boo
`;

const cases: { it: string; podIps: string[]; domain?: string; hostAliases?: HostAlias[]; tail: string }[] = [
  { it: 'one address and no domain', podIps: ['123.45.67.89'], tail: '123.45.67.89\tpodFoo\n' },
  { it: 'a domain', podIps: ['203.0.113.1'], domain: 'dom', tail: '203.0.113.1\tpodFoo.dom\tpodFoo\n' },
  {
    it: 'two addresses',
    podIps: ['203.0.113.1', 'fd00::6'],
    domain: 'dom',
    tail: '203.0.113.1\tpodFoo.dom\tpodFoo\nfd00::6\tpodFoo.dom\tpodFoo\n',
  },
  {
    it: 'aliases',
    podIps: ['203.0.113.1'],
    hostAliases: aliases,
    tail: `203.0.113.1\tpodFoo\n${aliasLines}`,
  },
];
for (const { it, podIps, domain = '', hostAliases = [], tail } of cases) {
  test(`the hosts file of a pod with ${it}`, () => {
    assert.equal(podHostsFile({ podIps, hostName: 'podFoo', domain, hostAliases }), head + tail);
  });
}

test("the hosts file of a pod on the host's network is the node's own, with aliases behind it", () => {
  const node = '# hosts file for testing.\n127.0.0.1\tlocalhost\n';
  const header = '# Kubernetes-managed hosts file (host network).\n';
  assert.equal(hostNetworkHostsFile(node, []), header + node);
  assert.equal(hostNetworkHostsFile(node, aliases), header + node + aliasLines);
});

const wanted: { it: string; hostNetwork?: boolean; podIps?: string[]; mountPaths?: string[]; wants: boolean }[] = [
  { it: 'with an address gets a file', podIps: ['10.0.0.1'], wants: true },
  { it: 'on the host network gets a file', hostNetwork: true, wants: true },
  { it: 'without an address gets none', wants: false },
  { it: 'that mounts at /etc/hosts gets none', podIps: ['10.0.0.1'], mountPaths: ['/etc/hosts'], wants: false },
  { it: 'that mounts near /etc/hosts gets one', podIps: ['10.0.0.1'], mountPaths: ['/etc/hosts/'], wants: true },
];
for (const { it, hostNetwork = false, podIps = [], mountPaths = [], wants } of wanted) {
  test(`a pod ${it}`, () => {
    assert.equal(wantsHostsFile({ hostNetwork, podIps, mountPaths }), wants);
  });
}
