/** Validation errors in the API server's words: `spec.volumes[0].name: Required value`. */
import { goJson, goQuote } from '../values/go-text.ts';
import type { FieldPath } from './schema.ts';

export type FieldErrorKind =
  | 'Required value'
  | 'Invalid value'
  | 'Duplicate value'
  | 'Unsupported value'
  | 'Forbidden'
  | 'Too long'
  | 'Too many'
  | 'Not found';

export interface FieldError {
  readonly kind: FieldErrorKind;
  /** The field as the API server names it. A map's key is a `keyPart`. */
  readonly path: FieldPath;
  /** Where the value really is, for the messages whose path is misspelt or stops short in the API server. */
  readonly at?: FieldPath;
  /** The whole text as the API server prints it, beginning with the field. */
  readonly message: string;
}

/** `spec.containers[0].env[1].name`; a map's key is written `data[tls.crt]`. */
export function showPath(path: FieldPath): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else if (part.startsWith('[')) text += part;
    else text += text === '' ? part : `.${part}`;
  }
  return text;
}

/** Where the user wrote what the error is about, as the decoder counts: `data[tls.crt]` is at `['data', 'tls.crt']`. */
export function placeOf({ path, at }: Pick<FieldError, 'path' | 'at'>): FieldPath {
  return (at ?? path).map((part) => (typeof part === 'string' && part.startsWith('[') ? part.slice(1, -1) : part));
}

/** The same errors, said to be at another place than their path names. */
export function placedAt(at: FieldPath, errors: readonly FieldError[]): FieldError[] {
  return errors.map((error) => Object.assign({}, error, { at }));
}

/** The same errors, whose paths begin with `printed` as the API server's do, said to be below `real`. */
export function placedBelow(real: FieldPath, printed: FieldPath, errors: readonly FieldError[]): FieldError[] {
  return errors.map((error) => Object.assign({}, error, { at: [...real, ...error.path.slice(printed.length)] }));
}

/** Adds any number of errors. `push(...more)` passes each as an argument, and a hostile manifest has more than fit a stack. */
export function addErrors(errors: FieldError[], ...lists: readonly (readonly FieldError[])[]): void {
  for (const list of lists) for (const error of list) errors.push(error);
}

export function requiredField(path: FieldPath, detail = ''): FieldError {
  return fieldError('Required value', path, undefined, detail);
}

export function invalidField(path: FieldPath, value: unknown, detail: string): FieldError {
  return fieldError('Invalid value', path, showValue(value), detail);
}

/** One error for each message of a rule; the rules of `names.ts` answer with such a list. */
export function invalidFields(path: FieldPath, value: unknown, details: readonly string[]): FieldError[] {
  return details.map((detail) => invalidField(path, value, detail));
}

export function duplicateField(path: FieldPath, value: unknown, detail = ''): FieldError {
  return fieldError('Duplicate value', path, showValue(value), detail);
}

export function forbiddenField(path: FieldPath, detail: string): FieldError {
  return fieldError('Forbidden', path, undefined, detail);
}

export function notFoundField(path: FieldPath, value: unknown, detail = ''): FieldError {
  return fieldError('Not found', path, showValue(value), detail);
}

/** For fields with named values, which the API server prints as JSON. It lists most of them sorted, some in their own order. */
export function unsupportedField(path: FieldPath, value: unknown, supported: readonly string[]): FieldError {
  return fieldError('Unsupported value', path, goJson(value), choicesOf(supported));
}

/** For fields of plain text that must be one of a few. */
export function unsupportedText(path: FieldPath, value: string, supported: readonly string[]): FieldError {
  return fieldError('Unsupported value', path, goQuote(value), choicesOf(supported));
}

export function tooLongField(path: FieldPath, bytesMax: number): FieldError {
  return fieldError('Too long', path, undefined, `may not be more than ${bytesMax} bytes`);
}

export function tooManyField(path: FieldPath, count: number, countMax: number): FieldError {
  return fieldError('Too many', path, String(count), `must have at most ${countMax} items`);
}

function fieldError(kind: FieldErrorKind, path: FieldPath, value: string | undefined, detail: string): FieldError {
  const parts = [showPath(path), kind];
  if (value !== undefined) parts.push(value);
  if (detail !== '') parts.push(detail);
  return { kind, path, message: parts.join(': ') };
}

function showValue(value: unknown): string {
  return typeof value === 'string' ? goQuote(value) : goJson(value);
}

function choicesOf(supported: readonly string[]): string {
  return supported.length === 0 ? '' : `supported values: ${supported.map(goQuote).join(', ')}`;
}
