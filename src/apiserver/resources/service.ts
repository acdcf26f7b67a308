/** Services, Endpoints and EndpointSlices. What a Service is given, its address and its node ports, is admission's business. */
import { isDeepStrictEqual } from 'node:util';
import { type EndpointSlice, endpointSliceKind } from '../../kube/kinds/endpoint-slice.ts';
import { type Endpoints, endpointsKind } from '../../kube/kinds/endpoints.ts';
import {
  isExternallyAccessible,
  needsHealthCheckPort,
  needsNodePorts,
  validateServiceStatusUpdate,
} from '../../kube/kinds/service-validation.ts';
import { type Service, type ServiceSpec, serviceKind } from '../../kube/kinds/service.ts';
import { canonicalJson } from '../../kube/schema/equality.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { ageColumn, nameColumn, orNone, text, wide } from '../model/columns.ts';
import { keepFields, proxyOf, resource, statusOf } from '../model/resource.ts';

const endpointsShown = 3;

export const services = resource(serviceKind, {
  subresources: [statusOf(validateServiceStatusUpdate), proxyOf('Service')],
  prepareForCreate: (object) => withoutOddPolicy({ ...object, status: { loadBalancer: {} } }),
  prepareForUpdate: (object, old) => withoutOddPolicy(fitToType(keepFields(object, old, 'status'), old.spec)),
  warnings: warningsOf,
  fields: {
    'spec.clusterIP': ({ spec }) => spec.clusterIP ?? '',
    'spec.type': ({ spec }) => spec.type ?? '',
  },
  columns: [
    nameColumn,
    text('Type', 'How the service is reached.', ({ spec }) => spec.type ?? ''),
    text('Cluster-IP', 'The address of the service inside the cluster.', ({ spec }) => orNone(spec.clusterIPs?.[0])),
    text('External-IP', 'The addresses of the service for others.', externalAddresses),
    text('Port(s)', 'The ports of the service.', portsOf),
    ageColumn,
    wide('Selector', 'The labels of the pods behind the service.', selectorOf),
  ],
  allowsCreateOnUpdate: true,
  deleteAnswers: 'object',
});

export const endpointsResource = resource(endpointsKind, {
  columns: [nameColumn, text('Endpoints', 'The addresses behind the service.', endpointsOf), ageColumn],
  allowsCreateOnUpdate: true,
});

const listedMax = 3;

export const endpointSlices = resource(endpointSliceKind, {
  prepareForCreate: (object) => ({ ...withoutTopology(object), metadata: { ...object.metadata, generation: 1 } }),
  prepareForUpdate(object, old) {
    const next = isSameContent(object.endpoints, old.endpoints) ? object : withoutTopology(object);
    const said = ({ metadata, addressType, endpoints, ports }: EndpointSlice): unknown => [
      metadata.labels,
      addressType,
      endpoints,
      ports,
    ];
    const { generation = 0 } = old.metadata;
    const moved = isSameContent(said(next), said(old)) ? generation : generation + 1;
    return { ...next, metadata: { ...next.metadata, generation: moved } };
  },
  warnings: ({ addressType }) => (addressType === 'FQDN' ? ['spec.addressType: FQDN endpoints are deprecated'] : []),
  columns: [
    nameColumn,
    text('AddressType', 'The kind of the addresses.', ({ addressType }) => addressType ?? ''),
    text('Ports', 'The ports that all of them have.', ({ ports = [] }) =>
      listed(ports.map(({ port, name }) => (port === undefined ? (name ?? '*') : String(port)))),
    ),
    text('Endpoints', 'The addresses.', ({ endpoints = [] }) =>
      listed(endpoints.flatMap(({ addresses = [] }) => addresses)),
    ),
    ageColumn,
  ],
});

function isSameContent(a: unknown, b: unknown): boolean {
  return canonicalJson(a) === canonicalJson(b);
}

/** Its place has been taken by nodeName and zone. */
function withoutTopology(slice: EndpointSlice): EndpointSlice {
  const endpoints = slice.endpoints?.map((endpoint) => keepFields(endpoint, {}, 'deprecatedTopology'));
  return endpoints === undefined ? slice : { ...slice, endpoints };
}

function listed(all: readonly string[]): string {
  const shown = all.slice(0, listedMax).join(',');
  if (all.length > listedMax) return `${shown} + ${all.length - listedMax} more...`;
  return shown === '' ? '<unset>' : shown;
}

function withoutOddPolicy(object: Service): Service {
  if (object.spec.type !== 'ExternalName') return object;
  const { internalTrafficPolicy: _, ...spec } = object.spec;
  return { ...object, spec };
}

/**
 * Who changes the type, and leaves as it was what was given for the old type alone, does not mean to keep it. What was
 * changed together with the type is left to validation.
 */
function fitToType(object: Service, old: ServiceSpec): Service {
  const spec: { -readonly [Field in keyof ServiceSpec]: ServiceSpec[Field] } = { ...object.spec };
  const dropSame = (...fields: readonly (keyof ServiceSpec)[]): void => {
    for (const field of fields) if (isDeepStrictEqual(spec[field], old[field])) Reflect.deleteProperty(spec, field);
  };
  if (old.type !== 'ExternalName' && spec.type === 'ExternalName') {
    if (isDeepStrictEqual([spec.clusterIP, spec.clusterIPs], [old.clusterIP, old.clusterIPs])) {
      dropSame('clusterIP', 'clusterIPs');
    }
    dropSame('ipFamilies', 'ipFamilyPolicy');
  }
  const before = new Set((old.ports ?? []).map(({ nodePort = 0 }) => nodePort).concat(0));
  if (needsNodePorts(old) && !needsNodePorts(spec) && spec.ports?.every(({ nodePort = 0 }) => before.has(nodePort))) {
    spec.ports = spec.ports.map((port) => keepFields(port, { port: port.port }, 'nodePort'));
  }
  if (needsHealthCheckPort(old) && !needsHealthCheckPort(spec)) dropSame('healthCheckNodePort');
  if (old.type === 'LoadBalancer' && spec.type !== 'LoadBalancer') {
    dropSame('allocateLoadBalancerNodePorts', 'loadBalancerClass');
  }
  if (isExternallyAccessible(old) && !isExternallyAccessible(spec)) dropSame('externalTrafficPolicy');
  if (spec.type === 'LoadBalancer') return { ...object, spec };
  return { ...object, spec, status: { ...object.status, loadBalancer: {} } };
}

function warningsOf({ metadata, spec }: Service): readonly string[] {
  const { type = 'ClusterIP', externalIPs = [], trafficDistribution: distribution } = spec;
  const isHeadless = type === 'ClusterIP' && spec.clusterIP === 'None';
  const isName = type === 'ExternalName';
  const affinity = spec.sessionAffinity ?? 'None';
  const warnings: (readonly [boolean, string])[] = [
    [
      metadata.annotations?.['service.kubernetes.io/topology-aware-hints'] !== undefined,
      'annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead',
    ],
    [isHeadless && (spec.loadBalancerIP ?? '') !== '', 'spec.loadBalancerIP is ignored for headless services'],
    [isHeadless && externalIPs.length > 0, 'spec.externalIPs is ignored for headless services'],
    [isHeadless && affinity !== 'None', 'spec.SessionAffinity is ignored for headless services'],
    [isName && externalIPs.length > 0, 'spec.externalIPs is ignored when spec.type is "ExternalName"'],
    [!isName && (spec.externalName ?? '') !== '', 'spec.externalName is ignored when spec.type is not "ExternalName"'],
    [distribution === 'PreferClose', 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'],
  ];
  return warnings.flatMap(([holds, warning]) => (holds ? [warning] : []));
}

function externalAddresses({ spec, status }: Service): string {
  const own = spec.externalIPs ?? [];
  switch (spec.type) {
    case 'ClusterIP':
    case 'NodePort':
      return orNone(own.join(','));
    case 'LoadBalancer': {
      const given = (status?.loadBalancer?.ingress ?? []).map(({ ip = '', hostname = '' }) => ip || hostname);
      const balancers = [...new Set(given)].filter((address) => address !== '').sort(compareByteOrder);
      const all = [...balancers, ...own];
      return all.length === 0 ? '<pending>' : all.join(',');
    }
    case 'ExternalName':
      return spec.externalName ?? '';
    default:
      return '<unknown>';
  }
}

function portsOf({ spec: { ports = [] } }: Service): string {
  const shown = ports.map(({ port, nodePort = 0, protocol = '' }) =>
    nodePort > 0 ? `${port}:${nodePort}/${protocol}` : `${port}/${protocol}`,
  );
  return orNone(shown.join(','));
}

function selectorOf({ spec: { selector = {} } }: Service): string {
  const pairs = Object.entries(selector).map(([key, value]) => `${key}=${value}`);
  return orNone(pairs.sort(compareByteOrder).join(','));
}

function endpointsOf({ subsets = [] }: Endpoints): string {
  if (subsets.length === 0) return '<none>';
  const all = subsets.flatMap(({ addresses = [], ports = [] }) => {
    if (ports.length === 0) return addresses.map(({ ip }) => ip);
    return ports.flatMap(({ port }) =>
      addresses.map(({ ip }) => (ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`)),
    );
  });
  const shown = all.slice(0, endpointsShown).join(',');
  return all.length > endpointsShown ? `${shown} + ${all.length - endpointsShown} more...` : shown;
}
