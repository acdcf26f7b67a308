import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Service } from '../../kube/kinds/service.ts';
import { endpointSubsets, sliceGroups } from './endpoint-plan.ts';

const namespace = 'shop';

function pod(name: string, parts: { status?: object; spec?: object; metadata?: object } = {}): Pod {
  const number = Number(name.slice(1));
  const conditions = [{ type: 'Ready', status: 'True' }];
  return {
    metadata: { name, namespace, uid: `uid-${name}`, labels: { app: 'web' }, ...parts.metadata },
    spec: {
      nodeName: 'n',
      containers: [{ name: 'c', image: 'i', ports: [{ name: 'http', containerPort: 8080 }] }],
      ...parts.spec,
    },
    status: {
      phase: 'Running',
      podIP: `10.0.0.${number}`,
      podIPs: [{ ip: `10.0.0.${number}` }],
      conditions,
      ...parts.status,
    },
  };
}

function service(spec: object = {}): Service {
  const ports = [{ name: 'web', port: 80, protocol: 'TCP', targetPort: 'http' }];
  return {
    metadata: { name: 'web', namespace },
    spec: { selector: { app: 'web' }, ports, clusterIP: '10.96.0.9', ipFamilies: ['IPv4'], ...spec },
  };
}

const node: Node = { metadata: { name: 'n', labels: { 'topology.kubernetes.io/zone': 'z' } } };
const nodes = (name: string): Node | undefined => (name === 'n' ? node : undefined);
const notReady = { conditions: [{ type: 'Ready', status: 'False' }] };
const ending = { deletionTimestamp: '2026-01-01T00:00:00Z' };

/** `10.0.0.1:8080 ready`, for each endpoint of each group. */
function shown(one: Service, pods: readonly Pod[]): string[] {
  return sliceGroups(one, pods, nodes).flatMap(({ ports, endpoints }) =>
    endpoints.map(({ addresses, conditions, hostname }) => {
      const states = Object.entries(conditions ?? {}).flatMap(([state, holds]) => (holds ? [state] : []));
      const numbers = ports.map(({ port }) => port).join(',');
      return [`${addresses?.join(',')}:${numbers}`, ...states, ...(hostname === undefined ? [] : [hostname])].join(' ');
    }),
  );
}

/** `10.0.0.1:8080`, with `!` where it takes no part. */
function shownSubsets(one: Service, pods: readonly Pod[]): string[] {
  return endpointSubsets(one, pods).subsets.flatMap(({ addresses = [], notReadyAddresses = [], ports = [] }) => {
    const numbers = ports.map(({ port }) => port).join(',');
    return [
      ...addresses.map(({ ip }) => `${ip}:${numbers}`),
      ...notReadyAddresses.map(({ ip }) => `!${ip}:${numbers}`),
    ];
  });
}

const other = { containers: [{ name: 'c', image: 'i', ports: [{ name: 'http', containerPort: 9090 }] }] };
const sidecar = {
  containers: [{ name: 'c', image: 'i' }],
  initContainers: [{ name: 's', image: 'i', restartPolicy: 'Always', ports: [{ name: 'http', containerPort: 15001 }] }],
};
const all = { publishNotReadyAddresses: true };
const cases = [
  { it: 'a ready pod', pods: [pod('p1')], slices: ['10.0.0.1:8080 ready serving'], endpoints: ['10.0.0.1:8080'] },
  {
    it: 'one that is not ready',
    pods: [pod('p1', { status: notReady })],
    slices: ['10.0.0.1:8080'],
    endpoints: ['!10.0.0.1:8080'],
  },
  {
    it: 'one that is not ready, where all are published',
    spec: all,
    pods: [pod('p1', { status: notReady })],
    slices: ['10.0.0.1:8080 ready'],
    endpoints: ['10.0.0.1:8080'],
  },
  {
    it: 'one that ends and still answers',
    pods: [pod('p1', { metadata: ending })],
    slices: ['10.0.0.1:8080 serving terminating'],
    endpoints: [],
  },
  { it: 'one that has ended', pods: [pod('p1', { status: { phase: 'Succeeded' } })], slices: [], endpoints: [] },
  {
    it: 'one without an address',
    pods: [pod('p1', { status: { podIP: undefined, podIPs: undefined } })],
    slices: [],
    endpoints: [],
  },
  {
    it: 'one at a loopback address, which no endpoint may have, beside another',
    pods: [pod('p1', { status: { podIP: '127.0.0.1', podIPs: [{ ip: '127.0.0.1' }] } }), pod('p2')],
    slices: ['10.0.0.2:8080 ready serving'],
    endpoints: ['10.0.0.2:8080'],
  },
  {
    it: 'one of another application',
    pods: [pod('p1', { metadata: { labels: { app: 'db' } } })],
    slices: [],
    endpoints: [],
  },
  { it: 'one of another namespace', pods: [pod('p1', { metadata: { namespace: 'bank' } })], slices: [], endpoints: [] },
  {
    it: 'one of a node that is gone',
    pods: [pod('p1', { spec: { nodeName: 'm' } })],
    slices: [],
    endpoints: ['10.0.0.1:8080'],
  },
  {
    it: 'pods that name the port differently',
    pods: [pod('p1'), pod('p2', { spec: other })],
    slices: ['10.0.0.1:8080 ready serving', '10.0.0.2:9090 ready serving'],
    endpoints: ['10.0.0.1:8080', '10.0.0.2:9090'],
  },
  {
    it: 'one that does not name the port',
    pods: [pod('p1', { spec: { containers: [{ name: 'c', image: 'i' }] } })],
    slices: ['10.0.0.1: ready serving'],
    endpoints: [],
  },
  {
    it: 'a port of a sidecar',
    pods: [pod('p1', { spec: sidecar })],
    slices: ['10.0.0.1:15001 ready serving'],
    endpoints: ['10.0.0.1:15001'],
  },
  {
    it: 'a service without an address and without ports',
    spec: { clusterIP: 'None', ports: undefined },
    pods: [pod('p1', { spec: { hostname: 'first', subdomain: 'web' } })],
    slices: ['10.0.0.1: ready serving first'],
    endpoints: ['10.0.0.1:'],
  },
  { it: 'another family', spec: { ipFamilies: ['IPv6'] }, pods: [pod('p1')], slices: [], endpoints: [] },
];
for (const { it, spec = {}, pods, slices, endpoints } of cases) {
  test(`the addresses behind a service: ${it}`, () => {
    assert.deepEqual(shown(service(spec), pods), slices);
    assert.deepEqual(shownSubsets(service(spec), pods), endpoints);
  });
}

test('an endpoint says where its pod is, and which pod that is', () => {
  const [group] = sliceGroups(service(), [pod('p1')], nodes);
  const targetRef = { kind: 'Pod', name: 'p1', namespace, uid: 'uid-p1' };
  const { conditions: _, ...endpoint } = group?.endpoints[0] ?? {};
  assert.deepEqual(endpoint, { addresses: ['10.0.0.1'], nodeName: 'n', targetRef, zone: 'z' });
});

test('Endpoints hold a thousand addresses, the ready ones first', () => {
  const pods = Array.from({ length: 1_100 }, (_, index) => {
    const ip = `10.0.${Math.floor(index / 250)}.${index % 250}`;
    const state = index < 300 ? notReady : {};
    return pod(`p${index}`, { status: { podIP: ip, podIPs: [{ ip }], ...state } });
  });
  const { subsets, isTruncated } = endpointSubsets(service(), pods);
  assert.deepEqual(
    [subsets[0]?.addresses?.length, subsets[0]?.notReadyAddresses?.length, isTruncated],
    [800, 200, true],
  );
});
