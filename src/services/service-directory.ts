/** What the API says of Services and what is behind them, ready to be looked up: made anew after changes, and never changed itself. Pure. */
import { isIPv4 } from 'node:net';
import { type EndpointSlice, serviceNameLabel } from '../kube/kinds/endpoint-slice.ts';
import type { Service } from '../kube/kinds/service.ts';

export interface Endpoint {
  readonly address: string;
  /** Of a pod that has a name of its own below the Service's; empty for others. */
  readonly hostname: string;
  readonly isReady: boolean;
  /** It is about to go, but does its work still. */
  readonly isLeaving: boolean;
  readonly ports: readonly { readonly name: string; readonly protocol: string; readonly port: number }[];
}

/** More than that behind one Service are left out, as the API leaves them out of Endpoints. */
const endpointsMax = 1000;

export class ServiceDirectory {
  /** Those that were there first come first, so that nobody takes what another has. */
  readonly services: readonly Service[];
  readonly #byKey: ReadonlyMap<string, Service>;
  readonly #slices = new Map<string, EndpointSlice[]>();
  readonly #namespaces: ReadonlySet<string>;
  #names: ReadonlyMap<string, readonly string[]> | undefined;

  constructor(services: readonly Service[], slices: readonly EndpointSlice[]) {
    const age = ({ metadata: { creationTimestamp = '' } }: Service): string => creationTimestamp;
    this.services = services.toSorted((a, b) => compare(age(a), age(b)) || compare(keyOf(a), keyOf(b)));
    this.#byKey = new Map(this.services.map((service) => [keyOf(service), service]));
    this.#namespaces = new Set(this.services.map(({ metadata: { namespace = '' } }) => namespace));
    for (const slice of slices.toSorted((a, b) => compare(a.metadata.name, b.metadata.name))) {
      const { namespace = '', labels = {} } = slice.metadata;
      const key = `${namespace}/${labels[serviceNameLabel] ?? ''}`;
      if (slice.addressType !== 'IPv4' || !this.#byKey.has(key)) continue;
      const known = this.#slices.get(key);
      if (known === undefined) this.#slices.set(key, [slice]);
      else known.push(slice);
    }
  }

  service(namespace: string, name: string): Service | undefined {
    return this.#byKey.get(`${namespace}/${name}`);
  }

  hasNamespace(namespace: string): boolean {
    return this.#namespaces.has(namespace);
  }

  /** Each with one address, as it is written in one way. */
  endpoints(service: Service): readonly Endpoint[] {
    const found = (this.#slices.get(keyOf(service)) ?? []).flatMap(({ endpoints = [], ports = [] }) => {
      const offered = ports.map(({ name = '', protocol = 'TCP', port = 0 }) => ({ name, protocol, port }));
      return endpoints.flatMap(({ addresses: [address = ''] = [], hostname = '', conditions = {} }) => {
        const { ready = true, serving = ready, terminating = false } = conditions;
        if (!isIPv4(address)) return [];
        return [{ address, hostname, isReady: ready, isLeaving: serving && terminating, ports: offered }];
      });
    });
    return found.slice(0, endpointsMax);
  }

  /** What a name of DNS says that has this address, without the domain of the cluster: `['web', 'default', 'svc']`. */
  nameOf(address: string): readonly string[] | undefined {
    this.#names ??= new Map(this.services.flatMap((service) => this.#namesOf(service)));
    return this.#names.get(address);
  }

  #namesOf(service: Service): (readonly [string, readonly string[]])[] {
    const address = clusterAddress(service);
    const name = nameOfService(service);
    if (address !== undefined) return [[address, name]];
    const named = this.endpoints(service).filter(({ hostname, isReady }) => hostname !== '' && isReady);
    return named.map((endpoint) => [endpoint.address, [endpoint.hostname, ...name]] as const);
  }
}

export function keyOf({ metadata: { namespace = '', name } }: Service): string {
  return `${namespace}/${name}`;
}

export function nameOfService({ metadata: { namespace = '', name } }: Service): readonly string[] {
  return [name, namespace, 'svc'];
}

/** Undefined: it has none of the family that pods have. */
export function clusterAddress({ spec: { clusterIP = '', clusterIPs = [], type } }: Service): string | undefined {
  return type === 'ExternalName' ? undefined : [...clusterIPs, clusterIP].find((address) => isIPv4(address));
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
