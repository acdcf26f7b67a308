/** Rules for when a container is restarted: after it ended, and when its resources change. */
import type { Container } from '../objects/container.ts';
import { duplicateField, invalidField, placedBelow, requiredField } from './field-errors.ts';
import { tooManyField, unsupportedField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import type { PodSpec } from '../objects/pod.ts';
import type { FieldPath } from '../objects/schema.ts';

const restartPolicies = ['Always', 'Never', 'OnFailure'];
const restartActions = ['Restart', 'RestartAllContainers'];
const exitCodeOperators = ['In', 'NotIn'];
const ruleCountMax = 20;
const exitCodeCountMax = 255;
const resizableResources = ['cpu', 'memory'];
const resizePolicies = ['NotRequired', 'RestartContainer'];

export function restartPolicyErrors(container: Container, path: FieldPath): FieldError[] {
  const { restartPolicy: policy, restartPolicyRules: rules = [] } = container;
  const policyPath = [...path, 'restartPolicy'];
  const rulesPath = [...path, 'restartPolicyRules'];
  const errors: FieldError[] = [];
  if (policy === undefined) {
    if (rules.length === 0) return [];
    errors.push(requiredField(policyPath, 'must specify restartPolicy when restart rules are used'));
  } else if (!restartPolicies.includes(policy)) errors.push(unsupportedField(policyPath, policy, restartPolicies));
  if (rules.length > ruleCountMax) errors.push(tooManyField(rulesPath, rules.length, ruleCountMax));
  for (const [index, { action = '', exitCodes }] of rules.entries()) {
    const here = [...rulesPath, index];
    if (!restartActions.includes(action)) errors.push(unsupportedField([...here, 'action'], action, restartActions));
    if (exitCodes === undefined) {
      errors.push(requiredField([...here, 'exitCodes'], 'must be specified'));
      continue;
    }
    const { operator = '', values = [] } = exitCodes;
    if (!exitCodeOperators.includes(operator)) {
      errors.push(unsupportedField([...here, 'exitCodes', 'operator'], operator, exitCodeOperators));
    }
    if (values.length > exitCodeCountMax) {
      errors.push(tooManyField([...here, 'exitCodes', 'values'], values.length, exitCodeCountMax));
    }
  }
  return errors;
}

export function resizePolicyErrors(
  { resizePolicy = [] }: Container,
  { restartPolicy: podPolicy }: PodSpec,
  path: FieldPath,
): FieldError[] {
  const seen = new Set<string>();
  return resizePolicy.flatMap(({ resourceName, restartPolicy }, index) => {
    const here = [...path, index];
    const errors = seen.has(resourceName) ? [duplicateField(here, resourceName)] : [];
    seen.add(resourceName);
    // The API server does not say which entry it means.
    const unplaced = [
      ...choiceErrors(resourceName, resizableResources, path),
      ...choiceErrors(restartPolicy, resizePolicies, path),
    ];
    if (podPolicy === 'Never' && restartPolicy !== 'NotRequired') {
      const detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
      unplaced.push(invalidField(path, restartPolicy, detail));
    }
    return [...errors, ...placedBelow(here, path, unplaced)];
  });
}

function choiceErrors(value: string, supported: readonly string[], path: FieldPath): FieldError[] {
  if (value === '') return [requiredField(path)];
  return supported.includes(value) ? [] : [unsupportedField(path, value, supported)];
}
