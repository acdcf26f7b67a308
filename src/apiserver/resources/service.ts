/** Services and Endpoints: kept for those who read them. No address is handed out here; a service has the one it was given. */
import { type Endpoints, endpointsKind } from '../../kube/kinds/endpoints.ts';
import { type Service, serviceKind } from '../../kube/kinds/service.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { ageColumn, nameColumn, orNone, text, wide } from '../model/columns.ts';
import { keepFields, resource } from '../model/resource.ts';
import { plainStatus } from './storage.ts';

const endpointsShown = 3;

export const services = resource(serviceKind, {
  subresources: [plainStatus()],
  prepareForCreate: (object) => withAddressList({ ...object, status: { loadBalancer: {} } }),
  prepareForUpdate: (object, old) => withAddressList(withAddressOf(old, keepFields(object, old, 'status'))),
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

/** The single address and the list say the same. */
function withAddressList(object: Service): Service {
  const { clusterIP = '', clusterIPs = [] } = object.spec;
  if (object.spec.type === 'ExternalName') return object;
  if (clusterIP !== '' && clusterIPs.length === 0) {
    return { ...object, spec: { ...object.spec, clusterIPs: [clusterIP] } };
  }
  const [first] = clusterIPs;
  if (clusterIP !== '' || first === undefined) return object;
  return { ...object, spec: { ...object.spec, clusterIP: first } };
}

/** Who leaves the address out of an update does not mean to change it. */
function withAddressOf(old: Service, object: Service): Service {
  const { spec } = object;
  const isNamed = (spec.clusterIP ?? '') !== '' || (spec.clusterIPs ?? []).length > 0;
  if (isNamed || spec.type === 'ExternalName' || old.spec.type === 'ExternalName') return object;
  const { clusterIP, clusterIPs } = old.spec;
  return {
    ...object,
    spec: { ...spec, ...(clusterIP !== undefined && { clusterIP }), ...(clusterIPs && { clusterIPs }) },
  };
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
