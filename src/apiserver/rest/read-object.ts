/** The object in a request's body, decoded by its shape; what does not fit becomes an error or a warning, as the client wishes. */
import { isRecord } from '../../kube/schema/equality.ts';
import { showPath } from '../../kube/schema/field-errors.ts';
import { type Shape, type ShapeProblem, decode } from '../../kube/schema/schema.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { type StatusError, badRequest } from '../model/status.ts';
import { type ApiRequest, bodyBytesMax } from './api-request.ts';
import { JsonError, parseBody, strictProblemsMax } from './request-body.ts';
import type { FieldValidation } from './write-context.ts';

/** What the body is expected to be. */
interface Expected<T> {
  readonly apiVersion: string;
  readonly kind: string;
  readonly shape: Shape<T>;
  /** Other versions that are read the same way. */
  readonly alsoVersions?: readonly string[];
}

export async function readObject<T>(
  request: Pick<ApiRequest, 'exchange' | 'warn'>,
  expected: Expected<T>,
  validation: FieldValidation,
  bytesMax = bodyBytesMax,
): Promise<T> {
  const { exchange } = request;
  const contentType = exchange.header('content-type');
  const bytes = await exchange.readBody(bytesMax);
  try {
    const { value, duplicates } = parseBody(bytes, contentType, expected);
    if (!isRecord(value)) throw new JsonError("couldn't get version/kind; json parse error: the data is not an object");
    return decodeObject(value, duplicates, expected, validation, (text) => request.warn(text));
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw badRequest(
      `the object provided is unrecognized (must be of type ${expected.kind}): ${error.message} (${summarize(bytes)})`,
    );
  }
}

function decodeObject<T>(
  json: Record<string, unknown>,
  duplicates: readonly string[],
  expected: Expected<T>,
  validation: FieldValidation,
  warn: (text: string) => void,
): T {
  checkKind(json, expected);
  const { value, problems } = decode(expected.shape, json);
  const wrong = problems.filter(({ kind }) => kind === 'type').map((problem) => `json: ${showProblem(problem)}`);
  if (wrong.length > 0) throw cannotHandle(expected, wrong.join(', '));
  if (validation !== 'Ignore') {
    const strange = strictProblems(problems, duplicates);
    if (validation === 'Strict' && strange.length > 0) {
      throw cannotHandle(expected, `strict decoding error: ${strange.join(', ')}`);
    }
    strange.forEach(warn);
  }
  return value;
}

/** `unknown field "spec.foo"`, `duplicate field "data.a"` */
export function strictProblems(problems: readonly ShapeProblem[], duplicates: readonly string[]): string[] {
  const unknown = problems.filter(({ kind }) => kind === 'unknown').slice(0, strictProblemsMax);
  return [
    ...unknown.map(({ path }) => `unknown field ${goQuote(showPath(path))}`),
    ...duplicates.map((path) => `duplicate field ${goQuote(path)}`),
  ].slice(0, strictProblemsMax);
}

function checkKind(json: Record<string, unknown>, expected: Expected<unknown>): void {
  const { apiVersion = expected.apiVersion, kind = expected.kind } = json;
  if (typeof apiVersion !== 'string' || typeof kind !== 'string') {
    throw new JsonError("couldn't get version/kind; json parse error: apiVersion and kind must be text");
  }
  if (kind !== '' && kind !== expected.kind) {
    const version = apiVersion.slice(apiVersion.indexOf('/') + 1);
    throw badRequest(
      `${kind} in version ${goQuote(version)} cannot be handled as a ${expected.kind}: the kind in the data does not match`,
    );
  }
  if (apiVersion !== '' && apiVersion !== expected.apiVersion && !expected.alsoVersions?.includes(apiVersion)) {
    throw badRequest(
      `the API version in the data (${apiVersion}) does not match the expected API version (${expected.apiVersion})`,
    );
  }
}

function cannotHandle({ apiVersion, kind }: Expected<unknown>, text: string): StatusError {
  const version = apiVersion.slice(apiVersion.indexOf('/') + 1);
  return badRequest(`${kind} in version ${goQuote(version)} cannot be handled as a ${kind}: ${text}`);
}

function showProblem({ path, message }: ShapeProblem): string {
  const place = showPath(path);
  return place === '' ? message : `${place}: ${message}`;
}

const summaryLength = 30;

/** The start of the body, for its sender. */
function summarize(bytes: Buffer): string {
  if (bytes.length === 0) return '<empty>';
  const start = bytes.subarray(0, summaryLength);
  const text = bytes[0] === 0x7b ? start.toString('utf8') : start.toString('hex');
  return bytes.length > summaryLength ? `${text} ...` : text;
}
