/** The table of everything this server serves. To serve another kind, write its entry and add it here: nothing else. */
import type { Resource } from './resource.ts';
import { clusterTrustBundles, clusterTrustBundlesBeta } from './resources/cluster-trust-bundle.ts';
import { configMaps } from './resources/config-map.ts';
import { csiDrivers, csiNodes, volumeAttachments } from './resources/csi.ts';
import { events, eventViews } from './resources/event.ts';
import { leases } from './resources/lease.ts';
import { limitRanges, podDisruptionBudgets, resourceQuotas } from './resources/limits.ts';
import { namespaces } from './resources/namespace.ts';
import { nodes } from './resources/node.ts';
import { persistentVolumeClaims, persistentVolumes } from './resources/persistent-volume.ts';
import { pods } from './resources/pod.ts';
import {
  bindings,
  localSubjectAccessReviews,
  selfSubjectAccessReviews,
  selfSubjectReviews,
  selfSubjectRulesReviews,
  subjectAccessReviews,
  tokenReviews,
} from './resources/reviews.ts';
import { runtimeClasses } from './resources/runtime-class.ts';
import { secrets } from './resources/secret.ts';
import { serviceAccounts } from './resources/service-account.ts';
import { endpointsResource, services } from './resources/service.ts';
import { storageClasses } from './resources/storage-class.ts';

/** The first version of a group is the one that clients prefer. */
export const resources: readonly Resource[] = [
  bindings,
  configMaps,
  endpointsResource,
  events,
  limitRanges,
  namespaces,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  resourceQuotas,
  secrets,
  serviceAccounts,
  services,
  selfSubjectReviews,
  tokenReviews,
  localSubjectAccessReviews,
  selfSubjectAccessReviews,
  selfSubjectRulesReviews,
  subjectAccessReviews,
  clusterTrustBundles,
  clusterTrustBundlesBeta,
  leases,
  eventViews,
  runtimeClasses,
  podDisruptionBudgets,
  csiDrivers,
  csiNodes,
  storageClasses,
  volumeAttachments,
];

export interface GroupVersion {
  readonly group: string;
  readonly version: string;
}

/** Finds resources by what a request names. Made once for a table, because every request asks it. */
export class ResourceTable {
  readonly all: readonly Resource[];
  readonly #byPlural = new Map<string, Resource>();
  readonly #byKind = new Map<string, Resource>();

  constructor(all: readonly Resource[]) {
    this.all = all;
    for (const entry of all) {
      this.#byPlural.set(keyOf(entry, entry.plural), entry);
      this.#byKind.set(keyOf(entry, entry.kind), entry);
    }
  }

  /** As a path names it: `/apis/coordination.k8s.io/v1/…/leases`. Only clients know of short names. */
  byPlural(groupVersion: GroupVersion, plural: string): Resource | undefined {
    return this.#byPlural.get(keyOf(groupVersion, plural));
  }

  /** As an object names itself: `apiVersion` and `kind`. */
  byKind(apiVersion: string, kind: string): Resource | undefined {
    return this.#byKind.get(keyOf(parseApiVersion(apiVersion), kind));
  }

  /** Every group and version with its resources, in the order of the table. */
  groupVersions(): ReadonlyMap<string, readonly Resource[]> {
    const groups = new Map<string, Resource[]>();
    for (const entry of this.all) {
      const name = apiVersionOf(entry);
      groups.set(name, [...(groups.get(name) ?? []), entry]);
    }
    return groups;
  }
}

/** `v1` for the core group, else `group/version`. */
export function apiVersionOf({ group, version }: GroupVersion): string {
  return group === '' ? version : `${group}/${version}`;
}

export function parseApiVersion(apiVersion: string): GroupVersion {
  const slash = apiVersion.indexOf('/');
  if (slash < 0) return { group: '', version: apiVersion };
  return { group: apiVersion.slice(0, slash), version: apiVersion.slice(slash + 1) };
}

function keyOf({ group, version }: GroupVersion, name: string): string {
  return `${group}/${version}/${name}`;
}
