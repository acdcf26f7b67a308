/**
 * Which Service has which cluster address and which node port, read from the stored Services and from nothing else: there is
 * no second book that a crash could leave different. Writes that are not on disk yet count with the state before them, so
 * that neither a write that fails nor one that has just been decided gives something to two.
 */
import type { Service } from '../../kube/kinds/service.ts';
import type { ServiceRange } from '../../kube/values/service-range.ts';
import { objectPrefix, parseStored } from '../model/stored-objects.ts';
import type { Store } from '../store/store.ts';

/** The key of the Service that has the address or the port, if one has. */
type HolderOf = (claim: string) => string | undefined;

/** What Services are given addresses of. */
export interface ServicePool {
  readonly range: ServiceRange;
  /** As of now. */
  holders(): HolderOf;
}

const prefix = objectPrefix({ group: '', plural: 'services', namespaced: true });

export class ServiceClaims implements ServicePool {
  readonly range: ServiceRange;
  readonly #store: Pick<Store, 'underway'>;
  readonly #holders = new Map<string, string>();

  constructor(store: Pick<Store, 'underway'>, range: ServiceRange) {
    this.#store = store;
    this.range = range;
  }

  changed(key: string, before: string | undefined, after: string | undefined): void {
    for (const claim of claimsIn(before)) if (this.#holders.get(claim) === key) this.#holders.delete(claim);
    for (const claim of claimsIn(after)) this.#holders.set(claim, key);
  }

  holders(): HolderOf {
    const underway = new Map<string, string>();
    for (const { key, type, value } of this.#store.underway(prefix)) {
      if (type === 'put') for (const claim of claimsIn(value)) underway.set(claim, key);
    }
    return (claim) => underway.get(claim) ?? this.#holders.get(claim);
  }

  /** Whether the write would give the object something that another one has. */
  isTaken(key: string, value: string): boolean {
    if (!key.startsWith(prefix)) return false;
    const holderOf = this.holders();
    return claimsIn(value).some((claim) => (holderOf(claim) ?? key) !== key);
  }
}

export function followServiceClaims(
  store: Pick<Store, 'underway' | 'subscribe' | 'list'>,
  range: ServiceRange,
): { readonly claims: ServiceClaims; readonly unfollow: () => void } {
  const claims = new ServiceClaims(store, range);
  const unfollow = store.subscribe((changes) => {
    for (const { type, key, value, previous } of changes) {
      if (key.startsWith(prefix)) claims.changed(key, previous, type === 'put' ? value : undefined);
    }
  });
  for (const { key, value } of store.list({ prefix, leavesOutDamaged: true }).items) {
    claims.changed(key, undefined, value);
  }
  return { claims, unfollow };
}

function claimsIn(text: string | undefined): readonly string[] {
  if (text === undefined) return [];
  const { ports = [], clusterIP = '', clusterIPs = [], healthCheckNodePort = 0 } = (parseStored(text) as Service).spec;
  const addresses = clusterIPs.length > 0 ? clusterIPs : [clusterIP];
  const numbers = [...ports.map(({ nodePort = 0 }) => nodePort), healthCheckNodePort];
  return [
    ...addresses.filter((address) => address !== '' && address !== 'None'),
    ...new Set(numbers.filter((port) => port > 0).map(String)),
  ];
}
