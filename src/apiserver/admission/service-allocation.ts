/**
 * What the API server gives to a Service: its cluster address, its node ports, its address family. It is the last step of
 * admission, so that what it decides is checked with the rest, and it runs while no other write can happen: two Services
 * never get the same. Clusters of ours have one family, IPv4.
 */
import { createHash } from 'node:crypto';
import {
  clusterAddressErrors,
  isHeadless,
  needsHealthCheckPort,
  needsNodePorts,
} from '../../kube/kinds/service-validation.ts';
import type { Service, ServicePort, ServiceSpec } from '../../kube/kinds/service.ts';
import { type FieldError, invalidField } from '../../kube/schema/field-errors.ts';
import type { FieldPath } from '../../kube/schema/schema.ts';
import { parseIpAddress } from '../../kube/values/network-names.ts';
import { nodePortCandidates, nodePorts } from '../../kube/values/service-range.ts';
import { internalError, invalid, kindName } from '../model/status.ts';
import { objectKey } from '../model/stored-objects.ts';
import type { AdmissionStep } from './admission.ts';
import type { ServicePool } from './service-claims.ts';

export function serviceAllocation(pool: ServicePool): AdmissionStep {
  return {
    admit({ operation, resource, subresource, namespace, object, old }) {
      const isService = resource.plural === 'services' && resource.group === '' && subresource === '';
      if (!isService || object === undefined || operation === 'DELETE') return undefined;
      const { name } = object.metadata;
      const key = objectKey(resource, namespace, name);
      const refuse = (errors: readonly FieldError[]): never => {
        throw invalid(kindName(resource), name, errors);
      };
      const service = object as Service;
      const before = (old as Service | undefined)?.spec;
      return { ...service, spec: allocated(service, before, new Grants(pool, key, service, refuse), refuse) };
    },
  };
}

type Refuse = (errors: readonly FieldError[]) => never;

/** What is given to one Service in one write. */
class Grants {
  readonly #pool: ServicePool;
  readonly #key: string;
  readonly #refuse: Refuse;
  readonly #holderOf: (claim: string) => string | undefined;
  readonly #given = new Set<string>();
  readonly #uid: string;

  constructor(pool: ServicePool, key: string, { metadata }: Service, refuse: Refuse) {
    this.#pool = pool;
    this.#key = key;
    this.#refuse = refuse;
    this.#holderOf = pool.holders();
    this.#uid = metadata.uid ?? '';
  }

  address(asked: readonly string[]): string {
    const { range } = this.#pool;
    const [address] = asked;
    if (address === undefined) {
      for (const candidate of range.candidates(this.#chance()))
        if (this.#isFree(candidate)) return this.#give(candidate);
      throw internalError('failed to allocate a serviceIP: range is full');
    }
    const outside = `the provided IP (${address}) is not in the valid range. The range of valid IPs is ${range.text}`;
    const problem = range.has(address) ? this.#problemOf(address, 'IP') : outside;
    if (problem === undefined) return this.#give(address);
    return this.#refuse([invalidField(['spec', 'clusterIPs'], asked, `failed to allocate IP ${address}: ${problem}`)]);
  }

  /** It has it already, and uses it further. */
  keep(port: number): void {
    this.#give(String(port));
  }

  port(asked: number, path: FieldPath): number {
    const { first, last } = nodePorts;
    const outside = `provided port is not in the valid range. The range of valid ports is ${first}-${last}`;
    const problem = asked < first || asked > last ? outside : this.#problemOf(String(asked), 'port');
    if (problem !== undefined) return this.#refuse([invalidField(path, asked, problem)]);
    this.#give(String(asked));
    return asked;
  }

  anyPort(): number {
    for (const candidate of nodePortCandidates(this.#chance())) {
      if (!this.#isFree(String(candidate))) continue;
      this.#give(String(candidate));
      return candidate;
    }
    throw internalError('failed to allocate a nodePort: range is full');
  }

  #problemOf(claim: string, what: string): string | undefined {
    const holder = this.#holderOf(claim);
    const isTaken = this.#given.has(claim) || (holder !== undefined && holder !== this.#key);
    return isTaken ? `provided ${what} is already allocated` : undefined;
  }

  /** Not what the Service itself has: that is in use for something else. */
  #isFree(claim: string): boolean {
    return !this.#given.has(claim) && this.#holderOf(claim) === undefined;
  }

  #give(claim: string): string {
    this.#given.add(claim);
    return claim;
  }

  /** The uid is random; what is decided from it is the same when a write is decided again. */
  #chance(): number {
    return createHash('sha256').update(`${this.#uid} ${this.#given.size}`).digest().readUInt32BE();
  }
}

function allocated({ spec }: Service, old: ServiceSpec | undefined, grants: Grants, refuse: Refuse): ServiceSpec {
  const asked = old === undefined ? spec : withAllocatedOf(old, spec);
  const placed = withFamily(withAddressList(asked, old), old, refuse);
  return withPorts(withAddress(placed, old, grants), old, grants);
}

/** Who leaves out of an update what was given does not mean to give it back: the same file can be sent again. */
function withAllocatedOf(old: ServiceSpec, spec: ServiceSpec): ServiceSpec {
  let next = spec;
  if (old.type !== 'ExternalName' && spec.type !== 'ExternalName') {
    const { clusterIP = '', clusterIPs = [] } = old;
    next = {
      ...next,
      ...((next.clusterIP ?? '') === '' && clusterIP !== '' && { clusterIP }),
      ...((next.clusterIPs ?? []).length === 0 && clusterIPs.length > 0 && { clusterIPs }),
    };
  }
  if (needsNodePorts(old) && needsNodePorts(spec)) {
    const named = new Set((spec.ports ?? []).flatMap(({ nodePort = 0 }) => (nodePort === 0 ? [] : nodePort)));
    const byName = new Map((old.ports ?? []).map(({ name = '', nodePort = 0 }) => [name, nodePort]));
    next = {
      ...next,
      ...(next.ports && {
        ports: next.ports.map((port) => {
          const before = byName.get(port.name ?? '') ?? 0;
          return (port.nodePort ?? 0) !== 0 || before === 0 || named.has(before) ? port : { ...port, nodePort: before };
        }),
      }),
    };
  }
  const { healthCheckNodePort: port = 0 } = old;
  const keepsPort = needsHealthCheckPort(old) && needsHealthCheckPort(spec) && (spec.healthCheckNodePort ?? 0) === 0;
  return keepsPort && port !== 0 ? { ...next, healthCheckNodePort: port } : next;
}

/** The single address and the list say the same; who changes one of them and leaves the other means both. */
function withAddressList(spec: ServiceSpec, old: ServiceSpec | undefined): ServiceSpec {
  const { clusterIP = '', clusterIPs = [], ...rest } = spec;
  const before = old?.clusterIPs ?? [];
  const isSameList = clusterIPs.length === before.length && clusterIPs.every((one, index) => one === before[index]);
  if (
    clusterIP !== '' &&
    (clusterIPs.length === 0 || (old !== undefined && old.clusterIP !== clusterIP && isSameList))
  ) {
    return { ...spec, clusterIPs: [clusterIP] };
  }
  return clusterIP === '' && old !== undefined && clusterIPs.length > 0 && isSameList ? rest : spec;
}

function withFamily(spec: ServiceSpec, old: ServiceSpec | undefined, refuse: Refuse): ServiceSpec {
  if (spec.type === 'ExternalName') return spec;
  // Without an address and without pods of its own it may stand for anything.
  const isOpen = spec.clusterIP === 'None' && Object.keys(spec.selector ?? {}).length === 0;
  const policy = spec.ipFamilyPolicy ?? old?.ipFamilyPolicy ?? (isOpen ? 'RequireDualStack' : 'SingleStack');
  const wrong = clusterAddressErrors({ ...spec, ipFamilyPolicy: policy });
  if (wrong.length > 0) return refuse(wrong);
  const before = old?.ipFamilies ?? [];
  const { clusterIPs = [], ipFamilies: given = [] } = spec;
  const isSingle = policy === 'SingleStack';
  const isKept = old !== undefined && given.length === before.length && given.every((one, i) => one === before[i]);
  const families = isSingle && isKept ? given.slice(0, 1) : [...given];
  const errors: FieldError[] = [];
  const refusePolicy = (detail: string): void =>
    void errors.push(invalidField(['spec', 'ipFamilyPolicy'], policy, detail));
  if (!isSingle && given.length > 0 && given.length < before.length) {
    refusePolicy("must be 'SingleStack' to release the secondary IP family");
  }
  const several = "must be 'RequireDualStack' or 'PreferDualStack' when multiple";
  if (isSingle && clusterIPs.length > 1) refusePolicy(`${several} cluster IPs are specified`);
  if (isSingle && families.length > 1) refusePolicy(`${several} IP families are specified`);
  for (const [index, address] of clusterIPs.entries()) {
    const family = parseIpAddress(address)?.family;
    if (family === undefined || index < families.length) continue;
    if (family === 'IPv4') families.push(family);
    else errors.push(invalidField(['spec', 'clusterIPs', index], clusterIPs, 'IPv6 is not configured on this cluster'));
  }
  if (errors.length > 0) return refuse(errors);
  const [first = 'IPv4'] = families;
  if (isOpen) {
    const second = families.length < 2 && !isSingle ? [first === 'IPv4' ? 'IPv6' : 'IPv4'] : [];
    return { ...spec, ipFamilyPolicy: policy, ipFamilies: [first, ...families.slice(1), ...second] };
  }
  if (policy === 'RequireDualStack') refusePolicy('this cluster is not configured for dual-stack services');
  for (const [index, family] of families.entries()) {
    if (family === 'IPv4') continue;
    errors.push(invalidField(['spec', 'ipFamilies', index], family, 'not configured on this cluster'));
  }
  if (errors.length > 0) return refuse(errors);
  return { ...spec, ipFamilyPolicy: policy, ipFamilies: ['IPv4'] };
}

/** One that was stored without an address, by a server that gave none, gets it with its next update. */
function withAddress(spec: ServiceSpec, old: ServiceSpec | undefined, grants: Grants): ServiceSpec {
  if (spec.type === 'ExternalName' || isHeadless(spec)) return spec;
  const hasAddress = old !== undefined && old.type !== 'ExternalName' && (old.clusterIP ?? '') !== '';
  if (hasAddress) return spec;
  const address = grants.address(spec.clusterIPs ?? []);
  return { ...spec, clusterIP: address, clusterIPs: [address] };
}

function withPorts(spec: ServiceSpec, old: ServiceSpec | undefined, grants: Grants): ServiceSpec {
  const { ports, healthCheckNodePort = 0 } = spec;
  const hadPort = old !== undefined && needsHealthCheckPort(old) && (old.healthCheckNodePort ?? 0) !== 0;
  if (needsHealthCheckPort(spec) && hadPort) grants.keep(healthCheckNodePort);
  const gets = ports !== undefined && needsNodePorts(spec);
  const given = gets
    ? { ports: old === undefined ? newNodePorts(spec, ports, grants) : nextNodePorts(spec, ports, old, grants) }
    : {};
  if (!needsHealthCheckPort(spec) || hadPort) return { ...spec, ...given };
  const path = ['spec', 'healthCheckNodePort'];
  const port = healthCheckNodePort === 0 ? grants.anyPort() : grants.port(healthCheckNodePort, path);
  return { ...spec, ...given, healthCheckNodePort: port };
}

function allocatesNodePorts({ type, allocateLoadBalancerNodePorts: isWanted }: ServiceSpec): boolean {
  return type === 'NodePort' || isWanted !== false;
}

/** One port over several protocols has one node port. */
function newNodePorts(spec: ServiceSpec, ports: readonly ServicePort[], grants: Grants): ServicePort[] {
  const byPort = new Map<number, number>();
  return ports.map((one, index) => {
    const { port, nodePort = 0 } = one;
    const path = ['spec', 'ports', index, 'nodePort'];
    if (nodePort === 0 && !allocatesNodePorts(spec)) return one;
    const shared = byPort.get(port);
    if (shared !== undefined) {
      if (nodePort !== 0 && nodePort !== shared) grants.port(nodePort, path);
      return nodePort === 0 ? { ...one, nodePort: shared } : one;
    }
    const asked = ports.find((other) => other.port === port && (other.nodePort ?? 0) !== 0)?.nodePort;
    const given = asked === undefined ? grants.anyPort() : grants.port(asked, path);
    byPort.set(port, given);
    return { ...one, nodePort: given };
  });
}

function nextNodePorts(
  spec: ServiceSpec,
  ports: readonly ServicePort[],
  old: ServiceSpec,
  grants: Grants,
): ServicePort[] {
  const known = new Set((old.ports ?? []).map(({ nodePort = 0 }) => nodePort));
  for (const { nodePort = 0 } of ports) if (nodePort !== 0 && known.has(nodePort)) grants.keep(nodePort);
  // Then those that are asked for, so that no other port of the same Service gets one of them.
  for (const [index, { nodePort = 0 }] of ports.entries()) {
    if (nodePort === 0 || known.has(nodePort)) continue;
    known.add(grants.port(nodePort, ['spec', 'ports', index, 'nodePort']));
  }
  return ports.map((one) =>
    (one.nodePort ?? 0) !== 0 || !allocatesNodePorts(spec) ? one : { ...one, nodePort: grants.anyPort() },
  );
}
