/**
 * Which nodes a NodeSelector means: those on which a pod may run, or from which a PersistentVolume can be reached; and which
 * taints a pod tolerates. Pure.
 */
import { OperatingError } from '../../base/errors.ts';
import type { Node } from '../kinds/node.ts';
import type { PodSpec } from '../kinds/pod/pod-spec.ts';
import type { NodeSelector, NodeSelectorTerm } from '../kinds/storage/node-selector.ts';
import type { PersistentVolume } from '../kinds/storage/persistent-volume.ts';
import type { ObjectMeta } from '../schema/meta.ts';
import {
  type LabelOperator,
  LabelSelectorError,
  type Labels,
  requirement,
  requirementsMatch,
} from '../values/labels.ts';

export interface SelectableNode {
  /** Without a name `matchFields` are ignored. */
  readonly name?: string;
  readonly labels: Labels;
}

/** Throws when the volume cannot be reached from this node. A volume that says nothing about nodes is reached from all. */
export function requireNodeAffinity({ spec }: PersistentVolume, node: SelectableNode): void {
  const selector = spec.nodeAffinity?.required;
  if (selector !== undefined && !nodeSelectorMatches(selector, node))
    throw new OperatingError('NodeAffinityMismatch', 'no matching NodeSelectorTerms');
}

/** One of the terms must hold, and of a term everything. A term that says nothing, or nothing valid, selects no node. */
export function nodeSelectorMatches({ nodeSelectorTerms }: NodeSelector, { name, labels }: SelectableNode): boolean {
  return nodeSelectorTerms.some(({ matchExpressions = [], matchFields = [] }) => {
    if (matchExpressions.length + matchFields.length === 0) return false;
    if (!matchExpressions.every((expression) => labelsMatch(expression, labels))) return false;
    return (
      matchFields.every(isValidField) && (name === undefined || matchFields.every((one) => fieldMatches(one, name)))
    );
  });
}

/** By `nodeSelector` and by required node affinity; both have to hold. */
export function selectsNode({ nodeSelector = {}, affinity }: PodSpec, { name, labels = {} }: ObjectMeta): boolean {
  const required = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return (
    Object.entries(nodeSelector).every(([key, value]) => labels[key] === value) &&
    (required === undefined || nodeSelectorMatches(required, { name, labels }))
  );
}

type Toleration = NonNullable<PodSpec['tolerations']>[number];
type Taint = NonNullable<NonNullable<Node['spec']>['taints']>[number];

export function tolerates(
  { key = '', operator = 'Equal', value = '', effect = '' }: Toleration,
  taint: Pick<Taint, 'key' | 'value' | 'effect'>,
): boolean {
  if (effect !== '' && effect !== taint.effect) return false;
  if (key !== '' && key !== taint.key) return false;
  if (operator === 'Exists') return true;
  return key !== '' && value === (taint.value ?? '');
}

type Expression = NonNullable<NodeSelectorTerm['matchExpressions']>[number];

const operators: ReadonlyMap<string, LabelOperator> = new Map([
  ['In', 'in'],
  ['NotIn', 'notin'],
  ['Exists', 'exists'],
  ['DoesNotExist', '!'],
  ['Gt', 'gt'],
  ['Lt', 'lt'],
]);

function labelsMatch({ key, operator: name, values = [] }: Expression, labels: Labels): boolean {
  const operator = operators.get(name);
  if (operator === undefined) return false;
  try {
    return requirementsMatch([requirement(key, operator, values)], labels);
  } catch (error) {
    if (error instanceof LabelSelectorError) return false;
    throw error;
  }
}

/** Fields are compared with one value only; the API refuses more. */
function isValidField({ operator, values = [] }: Expression): boolean {
  return (operator === 'In' || operator === 'NotIn') && values.length === 1;
}

/** The node's name is the one field there is; any other is empty. */
function fieldMatches({ key, operator, values = [] }: Expression, name: string): boolean {
  const isSame = values[0] === (key === 'metadata.name' ? name : '');
  return operator === 'In' ? isSame : !isSame;
}
