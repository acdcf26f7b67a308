/** What a Service must keep to, as the API server checks it, when it is made and when it is changed. */
import {
  type FieldError,
  addErrors,
  duplicateField,
  forbiddenField,
  invalidField,
  invalidFields,
  requiredField,
  unsupportedField,
} from '../schema/field-errors.ts';
import { validateLabels, validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import type { FieldPath } from '../schema/schema.ts';
import { dnsLabelProblems, dnsSubdomainProblems, qualifiedNameProblems } from '../values/names.ts';
import { addressProblems, parseIpAddress, portProblems, subnetProblems } from '../values/network-names.ts';
import { reachErrors } from './endpoints.ts';
import { portErrors } from './pod/probe-validation.ts';
import type { Service, ServicePort } from './service.ts';

type Spec = Service['spec'];
type Ports = readonly ServicePort[];

const types = ['ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort'];
const affinities = ['ClientIP', 'None'];
const protocols = ['SCTP', 'TCP', 'UDP'];
const policies = ['Cluster', 'Local'];
const families = ['IPv4', 'IPv6'];
const familyPolicies = ['PreferDualStack', 'RequireDualStack', 'SingleStack'];
const distributions = ['PreferClose', 'PreferSameZone', 'PreferSameNode'];
const ipModes = ['Proxy', 'VIP'];
const sourceRangesAnnotation = 'service.beta.kubernetes.io/load-balancer-source-ranges';
const hintsAnnotation = 'service.kubernetes.io/topology-aware-hints';
const topologyAnnotation = 'service.kubernetes.io/topology-mode';
const stickySecondsMax = 86400;
const isFixed = 'may not change once set';
const balancersOnly = "may only be used when `type` is 'LoadBalancer'";

export function validateService(service: Service): FieldError[] {
  const { metadata, spec } = service;
  const { ports = [], type = '' } = spec;
  const here = ['spec'];
  return [
    ...validateObjectMeta(metadata, { name: dnsLabelProblems, scope: 'namespace' }, ['metadata']),
    ...topologyErrors(metadata.annotations ?? {}),
    ...(ports.length === 0 && !isHeadless(spec) && type !== 'ExternalName' ? [requiredField([...here, 'ports'])] : []),
    ...typeErrors(spec, here),
    ...servicePortErrors(ports, [...here, 'ports']),
    ...validateLabels(spec.selector ?? {}, [...here, 'selector']),
    ...affinityErrors(spec, here),
    ...clusterAddressErrors(spec),
    ...(spec.externalIPs ?? []).flatMap((address, index) => externalAddressErrors(address, index)),
    ...choiceErrors(type, types, [...here, 'type']),
    ...nodePortErrors(ports, type, [...here, 'ports']),
    ...repeatedPortErrors(ports, [...here, 'ports']),
    ...balancerErrors(service),
    ...trafficErrors(spec, here),
  ];
}

/** An address once given stays, unless the service becomes a name for something outside, or was one. */
export function validateServiceUpdate(service: Service, old: Service): FieldError[] {
  const { spec } = service;
  const fixed: FieldError[] = [];
  if (spec.type === 'LoadBalancer' && old.spec.type === 'LoadBalancer') {
    const { loadBalancerClass: balancer } = spec;
    if (balancer !== old.spec.loadBalancerClass) {
      fixed.push(invalidField(['spec', 'loadBalancerClass'], balancer ?? null, isFixed));
    }
  }
  if (needsHealthCheckPort(spec) && needsHealthCheckPort(old.spec)) {
    if (spec.healthCheckNodePort !== old.spec.healthCheckNodePort) {
      fixed.push(forbiddenField(['spec', 'healthCheckNodePort'], 'field is immutable'));
    }
  }
  return [
    ...validateObjectMetaUpdate(service.metadata, old.metadata),
    ...addressUpdateErrors(spec, old.spec, ['spec', 'clusterIPs']),
    ...familyUpdateErrors(spec, old.spec, ['spec', 'ipFamilies']),
    ...fixed,
    ...validateService(service),
  ];
}

export function validateServiceStatusUpdate({ metadata, spec, status }: Service, old: Service): FieldError[] {
  const { ingress = [] } = status?.loadBalancer ?? {};
  const here = ['status', 'loadBalancer', 'ingress'];
  const errors = validateObjectMetaUpdate(metadata, old.metadata);
  if (spec.type !== 'LoadBalancer' && ingress.length > 0) {
    return [...errors, forbiddenField(here, "may only be used when `spec.type` is 'LoadBalancer'")];
  }
  return [
    ...errors,
    ...ingress.flatMap(({ ip = '', ipMode, hostname = '' }, index) => {
      const path = [...here, index];
      const found = ip === '' ? [] : invalidFields([...path, 'ip'], ip, addressProblems(ip));
      if (ipMode === undefined && ip !== '') {
        found.push(requiredField([...path, 'ipMode'], 'must be specified when `ip` is set'));
      } else if (ipMode !== undefined && ip === '') {
        found.push(forbiddenField([...path, 'ipMode'], 'may not be specified when `ip` is not set'));
      } else if (ipMode !== undefined && !ipModes.includes(ipMode)) {
        found.push(unsupportedField([...path, 'ipMode'], ipMode, ipModes));
      }
      if (hostname === '') return found;
      found.push(...invalidFields([...path, 'hostname'], hostname, dnsSubdomainProblems(hostname)));
      if (parseIpAddress(hostname) === undefined) return found;
      return [...found, invalidField([...path, 'hostname'], hostname, 'must be a DNS name, not an IP address')];
    }),
  ];
}

export function isHeadless(spec: Spec): boolean {
  const addresses = clusterAddresses(spec);
  return addresses.length === 1 && addresses[0] === 'None';
}

export function needsNodePorts({ type }: Spec): boolean {
  return type === 'NodePort' || type === 'LoadBalancer';
}

export function needsHealthCheckPort({ type, externalTrafficPolicy }: Spec): boolean {
  return type === 'LoadBalancer' && externalTrafficPolicy === 'Local';
}

export function isExternallyAccessible({ type, externalIPs = [] }: Spec): boolean {
  return type === 'LoadBalancer' || type === 'NodePort' || (type === 'ClusterIP' && externalIPs.length > 0);
}

function topologyErrors(annotations: Readonly<Record<string, string>>): FieldError[] {
  const { [hintsAnnotation]: hints, [topologyAnnotation]: mode } = annotations;
  if (hints === undefined || mode === undefined || hints === mode) return [];
  const detail = `must match annotations[${hintsAnnotation}] when both are specified`;
  return [invalidField(['metadata', 'annotations', `[${topologyAnnotation}]`], mode, detail)];
}

function addressUpdateErrors(spec: Spec, old: Spec, path: FieldPath): FieldError[] {
  if (spec.type === 'ExternalName' || old.type === 'ExternalName') return [];
  const before = clusterAddresses(old);
  const after = clusterAddresses(spec);
  const refuse = (index: number, detail: string): FieldError => invalidField([...path, index], after, detail);
  if (before.length === after.length) {
    return before.flatMap((address, index) => (address === after[index] ? [] : [refuse(index, isFixed)]));
  }
  if (after.length === 0) return [refuse(0, 'primary clusterIP can not be unset')];
  if (before.length > 0 && after[0] !== before[0]) return [refuse(0, isFixed)];
  if (before.length <= after.length || spec.ipFamilyPolicy === 'SingleStack') return [];
  const detail = "must be set to 'SingleStack' when releasing the secondary clusterIP";
  return [invalidField(['spec', 'ipFamilyPolicy'], spec.ipFamilyPolicy ?? null, detail)];
}

/** The families of a headless service may change: nothing was handed out for them. */
function familyUpdateErrors(spec: Spec, old: Spec, path: FieldPath): FieldError[] {
  if (spec.type === 'ExternalName' || old.type === 'ExternalName' || isHeadless(spec) || isHeadless(old)) return [];
  const before = old.ipFamilies ?? [];
  const after = spec.ipFamilies ?? [];
  if (before.length > 0 && after.length > 0 && before[0] !== after[0]) {
    return [invalidField([...path, 0], after, isFixed)];
  }
  if (before.length !== 2 || after.length !== 1 || spec.ipFamilyPolicy === 'SingleStack') return [];
  const detail = "must be set to 'SingleStack' when releasing the secondary ipFamily";
  return [invalidField(['spec', 'ipFamilyPolicy'], spec.ipFamilyPolicy ?? null, detail)];
}

/** The single address is the list's first; a user may write either. */
function clusterAddresses({ clusterIP = '', clusterIPs = [] }: Spec): readonly string[] {
  return clusterIPs.length === 0 && clusterIP !== '' ? [clusterIP] : clusterIPs;
}

function typeErrors(spec: Spec, path: FieldPath): FieldError[] {
  const { type } = spec;
  if (needsNodePorts(spec) && isHeadless(spec)) {
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

/**
 * What the addresses of a Service and their families must be, whether they were handed out or are yet to be; those of a name
 * for something outside are none, which is another rule.
 */
export function clusterAddressErrors(spec: Spec): FieldError[] {
  const { type, clusterIP = '', ipFamilies = [], ipFamilyPolicy } = spec;
  if (type === 'ExternalName') return [];
  const path = ['spec', 'clusterIPs'];
  const addresses = clusterAddresses(spec);
  const refuse = (detail: string): FieldError => invalidField(path, addresses, detail);
  const errors: FieldError[] = [];
  if (clusterIP !== '' && addresses[0] !== clusterIP) errors.push(refuse('first value must match `clusterIP`'));
  if (clusterIP === '' && addresses.length > 0) errors.push(refuse('must be empty when `clusterIP` is not specified'));
  for (const [index, family] of ipFamilies.entries()) {
    const here = ['spec', 'ipFamilies', index];
    if (!families.includes(family)) errors.push(unsupportedField(here, family, families));
    if (ipFamilies.indexOf(family) < index) errors.push(duplicateField(here, family));
  }
  if (ipFamilyPolicy !== undefined && !familyPolicies.includes(ipFamilyPolicy)) {
    errors.push(unsupportedField(['spec', 'ipFamilyPolicy'], ipFamilyPolicy, familyPolicies));
  }
  const before = errors.length;
  for (const [index, address] of addresses.entries()) {
    if (index > 0 || address !== 'None') {
      errors.push(...invalidFields([...path, index], address, addressProblems(address)));
    } else if (addresses.length > 1) {
      errors.push(refuse("'None' must be the first and only value"));
    }
  }
  const areAddresses = errors.length === before;
  if (addresses.length > 2) errors.push(refuse('may only hold up to 2 values'));
  if (!areAddresses || isHeadless(spec)) return errors;
  const own = addresses.map((address) => parseIpAddress(address)?.family);
  if (own.length > 1 && (own.length > 2 || own[0] === own[1])) {
    errors.push(refuse('may specify no more than one IP for each IP family'));
  }
  for (const [index, address] of addresses.slice(0, ipFamilies.length).entries()) {
    const asked = ipFamilies[index];
    if (asked === undefined || !families.includes(asked) || asked === own[index]) continue;
    const detail = `expected an ${asked} value as indicated by \`ipFamilies[${index}]\``;
    errors.push(invalidField([...path, index], address, detail));
  }
  return errors;
}

function externalAddressErrors(address: string, index: number): FieldError[] {
  const path = ['spec', 'externalIPs', index];
  const problems = addressProblems(address);
  return problems.length > 0 ? invalidFields(path, address, problems) : reachErrors(address, path);
}

function balancerErrors({ metadata, spec }: Service): FieldError[] {
  const isBalancer = spec.type === 'LoadBalancer';
  const { loadBalancerSourceRanges: ranges = [], allocateLoadBalancerNodePorts: allocates } = spec;
  const written = metadata.annotations?.[sourceRangesAnnotation];
  const errors: FieldError[] = [];
  if (ranges.length > 0) {
    const path = ['spec', 'LoadBalancerSourceRanges'];
    if (!isBalancer) errors.push(forbiddenField(path, balancersOnly));
    for (const [index, range] of ranges.entries()) {
      addErrors(errors, invalidFields([...path, index], range.trim(), subnetProblems(range.trim())));
    }
  } else if (written !== undefined) {
    const path = ['metadata', 'annotations', `[${sourceRangesAnnotation}]`];
    if (!isBalancer) errors.push(forbiddenField(path, balancersOnly));
    const parts = written.trim() === '' ? [] : written.split(',').map((part) => part.trim());
    for (const part of parts) addErrors(errors, invalidFields(path, part, subnetProblems(part)));
  }
  if (allocates !== undefined && !isBalancer) {
    errors.push(forbiddenField(['spec', 'allocateLoadBalancerNodePorts'], balancersOnly));
  }
  const { loadBalancerClass: balancer } = spec;
  if (balancer === undefined) return errors;
  const path = ['spec', 'loadBalancerClass'];
  if (!isBalancer) return [...errors, forbiddenField(path, balancersOnly)];
  return [...errors, ...invalidFields(path, balancer, qualifiedNameProblems(balancer))];
}

function trafficErrors(spec: Spec, here: FieldPath): FieldError[] {
  const { externalTrafficPolicy: external = '', internalTrafficPolicy: internal, healthCheckNodePort = 0 } = spec;
  const { trafficDistribution: distribution } = spec;
  const errors: FieldError[] = [];
  const path = [...here, 'externalTrafficPolicy'];
  if (isExternallyAccessible(spec)) errors.push(...choiceErrors(external, policies, path));
  else if (external !== '') {
    errors.push(invalidField(path, external, 'may only be set for externally-accessible services'));
  }
  const portPath = [...here, 'healthCheckNodePort'];
  if (needsHealthCheckPort(spec)) {
    // Whoever has none is given one, where Services are given anything.
    if (healthCheckNodePort !== 0) {
      errors.push(...invalidFields(portPath, healthCheckNodePort, portProblems(healthCheckNodePort)));
    }
  } else if (healthCheckNodePort !== 0) {
    const detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
    errors.push(invalidField(portPath, healthCheckNodePort, detail));
  }
  if (internal !== undefined && !policies.includes(internal)) {
    errors.push(unsupportedField([...here, 'internalTrafficPolicy'], internal, policies));
  }
  if (distribution === undefined || distributions.includes(distribution)) return errors;
  return [...errors, unsupportedField([...here, 'trafficDistribution'], distribution, distributions)];
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
