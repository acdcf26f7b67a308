/** A part of the addresses behind a Service: what proxies and name servers read. */
import {
  type FieldError,
  addErrors,
  duplicateField,
  invalidField,
  invalidFields,
  requiredField,
  tooManyField,
  unsupportedField,
} from '../schema/field-errors.ts';
import { resourceKind } from '../schema/kind.ts';
import { objectFields, objectReference } from '../schema/meta.ts';
import { validateLabels, validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import {
  type FieldPath,
  type Of,
  atomic,
  boolean,
  described,
  integer,
  list,
  map,
  object,
  required,
  string,
} from '../schema/schema.ts';
import { dnsLabelProblems, dnsSubdomainProblems, labelValueProblems, qualifiedNameProblems } from '../values/names.ts';
import { addressProblems, parseIpAddress } from '../values/network-names.ts';
import { reachErrors } from './endpoints.ts';

const hintShape = atomic(list(object({ name: required(string) })));

const endpointSliceShape = described(
  {
    text: 'A part of the addresses behind a service.',
    fields: {
      addressType: 'IPv4, IPv6 or FQDN; it cannot change.',
      endpoints: 'Addresses, each with the pod that has it and whether it takes part.',
      ports: 'The ports that all of them have.',
    },
  },
  object({
    ...objectFields,
    addressType: string,
    endpoints: atomic(
      list(
        object({
          addresses: list(string),
          conditions: object({ ready: boolean, serving: boolean, terminating: boolean }),
          hostname: string,
          targetRef: objectReference,
          deprecatedTopology: map(string),
          nodeName: string,
          zone: string,
          hints: object({ forZones: hintShape, forNodes: hintShape }),
        }),
      ),
    ),
    ports: atomic(list(object({ name: string, protocol: string, port: integer, appProtocol: string }))),
  }),
);
export interface EndpointSlice extends Of<typeof endpointSliceShape> {}
export type Endpoint = NonNullable<EndpointSlice['endpoints']>[number];
export type EndpointPort = NonNullable<EndpointSlice['ports']>[number];

export const endpointSliceKind = resourceKind<EndpointSlice>({
  group: 'discovery.k8s.io',
  kind: 'EndpointSlice',
  plural: 'endpointslices',
  namespaced: true,
  shape: endpointSliceShape,
  complete: defaultSlice,
  validate: validateSlice,
  validateUpdate: validateSliceUpdate,
  wire: {
    EndpointSlice: '1 metadata ObjectMeta, 4 addressType!, 2 endpoints [Endpoint], 3 ports [discovery.EndpointPort]',
    Endpoint: `
    1 addresses [string], 2 conditions EndpointConditions, 3 hostname?, 4 targetRef? ObjectReference,
    5 deprecatedTopology {string}, 6 nodeName?, 7 zone?, 8 hints? EndpointHints`,
    EndpointConditions: '1 ready? bool, 2 serving? bool, 3 terminating? bool',
    EndpointHints: '1 forZones [ForZone], 2 forNodes [ForNode]',
    ForZone: '1 name!',
    ForNode: '1 name!',
    'discovery.EndpointPort': '1 name?, 2 protocol?, 3 port? int, 4 appProtocol?',
  },
});

/** Whose Service it is, and who keeps it. */
export const serviceNameLabel = 'kubernetes.io/service-name';
export const managedByLabel = 'endpointslice.kubernetes.io/managed-by';

function defaultSlice(slice: EndpointSlice): EndpointSlice {
  if (slice.ports === undefined) return slice;
  const ports = slice.ports.map((port) => ({ ...port, name: port.name ?? '', protocol: port.protocol ?? 'TCP' }));
  return { ...slice, ports };
}

const addressTypes = ['FQDN', 'IPv4', 'IPv6'];
const protocols = ['SCTP', 'TCP', 'UDP'];
const most = { endpoints: 1_000, addresses: 100, ports: 20_000, topology: 16, hints: 8 };

function validateSlice({ metadata, addressType = '', endpoints = [], ports = [] }: EndpointSlice): FieldError[] {
  const errors = validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' });
  if (addressType === '') errors.push(requiredField(['addressType']));
  else if (!addressTypes.includes(addressType)) {
    errors.push(unsupportedField(['addressType'], addressType, addressTypes));
  }
  addErrors(errors, portsErrors(ports));
  if (endpoints.length > most.endpoints) {
    return [...errors, tooManyField(['endpoints'], endpoints.length, most.endpoints)];
  }
  for (const [index, endpoint] of endpoints.entries()) {
    addErrors(errors, endpointErrors(endpoint, addressType, ['endpoints', index]));
  }
  return errors;
}

function validateSliceUpdate(slice: EndpointSlice, old: EndpointSlice): FieldError[] {
  const { addressType = '' } = slice;
  const isSame = addressType === old.addressType;
  return [
    ...validateObjectMetaUpdate(slice.metadata, old.metadata),
    ...validateSlice(slice),
    ...(isSame ? [] : [invalidField(['addressType'], addressType, 'field is immutable')]),
  ];
}

function portsErrors(ports: readonly EndpointPort[]): FieldError[] {
  if (ports.length > most.ports) return [tooManyField(['ports'], ports.length, most.ports)];
  const errors: FieldError[] = [];
  const names = new Set<string>();
  for (const [index, { name = '', protocol = '', appProtocol }] of ports.entries()) {
    const here = ['ports', index];
    if (name !== '') addErrors(errors, invalidFields([...here, 'name'], name, dnsLabelProblems(name)));
    if (names.has(name)) errors.push(duplicateField([...here, 'name'], name));
    names.add(name);
    if (!protocols.includes(protocol)) errors.push(unsupportedField([...here, 'protocol'], protocol, protocols));
    if (appProtocol === undefined) continue;
    addErrors(errors, invalidFields([...here, 'appProtocol'], appProtocol, qualifiedNameProblems(appProtocol)));
  }
  return errors;
}

function endpointErrors(endpoint: Endpoint, addressType: string, here: FieldPath): FieldError[] {
  const { addresses = [], nodeName, hostname, deprecatedTopology: topology = {}, hints } = endpoint;
  const errors: FieldError[] = [];
  const path = [...here, 'addresses'];
  if (addresses.length === 0) errors.push(requiredField(path, 'must contain at least 1 address'));
  if (addresses.length > most.addresses) errors.push(tooManyField(path, addresses.length, most.addresses));
  for (const [index, address] of addresses.entries()) {
    if (addressType === 'FQDN') addErrors(errors, invalidFields([...path, index], address, nameProblems(address)));
    else if (addressType === 'IPv4' || addressType === 'IPv6') {
      addErrors(errors, addressErrors(address, addressType, path, index));
    }
  }
  if (nodeName !== undefined) {
    addErrors(errors, invalidFields([...here, 'nodeName'], nodeName, dnsSubdomainProblems(nodeName)));
  }
  const count = Object.keys(topology).length;
  if (count > most.topology) errors.push(tooManyField([...here, 'deprecatedTopology'], count, most.topology));
  addErrors(errors, validateLabels(topology, [...here, 'deprecatedTopology']));
  if (hostname !== undefined) {
    addErrors(errors, invalidFields([...here, 'hostname'], hostname, dnsLabelProblems(hostname)));
  }
  addErrors(errors, hintErrors(hints?.forZones ?? [], [...here, 'hints', 'forZones'], labelValueProblems));
  addErrors(errors, hintErrors(hints?.forNodes ?? [], [...here, 'hints', 'forNodes'], dnsSubdomainProblems));
  return errors;
}

function addressErrors(address: string, family: 'IPv4' | 'IPv6', path: FieldPath, index: number): FieldError[] {
  const problems = addressProblems(address);
  if (problems.length > 0) return invalidFields([...path, index], address, problems);
  const isOther = parseIpAddress(address)?.family !== family;
  return [
    ...(isOther ? [invalidField(path, address, `must be an ${family} address`)] : []),
    ...reachErrors(address, [...path, index]),
  ];
}

function nameProblems(name: string): readonly string[] {
  const bare = name.replace(/\.$/, '');
  const problems = dnsSubdomainProblems(bare);
  if (problems.length > 0 || bare.includes('.')) return problems;
  return ['should be a domain with at least two segments separated by dots'];
}

function hintErrors(
  hints: readonly { readonly name: string }[],
  path: FieldPath,
  problemsOf: (name: string) => readonly string[],
): FieldError[] {
  if (hints.length > most.hints) return [tooManyField(path, hints.length, most.hints)];
  return hints.flatMap(({ name }, index) => [
    ...(hints.findIndex((other) => other.name === name) < index
      ? [duplicateField([...path, index, 'name'], name)]
      : []),
    ...invalidFields([...path, index, 'name'], name, problemsOf(name)),
  ]);
}
