/** From Services and EndpointSlices to what the packet filter is told. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EndpointSlice } from '../kube/kinds/endpoint-slice.ts';
import type { Service } from '../kube/kinds/service.ts';
import { serviceForwards } from './forwards.ts';
import { ServiceDirectory } from './service-directory.ts';

type Spec = Service['spec'];
type Endpoint = NonNullable<EndpointSlice['endpoints']>[number];

function service(name: string, spec: Partial<Spec> = {}, created = '2026-01-01T00:00:00Z'): Service {
  const ports = [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080 }];
  return {
    metadata: { name, namespace: 'shop', creationTimestamp: created },
    spec: { type: 'ClusterIP', clusterIP: '10.96.7.1', clusterIPs: ['10.96.7.1'], ports, ...spec },
  };
}

function slice(of: string, endpoints: readonly Endpoint[], more: Partial<EndpointSlice> = {}): EndpointSlice {
  return {
    metadata: { name: `${of}-1`, namespace: 'shop', labels: { 'kubernetes.io/service-name': of } },
    addressType: 'IPv4',
    endpoints,
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
    ...more,
  };
}

const at = (address: string, conditions: Endpoint['conditions'] = {}): Endpoint => ({
  addresses: [address],
  conditions,
});

/** `10.96.7.1:80 -> 10.0.0.1:8080 10.0.0.2:8080`, with the node port and the protocol where they are not the usual ones. */
function shown(services: readonly Service[], slices: readonly EndpointSlice[]): string[] {
  return serviceForwards(new ServiceDirectory(services, slices)).map(
    ({ address, port, protocol, nodePort, targets, isSticky }) =>
      `${address}:${port}${protocol === 'TCP' ? '' : '/udp'}${nodePort > 0 ? `@${nodePort}` : ''}${isSticky ? '!' : ''} -> ${targets.map((one) => `${one.address}:${one.port}`).join(' ')}`,
  );
}

const cases: readonly {
  readonly it: string;
  readonly spec?: Partial<Spec>;
  readonly slices?: readonly EndpointSlice[];
  readonly forwards: readonly string[];
}[] = [
  {
    it: 'leads to the ready ones, of all slices, each once',
    slices: [
      slice('web', [at('10.0.0.2'), at('10.0.0.1', { ready: true }), at('10.0.0.3', { ready: false, serving: false })]),
      slice('web', [at('10.0.0.1')], {
        metadata: { name: 'web-2', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' } },
      }),
    ],
    forwards: ['10.96.7.1:80 -> 10.0.0.1:8080 10.0.0.2:8080'],
  },
  {
    it: 'leads to those that are about to go, when there are no others',
    slices: [
      slice('web', [
        at('10.0.0.1', { ready: false, serving: true, terminating: true }),
        at('10.0.0.2', { ready: false, serving: false, terminating: true }),
      ]),
    ],
    forwards: ['10.96.7.1:80 -> 10.0.0.1:8080'],
  },
  { it: 'leads nowhere without pods', forwards: ['10.96.7.1:80 -> '] },
  {
    it: 'takes ports by their names and protocols',
    spec: {
      ports: [
        { name: 'dns', protocol: 'UDP', port: 53 },
        { name: 'http', protocol: 'TCP', port: 80 },
        { name: 'x', protocol: 'SCTP', port: 1 },
      ],
    },
    slices: [
      slice('web', [at('10.0.0.1')], {
        ports: [
          { name: 'dns', protocol: 'UDP', port: 5353 },
          { name: 'dns', protocol: 'TCP', port: 1 },
        ],
      }),
    ],
    forwards: ['10.96.7.1:53/udp -> 10.0.0.1:5353', '10.96.7.1:80 -> '],
  },
  {
    it: 'has node ports of the range that is for them',
    spec: {
      type: 'NodePort',
      ports: [
        { name: 'a', port: 1, nodePort: 30001 },
        { name: 'b', port: 2, nodePort: 22 },
      ],
    },
    forwards: ['10.96.7.1:1@30001 -> ', '10.96.7.1:2 -> '],
  },
  {
    it: 'keeps clients where they are asked to stay',
    spec: { sessionAffinity: 'ClientIP' },
    forwards: ['10.96.7.1:80! -> '],
  },
  { it: 'has no address when it is headless', spec: { clusterIP: 'None', clusterIPs: ['None'] }, forwards: [] },
  { it: 'has no address when it is a name', spec: { type: 'ExternalName' }, forwards: [] },
  {
    it: 'uses the address that pods have a family for',
    spec: { clusterIP: 'fd00::1', clusterIPs: ['fd00::1', '10.96.7.9'] },
    forwards: ['10.96.7.9:80 -> '],
  },
  {
    it: 'takes nothing of what is no address or port',
    spec: { clusterIP: '10.96.7.1; drop', clusterIPs: ['10.96.7.1 }'], ports: [{ port: 80 }] },
    forwards: [],
  },
  {
    it: 'leaves out endpoints that are no addresses',
    slices: [
      slice('web', [at('example.com'), at('10.0.0.1 }; flush ruleset'), at('010.0.0.1'), at('::1')], {}),
      slice('other', [at('10.0.0.9')]),
    ],
    forwards: ['10.96.7.1:80 -> '],
  },
];
for (const { it, spec = {}, slices = [], forwards } of cases) {
  test(`a Service ${it}`, () => assert.deepEqual(shown([service('web', spec)], slices), forwards));
}

test('of two Services with one address or node port the older one keeps it', () => {
  const nodePort = { type: 'NodePort', ports: [{ port: 80, nodePort: 30080 }] };
  const thief = service('a', nodePort, '2026-01-02T00:00:00Z');
  const second = service(
    'b',
    { ...nodePort, clusterIP: '10.96.7.2', clusterIPs: ['10.96.7.2'] },
    '2026-01-03T00:00:00Z',
  );
  const expected = ['10.96.7.1:80@30080 -> ', '10.96.7.2:80 -> '];
  assert.deepEqual(shown([second, thief, service('z', nodePort)], []), expected);
});
