import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type DnsSettings, parseResolvConf, podDns } from './dns.ts';

const resolvConf = 'nameserver 192.0.2.1\nsearch example.com\noptions edns0 ndots:2\n';
const settings: DnsSettings = {
  clusterDns: ['10.96.0.10'],
  clusterDomain: 'cluster.local',
  resolvConf,
  nodeIps: [],
  warnsWithoutCluster: true,
};

function pod(spec: Partial<Pod['spec']>): Pod {
  return { metadata: { name: 'web', namespace: 'shop', uid: 'u1' }, spec: { containers: [], ...spec } };
}

const host = { servers: ['192.0.2.1'], searches: ['example.com'], options: ['edns0', 'ndots:2'] };
const cluster = {
  servers: ['10.96.0.10'],
  searches: ['shop.svc.cluster.local', 'svc.cluster.local', 'cluster.local', 'example.com'],
  options: ['ndots:5'],
};

const cases: readonly {
  readonly it: string;
  readonly spec: Partial<Pod['spec']>;
  readonly settings?: Partial<DnsSettings>;
  readonly is: object;
}[] = [
  { it: 'the cluster by default', spec: {}, is: cluster },
  { it: 'the cluster first', spec: { dnsPolicy: 'ClusterFirst' }, is: cluster },
  { it: 'the host, when the pod has its network', spec: { dnsPolicy: 'ClusterFirst', hostNetwork: true }, is: host },
  {
    it: 'the cluster, when the pod says so with the network of the host',
    spec: { dnsPolicy: 'ClusterFirstWithHostNet', hostNetwork: true },
    is: cluster,
  },
  { it: 'the cluster for a policy that nobody knows', spec: { dnsPolicy: 'Odd' }, is: cluster },
  { it: 'the host', spec: { dnsPolicy: 'Default' }, is: host },
  {
    it: 'nothing but what the pod says',
    spec: {
      dnsPolicy: 'None',
      dnsConfig: { nameservers: ['192.0.2.53'], searches: ['a.test'], options: [{ name: 'ndots', value: '3' }] },
    },
    is: { servers: ['192.0.2.53'], searches: ['a.test'], options: ['ndots:3'] },
  },
  {
    it: 'what the pod says after its policy, once, with its options over those of the policy',
    spec: {
      dnsConfig: {
        nameservers: ['10.96.0.10', '192.0.2.53'],
        searches: ['cluster.local', 'a.test'],
        options: [{ name: 'ndots', value: '1' }, { name: 'rotate' }],
      },
    },
    is: {
      servers: ['10.96.0.10', '192.0.2.53'],
      searches: [...cluster.searches, 'a.test'],
      options: ['ndots:1', 'rotate'],
    },
  },
  {
    it: 'the searches of the host in a cluster without a domain',
    spec: {},
    settings: { clusterDomain: '' },
    is: { ...cluster, searches: ['example.com'] },
  },
  {
    it: 'this machine alone where there is no file',
    spec: { dnsPolicy: 'Default' },
    settings: { resolvConf: undefined, nodeIps: ['192.0.2.9', '2001:db8::9'] },
    is: { servers: ['127.0.0.1', '::1'], searches: ['.'], options: [] },
  },
];
for (const { it, spec, settings: changed = {}, is } of cases) {
  test(`names are asked of ${it}`, () => {
    assert.deepEqual(podDns(pod(spec), { ...settings, ...changed }), { config: is, warnings: [] });
  });
}

test('without DNS in the cluster a pod that wants it has that of the host and says so', () => {
  const { config, warnings } = podDns(pod({}), { ...settings, clusterDns: [] });
  assert.deepEqual(config, host);
  assert.deepEqual(warnings, [
    {
      reason: 'MissingClusterDNS',
      message:
        'pod: "web_shop(u1)". kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.',
      ofNode:
        'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.',
    },
  ]);
});

test('more servers and paths than a C library uses are left out', () => {
  const nameservers = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4'];
  const searches = Array.from({ length: 33 }, (_, index) => `s${index}.test`);
  const { config, warnings } = podDns(pod({ dnsPolicy: 'None', dnsConfig: { nameservers, searches } }), settings);
  assert.deepEqual(config.servers, nameservers.slice(0, 3));
  assert.deepEqual(config.searches, searches.slice(0, 32));
  assert.deepEqual(
    warnings.map(({ message }) => message),
    [
      'Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 192.0.2.1 192.0.2.2 192.0.2.3',
      `Search Line limits were exceeded, some search paths have been omitted, the applied search line is: ${config.searches.join(' ')}`,
    ],
  );
});

test('a path that is too long is left out, and so are those that make the line too long', () => {
  const long = (letter: string, length: number): string => letter.repeat(length);
  const searches = [long('x', 254), ...Array.from({ length: 10 }, (_, index) => long(String(index), 250))];
  const { config } = podDns(pod({ dnsPolicy: 'None', dnsConfig: { searches } }), settings);
  assert.deepEqual(config.searches, searches.slice(1, 9));
});

test("the machine's file: the last search counts, options are merged, comments are none of it", () => {
  const text =
    '# nameserver 192.0.2.9\nnameserver 192.0.2.1\n nameserver\t192.0.2.2 more\nsearch a.test\nsearch b.test. . c.test\noptions ndots:1 rotate\noptions ndots:2\nsortlist 1\n';
  assert.deepEqual(parseResolvConf(text), {
    servers: ['192.0.2.1', '192.0.2.2'],
    searches: ['b.test', 'c.test'],
    options: ['ndots:2', 'rotate'],
  });
  assert.throws(() => parseResolvConf('nameserver\n'), {
    message: 'Encountered error while parsing resolv conf file. Error: nameserver list is empty',
  });
});
