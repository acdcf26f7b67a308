/** The query parameters of a write: whether it is only tried, who is credited, and how strict unknown fields are taken. */
import {
  type FieldError,
  forbiddenField,
  invalidField,
  requiredField,
  tooLongField,
  unsupportedField,
} from '../../kube/schema/field-errors.ts';
import { invalid } from '../status.ts';

export type FieldValidation = 'Ignore' | 'Warn' | 'Strict';

export interface WriteOptions {
  readonly dryRun: boolean;
  readonly manager: string;
  readonly fieldValidation: FieldValidation;
  /** Of an apply: take over what others own. */
  readonly force: boolean;
}

const managerLengthMax = 128;

export function writeOptions(
  kind: 'CreateOptions' | 'UpdateOptions' | 'PatchOptions',
  query: URLSearchParams,
  userAgent: string,
  isApply = false,
): WriteOptions {
  const errors: FieldError[] = [];
  const manager = query.get('fieldManager') ?? '';
  const force = query.get('force');
  if (isApply && manager === '') errors.push(requiredField(['fieldManager'], 'is required for apply patch'));
  if (kind === 'PatchOptions' && !isApply && force !== null) {
    errors.push(forbiddenField(['force'], 'may not be specified for non-apply patch'));
  }
  errors.push(...managerErrors(manager), ...dryRunErrors(query.getAll('dryRun')));
  const fieldValidation = query.get('fieldValidation') || 'Warn';
  if (!isFieldValidation(fieldValidation)) {
    errors.push(unsupportedField(['fieldValidation'], fieldValidation, ['', 'Ignore', 'Strict', 'Warn']));
  }
  if (errors.length > 0) throw invalid({ group: 'meta.k8s.io', name: kind }, '', errors);
  return {
    dryRun: query.getAll('dryRun').includes('All'),
    manager: manager === '' ? managerFromUserAgent(userAgent) : manager,
    fieldValidation: isFieldValidation(fieldValidation) ? fieldValidation : 'Warn',
    force: force === 'true' || force === '1',
  };
}

/** Empty values are what clients send that have nothing to say. */
export function dryRunErrors(given: readonly string[]): FieldError[] {
  const values = given.filter((value) => value !== '');
  return values.every((value) => value === 'All') ? [] : [unsupportedField(['dryRun'], values, ['All'])];
}

/** `kubectl/v1.32.0 (linux/amd64)` is kubectl. */
function managerFromUserAgent(userAgent: string): string {
  const name = userAgent
    .split('/', 1)
    .join('')
    .replace(/[^\x20-\x7e]/g, '');
  return name.slice(0, managerLengthMax) || 'unknown';
}

function managerErrors(manager: string): FieldError[] {
  const path = ['fieldManager'];
  if (Buffer.byteLength(manager) > managerLengthMax) return [tooLongField(path, managerLengthMax)];
  let position = 0;
  for (const character of manager) {
    if (!/^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u.test(character)) {
      const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
      return [invalidField(path, manager, `invalid character U+${code} (at position ${position})`)];
    }
    position += Buffer.byteLength(character);
  }
  return [];
}

function isFieldValidation(value: string): value is FieldValidation {
  return value === 'Ignore' || value === 'Warn' || value === 'Strict';
}
