/** Rules for the smaller fields of a pod: choices, gates, claims. */
import type { ObjectMeta } from '../objects/metadata.ts';
import type { PodSpec } from '../objects/pod.ts';
import type { FieldPath } from '../objects/schema.ts';
import { isMirrorPod } from '../pod-identity.ts';
import { resourceClaimInside } from '../values/go-struct.ts';
import { dnsLabelProblems, dnsSubdomainProblems, qualifiedNameProblems } from '../values/names.ts';
import {
  type FieldError,
  duplicateField,
  forbiddenField,
  invalidField,
  invalidFields,
  keyPart,
  placedAt,
  requiredField,
  unsupportedField,
} from './field-errors.ts';

/** In the order in which the API server lists them. */
const choices = {
  restartPolicy: ['Always', 'OnFailure', 'Never'],
  dnsPolicy: ['ClusterFirstWithHostNet', 'ClusterFirst', 'Default', 'None'],
  preemptionPolicy: ['PreemptLowerPriority', 'Never'],
};

export function choiceErrors(field: keyof typeof choices, value: string, path: FieldPath): FieldError[] {
  if (value === '') return [requiredField(path)];
  return choices[field].includes(value) ? [] : [unsupportedField(path, value, choices[field])];
}

export function preemptionErrors(policy: string | undefined, path: FieldPath): FieldError[] {
  return policy === undefined ? [] : choiceErrors('preemptionPolicy', policy, path);
}

export function gateErrors({ readinessGates = [], schedulingGates = [] }: PodSpec, path: FieldPath): FieldError[] {
  const errors = readinessGates.flatMap(({ conditionType }, index) =>
    invalidFields(
      [...path, 'readinessGates', index, 'conditionType'],
      conditionType,
      qualifiedNameProblems(conditionType),
    ),
  );
  const seen = new Set<string>();
  for (const [index, { name }] of schedulingGates.entries()) {
    const here = [...path, 'schedulingGates', index];
    errors.push(...placedAt([...here, 'name'], invalidFields(here, name, qualifiedNameProblems(name))));
    if (seen.has(name)) errors.push(...placedAt([...here, 'name'], [duplicateField(here, name)]));
    seen.add(name);
  }
  return errors;
}

type Claims = NonNullable<PodSpec['resourceClaims']>;

export function resourceClaimErrors(claims: Claims, metadata: ObjectMeta | undefined, path: FieldPath): FieldError[] {
  const isMirror = metadata !== undefined && isMirrorPod({ metadata });
  const names = new Set<string>();
  return claims.flatMap((claim, index) => {
    const here = [...path, index];
    if (isMirror) {
      const refusal = forbiddenField([keyPart('')], 'static pods do not support resource claims');
      return placedAt(here, [refusal]);
    }
    const { name, resourceClaimName: own, resourceClaimTemplateName: template } = claim;
    const errors: FieldError[] = [];
    if (name === '') errors.push(requiredField([...here, 'name']));
    else if (names.has(name)) errors.push(duplicateField([...here, 'name'], name));
    else errors.push(...invalidFields([...here, 'name'], name, dnsLabelProblems(name)));
    names.add(name);
    if (own !== undefined && template !== undefined) {
      const detail = 'at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified';
      errors.push(invalidField(here, resourceClaimInside(claim), detail));
    }
    if (own === undefined && template === undefined) {
      const detail = 'must specify one of: `resourceClaimName`, `resourceClaimTemplateName`';
      errors.push(invalidField(here, resourceClaimInside(claim), detail));
    }
    for (const [field, value] of [
      ['resourceClaimName', own] as const,
      ['resourceClaimTemplateName', template] as const,
    ]) {
      if (value !== undefined) errors.push(...invalidFields([...here, field], value, dnsSubdomainProblems(value)));
    }
    return errors;
  });
}

export function schedulingGroupErrors(
  { schedulingGroup, evictionResponders = [] }: PodSpec,
  path: FieldPath,
): FieldError[] {
  if (schedulingGroup === undefined) return [];
  const { podGroupName: name } = schedulingGroup;
  const here = [...path, 'podGroupName'];
  const errors =
    name === undefined
      ? [invalidField(here, null, 'must specify one of: `podGroupName`')]
      : invalidFields(here, name, dnsSubdomainProblems(name));
  if (evictionResponders.length === 0) return errors;
  return [...errors, forbiddenField(path, 'may not be set when evictionResponders is set')];
}
