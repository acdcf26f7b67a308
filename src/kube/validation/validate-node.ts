/** Rules for nodes: name, taints, resources. What the node says of itself in its status is otherwise taken as it is. */
import {
  duplicateField,
  forbiddenField,
  invalidField,
  invalidFields,
  placedBelow,
  requiredField,
} from './field-errors.ts';
import { unsupportedField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import { dnsSubdomainProblems, labelValueProblems, qualifiedNameProblems } from '../values/names.ts';
import type { Node } from '../objects/node.ts';
import type { FieldPath } from '../objects/schema.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from './validate-metadata.ts';
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

/** For the node and for its status alike. A spec's fields are set once, but for taints and the mark that keeps pods away. */
export function validateNodeUpdate(node: Node, old: Node): FieldError[] {
  const seen = new Set<string>();
  return [
    ...validateObjectMetaUpdate(node.metadata, old.metadata),
    ...(node.status?.addresses ?? []).flatMap(({ type, address }, index) => {
      const key = `${type} ${address}`;
      const isRepeated = seen.has(key);
      seen.add(key);
      return isRepeated ? [duplicateField(['status', 'addresses', index], { Type: type, Address: address })] : [];
    }),
    ...rangeErrors(node.spec?.podCIDRs ?? [], old.spec?.podCIDRs ?? []),
    ...providerErrors(node.spec?.providerID ?? '', old.spec?.providerID ?? ''),
    ...((node.spec?.externalID ?? '') === (old.spec?.externalID ?? '')
      ? []
      : [forbiddenField(['spec', 'externalID'], 'may not be updated')]),
  ];
}

function rangeErrors(ranges: readonly string[], old: readonly string[]): FieldError[] {
  if (old.length === 0) return [];
  const refusal = forbiddenField(['spec', 'podCIDRs'], 'node updates may not change podCIDR except from "" to valid');
  if (ranges.length !== old.length) return [refusal];
  return old.flatMap((range, index) => (range === ranges[index] ? [] : [refusal]));
}

function providerErrors(id: string, old: string): FieldError[] {
  if (old === '' || id === old) return [];
  const detail = id === '' ? 'field cannot be cleared once set' : 'field cannot be modified once set';
  return [invalidField(['spec', 'providerID'], null, detail)];
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
