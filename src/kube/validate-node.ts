/** Rules for nodes: name, taints, resources. What the node says of itself in its status is otherwise taken as it is. */
import { duplicateField, invalidField, invalidFields, placedBelow, requiredField } from './field-errors.ts';
import { unsupportedField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import { dnsSubdomainProblems, labelValueProblems, qualifiedNameProblems } from './names.ts';
import type { Node } from './node.ts';
import type { FieldPath } from './schema.ts';
import { validateObjectMeta } from './validate-metadata.ts';
import { resourceQuantityErrors } from './validate-numbers.ts';
import { taintEffects } from './validate-scheduling.ts';

type Taint = NonNullable<NonNullable<Node['spec']>['taints']>[number];

export function validateNode(node: Node, path: FieldPath = []): FieldError[] {
  const metadataPath = [...path, 'metadata'];
  // The API server looks for taints in the spec and reports them as metadata.
  const printed = [...metadataPath, 'taints'];
  return [
    ...validateObjectMeta(node.metadata, { name: dnsSubdomainProblems, scope: 'cluster' }, metadataPath),
    ...placedBelow([...path, 'spec', 'taints'], printed, taintErrors(node.spec?.taints ?? [], printed)),
    ...(['capacity', 'allocatable'] as const).flatMap((field) =>
      Object.entries(node.status?.[field] ?? {}).flatMap(([name, value]) =>
        resourceQuantityErrors(name, value, [...path, 'status', field, name]),
      ),
    ),
  ];
}

function taintErrors(taints: readonly Taint[], path: FieldPath): FieldError[] {
  const seen = new Set<string>();
  return taints.flatMap(({ key, value = '', effect }, index) => {
    const here = [...path, index];
    const valueProblems = labelValueProblems(value);
    const errors = invalidFields([...here, 'key'], key, qualifiedNameProblems(key));
    if (valueProblems.length > 0) errors.push(invalidField([...here, 'value'], value, valueProblems.join(';')));
    if (effect === '') errors.push(requiredField([...here, 'effect']));
    else if (!taintEffects.includes(effect)) {
      errors.push(unsupportedField([...here, 'effect'], effect, taintEffects));
    }
    const pair = `${effect} ${key}`;
    if (seen.has(pair)) {
      const inside = { Key: key, Value: value, Effect: effect, TimeAdded: null };
      errors.push(duplicateField(here, inside, 'taints must be unique by key and effect pair'));
    }
    seen.add(pair);
    return errors;
  });
}
