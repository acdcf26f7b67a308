/** A Service: on the node it matters only for the variables it puts into containers. */
import {
  type FieldError,
  duplicateField,
  forbiddenField,
  invalidField,
  invalidFields,
  requiredField,
  unsupportedField,
} from '../schema/field-errors.ts';
import { resourceKind } from '../schema/kind.ts';
import { objectFields } from '../schema/meta.ts';
import { validateLabels, validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import {
  type FieldPath,
  type Of,
  absentMeans,
  any,
  atomic,
  boolean,
  described,
  intOrString,
  integer,
  list,
  map,
  object,
  required,
  string,
} from '../schema/schema.ts';
import { dnsLabelProblems, dnsSubdomainProblems, qualifiedNameProblems } from '../values/names.ts';
import { addressProblems, portProblems } from '../values/network-names.ts';
import { portErrors } from './pod/probe-validation.ts';

export const serviceShape = described(
  {
    text: 'A name and an address for something that pods offer.',
    fields: { spec: 'How it is reached.', status: 'What a load balancer says of it.' },
  },
  object({
    ...objectFields,
    spec: required(
      described(
        {
          text: 'How a service is reached.',
          fields: {
            ports: 'Its ports.',
            selector: 'The labels of the pods behind it.',
            clusterIP: 'Its address inside the cluster; None for a service without one.',
            clusterIPs: 'Its addresses, of each family.',
            type: 'ClusterIP, NodePort, LoadBalancer or ExternalName.',
            externalIPs: 'Further addresses that lead to it.',
            sessionAffinity: 'ClientIP keeps a client with one pod.',
            externalName: 'The name that it stands for, for ExternalName.',
          },
        },
        object({
          ports: list(
            object({
              name: string,
              protocol: absentMeans('TCP', string),
              appProtocol: string,
              port: required(integer),
              targetPort: intOrString,
              nodePort: integer,
            }),
            'port',
            'protocol',
          ),
          selector: atomic(map(string)),
          clusterIP: string,
          clusterIPs: list(string),
          type: string,
          externalIPs: list(string),
          sessionAffinity: string,
          loadBalancerIP: string,
          loadBalancerSourceRanges: list(string),
          externalName: string,
          externalTrafficPolicy: string,
          healthCheckNodePort: integer,
          publishNotReadyAddresses: boolean,
          sessionAffinityConfig: object({ clientIP: object({ timeoutSeconds: integer }) }),
          ipFamilies: list(string),
          ipFamilyPolicy: string,
          allocateLoadBalancerNodePorts: boolean,
          loadBalancerClass: string,
          internalTrafficPolicy: string,
          trafficDistribution: string,
        }),
      ),
    ),
    status: object({
      loadBalancer: object({
        ingress: list(
          object({
            ip: string,
            hostname: string,
            ipMode: string,
            ports: list(object({ port: required(integer), protocol: required(string), error: string })),
          }),
        ),
      }),
      conditions: list(any, 'type'),
    }),
  }),
);
export interface Service extends Of<typeof serviceShape> {}

export const serviceKind = resourceKind<Service>({
  kind: 'Service',
  plural: 'services',
  shortNames: ['svc'],
  categories: ['all'],
  namespaced: true,
  shape: serviceShape,
  complete: defaultService,
  validate: validateService,
  validateUpdate: validateServiceUpdate,
  wire: {
    Service: '1 metadata ObjectMeta, 2 spec ServiceSpec, 3 status ServiceStatus',
    ServiceSpec: `
    1 ports [ServicePort], 2 selector {string}, 3 clusterIP, 18 clusterIPs [string], 4 type, 5 externalIPs [string],
    7 sessionAffinity, 8 loadBalancerIP, 9 loadBalancerSourceRanges [string], 10 externalName,
    11 externalTrafficPolicy, 12 healthCheckNodePort int, 13 publishNotReadyAddresses bool,
    14 sessionAffinityConfig? SessionAffinityConfig, 19 ipFamilies [string], 17 ipFamilyPolicy?,
    20 allocateLoadBalancerNodePorts? bool, 21 loadBalancerClass?, 22 internalTrafficPolicy?,
    23 trafficDistribution?`,
    ServicePort: '1 name, 2 protocol, 6 appProtocol?, 3 port! int, 4 targetPort IntOrString, 5 nodePort int',
    SessionAffinityConfig: '1 clientIP? ClientIPConfig',
    ClientIPConfig: '1 timeoutSeconds? int',
    ServiceStatus: '1 loadBalancer LoadBalancerStatus, 2 conditions [Condition]',
    LoadBalancerStatus: '1 ingress [LoadBalancerIngress]',
    LoadBalancerIngress: '1 ip, 2 hostname, 3 ipMode?, 4 ports [PortStatus]',
    PortStatus: '1 port! int, 2 protocol!, 3 error?',
  },
});

/**
 * Rules for Services. On a node they matter only for the variables they put into containers, so what concerns load balancers
 * and address families is left to the API server that hands out the addresses.
 */
type Spec = Service['spec'];
type Ports = NonNullable<Spec['ports']>;

const types = ['ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort'];
const affinities = ['ClientIP', 'None'];
const protocols = ['SCTP', 'TCP', 'UDP'];
const stickySecondsMax = 86400;

function validateService(service: Service): FieldError[] {
  const { metadata, spec } = service;
  const { ports = [], type = '' } = spec;
  const here = ['spec'];
  const addresses = clusterAddresses(spec);
  const isHeadless = addresses.length === 1 && addresses[0] === 'None';
  return [
    ...validateObjectMeta(metadata, { name: dnsLabelProblems, scope: 'namespace' }, ['metadata']),
    ...(ports.length === 0 && !isHeadless && type !== 'ExternalName' ? [requiredField([...here, 'ports'])] : []),
    ...typeErrors(spec, isHeadless, here),
    ...servicePortErrors(ports, [...here, 'ports']),
    ...validateLabels(spec.selector ?? {}, [...here, 'selector']),
    ...affinityErrors(spec, here),
    ...(type === 'ExternalName' ? [] : addressErrors(spec, addresses, [...here, 'clusterIPs'])),
    ...(spec.externalIPs ?? []).flatMap((address, index) =>
      invalidFields([...here, 'externalIPs', index], address, addressProblems(address)),
    ),
    ...choiceErrors(type, types, [...here, 'type']),
    ...nodePortErrors(ports, type, [...here, 'ports']),
    ...repeatedPortErrors(ports, [...here, 'ports']),
  ];
}

/** An address once given stays, unless the service becomes a name for something outside, or was one. */
function validateServiceUpdate(service: Service, old: Service): FieldError[] {
  return [
    ...validateObjectMetaUpdate(service.metadata, old.metadata),
    ...addressUpdateErrors(service.spec, old.spec, ['spec', 'clusterIPs']),
    ...validateService(service),
  ];
}

function addressUpdateErrors(spec: Spec, old: Spec, path: FieldPath): FieldError[] {
  if (spec.type === 'ExternalName' || old.type === 'ExternalName') return [];
  const before = clusterAddresses(old);
  const after = clusterAddresses(spec);
  const refuse = (index: number, detail: string): FieldError => invalidField([...path, index], after, detail);
  if (before.length === after.length) {
    return before.flatMap((address, index) =>
      address === after[index] ? [] : [refuse(index, 'may not change once set')],
    );
  }
  if (after.length === 0) return [refuse(0, 'primary clusterIP can not be unset')];
  if (before.length > 0 && after[0] !== before[0]) return [refuse(0, 'may not change once set')];
  if (before.length <= after.length || spec.ipFamilyPolicy === 'SingleStack') return [];
  const detail = "must be set to 'SingleStack' when releasing the secondary clusterIP";
  return [invalidField(['spec', 'ipFamilyPolicy'], spec.ipFamilyPolicy ?? null, detail)];
}

/** The single address is the list's first; a user may write either. */
function clusterAddresses({ clusterIP = '', clusterIPs = [] }: Spec): readonly string[] {
  return clusterIPs.length === 0 && clusterIP !== '' ? [clusterIP] : clusterIPs;
}

function typeErrors(spec: Spec, isHeadless: boolean, path: FieldPath): FieldError[] {
  const { type } = spec;
  if ((type === 'LoadBalancer' || type === 'NodePort') && isHeadless) {
    const detail = `may not be set to 'None' for ${type} services`;
    return [invalidField([...path, 'clusterIPs', 0], 'None', detail)];
  }
  if (type !== 'ExternalName') return [];
  const refuse = (field: string): FieldError =>
    forbiddenField([...path, field], 'may not be set for ExternalName services');
  const name = (spec.externalName ?? '').replace(/\.$/, '');
  const namePath = [...path, 'externalName'];
  return [
    ...(clusterAddresses(spec).length > 0 ? [refuse('clusterIPs')] : []),
    ...((spec.ipFamilies ?? []).length > 0 ? [refuse('ipFamilies')] : []),
    ...(spec.ipFamilyPolicy === undefined ? [] : [refuse('ipFamilyPolicy')]),
    ...(name === '' ? [requiredField(namePath)] : invalidFields(namePath, name, dnsSubdomainProblems(name))),
  ];
}

function servicePortErrors(ports: Ports, path: FieldPath): FieldError[] {
  const names = new Set<string>();
  return ports.flatMap(({ name = '', port, protocol = '', targetPort = 0, appProtocol }, index) => {
    const here = [...path, index];
    const errors: FieldError[] = [];
    if (name === '' && ports.length > 1) errors.push(requiredField([...here, 'name']));
    else if (name !== '') {
      errors.push(...invalidFields([...here, 'name'], name, dnsLabelProblems(name)));
      if (names.has(name)) errors.push(duplicateField([...here, 'name'], name));
      names.add(name);
    }
    errors.push(...invalidFields([...here, 'port'], port, portProblems(port)));
    errors.push(...choiceErrors(protocol, protocols, [...here, 'protocol']));
    errors.push(...portErrors(targetPort, [...here, 'targetPort']));
    if (appProtocol === undefined) return errors;
    return [...errors, ...invalidFields([...here, 'appProtocol'], appProtocol, qualifiedNameProblems(appProtocol))];
  });
}

function affinityErrors({ sessionAffinity = '', sessionAffinityConfig: config }: Spec, path: FieldPath): FieldError[] {
  const errors = choiceErrors(sessionAffinity, affinities, [...path, 'sessionAffinity']);
  const here = [...path, 'sessionAffinityConfig'];
  if (sessionAffinity === 'None' && config !== undefined) {
    errors.push(forbiddenField(here, 'must not be set when session affinity is None'));
  }
  if (sessionAffinity !== 'ClientIP') return errors;
  const missing = 'when session affinity type is ClientIP';
  if (config === undefined) return [...errors, requiredField(here, missing)];
  if (config.clientIP === undefined) return [...errors, requiredField([...here, 'clientIP'], missing)];
  const { timeoutSeconds: seconds } = config.clientIP;
  const secondsPath = [...here, 'clientIP', 'timeoutSeconds'];
  if (seconds === undefined) return [...errors, requiredField(secondsPath, missing)];
  if (seconds > 0 && seconds <= stickySecondsMax) return errors;
  const detail = `must be greater than 0 and less than ${stickySecondsMax}`;
  return [...errors, invalidField(secondsPath, seconds, detail)];
}

function addressErrors({ clusterIP = '' }: Spec, addresses: readonly string[], path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  if (clusterIP !== '' && addresses[0] !== clusterIP) {
    errors.push(invalidField(path, addresses, 'first value must match `clusterIP`'));
  }
  if (clusterIP === '' && addresses.length > 0) {
    errors.push(invalidField(path, addresses, 'must be empty when `clusterIP` is not specified'));
  }
  for (const [index, address] of addresses.entries()) {
    if (index > 0 || address !== 'None') {
      errors.push(...invalidFields([...path, index], address, addressProblems(address)));
    } else if (addresses.length > 1) {
      errors.push(invalidField(path, addresses, "'None' must be the first and only value"));
    }
  }
  if (addresses.length > 2) errors.push(invalidField(path, addresses, 'may only hold up to 2 values'));
  return errors;
}

function nodePortErrors(ports: Ports, type: string, path: FieldPath): FieldError[] {
  const taken = new Set<string>();
  const own = ports.map(({ nodePort = 0, protocol = '' }, index) => ({ nodePort, protocol, index }));
  const used = own.filter(({ nodePort }) => nodePort !== 0);
  const forbidden = type === 'ClusterIP' ? used : [];
  return [
    ...forbidden.map(({ index }) =>
      forbiddenField([...path, index, 'nodePort'], "may not be used when `type` is 'ClusterIP'"),
    ),
    ...used.flatMap(({ nodePort, protocol, index }) => {
      const key = `${protocol}/${nodePort}`;
      const isTaken = taken.has(key);
      taken.add(key);
      return isTaken ? [duplicateField([...path, index, 'nodePort'], nodePort)] : [];
    }),
  ];
}

function repeatedPortErrors(ports: Ports, path: FieldPath): FieldError[] {
  const taken = new Set<string>();
  return ports.flatMap(({ port, protocol = '' }, index) => {
    const key = `${protocol}/${port}`;
    const isTaken = taken.has(key);
    taken.add(key);
    if (!isTaken) return [];
    // The API server prints its own form of the port, with nothing set but these two.
    const inside = { Name: '', Protocol: protocol, AppProtocol: null, Port: port, TargetPort: 0, NodePort: 0 };
    return [duplicateField([...path, index], inside)];
  });
}

function choiceErrors(value: string, supported: readonly string[], path: FieldPath): FieldError[] {
  if (value === '') return [requiredField(path)];
  return supported.includes(value) ? [] : [unsupportedField(path, value, supported)];
}

const stickySeconds = 3 * 60 * 60;

function defaultService(service: Service): Service {
  const { sessionAffinityConfig, ...rest } = service.spec;
  const type = rest.type || 'ClusterIP';
  const sessionAffinity = rest.sessionAffinity || 'None';
  const external =
    type === 'LoadBalancer' || type === 'NodePort' || (type === 'ClusterIP' && (rest.externalIPs ?? []).length > 0);
  const internal = type === 'LoadBalancer' || type === 'NodePort' || type === 'ClusterIP';
  return {
    ...service,
    spec: {
      ...rest,
      type,
      sessionAffinity,
      ...(sessionAffinity !== 'None' && affinityOf(sessionAffinity, sessionAffinityConfig)),
      ...(rest.ports && { ports: rest.ports.map(defaultServicePort) }),
      ...(external && { externalTrafficPolicy: rest.externalTrafficPolicy || 'Cluster' }),
      ...(internal && { internalTrafficPolicy: rest.internalTrafficPolicy ?? 'Cluster' }),
      ...(type === 'LoadBalancer' && { allocateLoadBalancerNodePorts: rest.allocateLoadBalancerNodePorts ?? true }),
    },
  };
}

type ServiceSpec = Service['spec'];

type ServicePort = NonNullable<ServiceSpec['ports']>[number];

function defaultServicePort(port: ServicePort): ServicePort {
  return { ...port, protocol: port.protocol || 'TCP', targetPort: port.targetPort || port.port };
}

function affinityOf(
  affinity: string,
  config: ServiceSpec['sessionAffinityConfig'],
): Pick<ServiceSpec, 'sessionAffinityConfig'> {
  if (affinity === 'ClientIP' && config?.clientIP?.timeoutSeconds === undefined) {
    return { sessionAffinityConfig: { clientIP: { timeoutSeconds: stickySeconds } } };
  }
  return config === undefined ? {} : { sessionAffinityConfig: config };
}
