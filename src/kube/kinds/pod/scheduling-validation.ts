/** Rules for where a pod may run. A node never schedules, but it must not take what the API server would refuse. */
import {
  type FieldError,
  addErrors,
  duplicateField,
  forbiddenField,
  invalidField,
  invalidFields,
  placedAt,
  requiredField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import type { LabelSelector } from '../../schema/meta.ts';
import { validateLabelSelector } from '../../schema/metadata-validation.ts';
import { positiveErrors } from '../../schema/number-validation.ts';
import type { FieldPath } from '../../schema/schema.ts';
import { dnsLabelProblems, labelValueProblems, qualifiedNameProblems } from '../../values/names.ts';
import { nodeSelectorErrors, nodeSelectorTermErrors } from '../storage/node-selector.ts';
import type { PodSpec } from './pod-spec.ts';

type Affinity = NonNullable<PodSpec['affinity']>;
type PodAffinity = NonNullable<Affinity['podAffinity']>;
type PodAffinityTerm = NonNullable<PodAffinity['requiredDuringSchedulingIgnoredDuringExecution']>[number];
type Toleration = NonNullable<PodSpec['tolerations']>[number];
type SpreadConstraint = NonNullable<PodSpec['topologySpreadConstraints']>[number];

export const taintEffects = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];
const required = 'requiredDuringSchedulingIgnoredDuringExecution';
const preferred = 'preferredDuringSchedulingIgnoredDuringExecution';

export function affinityErrors(affinity: Affinity | undefined, path: FieldPath): FieldError[] {
  const { nodeAffinity, podAffinity, podAntiAffinity } = affinity ?? {};
  const errors: FieldError[] = [];
  const nodePath = [...path, 'nodeAffinity'];
  if (nodeAffinity?.[required]) addErrors(errors, nodeSelectorErrors(nodeAffinity[required], [...nodePath, required]));
  for (const [index, { weight, preference }] of (nodeAffinity?.[preferred] ?? []).entries()) {
    const here = [...nodePath, preferred, index];
    addErrors(errors, weightErrors(weight, here));
    addErrors(errors, nodeSelectorTermErrors(preference, 'preferred', [...here, 'preference']));
  }
  if (podAffinity) addErrors(errors, podAffinityErrors(podAffinity, [...path, 'podAffinity']));
  if (podAntiAffinity) addErrors(errors, podAffinityErrors(podAntiAffinity, [...path, 'podAntiAffinity']));
  return errors;
}

function podAffinityErrors(affinity: PodAffinity, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  for (const [index, term] of (affinity[required] ?? []).entries()) {
    addErrors(errors, termErrors(term, [...path, required, index]));
  }
  for (const [index, { weight, podAffinityTerm }] of (affinity[preferred] ?? []).entries()) {
    const here = [...path, preferred, index];
    addErrors(errors, weightErrors(weight, here), termErrors(podAffinityTerm, [...here, 'podAffinityTerm']));
  }
  return errors;
}

function weightErrors(weight: number, path: FieldPath): FieldError[] {
  if (weight > 0 && weight <= 100) return [];
  return [invalidField([...path, 'weight'], weight, 'must be in the range 1-100')];
}

function termErrors(term: PodAffinityTerm, path: FieldPath): FieldError[] {
  const { labelSelector, namespaceSelector, namespaces = [], topologyKey } = term;
  const keyPath = [...path, 'topologyKey'];
  return [
    ...validateLabelSelector(labelSelector, [...path, 'labelSelector']),
    ...validateLabelSelector(namespaceSelector, [...path, 'namespaceSelector']),
    ...namespaces.flatMap((name, index) =>
      placedAt([...path, 'namespaces', index], invalidFields([...path, 'namespace'], name, dnsLabelProblems(name))),
    ),
    ...labelKeyErrors(term, labelSelector, path),
    ...(topologyKey === '' ? [requiredField(keyPath, 'can not be empty')] : []),
    ...invalidFields(keyPath, topologyKey, qualifiedNameProblems(topologyKey)),
  ];
}

interface LabelKeys {
  readonly matchLabelKeys?: readonly string[];
  readonly mismatchLabelKeys?: readonly string[];
}

function labelKeyErrors(keys: LabelKeys, selector: LabelSelector | undefined, path: FieldPath): FieldError[] {
  const { matchLabelKeys = [], mismatchLabelKeys = [] } = keys;
  const errors: FieldError[] = [];
  for (const [field, list] of Object.entries({ matchLabelKeys, mismatchLabelKeys })) {
    if (list.length > 0 && selector === undefined) {
      errors.push(forbiddenField([...path, field], 'must not be specified when labelSelector is not set'));
      continue;
    }
    for (const [index, key] of list.entries()) {
      errors.push(...invalidFields([...path, field, index], key, qualifiedNameProblems(key)));
    }
  }
  const selected = new Set(Object.keys(selector?.matchLabels ?? {}));
  const lastOfKey = new Map(matchLabelKeys.map((key, index) => [key, index]));
  const mismatched = new Set(mismatchLabelKeys);
  for (const { key } of selector?.matchExpressions ?? []) {
    const index = lastOfKey.get(key);
    if (index !== undefined && selected.has(key)) {
      const detail = 'exists in both matchLabelKeys and labelSelector';
      errors.push(...placedAt([...path, 'matchLabelKeys', index], [invalidField([...path, index], key, detail)]));
    }
    selected.add(key);
  }
  for (const [index, key] of matchLabelKeys.entries()) {
    if (!mismatched.has(key)) continue;
    const detail = 'exists in both matchLabelKeys and mismatchLabelKeys';
    errors.push(invalidField([...path, 'matchLabelKeys', index], key, detail));
  }
  return errors;
}

export function tolerationErrors(tolerations: readonly Toleration[], path: FieldPath): FieldError[] {
  return tolerations.flatMap(({ key = '', operator = '', value = '', effect = '', tolerationSeconds }, index) => {
    const here = [...path, index];
    const errors = key === '' ? [] : invalidFields([...here, 'key'], key, qualifiedNameProblems(key));
    if (key === '' && operator !== 'Exists') {
      const detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"';
      errors.push(invalidField([...here, 'operator'], operator, detail));
    }
    if (tolerationSeconds !== undefined && effect !== 'NoExecute') {
      const detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
      errors.push(invalidField([...here, 'effect'], effect, detail));
    }
    errors.push(...tolerationValueErrors(operator, value, here));
    if (effect !== '' && !taintEffects.includes(effect)) {
      errors.push(unsupportedField([...here, 'effect'], effect, taintEffects));
    }
    return errors;
  });
}

function tolerationValueErrors(operator: string, value: string, path: FieldPath): FieldError[] {
  const here = [...path, 'operator'];
  switch (operator) {
    case '':
    case 'Equal': {
      const problems = labelValueProblems(value);
      return problems.length === 0 ? [] : [invalidField(here, value, problems.join(';'))];
    }
    case 'Exists':
      return value === '' ? [] : [invalidField(here, value, "value must be empty when `operator` is 'Exists'")];
    case 'Lt':
    case 'Gt':
      return [unsupportedField(here, operator, ['Equal', 'Exists', 'Lt', 'Gt'])];
    default:
      return [unsupportedField(here, operator, ['Equal', 'Exists'])];
  }
}

export function spreadErrors(constraints: readonly SpreadConstraint[], path: FieldPath): FieldError[] {
  const lastOfPair = new Map(constraints.map((constraint, index) => [pairOf(constraint), index]));
  return constraints.flatMap((constraint, index) => {
    const { maxSkew, topologyKey, whenUnsatisfiable: action, labelSelector } = constraint;
    const here = [...path, index];
    const errors = positiveErrors(maxSkew, [...here, 'maxSkew']);
    if (topologyKey === '') errors.push(requiredField([...here, 'topologyKey'], 'can not be empty'));
    if (action !== 'DoNotSchedule' && action !== 'ScheduleAnyway') {
      const known = ['DoNotSchedule', 'ScheduleAnyway'];
      errors.push(unsupportedField([...here, 'whenUnsatisfiable'], action, known));
    }
    if (lastOfPair.get(pairOf(constraint)) !== index) {
      const pair = duplicateField([...here, '{topologyKey, whenUnsatisfiable}'], pairOf(constraint));
      errors.push(...placedAt(here, [pair]));
    }
    return [
      ...errors,
      ...minDomainsErrors(constraint, [...here, 'minDomains']),
      ...inclusionErrors(constraint.nodeAffinityPolicy, [...here, 'nodeAffinityPolicy']),
      ...inclusionErrors(constraint.nodeTaintsPolicy, [...here, 'nodeTaintsPolicy']),
      ...labelKeyErrors(constraint, labelSelector, here),
      ...validateLabelSelector(labelSelector, [...here, 'labelSelector']),
    ];
  });
}

function pairOf({ topologyKey, whenUnsatisfiable }: SpreadConstraint): string {
  return `{${topologyKey}, ${whenUnsatisfiable}}`;
}

function minDomainsErrors({ minDomains, whenUnsatisfiable: action }: SpreadConstraint, path: FieldPath): FieldError[] {
  if (minDomains === undefined) return [];
  const errors = positiveErrors(minDomains, path);
  if (action === 'DoNotSchedule') return errors;
  const detail = `can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ${action}`;
  return [...errors, invalidField(path, minDomains, detail)];
}

function inclusionErrors(policy: string | undefined, path: FieldPath): FieldError[] {
  if (policy === undefined || policy === 'Honor' || policy === 'Ignore') return [];
  return [unsupportedField(path, policy, ['Honor', 'Ignore'])];
}
