/** A pod: containers that share volumes, and the settings they share. */
import {
  type FieldError,
  forbiddenField,
  invalidField,
  invalidFields,
  notFoundField,
  placedAt,
  requiredField,
} from '../../schema/field-errors.ts';
import { type ObjectMeta, objectFields, objectMeta } from '../../schema/meta.ts';
import {
  nonNegativeErrors,
  validateAnnotations,
  validateLabels,
  validateObjectMeta,
} from '../../schema/metadata-validation.ts';
import { type FieldPath, type Of, object, required, described } from '../../schema/schema.ts';
import { goQuote } from '../../values/go-text.ts';
import { dnsLabelProblems, dnsSubdomainProblems } from '../../values/names.ts';
import { rangeProblems } from '../../values/network-names.ts';
import {
  type ResourceList,
  canBeOvercommitted,
  isHugePages,
  isPodLevelResource,
  roundUpResources,
} from '../../values/resource-list.ts';
import {
  containerErrors,
  ephemeralContainerErrors,
  imageSpaceErrors,
  initContainerErrors,
} from './container-validation.ts';
import {
  type Container,
  type ResourceRequirements,
  containersTogether,
  defaultContainer,
  defaultResources,
  withHostPorts,
  withRequestsFromLimits,
} from './container.ts';
import {
  choiceErrors,
  dnsErrors,
  gateErrors,
  hostAliasErrors,
  hostNetworkErrors,
  hostUsersErrors,
  hostnameErrors,
  podAnnotationErrors,
  preemptionErrors,
  resourceClaimErrors,
  schedulingGroupErrors,
} from './pod-field-validation.ts';
import { osErrors } from './pod-os.ts';
import { type PodSpec, podSpec } from './pod-spec.ts';
import { type PodStatus, podStatus } from './pod-status.ts';
import { containerResourceErrors, podResourceErrors } from './resource-validation.ts';
import { affinityErrors, spreadErrors, tolerationErrors } from './scheduling-validation.ts';
import { podSecurityContextErrors } from './security-context-validation.ts';
import { validateVolumes } from './volume-validation.ts';
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

export const podTemplateShape = object({ metadata: objectMeta, spec: required(podSpec) });
export interface PodTemplate extends Of<typeof podTemplateShape> {}

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
export function defaultPodTemplate(template: PodTemplate): PodTemplate {
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

/**
 * Rules for pods as they are created, and for the templates that workloads make pods of. Expects defaulted objects. The
 * errors come in the API server's order, so that the first one is the same as there.
 */
const int32Max = 2 ** 31 - 1;

export function validatePod(pod: Pod, path: FieldPath = []): FieldError[] {
  return [...validatePodMetadataAndSpec(pod, path), ...creationErrors(pod.spec, [...path, 'spec'])];
}

/** The rules that hold for a pod at any time, new or changed. */
export function validatePodMetadataAndSpec(pod: Pod, path: FieldPath = []): FieldError[] {
  const { metadata, spec } = pod;
  const metadataPath = [...path, 'metadata'];
  const specPath = [...path, 'spec'];
  return [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }, metadataPath),
    ...podAnnotationErrors(metadata.annotations ?? {}, spec, [...metadataPath, 'annotations']),
    ...validatePodSpec(spec, { metadata, isPod: true }, specPath),
    ...tokenWithoutAccountErrors(spec, [...specPath, 'volumes']),
    ...nonNegativeErrors(spec.terminationGracePeriodSeconds ?? 0, [...specPath, 'terminationGracePeriodSeconds']),
    ...spaceErrors(spec.containers, [...specPath, 'containers']),
    ...spaceErrors(spec.initContainers ?? [], [...specPath, 'initContainers']),
  ];
}

export function validatePodTemplate(template: PodTemplate, path: FieldPath): FieldError[] {
  const { metadata, spec } = template;
  const { labels = {}, annotations = {} } = metadata ?? {};
  const below = (field: 'annotations' | 'labels', errors: readonly FieldError[]): FieldError[] =>
    placedAt([...path, 'metadata', field], errors);
  const errors = [
    ...below('labels', validateLabels(labels, [...path, 'labels'])),
    ...below('annotations', validateAnnotations(annotations, [...path, 'annotations'])),
    ...below('annotations', podAnnotationErrors(annotations, spec, [...path, 'annotations'])),
    ...validatePodSpec(spec, { isPod: false }, [...path, 'spec']),
  ];
  if ((spec.ephemeralContainers ?? []).length === 0) return errors;
  const here = [...path, 'spec', 'ephemeralContainers'];
  return [...errors, forbiddenField(here, 'ephemeral containers not allowed in pod template')];
}

interface PodSpecContext {
  /** Of the pod; a template does not know what its pods will be called. */
  readonly metadata?: ObjectMeta;
  readonly isPod: boolean;
}

function validatePodSpec(spec: PodSpec, { metadata, isPod }: PodSpecContext, path: FieldPath): FieldError[] {
  const volumes = validateVolumes(spec.volumes ?? [], metadata?.name ?? '', [...path, 'volumes']);
  const claims = spec.resourceClaims ?? [];
  const claimNames = new Set(claims.map(({ name }) => name).filter((name) => name !== ''));
  const context = { spec, volumes: volumes.valid, claimNames };
  const graceIsMissing = spec.terminationGracePeriodSeconds === undefined;
  return [
    ...(graceIsMissing ? [requiredField([...path, 'terminationGracePeriodSeconds'])] : []),
    ...volumes.errors,
    ...resourceClaimErrors(claims, metadata, [...path, 'resourceClaims']),
    ...containerErrors(context, [...path, 'containers']),
    ...initContainerErrors(context, [...path, 'initContainers']),
    ...ephemeralContainerErrors(context, [...path, 'ephemeralContainers']),
    ...podResourceErrors(spec, claimNames, [...path, 'resources']),
    ...hostNetworkErrors(spec, isPod, path),
    ...choiceErrors('restartPolicy', spec.restartPolicy ?? '', [...path, 'restartPolicy']),
    ...choiceErrors('dnsPolicy', spec.dnsPolicy ?? '', [...path, 'dnsPolicy']),
    ...validateLabels(spec.nodeSelector ?? {}, [...path, 'nodeSelector']),
    ...podSecurityContextErrors(spec, [...path, 'securityContext']),
    ...sharedProcessErrors(spec, [...path, 'shareProcessNamespace']),
    ...affinityErrors(spec.affinity, [...path, 'affinity']),
    ...dnsErrors(spec, [...path, 'dnsConfig']),
    ...gateErrors(spec, path),
    ...spreadErrors(spec.topologySpreadConstraints ?? [], [...path, 'topologySpreadConstraints']),
    ...hostUsersErrors(spec, path),
    ...hostnameErrors(spec, [...path, 'hostnameOverride']),
    ...accountErrors(spec, path),
    ...nameErrors(spec, path),
    ...tolerationErrors(spec.tolerations ?? [], [...path, 'tolerations']),
    ...hostAliasErrors(spec.hostAliases ?? [], [...path, 'hostAliases']),
    ...classErrors(spec, path),
    ...preemptionErrors(spec.preemptionPolicy, [...path, 'preemptionPolicy']),
    ...(spec.overhead ? containerResourceErrors({ limits: spec.overhead }, new Set(), [...path, 'overhead']) : []),
    ...osErrors(spec, path),
    ...schedulingGroupErrors(spec, [...path, 'schedulingGroup']),
    ...fileVolumeErrors(spec, path),
  ];
}

/** A token needs somebody to be the token of. */
function tokenWithoutAccountErrors({ serviceAccountName = '', volumes = [] }: PodSpec, path: FieldPath): FieldError[] {
  if (serviceAccountName !== '') return [];
  return volumes.flatMap(({ projected }, index) =>
    (projected?.sources ?? []).flatMap(({ serviceAccountToken }, sourceIndex) => {
      if (serviceAccountToken === undefined) return [];
      const here = [...path, index, 'projected', 'sources', sourceIndex, 'serviceAccountToken'];
      return [forbiddenField(here, 'must not be specified when serviceAccountName is not set')];
    }),
  );
}

function spaceErrors(containers: readonly Container[], path: FieldPath): FieldError[] {
  return containers.flatMap((container, index) => imageSpaceErrors(container, [...path, index]));
}

function creationErrors(spec: PodSpec, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  if ((spec.ephemeralContainers ?? []).length > 0) {
    errors.push(forbiddenField([...path, 'ephemeralContainers'], 'cannot be set on create'));
  }
  if ((spec.nodeName ?? '') !== '' && (spec.schedulingGates ?? []).length > 0) {
    const detail = 'cannot be set until all schedulingGates have been cleared';
    errors.push(forbiddenField([...path, 'nodeName'], detail));
  }
  return errors;
}

function sharedProcessErrors({ shareProcessNamespace, hostPID }: PodSpec, path: FieldPath): FieldError[] {
  if (shareProcessNamespace !== true || hostPID !== true) return [];
  return [invalidField(path, true, 'ShareProcessNamespace and HostPID cannot both be enabled')];
}

function accountErrors({ serviceAccountName = '', serviceAccount = '' }: PodSpec, path: FieldPath): FieldError[] {
  const errors =
    serviceAccountName === ''
      ? []
      : invalidFields([...path, 'serviceAccountName'], serviceAccountName, dnsSubdomainProblems(serviceAccountName));
  if (serviceAccount === serviceAccountName) return errors;
  const detail = `must be the same as serviceAccountName: ${goQuote(serviceAccountName)}`;
  const mismatch = invalidField([...path, 'deprecatedServiceAccount'], serviceAccount, detail);
  return [...errors, ...placedAt([...path, 'serviceAccount'], [mismatch])];
}

function nameErrors(spec: PodSpec, path: FieldPath): FieldError[] {
  const { nodeName = '', activeDeadlineSeconds: seconds, hostname = '', subdomain = '' } = spec;
  return [
    ...(nodeName === '' ? [] : invalidFields([...path, 'nodeName'], nodeName, dnsSubdomainProblems(nodeName))),
    ...(seconds === undefined
      ? []
      : invalidFields([...path, 'activeDeadlineSeconds'], seconds, rangeProblems(seconds, 1, int32Max))),
    ...(hostname === '' ? [] : invalidFields([...path, 'hostname'], hostname, dnsLabelProblems(hostname))),
    ...(subdomain === '' ? [] : invalidFields([...path, 'subdomain'], subdomain, dnsLabelProblems(subdomain))),
  ];
}

function classErrors({ priorityClassName = '', runtimeClassName }: PodSpec, path: FieldPath): FieldError[] {
  return [
    ...(priorityClassName === ''
      ? []
      : invalidFields([...path, 'priorityClassName'], priorityClassName, dnsSubdomainProblems(priorityClassName))),
    ...(runtimeClassName === undefined
      ? []
      : invalidFields([...path, 'runtimeClassName'], runtimeClassName, dnsSubdomainProblems(runtimeClassName))),
  ];
}

/** Variables are read from files of emptyDirs alone: the container before has written them there. */
function fileVolumeErrors(spec: PodSpec, path: FieldPath): FieldError[] {
  const volumes = new Map((spec.volumes ?? []).map((volume) => [volume.name, volume]));
  const errors: FieldError[] = [];
  for (const kind of ['initContainers', 'containers', 'ephemeralContainers'] as const) {
    for (const [index, { env = [] }] of (spec[kind] ?? []).entries()) {
      for (const [variableIndex, { valueFrom }] of env.entries()) {
        const name = valueFrom?.fileKeyRef?.volumeName;
        if (name === undefined) continue;
        const here = [...path, kind, index, 'env', variableIndex, 'valueFrom', 'fileKeyRef', 'volumeName'];
        const volume = volumes.get(name);
        if (volume === undefined) errors.push(notFoundField(here, name));
        else if (volume.emptyDir === undefined) {
          errors.push(invalidField(here, name, 'referenced volume must be of type emptyDir'));
        }
      }
    }
  }
  return errors;
}
