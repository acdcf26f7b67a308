/**
 * The API server's refusals as exceptions, with a class for each reason that callers catch. The message is the server's own.
 * Failures to reach the server at all are in transport/transport.ts.
 */
import { MountletError } from '../../base/errors.ts';
import type { Status } from '../../kube/schema/meta.ts';

export type StatusDetails = NonNullable<Status['details']>;
export type StatusCause = NonNullable<StatusDetails['causes']>[number];

export class ApiError extends MountletError {
  /** The API's own word, `NotFound`; `Unknown` where the server gave none. */
  readonly reason: string;
  readonly code: number;
  readonly details: StatusDetails;
  /** How long the server asks us to stay away. */
  readonly retryAfterMs: number | undefined;

  constructor({ message, reason, code, details }: Status, retryAfterMs?: number) {
    super(message);
    this.reason = reason ?? 'Unknown';
    this.code = code ?? 0;
    this.details = details ?? {};
    const seconds = details?.retryAfterSeconds ?? 0;
    this.retryAfterMs = retryAfterMs ?? (seconds > 0 ? seconds * 1000 : undefined);
  }

  get causes(): readonly StatusCause[] {
    return this.details.causes ?? [];
  }
}

export class BadRequestError extends ApiError {}
export class UnauthorizedError extends ApiError {}
export class ForbiddenError extends ApiError {}
export class NotFoundError extends ApiError {}
export class NotAcceptableError extends ApiError {}
export class AlreadyExistsError extends ApiError {}
export class ConflictError extends ApiError {}
/** Also the older reason `Gone`: the version, or the page of a list, that was requested is no longer kept. */
export class ExpiredError extends ApiError {}
export class UnsupportedMediaTypeError extends ApiError {}
/** Its `causes` name each field that was refused. */
export class InvalidError extends ApiError {}
export class TooManyRequestsError extends ApiError {}
export class ServiceUnavailableError extends ApiError {}
export class TimeoutError extends ApiError {}

interface Kind {
  readonly reason: string;
  readonly code: number;
  readonly type: typeof ApiError;
  /** The message when the answer is not a Status: by a proxy, or by a server that does not know the path. */
  readonly text: string;
}

// The first of a code stands for it when an answer names no reason.
const kinds: readonly Kind[] = [
  {
    reason: 'BadRequest',
    code: 400,
    type: BadRequestError,
    text: 'the server rejected our request for an unknown reason',
  },
  {
    reason: 'Unauthorized',
    code: 401,
    type: UnauthorizedError,
    text: 'the server has asked for the client to provide credentials',
  },
  { reason: 'Forbidden', code: 403, type: ForbiddenError, text: 'the server does not allow this request' },
  { reason: 'NotFound', code: 404, type: NotFoundError, text: 'the server could not find the requested resource' },
  {
    reason: 'MethodNotAllowed',
    code: 405,
    type: ApiError,
    text: 'the server does not allow this method on the requested resource',
  },
  {
    reason: 'NotAcceptable',
    code: 406,
    type: NotAcceptableError,
    text: 'the server was unable to respond with a content type that the client supports',
  },
  { reason: 'Conflict', code: 409, type: ConflictError, text: 'the server reported a conflict' },
  { reason: 'AlreadyExists', code: 409, type: AlreadyExistsError, text: 'the server reported a conflict' },
  { reason: 'Expired', code: 410, type: ExpiredError, text: 'the requested version is no longer available' },
  { reason: 'Gone', code: 410, type: ExpiredError, text: 'the requested version is no longer available' },
  {
    reason: 'RequestEntityTooLarge',
    code: 413,
    type: ApiError,
    text: 'the request is larger than the server accepts',
  },
  {
    reason: 'UnsupportedMediaType',
    code: 415,
    type: UnsupportedMediaTypeError,
    text: 'the body of the request was in an unknown format',
  },
  {
    reason: 'Invalid',
    code: 422,
    type: InvalidError,
    text: 'the server rejected our request due to an error in our request',
  },
  {
    reason: 'TooManyRequests',
    code: 429,
    type: TooManyRequestsError,
    text: 'the server has received too many requests and has asked us to try again later',
  },
  {
    reason: 'InternalError',
    code: 500,
    type: ApiError,
    text: 'an error on the server has prevented the request from succeeding',
  },
  {
    reason: 'ServiceUnavailable',
    code: 503,
    type: ServiceUnavailableError,
    text: 'the server is currently unable to handle the request',
  },
  {
    reason: 'Timeout',
    code: 504,
    type: TimeoutError,
    text: 'the server was unable to return a response in the time allotted, but may still be processing the request',
  },
  { reason: 'ServerTimeout', code: 500, type: ApiError, text: 'the server ran out of time' },
  { reason: 'StorageReadError', code: 500, type: ApiError, text: 'the server could not read its storage' },
];

/** From the object of an ERROR event, or from the body of an answer with this code. What is absent there is guessed from the code. */
export function errorFromStatus(status: Status, answered?: number, retryAfterMs?: number): ApiError {
  const code = status.code || answered || 500;
  const kind = kinds.find(({ reason }) => reason === status.reason) ?? kinds.find((other) => other.code === code);
  const type = kind?.type ?? ApiError;
  const reason = status.reason || (kind?.reason ?? 'Unknown');
  return new type({ ...status, message: status.message || reason, code, reason }, retryAfterMs);
}

/** For an answer without a Status. `what` names the request: `get configmaps "web"`. */
export function errorFromCode(code: number, what: string, retryAfterMs?: number): ApiError {
  const text = kinds.find((kind) => kind.code === code)?.text ?? `the server answered with the unexpected code ${code}`;
  return errorFromStatus({ code, message: `${text} (${what})` }, code, retryAfterMs);
}

const tooLarge = 'Too large resource version';

/** The server has not yet seen the version we know: it lags behind, or it was restored from a backup. Three generations of servers say it in three ways. */
export function isVersionTooLarge(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false;
  if (error.causes.some(({ reason }) => reason === 'ResourceVersionTooLarge')) return true;
  if (!(error instanceof TimeoutError)) return false;
  return error.causes.some(({ message }) => message === tooLarge) || error.message.includes(tooLarge);
}
