/** Whether a node is one of those that a node selector means, of a pod's affinity or of a PersistentVolume's. Pure. */
import type { NodeSelector } from './objects/persistent-volume.ts';
import type { LabelOperator, Labels } from './values/labels.ts';
import { requirementsMatch } from './values/labels.ts';

const operators: Readonly<Record<string, LabelOperator>> = {
  In: 'in',
  NotIn: 'notin',
  Exists: 'exists',
  DoesNotExist: '!',
  Gt: 'gt',
  Lt: 'lt',
};

interface Expression {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

/** One of the terms must hold, and of a term everything. A term that says nothing selects nothing. */
export function nodeSelectorMatches({ nodeSelectorTerms }: NodeSelector, name: string, labels: Labels): boolean {
  return nodeSelectorTerms.some(({ matchExpressions = [], matchFields = [] }) => {
    if (matchExpressions.length + matchFields.length === 0) return false;
    return matchesAll(matchExpressions, labels) && matchesAll(matchFields, { 'metadata.name': name });
  });
}

function matchesAll(expressions: readonly Expression[], labels: Labels): boolean {
  return expressions.every(({ key, operator: name, values = [] }) => {
    const operator = Object.hasOwn(operators, name) ? operators[name] : undefined;
    return operator !== undefined && requirementsMatch([{ key, operator, values }], labels);
  });
}
