/** What the kinds that make pods from a template have in common: their selector, their template, and counts of pods. */
import { createHash } from 'node:crypto';
import { canonicalJson, means } from '../../schema/equality.ts';
import {
  type FieldError,
  forbiddenField,
  invalidField,
  requiredField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import type { LabelSelector } from '../../schema/meta.ts';
import { nonNegativeErrors, validateLabelSelector } from '../../schema/metadata-validation.ts';
import { type FieldPath, described, list, object, required, string, time } from '../../schema/schema.ts';
import { type Labels, LabelSelectorError, requirementsMatch, requirementsOf } from '../../values/labels.ts';
import { generatedNameLetters } from '../../values/names.ts';
import { validatePodTemplateSpec } from '../pod/pod-validation.ts';
import { type PodTemplateSpec, defaultPodTemplateSpec, podTemplateSpec } from '../pod/pod.ts';

export const replicaConditions = list(
  described(
    {
      text: 'One thing that is true or not of a workload.',
      fields: {
        type: 'What it is about.',
        status: 'True, False or Unknown.',
        lastTransitionTime: 'When the status changed last.',
        reason: 'Why, in one word.',
        message: 'Why, for people.',
      },
    },
    object({
      type: required(string),
      status: required(string),
      lastTransitionTime: time,
      reason: string,
      message: string,
    }),
  ),
  'type',
);

interface TemplateOwner {
  readonly selector?: LabelSelector | undefined;
  readonly template: PodTemplateSpec;
}

/** Of the selector, and of the template whose pods it must choose. `word`: the kind as messages about an empty selector name it. */
export function selectorAndTemplateErrors(
  { selector, template }: TemplateOwner,
  word: string,
  kind: string,
  path: FieldPath = ['spec'],
): readonly FieldError[] {
  const here = [...path, 'selector'];
  if (selector === undefined) return [requiredField(here), ...templateErrors(template, () => false, kind, path)];
  const { matchLabels = {}, matchExpressions = [] } = selector;
  const isEmpty = Object.keys(matchLabels).length + matchExpressions.length === 0;
  const errors = [
    ...validateLabelSelector(selector, here),
    ...(isEmpty ? [invalidField(here, selector, `empty selector is invalid for ${word}`)] : []),
  ];
  try {
    const requirements = requirementsOf(selector);
    return [...errors, ...templateErrors(template, (labels) => requirementsMatch(requirements, labels), kind, path)];
  } catch (error) {
    if (!(error instanceof LabelSelectorError)) throw error;
    return [...errors, invalidField(here, selector, 'invalid label selector')];
  }
}

/** Of a template whose pods are replaced when they end. */
export function templateErrors(
  template: PodTemplateSpec,
  isSelected: (labels: Labels) => boolean,
  kind: string,
  path: FieldPath = ['spec'],
): readonly FieldError[] {
  const here = [...path, 'template'];
  const { labels = {} } = template.metadata ?? {};
  const { restartPolicy = '', activeDeadlineSeconds } = template.spec;
  const mismatch = '`selector` does not match template `labels`';
  return [
    ...(isSelected(labels) ? [] : [invalidField([...here, 'metadata', 'labels'], labels, mismatch)]),
    ...validatePodTemplateSpec(template, here),
    ...(restartPolicy === 'Always'
      ? []
      : [unsupportedField([...here, 'spec', 'restartPolicy'], restartPolicy, ['Always'])]),
    ...(activeDeadlineSeconds === undefined
      ? []
      : [
          forbiddenField(
            [...here, 'spec', 'activeDeadlineSeconds'],
            `activeDeadlineSeconds in ${kind} is not Supported`,
          ),
        ]),
  ];
}

/** `field is immutable`, as a selector is in apps/v1. */
export function selectorChangeErrors(
  selector: LabelSelector | undefined,
  old: LabelSelector | undefined,
): readonly FieldError[] {
  if (canonicalJson(selector) === canonicalJson(old)) return [];
  return [invalidField(['spec', 'selector'], selector ?? null, 'field is immutable')];
}

/** Counts of a status: none is negative, and none of those in `parts` is greater than `replicas`. */
export function countErrors<Field extends string>(
  status: { readonly [F in Field | 'replicas' | 'availableReplicas' | 'readyReplicas']?: number | undefined },
  counts: readonly Field[],
  parts: readonly Field[],
): readonly FieldError[] {
  const path = ['status'];
  const { replicas = 0, availableReplicas = 0, readyReplicas = 0 } = status;
  const tooMany = parts.flatMap((field) => {
    const count = status[field] ?? 0;
    return count > replicas ? [invalidField([...path, field], count, 'cannot be greater than status.replicas')] : [];
  });
  return [
    ...counts.flatMap((field) => nonNegativeErrors(status[field] ?? 0, [...path, field])),
    ...tooMany,
    ...(availableReplicas > readyReplicas
      ? [invalidField([...path, 'availableReplicas'], availableReplicas, 'cannot be greater than readyReplicas')]
      : []),
  ];
}

/** By which the controller tells the pods of one template from those of another; it is not part of the template itself. */
export const templateHashLabel = 'pod-template-hash';

/** Whether pods made of one are as pods made of the other. Both get the defaults of today, or each new version would be a change. */
export function sameTemplate(a: PodTemplateSpec, b: PodTemplateSpec): boolean {
  return means(podTemplateSpec, plainTemplate(a), plainTemplate(b));
}

function plainTemplate(template: PodTemplateSpec): PodTemplateSpec {
  const { [templateHashLabel]: _, ...labels } = template.metadata?.labels ?? {};
  return defaultPodTemplateSpec({ ...template, metadata: { ...template.metadata, labels } });
}

const hashLength = 10;

/** Ten letters for a template. `collisions`: how often another template was found under such a name. */
export function templateHash(template: PodTemplateSpec, collisions: number | undefined): string {
  const text = `${canonicalJson(plainTemplate(template))}${collisions ?? ''}`;
  const bytes = createHash('sha256').update(text).digest().subarray(0, hashLength);
  return [...bytes].map((byte) => generatedNameLetters[byte % generatedNameLetters.length]).join('');
}

// A part of the pods: a number, or a percentage of them.

const percentage = /^[0-9]+%$/;

export function partErrors(part: number | string, path: FieldPath): readonly FieldError[] {
  if (typeof part === 'number') return nonNegativeErrors(part, path);
  const rule = "a valid percent string must be a numeric string followed by an ending '%'";
  return percentage.test(part)
    ? []
    : [invalidField(path, part, `${rule} (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`)];
}

/** The number, or the percentage as a number. */
export function sizeOfPart(part: number | string): number {
  if (typeof part === 'number') return part;
  return /^[0-9]+%?$/.test(part) ? Number.parseInt(part, 10) : 0;
}

/** Of so many; a percentage seldom gives a whole number. */
export function partOf(total: number, part: number | string, rounding: 'up' | 'down'): number {
  const size = sizeOfPart(part);
  if (typeof part === 'number' || !percentage.test(part)) return size;
  return rounding === 'up' ? Math.ceil((size * total) / 100) : Math.floor((size * total) / 100);
}

/** A percentage of which there cannot be more. */
export function shareMaxErrors(part: number | string, path: FieldPath): readonly FieldError[] {
  const isTooMuch = typeof part === 'string' && sizeOfPart(part) > 100;
  return isTooMuch ? [invalidField(path, part, 'must not be greater than 100%')] : [];
}

/** How often the name of a version was taken is counted for good. */
export function collisionErrors(count = 0, before = 0): readonly FieldError[] {
  const path = ['status', 'collisionCount'];
  return [
    ...nonNegativeErrors(count, path),
    ...(count < before ? [invalidField(path, count, 'cannot be decremented')] : []),
  ];
}
