/** A pod: containers that share volumes, and the settings they share. */
import { resourceKind } from '../../schema/kind.ts';
import { type ObjectMeta, objectFields, templateMeta } from '../../schema/meta.ts';
import { type Of, described, object, required } from '../../schema/schema.ts';
import {
  type ResourceList,
  canBeOvercommitted,
  isHugePages,
  isPodLevelResource,
  roundUpResources,
} from '../../values/quantity.ts';
import {
  type ResourceRequirements,
  containersTogether,
  defaultContainer,
  defaultResources,
  withHostPorts,
  withRequestsFromLimits,
} from './container.ts';
import { type PodSpec, podSpec } from './pod-spec.ts';
import { type PodStatus, podStatus } from './pod-status.ts';
import { validatePodUpdate } from './pod-update-validation.ts';
import { validatePod } from './pod-validation.ts';
import { podWire } from './pod-wire.ts';
import { defaultVolume } from './volume.ts';

export const podShape = described(
  {
    text: 'Containers that run together on one node and share volumes and a network.',
    fields: {
      spec: 'What the pod should be.',
      status: 'What the pod is now, as its node says. It may be a little late.',
    },
  },
  object({ ...objectFields, spec: required(podSpec), status: podStatus }),
);

export interface Pod extends Of<typeof podShape> {}

export const podKind = resourceKind<Pod>({
  kind: 'Pod',
  plural: 'pods',
  shortNames: ['po'],
  categories: ['all'],
  namespaced: true,
  shape: podShape,
  complete: defaultPod,
  validate: validatePod,
  validateUpdate: validatePodUpdate,
  wire: podWire,
});

export const podTemplateSpec = described(
  {
    name: 'io.k8s.api.core.v1.PodTemplateSpec',
    text: 'What pods are made from.',
    fields: { metadata: 'Labels and annotations of the pods.', spec: 'What each pod should be.' },
  },
  object({ metadata: templateMeta, spec: required(podSpec) }),
);

export interface PodTemplateSpec extends Of<typeof podTemplateSpec> {}

/** A pod as the template describes it, with a name, and labels and annotations besides the template's. */
export function podOfTemplate({ metadata: given = {}, spec }: PodTemplateSpec, own: ObjectMeta): Pod {
  const labels = { ...given.labels, ...own.labels };
  const annotations = { ...given.annotations, ...own.annotations };
  const finalizers = [...new Set([...(given.finalizers ?? []), ...(own.finalizers ?? [])])];
  const metadata = {
    ...own,
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(Object.keys(annotations).length > 0 && { annotations }),
    ...(finalizers.length > 0 && { finalizers }),
  };
  return { apiVersion: 'v1', kind: 'Pod', metadata, spec };
}

/**
 * Defaults of pods and pod templates, as the API server sets them when an object is decoded. Every function returns a new
 * object and may be applied again without effect. What admission adds (the token volume, tolerations) is not here.
 */
export function defaultPod(pod: Pod): Pod {
  return {
    ...pod,
    spec: defaultPodSpec(podOnlyDefaults(pod.spec)),
    ...(pod.status && { status: defaultPodStatus(pod.status) }),
  };
}

/** A template gets less than a pod: the pods made of it get the rest. */
export function defaultPodTemplateSpec(template: PodTemplateSpec): PodTemplateSpec {
  return { ...template, spec: defaultPodSpec(template.spec) };
}

function defaultPodSpec(spec: PodSpec): PodSpec {
  const serviceAccountName = spec.serviceAccountName || spec.serviceAccount || '';
  const { volumes, initContainers, ephemeralContainers, overhead, resources } = spec;
  return {
    ...spec,
    ...(serviceAccountName !== '' && { serviceAccountName, serviceAccount: serviceAccountName }),
    dnsPolicy: spec.dnsPolicy || 'ClusterFirst',
    restartPolicy: spec.restartPolicy || 'Always',
    securityContext: spec.securityContext ?? {},
    terminationGracePeriodSeconds: spec.terminationGracePeriodSeconds ?? 30,
    schedulerName: spec.schedulerName || 'default-scheduler',
    containers: spec.containers.map(defaultContainer),
    ...(volumes && { volumes: volumes.map(defaultVolume) }),
    ...(initContainers && { initContainers: initContainers.map(defaultContainer) }),
    ...(ephemeralContainers && { ephemeralContainers: ephemeralContainers.map(defaultContainer) }),
    ...(overhead && { overhead: roundUpResources(overhead) }),
    ...(resources && { resources: defaultResources(resources) }),
  };
}

function podOnlyDefaults(spec: PodSpec): PodSpec {
  const complete = (list: PodSpec['containers']): PodSpec['containers'] => {
    const requesting = list.map(withRequestsFromLimits);
    return spec.hostNetwork === true ? requesting.map(withHostPorts) : requesting;
  };
  const containers = complete(spec.containers);
  const initContainers = spec.initContainers && complete(spec.initContainers);
  const graceSeconds = spec.terminationGracePeriodSeconds;
  const withContainers = { ...spec, containers, ...(initContainers && { initContainers }) };
  return {
    ...withContainers,
    enableServiceLinks: spec.enableServiceLinks ?? true,
    ...(graceSeconds !== undefined && graceSeconds < 0 && { terminationGracePeriodSeconds: 1 }),
    ...(spec.resources && { resources: podLevelResources(withContainers, spec.resources) }),
  };
}

/**
 * What a pod as a whole asks for, where it says only what it may use: what its containers ask for, else its limits. Huge
 * pages cannot be overcommitted, so their limit comes first, from the containers' limits.
 */
function podLevelResources(spec: PodSpec, resources: ResourceRequirements): ResourceRequirements {
  const limits = podLevelLimits(spec, resources);
  if (limits === undefined || Object.keys(limits).length === 0) return resources;
  const asked = containersTogether(
    spec.containers,
    spec.initContainers ?? [],
    (container) => container.resources?.requests,
  );
  const fromContainers = [...asked]
    .filter(([name]) => isPodLevelResource(name) && canBeOvercommitted(name))
    .map(([name, quantity]) => [name, String(quantity)] as const);
  const fromLimits = Object.entries(limits).filter(([name]) => isPodLevelResource(name));
  const requests: ResourceList = {
    ...Object.fromEntries(fromLimits),
    ...Object.fromEntries(fromContainers),
    ...resources.requests,
  };
  return { ...resources, limits, ...(Object.keys(requests).length > 0 && { requests }) };
}

function podLevelLimits(spec: PodSpec, { limits, requests = {} }: ResourceRequirements): ResourceList | undefined {
  if (Object.keys(limits ?? {}).length === 0 && Object.keys(requests).length === 0) return limits;
  const allowed = containersTogether(
    spec.containers,
    spec.initContainers ?? [],
    (container) => container.resources?.limits,
  );
  const hugePages = [...allowed]
    .filter(([name]) => isHugePages(name) && !Object.hasOwn(requests, name))
    .map(([name, quantity]) => [name, String(quantity)] as const);
  return hugePages.length === 0 ? limits : { ...Object.fromEntries(hugePages), ...limits };
}

/** The one address and the list of addresses say the same; where they differ, the one address is right. */
function defaultPodStatus(status: PodStatus): PodStatus {
  const first = status.podIPs?.[0]?.ip;
  if (status.podIP) return first === status.podIP ? status : { ...status, podIPs: [{ ip: status.podIP }] };
  return first === undefined ? status : { ...status, podIP: first };
}
