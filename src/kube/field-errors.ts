/** Validation errors in the API server's words: `spec.volumes[0].name: Required value`. */
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
  readonly path: FieldPath;
  /** The whole text as the API server prints it, beginning with the field. */
  readonly message: string;
}

/** `spec.containers[0].env[1].name`; a key that is not an identifier is written `data[tls.crt]` by `Path.key`. */
export function showPath(path: FieldPath): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else if (part.startsWith('[')) text += part;
    else text += text === '' ? part : `.${part}`;
  }
  return text;
}

/** The part of a path that names a map's key: it is printed in brackets, `metadata.annotations[example.com/a]`. */
export function keyPart(key: string): string {
  return `[${key}]`;
}

export function requiredField(path: FieldPath, detail = ''): FieldError {
  return fieldError('Required value', path, undefined, detail);
}

export function invalidField(path: FieldPath, value: unknown, detail: string): FieldError {
  return fieldError('Invalid value', path, value, detail);
}

export function duplicateField(path: FieldPath, value: unknown): FieldError {
  return fieldError('Duplicate value', path, value, '');
}

export function forbiddenField(path: FieldPath, detail: string): FieldError {
  return fieldError('Forbidden', path, undefined, detail);
}

export function notFoundField(path: FieldPath, value: unknown): FieldError {
  return fieldError('Not found', path, value, '');
}

export function unsupportedField(path: FieldPath, value: unknown, supported: readonly string[]): FieldError {
  const choices = supported.map((choice) => JSON.stringify(choice)).join(', ');
  return fieldError('Unsupported value', path, value, choices === '' ? '' : `supported values: ${choices}`);
}

export function tooLongField(path: FieldPath, bytesMax: number): FieldError {
  return fieldError('Too long', path, undefined, `may not be more than ${bytesMax} bytes`);
}

function fieldError(kind: FieldErrorKind, path: FieldPath, value: unknown, detail: string): FieldError {
  const parts = [showPath(path), kind];
  if (value !== undefined) parts.push(typeof value === 'string' ? JSON.stringify(value) : showValue(value));
  if (detail !== '') parts.push(detail);
  return { kind, path, message: parts.join(': ') };
}

function showValue(value: unknown): string {
  return JSON.stringify(value) ?? 'null';
}
