/** The addresses behind a Service. Filled in by a controller for Services that select pods; whoever has others writes them. */
import {
  type FieldError,
  invalidField,
  invalidFields,
  requiredField,
  unsupportedField,
} from '../schema/field-errors.ts';
import { resourceKind } from '../schema/kind.ts';
import { objectFields, objectReference } from '../schema/meta.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import { type FieldPath, type Of, described, integer, list, object, required, string } from '../schema/schema.ts';
import { dnsLabelProblems, dnsSubdomainProblems, qualifiedNameProblems } from '../values/names.ts';
import { addressProblems, parseIpAddress, portProblems } from '../values/network-names.ts';

const addressShape = object({ ip: required(string), hostname: string, nodeName: string, targetRef: objectReference });

const endpointsShape = described(
  { text: 'The addresses behind a service.', fields: { subsets: 'Addresses with the ports they have in common.' } },
  object({
    ...objectFields,
    subsets: list(
      object({
        addresses: list(addressShape),
        notReadyAddresses: list(addressShape),
        ports: list(object({ name: string, port: required(integer), protocol: string, appProtocol: string })),
      }),
    ),
  }),
);
export interface Endpoints extends Of<typeof endpointsShape> {}

export const endpointsKind = resourceKind<Endpoints>({
  kind: 'Endpoints',
  plural: 'endpoints',
  shortNames: ['ep'],
  namespaced: true,
  shape: endpointsShape,
  complete: defaultEndpoints,
  validate: validateEndpoints,
  validateUpdate: validateEndpointsUpdate,
  wire: {
    Endpoints: '1 metadata ObjectMeta, 2 subsets [EndpointSubset]',
    EndpointSubset: '1 addresses [EndpointAddress], 2 notReadyAddresses [EndpointAddress], 3 ports [EndpointPort]',
    EndpointAddress: '1 ip!, 3 hostname, 4 nodeName?, 2 targetRef? ObjectReference',
    EndpointPort: '1 name, 2 port! int, 3 protocol, 4 appProtocol?',
  },
});
type EndpointSubset = NonNullable<Endpoints['subsets']>[number];

function defaultEndpoints(given: Endpoints): Endpoints {
  if (given.subsets === undefined) return given;
  const withProtocol = (subset: EndpointSubset): EndpointSubset =>
    subset.ports === undefined
      ? subset
      : { ...subset, ports: subset.ports.map((port) => ({ ...port, protocol: port.protocol || 'TCP' })) };
  return { ...given, subsets: given.subsets.map(withProtocol) };
}

/** Rules for Endpoints. */
const protocols = ['SCTP', 'TCP', 'UDP'];

function validateEndpoints({ metadata, subsets = [] }: Endpoints): FieldError[] {
  return [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...subsets.flatMap((subset, index) => subsetErrors(subset, ['subsets', index])),
  ];
}

function validateEndpointsUpdate(endpoints: Endpoints, old: Endpoints): FieldError[] {
  return [...validateObjectMetaUpdate(endpoints.metadata, old.metadata), ...validateEndpoints(endpoints)];
}

function subsetErrors(
  { addresses = [], notReadyAddresses = [], ports = [] }: EndpointSubset,
  path: FieldPath,
): FieldError[] {
  const isEmpty = addresses.length === 0 && notReadyAddresses.length === 0;
  return [
    ...(isEmpty ? [requiredField(path, 'must specify `addresses` or `notReadyAddresses`')] : []),
    ...addresses.flatMap((address, index) => addressErrors(address, [...path, 'addresses', index])),
    ...notReadyAddresses.flatMap((address, index) => addressErrors(address, [...path, 'notReadyAddresses', index])),
    ...ports.flatMap((port, index) => portErrors(port, ports.length > 1, [...path, 'ports', index])),
  ];
}

type Address = NonNullable<EndpointSubset['addresses']>[number];
type Port = NonNullable<EndpointSubset['ports']>[number];

function addressErrors({ ip, hostname = '', nodeName }: Address, path: FieldPath): FieldError[] {
  return [
    ...invalidFields([...path, 'ip'], ip, addressProblems(ip)),
    ...(hostname === '' ? [] : invalidFields([...path, 'hostname'], hostname, dnsLabelProblems(hostname))),
    ...(nodeName === undefined ? [] : invalidFields([...path, 'nodeName'], nodeName, dnsSubdomainProblems(nodeName))),
    ...reachErrors(ip, [...path, 'ip']),
  ];
}

/** An address that means another machine on every machine is of no use to others. */
export function reachErrors(ip: string, path: FieldPath): FieldError[] {
  const address = parseIpAddress(ip)?.text;
  if (address === undefined) return [];
  const refuse = (detail: string): FieldError[] => [invalidField(path, ip, detail)];
  if (address === '0.0.0.0' || address === '::') return refuse(`may not be unspecified (${ip})`);
  if (address.startsWith('127.') || address === '::1') {
    return refuse('may not be in the loopback range (127.0.0.0/8, ::1/128)');
  }
  if (address.startsWith('169.254.') || /^fe[89ab][0-9a-f]:/.test(address)) {
    return refuse('may not be in the link-local range (169.254.0.0/16, fe80::/10)');
  }
  if (address.startsWith('224.0.0.') || /^ff[0-9a-f]2:/.test(address)) {
    return refuse('may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)');
  }
  return [];
}

function portErrors(
  { name = '', port, protocol = '', appProtocol }: Port,
  needsName: boolean,
  path: FieldPath,
): FieldError[] {
  const errors: FieldError[] = [];
  if (name === '' && needsName) errors.push(requiredField([...path, 'name']));
  else if (name !== '') errors.push(...invalidFields([...path, 'name'], name, dnsLabelProblems(name)));
  errors.push(...invalidFields([...path, 'port'], port, portProblems(port)));
  if (protocol === '') errors.push(requiredField([...path, 'protocol']));
  else if (!protocols.includes(protocol)) errors.push(unsupportedField([...path, 'protocol'], protocol, protocols));
  if (appProtocol !== undefined) {
    errors.push(...invalidFields([...path, 'appProtocol'], appProtocol, qualifiedNameProblems(appProtocol)));
  }
  return errors;
}
