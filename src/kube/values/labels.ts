/**
 * Label selectors: the object form (`matchLabels`, `matchExpressions`), what it matches, and its text form. Parsing the
 * text form is in label-selector-parser.ts.
 */
import { MountletError } from '../../base/errors.ts';
import { compareByteOrder } from './byte-order.ts';
import { addErrors, type FieldError, forbiddenField, invalidField, requiredField } from '../validation/field-errors.ts';
import { goQuote } from './go-quote.ts';
import { labelValueProblems, qualifiedNameProblems } from './names.ts';
import type { FieldPath } from '../objects/schema.ts';

export type Labels = Readonly<Record<string, string>>;

export interface LabelSelector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly LabelExpression[];
}

interface LabelExpression {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

export type LabelOperator = 'in' | 'notin' | '=' | '==' | '!=' | 'gt' | 'lt' | 'exists' | '!';

/** One condition of a selector; all of them must hold. */
export interface LabelRequirement {
  readonly key: string;
  readonly operator: LabelOperator;
  readonly values: readonly string[];
}

export class LabelSelectorError extends MountletError {
  readonly reason = 'InvalidLabelSelector';
}

const operators: Readonly<Record<string, LabelOperator>> = {
  In: 'in',
  NotIn: 'notin',
  Exists: 'exists',
  DoesNotExist: '!',
};

/** An absent selector selects nothing, an empty one everything. Throws `LabelSelectorError` for one that means nothing. */
export function selectorMatches(selector: LabelSelector | undefined, labels: Labels | undefined): boolean {
  return selector !== undefined && requirementsMatch(requirementsOf(selector), labels ?? {});
}

export function requirementsOf(selector: LabelSelector): readonly LabelRequirement[] {
  const fromLabels = Object.entries(selector.matchLabels ?? {}).map(([key, value]) => requirement(key, '=', [value]));
  const fromExpressions = (selector.matchExpressions ?? []).map(({ key, operator: name, values = [] }) => {
    const operator = Object.hasOwn(operators, name) ? operators[name] : undefined;
    if (operator === undefined) throw new LabelSelectorError(`${goQuote(name)} is not a valid label selector operator`);
    return requirement(key, operator, values);
  });
  return sortedByKey([...fromLabels, ...fromExpressions]);
}

export function requirementsMatch(requirements: readonly LabelRequirement[], labels: Labels): boolean {
  return labelMatcher(requirements)(labels);
}

/** For many objects: a selector may have thousands of values, which are not walked through for each of them. */
export function labelMatcher(requirements: readonly LabelRequirement[]): (labels: Labels) => boolean {
  const sets = requirements.map((one) => ({ ...one, all: new Set(one.values) }));
  return (labels) => sets.every((one) => requirementMatches(one, labels));
}

function requirementMatches(
  { key, operator, values, all }: LabelRequirement & { readonly all: ReadonlySet<string> },
  labels: Labels,
): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case 'in':
    case '=':
    case '==':
      return value !== undefined && all.has(value);
    case 'notin':
    case '!=':
      return value === undefined || !all.has(value);
    case 'exists':
      return value !== undefined;
    case '!':
      return value === undefined;
    case 'gt':
    case 'lt': {
      const [actual, bound] = [integer(value), integer(values[0])];
      if (actual === undefined || bound === undefined) return false;
      return operator === 'gt' ? actual > bound : actual < bound;
    }
  }
}

/** `a=b,c in (x,y),!d` */
export function formatRequirements(requirements: readonly LabelRequirement[]): string {
  return requirements.map(formatRequirement).join(',');
}

function formatRequirement({ key, operator, values }: LabelRequirement): string {
  const list = values.toSorted(compareByteOrder).join(',');
  switch (operator) {
    case 'exists':
      return key;
    case '!':
      return `!${key}`;
    case 'in':
    case 'notin':
      return `${key} ${operator} (${list})`;
    case 'gt':
      return `${key}>${list}`;
    case 'lt':
      return `${key}<${list}`;
    default:
      return `${key}${operator}${list}`;
  }
}

/** A checked requirement. Its errors name fields as the API server does: `values[0][app]: Invalid value: …`. */
export function requirement(key: string, operator: LabelOperator, values: readonly string[]): LabelRequirement {
  const problems: string[] = [];
  const invalid = (field: string, shown: string, detail: string): void => {
    problems.push(`${field}: Invalid value: ${shown}: ${detail}`);
  };
  const keyProblems = qualifiedNameProblems(key);
  if (keyProblems.length > 0) invalid('key', goQuote(key), keyProblems.join('; '));
  const countProblem = valueCountProblem(operator, values.length);
  // Go prints a list that was never made as null.
  if (countProblem !== undefined)
    invalid('values', values.length === 0 ? 'null' : JSON.stringify(values), countProblem);
  for (const [index, value] of values.entries()) {
    const notANumber = (operator === 'gt' || operator === 'lt') && integer(value) === undefined;
    if (notANumber) {
      invalid(`values[${index}]`, goQuote(value), "for 'Gt', 'Lt' operators, the value must be an integer");
    }
  }
  for (const [index, value] of values.entries()) {
    const valueProblems = labelValueProblems(value);
    if (valueProblems.length > 0) invalid(`values[${index}][${key}]`, goQuote(value), valueProblems.join('; '));
  }
  const distinct = [...new Set(problems)];
  if (distinct.length > 0)
    throw new LabelSelectorError(distinct.length === 1 ? distinct.join() : `[${distinct.join(', ')}]`);
  return { key, operator, values };
}

/** In the order of their keys, so that equal selectors have equal texts. */
export function sortedByKey(requirements: readonly LabelRequirement[]): readonly LabelRequirement[] {
  return requirements.toSorted((a, b) => compareByteOrder(a.key, b.key));
}

export function validateLabelSelector(selector: LabelSelector | undefined, path: FieldPath): FieldError[] {
  if (selector === undefined) return [];
  const errors = validateLabels(selector.matchLabels ?? {}, [...path, 'matchLabels']);
  for (const [index, expression] of (selector.matchExpressions ?? []).entries()) {
    addErrors(errors, validateExpression(expression, [...path, 'matchExpressions', index]));
  }
  return errors;
}

export function validateLabels(labels: Labels, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  for (const [key, value] of Object.entries(labels)) {
    errors.push(...qualifiedNameProblems(key).map((problem) => invalidField(path, key, problem)));
    errors.push(...labelValueProblems(value).map((problem) => invalidField(path, value, problem)));
  }
  return errors;
}

function validateExpression({ key, operator, values = [] }: LabelExpression, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  const valuesPath = [...path, 'values'];
  if (operator === 'In' || operator === 'NotIn') {
    if (values.length === 0) {
      errors.push(requiredField(valuesPath, "must be specified when `operator` is 'In' or 'NotIn'"));
    }
  } else if (operator === 'Exists' || operator === 'DoesNotExist') {
    if (values.length > 0) {
      errors.push(forbiddenField(valuesPath, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
    }
  } else errors.push(invalidField([...path, 'operator'], operator, 'not a valid selector operator'));
  errors.push(...qualifiedNameProblems(key).map((problem) => invalidField([...path, 'key'], key, problem)));
  for (const [index, value] of values.entries()) {
    errors.push(...labelValueProblems(value).map((problem) => invalidField([...valuesPath, index], value, problem)));
  }
  return errors;
}

function valueCountProblem(operator: LabelOperator, count: number): string | undefined {
  switch (operator) {
    case 'in':
    case 'notin':
      return count === 0 ? "for 'in', 'notin' operators, values set can't be empty" : undefined;
    case 'exists':
    case '!':
      return count > 0 ? 'values set must be empty for exists and does not exist' : undefined;
    case 'gt':
    case 'lt':
      return count === 1 ? undefined : "for 'Gt', 'Lt' operators, exactly one value is required";
    default:
      return count === 1 ? undefined : 'exact-match compatibility requires one single value';
  }
}

/** A 64-bit number in decimal, as Go reads one; anything else compares with nothing. */
function integer(text: string | undefined): bigint | undefined {
  if (text === undefined || text.length > 40 || !/^[+-]?[0-9]+$/.test(text)) return undefined;
  const value = BigInt(text.replace('+', ''));
  return BigInt.asIntN(64, value) === value ? value : undefined;
}
