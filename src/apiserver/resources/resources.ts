/** The table of everything this server serves. To serve another kind, write its entry and add it here: nothing else. */
import type { Resource } from '../model/resource.ts';
import { clusterTrustBundles, clusterTrustBundlesBeta } from './cluster-trust-bundle.ts';
import { configMaps } from './config-map.ts';
import { csiDrivers, csiNodes, volumeAttachments } from './csi.ts';
import { eventViews, events } from './event.ts';
import { leases } from './lease.ts';
import { limitRanges, podDisruptionBudgets, resourceQuotas } from './limits.ts';
import { namespaces } from './namespace.ts';
import { nodes } from './node.ts';
import { persistentVolumeClaims, persistentVolumes } from './persistent-volume.ts';
import { pods } from './pod.ts';
import {
  bindings,
  localSubjectAccessReviews,
  selfSubjectAccessReviews,
  selfSubjectReviews,
  selfSubjectRulesReviews,
  subjectAccessReviews,
  tokenReviews,
} from './reviews.ts';
import { runtimeClasses } from './runtime-class.ts';
import { secrets } from './secret.ts';
import { serviceAccounts } from './service-account.ts';
import { endpointsResource, services } from './service.ts';
import { storageClasses } from './storage-class.ts';
import { controllerRevisions, podTemplates } from './workloads.ts';

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
  podTemplates,
  resourceQuotas,
  secrets,
  serviceAccounts,
  services,
  controllerRevisions,
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
