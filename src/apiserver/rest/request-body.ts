/**
 * The body of a request: parsed from one of the accepted formats, decoded by the shape of its kind, and checked. What does not
 * fit becomes an error or a warning, as the client wishes.
 */
import { MountletError, messageOf } from '../../base/errors.ts';
import { parseYamlDocuments } from '../../kube/manifests/yaml-documents.ts';
import { isRecord } from '../../kube/schema/equality.ts';
import { showPath } from '../../kube/schema/field-errors.ts';
import { type Shape, type ShapeProblem, decode } from '../../kube/schema/schema.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { StatusError, badRequest, entityTooLarge } from '../model/status.ts';
import { decodeProtobuf } from '../wire/decode-protobuf.ts';
import { UnsupportedMediaTypeError, bodyTypeOf, jsonType, protobufType, yamlType } from '../wire/media-types.ts';
import { type ApiRequest, bodyBytesMax } from './api-request.ts';
import type { FieldValidation } from './write-context.ts';

/** What the body is expected to be. */
interface Expected<T> {
  readonly apiVersion: string;
  readonly kind: string;
  readonly shape: Shape<T>;
  /** Other versions that are read the same way. */
  readonly alsoVersions?: readonly string[];
}

/** The object in a request's body, decoded by its shape. */
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
    const body = parseBody(bytes, contentType, expected);
    const { value } = body;
    if (!isRecord(value)) throw new JsonError("couldn't get version/kind; json parse error: the data is not an object");
    checkKind(value, expected);
    const refuse = (text: string): Error => cannotHandle(expected, text);
    return decodeChecked(expected.shape, body, validation, refuse, (text) => request.warn(text));
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw badRequest(
      `the object provided is unrecognized (must be of type ${expected.kind}): ${error.message} (${summarize(bytes)})`,
    );
  }
}

/** Decodes by the shape. Unknown and doubled fields are refused, warned of or ignored, as the client wishes. */
export function decodeChecked<T>(
  shape: Shape<T>,
  { value: json, duplicates, repeated = [] }: JsonBody,
  validation: FieldValidation,
  refuse: (text: string) => Error,
  warn: (text: string) => void,
): T {
  const { value, problems } = decode(shape, json);
  const wrong = problems.filter(({ kind }) => kind === 'type').map((problem) => `json: ${showProblem(problem)}`);
  if (wrong.length > 0) throw refuse(wrong.join(', '));
  if (validation === 'Ignore') return value;
  const unknown = problems.filter(({ kind }) => kind === 'unknown').slice(0, strictProblemsMax);
  const strange = [
    ...unknown.map(({ path }) => `unknown field ${goQuote(showPath(path))}`),
    ...duplicates.map((path) => `duplicate field ${goQuote(path)}`),
  ].slice(0, strictProblemsMax);
  if (validation === 'Strict' && repeated.length + strange.length > 0) {
    const all = repeated.length === 0 ? strange : [repeatedKeysText(repeated), ...strange];
    throw refuse(`strict decoding error: ${all.join(', ')}`);
  }
  for (const text of [...repeated, ...strange]) warn(text);
  return value;
}

/** Of YAML, as Go's parser says it. */
export function repeatedKeysText(lines: readonly string[]): string {
  return ['yaml: unmarshal errors:', ...lines].join('\n  ');
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

export function parseBody(
  bytes: Buffer,
  contentType: string | undefined,
  expected: { readonly apiVersion: string; readonly kind: string },
): JsonBody {
  switch (mediaTypeOf(() => bodyTypeOf(contentType))) {
    case jsonType:
      return parseJsonBody(bytes.toString('utf8'));
    case yamlType:
      return parseYamlBody(bytes.toString('utf8'));
    case protobufType:
      try {
        return { value: decodeProtobuf(bytes, expected).object, duplicates: [] };
      } catch (error) {
        throw new JsonError(messageOf(error));
      }
  }
}

/** No larger object is stored. The parser takes a hundred times the memory of its text. */
const yamlLengthMax = 1.5 * 1024 * 1024;

/** Also what an apply patch is in; JSON is YAML too, but parsed as JSON a hundred times as fast. */
export function parseYamlBody(text: string): JsonBody {
  if (text.trimStart().startsWith('{')) {
    try {
      return parseJsonBody(text);
    } catch (error) {
      if (!(error instanceof JsonError)) throw error;
    }
  }
  if (text.length > yamlLengthMax) throw entityTooLarge(`limit is ${yamlLengthMax} for YAML; send it as JSON`);
  const [document] = parseYamlDocuments(text);
  const problems = document?.problems ?? [];
  const problem = problems.find(({ repeatedKey }) => repeatedKey === undefined);
  if (problem !== undefined) throw new JsonError(`yaml: line ${problem.position.line}: ${problem.message}`);
  const repeated = problems.slice(0, strictProblemsMax).map(({ position, repeatedKey = '' }) => {
    const key = repeatedKey === '' ? 'a key' : `key ${goQuote(repeatedKey)}`;
    return `line ${position.line}: ${key} already set in map`;
  });
  return { value: withoutBigIntegers(document?.value), duplicates: [], repeated };
}

/** A type that is not read here is a refusal with the API's own words. */
export function mediaTypeOf<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof UnsupportedMediaTypeError) throw new StatusError(415, error.reason, error.message);
    throw error;
  }
}

/** JSON knows no larger numbers than JavaScript does; what an object carries along must be printable as JSON. */
function withoutBigIntegers(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map(withoutBigIntegers);
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withoutBigIntegers(item)]));
}

export interface JsonBody {
  readonly value: unknown;
  /** Paths of keys given twice, `metadata.labels.a`, in order. */
  readonly duplicates: readonly string[];
  /** Of YAML, whose keys are named by their lines: `line 3: key "a" already set in map`. */
  readonly repeated?: readonly string[];
}

/** Its message names a place, never the text there: that may be a Secret's. */
export class JsonError extends MountletError {
  readonly reason = 'MalformedJson';
}

// No object of the API is nearly as deep; much deeper ones overflow the stack when they are printed.
const depthMax = 500;

/** As many unknown and doubled fields as the API reports. */
const strictProblemsMax = 100;

/** Parses JSON with a bound on its depth, and finds keys that occur twice, which JSON.parse accepts silently. */
export function parseJsonBody(text: string): JsonBody {
  const duplicates = new Scanner(text).scan();
  try {
    return { value: JSON.parse(text), duplicates };
  } catch (error) {
    throw new JsonError(describe(text, error));
  }
}

const [quote, comma] = [0x22, 0x2c];
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d];

/** Where the string that begins here ends: at the next quote behind an even number of backslashes. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let before = end;
    while (text[before - 1] === '\\') before -= 1;
    if ((end - before) % 2 === 0) return end;
  }
  return text.length;
}

interface Level {
  readonly keys: Set<string> | undefined;
  /** The step from here to the level below. */
  step: string;
  index: number;
}

/** Walks the text once. It trusts that the text is JSON; whether that is so JSON.parse says. */
class Scanner {
  readonly #text: string;
  readonly #levels: Level[] = [];
  readonly #duplicates: string[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  scan(): readonly string[] {
    const text = this.#text;
    let expectsKey = false;
    for (let at = 0; at < text.length; at += 1) {
      switch (text.charCodeAt(at)) {
        case quote: {
          // Strings are skipped as a whole, so that brackets and commas inside of them do not count.
          const end = endOfString(text, at);
          const level = this.#levels.at(-1);
          if (expectsKey && level !== undefined) this.#key(level, text.slice(at, end + 1));
          expectsKey = false;
          at = end;
          break;
        }
        case openBrace:
          this.#enter({ keys: new Set(), step: '', index: 0 });
          expectsKey = true;
          break;
        case openBracket:
          this.#enter({ keys: undefined, step: '', index: 0 });
          expectsKey = false;
          break;
        case closeBrace:
        case closeBracket:
          this.#levels.pop();
          expectsKey = false;
          break;
        case comma: {
          const level = this.#levels.at(-1);
          if (level !== undefined) level.index += 1;
          expectsKey = level?.keys !== undefined;
        }
      }
    }
    return this.#duplicates;
  }

  #enter(level: Level): void {
    if (this.#levels.length >= depthMax) throw new JsonError('exceeded max depth');
    this.#levels.push(level);
  }

  #key(level: Level, token: string): void {
    let key = token.slice(1, -1);
    if (key.includes('\\')) {
      try {
        key = String(JSON.parse(token));
      } catch {
        return;
      }
    }
    level.step = key;
    if (level.keys?.has(key) && this.#duplicates.length < strictProblemsMax) this.#duplicates.push(this.#path());
    level.keys?.add(key);
  }

  #path(): string {
    let path = '';
    for (const { keys, step, index } of this.#levels) {
      if (keys === undefined) path += `[${index}]`;
      else path += path === '' ? step : `.${step}`;
    }
    return path;
  }
}

function describe(text: string, error: unknown): string {
  if (text.trim() === '') return 'unexpected end of JSON input';
  const position = /position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1];
  return position === undefined || Number(position) >= text.length
    ? 'unexpected end of JSON input'
    : `invalid character at position ${position}`;
}
