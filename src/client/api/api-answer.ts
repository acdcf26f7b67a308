/** What an answer of the API means: an object, a list, or an error. Every text here names fields and never their values. */
import { isRecord } from '../../kube/schema/equality.ts';
import { status as statusShape } from '../../kube/schema/meta.ts';
import { type Shape, decode } from '../../kube/schema/schema.ts';
import {
  unreadableAnswer,
  type HttpHead,
  type HttpRequest,
  type HttpSink,
  type Transport,
} from '../transport/transport.ts';
import { type ApiError, errorFromCode, errorFromStatus } from './api-errors.ts';
import { apiVersionOf } from '../../kube/schema/kind.ts';
import type { ApiObject, ResourceReference } from './resource-reference.ts';
import type { JsonObject } from './watch-stream.ts';

export interface ListPage<T> {
  readonly items: readonly T[];
  readonly resourceVersion: string;
  /** Empty on the last page. */
  readonly continueToken: string;
}

export function parseAnswer(body: Buffer, what: string): JsonObject {
  let json: unknown;
  try {
    json = JSON.parse(body.toString('utf8'));
  } catch {
    // The parser's own message quotes the text, which may be a Secret.
  }
  if (isRecord(json)) return json;
  throw unreadableAnswer(what, 'it is no JSON object');
}

export function readObject<T extends ApiObject>(resource: ResourceReference<T>, json: JsonObject, what: string): T {
  const { metadata } = json;
  if (!isRecord(metadata)) throw unreadableAnswer(what, 'it is no object with metadata');
  for (const field of ['name', 'namespace', 'uid', 'resourceVersion']) {
    const value = metadata[field];
    if (value !== undefined && value !== null && typeof value !== 'string')
      throw unreadableAnswer(what, `metadata.${field} is no text`);
  }
  // Items of a list leave out what the list says for all of them.
  const named = { apiVersion: apiVersionOf(resource), kind: resource.kind, ...json };
  return resource.shape === undefined ? (named as unknown as T) : decodeAs(resource.shape, named, what);
}

function decodeAs<T>(shape: Shape<T>, json: JsonObject, what: string): T {
  const { value, problems } = decode(shape, json);
  const wrong = problems.find(({ kind }) => kind === 'type');
  if (wrong === undefined) return value;
  throw unreadableAnswer(what, `${wrong.path.join('.')}: ${wrong.message}`);
}

export function readList<T extends ApiObject>(
  resource: ResourceReference<T>,
  json: JsonObject,
  what: string,
): ListPage<T> {
  const { metadata, items, kind, apiVersion } = json;
  if (kind === 'Table') {
    const [group, version] = String(apiVersion).split('/');
    const text = `unsupported list gvk: ${group}/${version}, Kind=Table, type: *${resource.version}.${resource.kind}`;
    throw unreadableAnswer(what, text);
  }
  if (!isRecord(metadata) || !(Array.isArray(items) || items === null || items === undefined) || kind === 'Status')
    throw unreadableAnswer(what, 'it is no list');
  const texts = { resourceVersion: metadata['resourceVersion'] ?? '', continueToken: metadata['continue'] ?? '' };
  const { resourceVersion, continueToken } = texts;
  if (typeof resourceVersion !== 'string' || typeof continueToken !== 'string')
    throw unreadableAnswer(what, 'its metadata is no list metadata');
  return {
    resourceVersion,
    continueToken,
    items: ((items ?? []) as readonly unknown[]).map((item, index) => {
      if (!isRecord(item)) throw unreadableAnswer(what, `items.${index} is no object`);
      return readObject(resource, item, what);
    }),
  };
}

export function readError({ status, headers }: HttpHead, body: Buffer, what: string): ApiError {
  const retryAfterMs = retryAfter(headers['retry-after']);
  try {
    const json: unknown = JSON.parse(body.toString('utf8'));
    if (isRecord(json) && json['kind'] === 'Status')
      return errorFromStatus(decode(statusShape, json).value, status, retryAfterMs);
  } catch {
    // No Status: a proxy's page, or plain text.
  }
  return errorFromCode(status, what, retryAfterMs);
}

/** Seconds; the other form of this header, a date, is used by no API server. */
function retryAfter(header: string | readonly string[] | undefined): number | undefined {
  return typeof header === 'string' && /^\d{1,6}$/.test(header) ? Number(header) * 1000 : undefined;
}

/** The whole answer to a short request, within bounds. */
export function receiveAnswer(
  transport: Transport,
  request: HttpRequest,
  what: string,
  bytesMax: number,
  signal: AbortSignal,
): Promise<{ readonly head: HttpHead; readonly body: Buffer }> {
  return new Promise((resolve, reject) => {
    let head: HttpHead = { status: 0, headers: {} };
    let bytes = 0;
    const chunks: Buffer[] = [];
    const sink: HttpSink = {
      head: (received) => (head = received),
      data: (chunk) => {
        bytes += chunk.length;
        if (bytes <= bytesMax) chunks.push(chunk);
        else reject(unreadableAnswer(what, `it is larger than ${bytesMax} bytes`));
      },
      end: () => resolve({ head, body: Buffer.concat(chunks) }),
      failed: reject,
    };
    transport.send(request, sink, signal).catch(reject);
  });
}
