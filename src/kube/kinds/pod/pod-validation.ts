/**
 * Rules for pods as they are created, and for the templates that workloads make pods of. Expects defaulted objects. The
 * errors come in the API server's order, so that the first one is the same as there.
 */
import {
  type FieldError,
  forbiddenField,
  invalidField,
  invalidFields,
  notFoundField,
  placedAt,
  requiredField,
} from '../../schema/field-errors.ts';
import type { ObjectMeta } from '../../schema/meta.ts';
import {
  nonNegativeErrors,
  validateAnnotations,
  validateLabels,
  validateObjectMeta,
} from '../../schema/metadata-validation.ts';
import type { FieldPath } from '../../schema/schema.ts';
import { goQuote } from '../../values/go-text.ts';
import { dnsLabelProblems, dnsSubdomainProblems } from '../../values/names.ts';
import { rangeProblems } from '../../values/network-names.ts';
import {
  containerErrors,
  ephemeralContainerErrors,
  imageSpaceErrors,
  initContainerErrors,
} from './container-validation.ts';
import type { Container } from './container.ts';
import {
  choiceErrors,
  dnsErrors,
  gateErrors,
  hostAliasErrors,
  hostNetworkErrors,
  hostUsersErrors,
  hostnameErrors,
  osErrors,
  podAnnotationErrors,
  preemptionErrors,
  resourceClaimErrors,
  schedulingGroupErrors,
} from './pod-field-validation.ts';
import type { PodSpec } from './pod-spec.ts';
import type { Pod, PodTemplateSpec } from './pod.ts';
import { containerResourceErrors, podResourceErrors } from './resource-validation.ts';
import { affinityErrors, spreadErrors, tolerationErrors } from './scheduling-validation.ts';
import { podSecurityContextErrors } from './security-context-validation.ts';
import { validateVolumes } from './volume-validation.ts';

const int32Max = 2 ** 31 - 1;

export function validatePod(pod: Pod): FieldError[] {
  return [...validatePodMetadataAndSpec(pod), ...creationErrors(pod.spec, ['spec'])];
}

/** The rules that hold for a pod at any time, new or changed. */
export function validatePodMetadataAndSpec(pod: Pod): FieldError[] {
  const { metadata, spec } = pod;
  const metadataPath = ['metadata'];
  const specPath = ['spec'];
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

export function validatePodTemplateSpec(template: PodTemplateSpec, path: FieldPath): FieldError[] {
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

/** A token needs a service account. */
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
