/**
 * The API server's refusals, each as an exception that carries the Status a client receives. The texts are the API's own:
 * clients show them, and some compare them.
 */
import { MountletError } from '../../base/errors.ts';
import { type FieldError, type FieldErrorKind, showPath } from '../../kube/schema/field-errors.ts';
import { goQuote } from '../../kube/values/go-text.ts';

export interface StatusCause {
  readonly reason?: string;
  readonly message?: string;
  readonly field?: string;
}

interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly StatusCause[];
  readonly retryAfterSeconds?: number;
}

export interface Status {
  readonly kind: 'Status';
  readonly apiVersion: 'v1';
  readonly metadata: { readonly continue?: string };
  readonly status: 'Failure' | 'Success';
  readonly message?: string;
  readonly reason?: string;
  readonly details?: StatusDetails;
  readonly code?: number;
}

interface StatusExtras {
  readonly continueToken?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

export class StatusError extends MountletError {
  readonly reason: string;
  readonly status: Status;
  /** Sent with the answer, besides those every answer has. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: number,
    reason: string,
    message: string,
    details?: StatusDetails,
    { continueToken, headers = {} }: StatusExtras = {},
  ) {
    super(message);
    this.reason = reason;
    this.status = {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: continueToken === undefined ? {} : { continue: continueToken },
      status: 'Failure',
      message,
      ...(reason !== '' && { reason }),
      ...(details && { details }),
      code,
    };
    const seconds = details?.retryAfterSeconds ?? 0;
    this.headers = seconds > 0 ? { ...headers, 'retry-after': String(seconds) } : headers;
  }

  static from({ code = 500, reason = '', message = '', details, metadata }: Status): StatusError {
    return new StatusError(code, reason, message, details, { continueToken: metadata.continue });
  }

  get causes(): readonly StatusCause[] {
    return this.status.details?.causes ?? [];
  }

  get code(): number {
    return this.status.code ?? 500;
  }
}

/** A kind as messages name it: by its plural for most, by its Kind where the API does so. */
export interface Named {
  readonly group: string;
  readonly name: string;
}

export const resourceName = (resource: { readonly group: string; readonly plural: string }): Named => ({
  group: resource.group,
  name: resource.plural,
});
export const kindName = (resource: { readonly group: string; readonly kind: string }): Named => ({
  group: resource.group,
  name: resource.kind,
});

/** `leases.coordination.k8s.io`, or plain `pods` in the core group. */
function show({ group, name }: Named): string {
  return group === '' ? name : `${name}.${group}`;
}

/** Fields that are empty are left out, as Go does. */
function about({ group, name: kind }: Named, name: string, more: StatusDetails = {}): StatusDetails {
  return { ...(name !== '' && { name }), ...(group !== '' && { group }), ...(kind !== '' && { kind }), ...more };
}

export function notFound(what: Named, name: string): StatusError {
  return new StatusError(404, 'NotFound', `${show(what)} ${goQuote(name)} not found`, about(what, name));
}

export function unknownResource(): StatusError {
  return new StatusError(404, 'NotFound', 'the server could not find the requested resource', {});
}

export function alreadyExists(what: Named, name: string, isBeingDeleted = false): StatusError {
  const message = `${show(what)} ${goQuote(name)} already exists`;
  return new StatusError(
    409,
    'AlreadyExists',
    (isBeingDeleted ? 'object is being deleted: ' : '') + message,
    about(what, name),
  );
}

export function namesExhausted(what: Named, name: string): StatusError {
  const message = `${show(what)} ${goQuote(name)} already exists, the server was not able to generate a unique name for the object`;
  return new StatusError(409, 'AlreadyExists', message, about(what, name, { retryAfterSeconds: 1 }));
}

export function conflict(what: Named, name: string, text: string): StatusError {
  const message = `Operation cannot be fulfilled on ${show(what)} ${goQuote(name)}: ${text}`;
  return new StatusError(409, 'Conflict', message, about(what, name));
}

export function modified(what: Named, name: string): StatusError {
  return conflict(
    what,
    name,
    'the object has been modified; please apply your changes to the latest version and try again',
  );
}

const causeReasons: Readonly<Record<FieldErrorKind, string>> = {
  'Required value': 'FieldValueRequired',
  'Invalid value': 'FieldValueInvalid',
  'Duplicate value': 'FieldValueDuplicate',
  'Unsupported value': 'FieldValueNotSupported',
  Forbidden: 'FieldValueForbidden',
  'Too long': 'FieldValueTooLong',
  'Too many': 'FieldValueTooMany',
  'Not found': 'FieldValueNotFound',
};

/** A list with a hundred thousand wrong items has as many errors; more than these help no reader. */
const fieldErrorsMax = 100;

export function invalid(what: Named, name: string, all: readonly FieldError[]): StatusError {
  const errors = all.slice(0, fieldErrorsMax);
  const texts = [...new Set(errors.map((error) => error.message))];
  if (all.length > fieldErrorsMax) texts.push(`and ${all.length - fieldErrorsMax} more errors`);
  const list = texts.length === 1 ? texts.join() : `[${texts.join(', ')}]`;
  const causes = errors.map(({ kind, path, message }) => {
    const field = showPath(path);
    return { reason: causeReasons[kind], message: message.slice(message.indexOf(kind, field.length)), field };
  });
  const message = `${show(what)} ${goQuote(name)} is invalid${texts.length === 0 ? '' : `: ${list}`}`;
  return new StatusError(422, 'Invalid', message, about(what, name, { causes }));
}

/** HTML in a user's or object's name must not become HTML in whatever shows the message. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

export function forbidden(what: Named, name: string, text: string, causes?: readonly StatusCause[]): StatusError {
  const subject =
    what.name === '' ? 'forbidden' : `${show(what)}${name === '' ? '' : ` ${goQuote(name)}`} is forbidden`;
  return new StatusError(403, 'Forbidden', escaped(`${subject}: ${text}`), about(what, name, causes && { causes }));
}

export function unauthorized(): StatusError {
  return new StatusError(401, 'Unauthorized', 'Unauthorized');
}

export function expired(message: string, continueToken?: string): StatusError {
  return new StatusError(410, 'Expired', message, undefined, { continueToken });
}

export function versionTooLarge(wanted: number | bigint, current: number): StatusError {
  const message = `Timeout: Too large resource version: ${wanted}, current: ${current}`;
  const causes = [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }];
  return new StatusError(504, 'Timeout', message, { causes, retryAfterSeconds: 1 });
}

export function timedOut(text: string): StatusError {
  return new StatusError(504, 'Timeout', `Timeout: ${text}`, {});
}

export function tooManyRequests(
  message: string,
  retryAfterSeconds: number,
  causes?: readonly StatusCause[],
): StatusError {
  return new StatusError(429, 'TooManyRequests', message, {
    ...(causes && { causes }),
    ...(retryAfterSeconds > 0 && { retryAfterSeconds }),
  });
}

export function methodNotAllowed(): StatusError {
  return new StatusError(
    405,
    'MethodNotAllowed',
    'the server does not allow this method on the requested resource',
    {},
  );
}

export function entityTooLarge(text: string): StatusError {
  return new StatusError(413, 'RequestEntityTooLarge', `Request entity too large: ${text}`);
}

export function badRequest(message: string): StatusError {
  return new StatusError(400, 'BadRequest', message);
}

export function internalError(text: string): StatusError {
  return new StatusError(500, 'InternalError', `Internal error occurred: ${text}`, { causes: [{ message: text }] });
}

export function unavailable(): StatusError {
  return new StatusError(503, 'ServiceUnavailable', 'the server is currently unable to handle the request');
}
