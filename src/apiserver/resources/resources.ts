/** The table of everything this server serves. To serve another kind, write its entry and add it here: nothing else. */
import type { Resource } from '../model/resource.ts';
import { clusterRoleBindings, clusterRoles, roleBindings, roles } from './access.ts';
import { cronJobs, jobs } from './batch.ts';
import { certificateSigningRequests } from './certificates.ts';
import { leases, namespaces, nodes, runtimeClasses, serviceAccounts } from './cluster.ts';
import { clusterTrustBundles, clusterTrustBundlesBeta, configMaps, secrets } from './configuration.ts';
import { eventViews, events } from './event.ts';
import { ingressClasses, ingresses, networkPolicies } from './networking.ts';
import { pods } from './pod.ts';
import {
  horizontalPodAutoscalers,
  limitRanges,
  podDisruptionBudgets,
  priorityClasses,
  resourceQuotas,
} from './policy.ts';
import {
  bindings,
  localSubjectAccessReviews,
  selfSubjectAccessReviews,
  selfSubjectReviews,
  selfSubjectRulesReviews,
  subjectAccessReviews,
  tokenReviews,
} from './reviews.ts';
import { endpointSlices, endpointsResource, services } from './service.ts';
import { daemonSets, statefulSets } from './stateful.ts';
import {
  csiDrivers,
  csiNodes,
  persistentVolumeClaims,
  persistentVolumes,
  storageClasses,
  volumeAttachments,
} from './storage.ts';
import { nodeMetrics, podMetrics } from './usage-metrics.ts';
import { keptWithoutRules } from './without-rules.ts';
import { controllerRevisions, deployments, podTemplates, replicaSets, replicationControllers } from './workloads.ts';

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
  replicationControllers,
  resourceQuotas,
  secrets,
  serviceAccounts,
  services,
  controllerRevisions,
  daemonSets,
  deployments,
  replicaSets,
  statefulSets,
  selfSubjectReviews,
  tokenReviews,
  localSubjectAccessReviews,
  selfSubjectAccessReviews,
  selfSubjectRulesReviews,
  subjectAccessReviews,
  horizontalPodAutoscalers,
  cronJobs,
  jobs,
  certificateSigningRequests,
  clusterTrustBundles,
  clusterTrustBundlesBeta,
  leases,
  endpointSlices,
  eventViews,
  nodeMetrics,
  podMetrics,
  ingressClasses,
  ingresses,
  networkPolicies,
  runtimeClasses,
  podDisruptionBudgets,
  clusterRoleBindings,
  clusterRoles,
  roleBindings,
  roles,
  priorityClasses,
  csiDrivers,
  csiNodes,
  storageClasses,
  volumeAttachments,
  ...keptWithoutRules,
];
