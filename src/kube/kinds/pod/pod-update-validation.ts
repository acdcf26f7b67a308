/**
 * What an update of a pod may change: images, a lower deadline, more tolerations, fewer scheduling gates, and metadata. Also
 * the rule for ephemeral containers, which may only be added, and only through their own subresource.
 */
import { changeList, means } from '../../schema/equality.ts';
import { type FieldError, forbiddenField, invalidField, requiredField } from '../../schema/field-errors.ts';
import { validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import { type FieldPath, keyPart } from '../../schema/schema.ts';
import { goQuote } from '../../values/go-text.ts';
import { imageSpaceErrors } from './container-validation.ts';
import { type Container, ephemeralContainer } from './container.ts';
import { isMirrorPod, mirrorAnnotation } from './pod-identity.ts';
import { type PodSpec, podSpec, toleration } from './pod-spec.ts';
import { validatePodMetadataAndSpec } from './pod-validation.ts';
import type { Pod } from './pod.ts';
import { tolerationErrors } from './scheduling-validation.ts';

const appArmorPrefix = 'container.apparmor.security.beta.kubernetes.io/';
const deadlineSecondsMax = 2 ** 31 - 1;

const changeable = [
  '`spec.containers[*].image`',
  '`spec.initContainers[*].image`',
  '`spec.activeDeadlineSeconds`',
  '`spec.tolerations` (only additions to existing tolerations)',
  '`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
];

export function validatePodUpdate(pod: Pod, old: Pod): FieldError[] {
  const specPath = ['spec'];
  const errors = [
    ...validateObjectMetaUpdate(pod.metadata, old.metadata, ['metadata']),
    ...validatePodMetadataAndSpec(pod),
    ...podAnnotationUpdateErrors(pod, old, ['metadata', 'annotations']),
  ];
  for (const field of ['containers', 'initContainers'] as const) {
    const changed = pod.spec[field] ?? [];
    if (changed.length !== (old.spec[field] ?? []).length) {
      return [...errors, forbiddenField([...specPath, field], 'pod updates may not add or remove containers')];
    }
    errors.push(...imageErrors(changed, [...specPath, field]));
  }
  const deadline = deadlineErrors(pod.spec, old.spec, [...specPath, 'activeDeadlineSeconds']);
  errors.push(...deadline.errors);
  if (deadline.isFinal) return errors;
  errors.push(
    ...addedTolerationErrors(pod.spec.tolerations ?? [], old.spec.tolerations ?? [], [...specPath, 'tolerations']),
    ...newGateErrors(pod.spec, old.spec, [...specPath, 'schedulingGates']),
    ...(isGated(old) ? gatedPodErrors(pod.spec, old.spec, specPath) : []),
  );
  const rest = withChangeableFieldsOf(old.spec, pod.spec);
  if (means(podSpec, rest, old.spec)) return errors;
  const detail = `pod updates may not change fields other than ${changeable.join(',')}`;
  return [...errors, forbiddenField(specPath, `${detail}\n${changeList(podSpec, old.spec, rest)}`)];
}

export function validateEphemeralContainersUpdate(pod: Pod, old: Pod): FieldError[] {
  if (isMirrorPod(old)) {
    return [forbiddenField([''], 'static pods do not support ephemeral containers')];
  }
  const path = ['spec', 'ephemeralContainers'];
  const changed = new Map((pod.spec.ephemeralContainers ?? []).map((container) => [container.name, container]));
  return [
    ...validateObjectMetaUpdate(pod.metadata, old.metadata),
    ...validatePodMetadataAndSpec(pod),
    ...podAnnotationUpdateErrors(pod, old, ['metadata', 'annotations']),
    ...(old.spec.ephemeralContainers ?? []).flatMap((before) => {
      const after = changed.get(before.name);
      const subject = `existing ephemeral containers ${goQuote(before.name)} may not be`;
      if (after === undefined) return [forbiddenField(path, `${subject} removed\n`)];
      if (means(ephemeralContainer, after, before)) return [];
      return [forbiddenField(path, `${subject} changed\n${changeList(ephemeralContainer, before, after)}`)];
    }),
  ];
}

/** Annotations that say what a pod is are for its creator alone. */
export function podAnnotationUpdateErrors(pod: Pod, old: Pod, path: FieldPath): FieldError[] {
  const { annotations: after = {} } = pod.metadata;
  const { annotations: before = {} } = old.metadata;
  const guarded = (key: string): string | undefined => {
    if (key.startsWith(appArmorPrefix)) return 'AppArmor annotations';
    return key === mirrorAnnotation ? 'mirror pod annotation' : undefined;
  };
  const refuse = (key: string, verb: string): FieldError[] => {
    const what = guarded(key);
    return what === undefined ? [] : [forbiddenField([...path, keyPart(key)], `may not ${verb} ${what}`)];
  };
  return [
    ...Object.entries(before).flatMap(([key, value]) =>
      Object.hasOwn(after, key) && after[key] === value ? [] : refuse(key, 'remove or update'),
    ),
    ...Object.keys(after).flatMap((key) => (Object.hasOwn(before, key) ? [] : refuse(key, 'add'))),
  ];
}

function imageErrors(containers: readonly Container[], path: FieldPath): FieldError[] {
  return containers.flatMap((container, index) => [
    ...((container.image ?? '') === '' ? [requiredField([...path, index, 'image'])] : []),
    ...imageSpaceErrors(container, [...path, index]),
  ]);
}

interface DeadlineVerdict {
  readonly errors: readonly FieldError[];
  /** The API server says no more about a pod with such a deadline. */
  readonly isFinal: boolean;
}

function deadlineErrors(spec: PodSpec, old: PodSpec, path: FieldPath): DeadlineVerdict {
  const seconds = spec.activeDeadlineSeconds;
  const before = old.activeDeadlineSeconds;
  const refuse = (detail: string, isFinal: boolean): DeadlineVerdict => ({
    errors: [invalidField(path, seconds ?? null, detail)],
    isFinal,
  });
  if (seconds === undefined) {
    const detail = 'must not update from a positive integer to nil value';
    return before === undefined ? { errors: [], isFinal: false } : refuse(detail, false);
  }
  if (seconds < 0 || seconds > deadlineSecondsMax) {
    return refuse(`must be between 0 and ${deadlineSecondsMax}, inclusive`, true);
  }
  if (before !== undefined && before < seconds) return refuse('must be less than or equal to previous value', true);
  return { errors: [], isFinal: false };
}

type Tolerations = NonNullable<PodSpec['tolerations']>;

function addedTolerationErrors(tolerations: Tolerations, old: Tolerations, path: FieldPath): FieldError[] {
  const withoutSeconds = (one: Tolerations[number]): Tolerations[number] => {
    const { tolerationSeconds: _, ...rest } = one;
    return rest;
  };
  const isKept = (before: Tolerations[number]): boolean =>
    tolerations.some((after) => means(toleration, withoutSeconds(after), withoutSeconds(before)));
  if (!old.every(isKept)) {
    return [forbiddenField(path, 'existing toleration can not be modified except its tolerationSeconds')];
  }
  return tolerationErrors(tolerations, path);
}

function newGateErrors(spec: PodSpec, old: PodSpec, path: FieldPath): FieldError[] {
  const known = new Set((old.schedulingGates ?? []).map(({ name }) => name));
  return (spec.schedulingGates ?? []).flatMap(({ name }, index) => {
    if (known.has(name)) return [];
    const detail = `only deletion is allowed, but found new scheduling gate '${name}'`;
    return [forbiddenField([...path, index, 'name'], detail)];
  });
}

function isGated({ spec }: Pod): boolean {
  return (spec.schedulingGates ?? []).length > 0;
}

/** A pod that waits at a gate may still be restricted to fewer nodes. */
function gatedPodErrors(spec: PodSpec, old: PodSpec, path: FieldPath): FieldError[] {
  const selector = spec.nodeSelector ?? {};
  const isNarrowed = Object.entries(old.nodeSelector ?? {}).every(
    ([key, value]) => Object.hasOwn(selector, key) && selector[key] === value,
  );
  if (isNarrowed) return [];
  const detail = 'only additions to spec.nodeSelector are allowed (no mutations or deletions)';
  return [invalidField([...path, 'nodeSelector'], selector, detail)];
}

/** The new spec with everything put back that may change: what then differs from the old one may not. */
function withChangeableFieldsOf(old: PodSpec, spec: PodSpec): PodSpec {
  const { activeDeadlineSeconds: _, schedulingGates: _gates, tolerations: _tolerations, ...kept } = spec;
  const { activeDeadlineSeconds, schedulingGates, tolerations } = old;
  const withImages = (containers: readonly Container[], before: readonly Container[]): readonly Container[] =>
    containers.map((container, index) => ({ ...container, image: before[index]?.image ?? '' }));
  const graceBefore = old.terminationGracePeriodSeconds;
  const graceWasMended = graceBefore !== undefined && graceBefore < 0 && spec.terminationGracePeriodSeconds === 1;
  return {
    ...kept,
    containers: withImages(spec.containers, old.containers),
    ...(spec.initContainers && { initContainers: withImages(spec.initContainers, old.initContainers ?? []) }),
    ...(activeDeadlineSeconds !== undefined && { activeDeadlineSeconds }),
    ...(schedulingGates && { schedulingGates }),
    ...(tolerations && { tolerations }),
    ...(graceWasMended && { terminationGracePeriodSeconds: graceBefore }),
    ...((schedulingGates ?? []).length > 0 && { nodeSelector: old.nodeSelector ?? {} }),
  };
}
