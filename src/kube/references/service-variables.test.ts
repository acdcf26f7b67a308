import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ServicePort, type VariableService, serviceVariables, serviceVariablesOf } from './environment.ts';

const cases: { it: string; service: VariableService; variables: string[] }[] = [
  {
    it: 'one port',
    service: service('foo-bar', '1.2.3.4', [{ port: 8080, protocol: 'TCP' }]),
    variables: [
      'FOO_BAR_SERVICE_HOST=1.2.3.4',
      'FOO_BAR_SERVICE_PORT=8080',
      'FOO_BAR_PORT=tcp://1.2.3.4:8080',
      'FOO_BAR_PORT_8080_TCP=tcp://1.2.3.4:8080',
      'FOO_BAR_PORT_8080_TCP_PROTO=tcp',
      'FOO_BAR_PORT_8080_TCP_PORT=8080',
      'FOO_BAR_PORT_8080_TCP_ADDR=1.2.3.4',
    ],
  },
  {
    it: 'named ports of two protocols',
    service: service('abc-123', '5.6.7.8', [
      { name: 'u-d-p', port: 8081, protocol: 'UDP' },
      { name: 't-c-p', port: 8081, protocol: 'TCP' },
    ]),
    variables: [
      'ABC_123_SERVICE_HOST=5.6.7.8',
      'ABC_123_SERVICE_PORT=8081',
      'ABC_123_SERVICE_PORT_U_D_P=8081',
      'ABC_123_SERVICE_PORT_T_C_P=8081',
      'ABC_123_PORT=udp://5.6.7.8:8081',
      'ABC_123_PORT_8081_UDP=udp://5.6.7.8:8081',
      'ABC_123_PORT_8081_UDP_PROTO=udp',
      'ABC_123_PORT_8081_UDP_PORT=8081',
      'ABC_123_PORT_8081_UDP_ADDR=5.6.7.8',
      'ABC_123_PORT_8081_TCP=tcp://5.6.7.8:8081',
      'ABC_123_PORT_8081_TCP_PROTO=tcp',
      'ABC_123_PORT_8081_TCP_PORT=8081',
      'ABC_123_PORT_8081_TCP_ADDR=5.6.7.8',
    ],
  },
  {
    it: 'an IPv6 address, which is bracketed in URLs',
    service: service('super-ipv6', '2001:DB8::', [{ name: 'p', port: 84 }]),
    variables: [
      'SUPER_IPV6_SERVICE_HOST=2001:DB8::',
      'SUPER_IPV6_SERVICE_PORT=84',
      'SUPER_IPV6_SERVICE_PORT_P=84',
      'SUPER_IPV6_PORT=tcp://[2001:DB8::]:84',
      'SUPER_IPV6_PORT_84_TCP=tcp://[2001:DB8::]:84',
      'SUPER_IPV6_PORT_84_TCP_PROTO=tcp',
      'SUPER_IPV6_PORT_84_TCP_PORT=84',
      'SUPER_IPV6_PORT_84_TCP_ADDR=2001:DB8::',
    ],
  },
  {
    it: 'SCTP',
    service: service('sctp-1', '1.2.3.4', [{ port: 777, protocol: 'SCTP' }]),
    variables: [
      'SCTP_1_SERVICE_HOST=1.2.3.4',
      'SCTP_1_SERVICE_PORT=777',
      'SCTP_1_PORT=sctp://1.2.3.4:777',
      'SCTP_1_PORT_777_SCTP=sctp://1.2.3.4:777',
      'SCTP_1_PORT_777_SCTP_PROTO=sctp',
      'SCTP_1_PORT_777_SCTP_PORT=777',
      'SCTP_1_PORT_777_SCTP_ADDR=1.2.3.4',
    ],
  },
  { it: 'no address', service: service('none', 'None', [{ port: 1 }]), variables: [] },
  { it: 'an empty address', service: service('empty', '', [{ port: 1 }]), variables: [] },
  { it: 'no port', service: service('portless', '1.2.3.4', []), variables: ['PORTLESS_SERVICE_HOST=1.2.3.4'] },
];
for (const { it, service: one, variables } of cases) {
  test(`a service with ${it} has its variables`, () => {
    assert.deepEqual(
      serviceVariables([one]).map(([name, value]) => `${name}=${value}`),
      variables,
    );
  });
}

const services = [
  service('kubernetes', '10.0.0.1', [{ port: 443 }], 'default'),
  service('kubernetes', '10.0.0.2', [{ port: 443 }], 'shop'),
  service('web', '10.0.0.3', [{ port: 80 }], 'shop'),
  service('web', '10.0.0.4', [{ port: 80 }], 'default'),
  service('headless', 'None', [{ port: 80 }], 'shop'),
];
const pods: { it: string; namespace: string; links: boolean; hosts: string[] }[] = [
  { it: 'without links sees the API server alone', namespace: 'shop', links: false, hosts: ['KUBERNETES 10.0.0.1'] },
  {
    it: "sees its namespace's services",
    namespace: 'shop',
    links: true,
    hosts: ['KUBERNETES 10.0.0.2', 'WEB 10.0.0.3'],
  },
  { it: 'of default', namespace: 'default', links: true, hosts: ['KUBERNETES 10.0.0.1', 'WEB 10.0.0.4'] },
  { it: 'of an empty namespace', namespace: 'none', links: true, hosts: ['KUBERNETES 10.0.0.1'] },
];
for (const { it, namespace, links, hosts } of pods) {
  test(`a pod ${it}`, () => {
    for (const order of [services, services.toReversed()]) {
      const variables = serviceVariablesOf(order, { namespace, enableServiceLinks: links });
      const seen = [...variables].filter(([name]) => name.endsWith('_SERVICE_HOST'));
      assert.deepEqual(seen.map(([name, value]) => `${name.replace('_SERVICE_HOST', '')} ${value}`).sort(), hosts);
    }
  });
}

function service(name: string, clusterIP: string, ports: ServicePort[], namespace = 'default'): VariableService {
  return { metadata: { name, namespace }, spec: { clusterIP, ports } };
}
