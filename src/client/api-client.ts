/**
 * Requests to any Kubernetes API server: get, list, create, update, patch, delete and watch. It keeps the rate, shows credentials,
 * asks again where asking again is harmless, and turns every refusal into its class of error. It remembers no object.
 */
import type { Clock } from '../base/clock.ts';
import type { ListPage } from './api-answer.ts';
import { parseAnswer, readError, readList, readObject } from './api-answer.ts';
import type { GetOptions, ListQuery, PatchOptions, Selection, WatchQuery, WriteOptions } from './api-queries.ts';
import { ServiceUnavailableError, TooManyRequestsError, UnauthorizedError } from './api-errors.ts';
import type { Credentials } from './credentials.ts';
import { withDeadline } from './deadline.ts';
import { onAbort } from './on-abort.ts';
import type { ApiObject, ObjectPlace, Place, ResourceReference } from './resource-reference.ts';
import { collectionPath, objectPath, resourceName } from './resource-reference.ts';
import type { RateLimit } from './token-bucket.ts';
import { TokenBucket } from './token-bucket.ts';
import { AnswerUnreadableError, ConnectionLostError, RequestTimedOutError } from './transport-errors.ts';
import type { HttpHead, HttpRequest, HttpSink, Transport } from './transport.ts';
import type { GuardSettings } from './watch-guard.ts';
import { WatchGuard, guardDefaults } from './watch-guard.ts';
import type { JsonObject, WatchLimits } from './watch-stream.ts';
import { WatchStream, watchLimits } from './watch-stream.ts';

const patchTypes: Readonly<Record<PatchOptions['type'], string>> = {
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  json: 'application/json-patch+json',
  apply: 'application/apply-patch+yaml',
};

export interface ApiClientSettings {
  readonly userAgent: string;
  readonly rate: RateLimit;
  /** For one attempt at a short request. */
  readonly requestTimeoutMs: number;
  /** How often a request is repeated because the server asked for that. */
  readonly retriesMax: number;
  /** A server that asks for more patience than this gets none: the caller is told. */
  readonly retryAfterMsMax: number;
  /** More is no list but an attack or a mistake; text beyond half a gigabyte cannot be held at all. */
  readonly answerBytesMax: number;
  readonly watch: WatchLimits;
  readonly guard: GuardSettings;
}

/** Rate and retries as the kubelet's general client has them. */
export const apiClientDefaults: ApiClientSettings = {
  userAgent: 'mountlet',
  rate: { perSecond: 50, burst: 100 },
  requestTimeoutMs: 60_000,
  retriesMax: 10,
  retryAfterMsMax: 60_000,
  answerBytesMax: 256 * 1024 * 1024,
  watch: watchLimits,
  guard: guardDefaults,
};

export interface ApiClientDeps {
  readonly transport: Transport;
  readonly credentials: Credentials;
  readonly clock: Clock;
}

// A connection may be closed by the other side just when it is used; the next one then works.
const resendsMax = 2;

const jsonType = 'application/json';
// A server that cannot do this answers with the whole object.
const metadataType = `${jsonType};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,${jsonType}`;

type Query = Readonly<Record<string, string | number | boolean | undefined>>;

interface Call {
  readonly what: string;
  readonly method: string;
  readonly path: string;
  readonly query?: Query;
  readonly accept?: string;
  readonly contentType?: string;
  readonly body?: unknown;
}

export class ApiClient {
  readonly #deps: ApiClientDeps;
  readonly #settings: ApiClientSettings;
  readonly #bucket: TokenBucket;
  readonly #guard: WatchGuard;

  constructor(deps: ApiClientDeps, settings: ApiClientSettings) {
    this.#deps = deps;
    this.#settings = settings;
    this.#bucket = new TokenBucket(deps.clock, settings.rate);
    this.#guard = new WatchGuard(deps.clock, settings.guard);
  }

  async get<T extends ApiObject>(
    resource: ResourceReference<T>,
    place: ObjectPlace & GetOptions,
    signal: AbortSignal,
  ): Promise<T> {
    return this.#objectOf(resource, getCall(resource, place), signal);
  }

  /** Only who and which the object is: its content does not travel. */
  async getMetadata(
    { group, version, plural, kind, isNamespaced }: ResourceReference,
    place: ObjectPlace & GetOptions,
    signal: AbortSignal,
  ): Promise<ApiObject> {
    const resource = { group, version, plural, kind, isNamespaced };
    return this.#objectOf(resource, { ...getCall(resource, place), accept: metadataType }, signal);
  }

  /** One page. `list({}, …)` without a limit is everything. */
  async list<T extends ApiObject>(
    resource: ResourceReference<T>,
    { namespace, ...query }: Place & ListQuery,
    signal: AbortSignal,
  ): Promise<ListPage<T>> {
    const what = `list ${resourceName(resource)}`;
    const call = { what, method: 'GET', path: collectionPath(resource, { namespace }), query: { ...query } };
    return readList(resource, await this.#answer(call, signal), what);
  }

  /** With a name and a subresource it creates that: `{ namespace, name: 'default', subresource: 'token' }`. */
  async create<T extends ApiObject>(
    resource: ResourceReference<T>,
    place: (Place | ObjectPlace) & WriteOptions,
    object: unknown,
    signal: AbortSignal,
  ): Promise<T> {
    const path = 'name' in place ? objectPath(resource, place) : collectionPath(resource, place);
    const what = `create ${resourceName(resource)}`;
    const call = {
      what,
      method: 'POST',
      path,
      query: writeQuery(place),
      body: object,
      contentType: 'application/json',
    };
    return this.#objectOf(resource, call, signal);
  }

  async update<T extends ApiObject>(
    resource: ResourceReference<T>,
    place: ObjectPlace & WriteOptions,
    object: unknown,
    signal: AbortSignal,
  ): Promise<T> {
    const about = callOf('update', resource, place);
    const call = { ...about, method: 'PUT', query: writeQuery(place), body: object, contentType: 'application/json' };
    return this.#objectOf(resource, call, signal);
  }

  async patch<T extends ApiObject>(
    resource: ResourceReference<T>,
    place: ObjectPlace & PatchOptions,
    patch: unknown,
    signal: AbortSignal,
  ): Promise<T> {
    const query = { ...writeQuery(place), force: place.force };
    const about = callOf('patch', resource, place);
    const call = { ...about, method: 'PATCH', query, body: patch, contentType: patchTypes[place.type] };
    return this.#objectOf(resource, call, signal);
  }

  /** Resolves to the object that was deleted, or to the Status that says so: some kinds answer with the one, some with the other. */
  async delete(
    resource: ResourceReference,
    place: ObjectPlace,
    options: unknown,
    signal: AbortSignal,
  ): Promise<JsonObject> {
    const about = callOf('delete', resource, place);
    const hasOptions = options !== undefined && { body: options, contentType: 'application/json' };
    return this.#answer({ ...about, method: 'DELETE', ...hasOptions }, signal);
  }

  /** For paths that are no resource (`/version`), and for other forms of those that are: a Table. */
  read(
    path: string,
    { accept, ...query }: Selection & { readonly accept?: string },
    signal: AbortSignal,
  ): Promise<JsonObject> {
    return this.#answer(
      { what: `get ${path}`, method: 'GET', path, query: { ...query }, ...(accept !== undefined && { accept }) },
      signal,
    );
  }

  /** Resolves when the server accepted the watch. Aborting the signal ends it, as does leaving the loop that reads it. */
  async watch(
    resource: ResourceReference,
    { namespace, ...query }: Place & WatchQuery,
    signal: AbortSignal,
  ): Promise<WatchStream> {
    const what = `watch ${resourceName(resource)}`;
    const call = {
      what,
      method: 'GET',
      path: collectionPath(resource, { namespace }),
      query: { ...query, watch: true },
    };
    const timeoutMs = query.timeoutSeconds === undefined ? Infinity : query.timeoutSeconds * 1000;
    let mayRefresh = true;
    for (let sent = 1; ; sent++) {
      await this.#bucket.take(signal);
      const credentials = await this.#deps.credentials.current(signal);
      try {
        return await this.#openWatch(
          { ...this.#request(call, credentials), isLongLived: true },
          what,
          timeoutMs,
          signal,
        );
      } catch (error) {
        if (error instanceof UnauthorizedError && mayRefresh && this.#deps.credentials.refused(credentials))
          mayRefresh = false;
        else if (!(error instanceof ConnectionLostError) || sent > resendsMax) throw error;
      }
    }
  }

  /** Ends every request, watch and connection. */
  async close(): Promise<void> {
    await Promise.all([this.#deps.transport.close(), this.#guard.close()]);
  }

  #openWatch(request: HttpRequest, what: string, timeoutMs: number, signal: AbortSignal): Promise<WatchStream> {
    return new Promise((resolve, reject) => {
      const cancel = new AbortController();
      const stopListening = onAbort(signal, () => cancel.abort(signal.reason));
      const finished = (): void => {
        stopListening();
        this.#guard.remove(stream);
      };
      const stream = new WatchStream(what, this.#settings.watch, () => cancel.abort('unread'));
      let refusal: { readonly head: HttpHead; readonly body: Buffer[] } | undefined;
      // The time of the whole watch begins here: some proxies hold the head of the answer back until the first event.
      this.#guard.add(stream, what, timeoutMs);
      const sink: HttpSink = {
        head: (head) => {
          if (head.status === 200) resolve(stream);
          else refusal = { head, body: [] };
        },
        data: (chunk) => {
          if (refusal === undefined) stream.receive(chunk);
          else if (refusal.body.length < errorChunksMax) refusal.body.push(chunk);
        },
        end: () => {
          finished();
          if (refusal === undefined) stream.complete();
          else reject(readError(refusal.head, Buffer.concat(refusal.body), what));
        },
        failed: (error) => {
          finished();
          stream.fail(error);
          reject(error);
        },
      };
      this.#deps.transport.send(request, sink, cancel.signal).catch((error: unknown) => {
        finished();
        reject(error);
      });
    });
  }

  async #objectOf<T extends ApiObject>(resource: ResourceReference<T>, call: Call, signal: AbortSignal): Promise<T> {
    return readObject(resource, await this.#answer(call, signal), call.what);
  }

  async #answer(call: Call, signal: AbortSignal): Promise<JsonObject> {
    const { credentials, clock } = this.#deps;
    const { retriesMax, retryAfterMsMax } = this.#settings;
    const isRepeatable = call.method === 'GET' || call.method === 'PUT' || call.method === 'DELETE';
    let mayRefresh = true;
    let resends = 0;
    let retries = 0;
    for (;;) {
      await this.#bucket.take(signal);
      const used = await credentials.current(signal);
      try {
        return await this.#attempt(call, this.#request(call, used), signal);
      } catch (error) {
        if (error instanceof UnauthorizedError) {
          if (!mayRefresh || !credentials.refused(used)) throw error;
          mayRefresh = false;
        } else if (error instanceof TooManyRequestsError || error instanceof ServiceUnavailableError) {
          const { retryAfterMs } = error;
          const isWorthIt = retryAfterMs !== undefined && retryAfterMs <= retryAfterMsMax && retries < retriesMax;
          if (!isRepeatable || !isWorthIt) throw error;
          retries += 1;
          await clock.sleep(retryAfterMs, signal);
        } else {
          const isHarmless = isUnprocessed(error) || (isRepeatable && error instanceof ConnectionLostError);
          if (!isHarmless || resends >= resendsMax) throw error;
          resends += 1;
        }
      }
    }
  }

  #attempt(call: Call, request: HttpRequest, signal: AbortSignal): Promise<JsonObject> {
    const { requestTimeoutMs, answerBytesMax } = this.#settings;
    const late = (): Error => new RequestTimedOutError(call.what, requestTimeoutMs);
    return withDeadline(this.#deps.clock, requestTimeoutMs, late, signal, async (limited) => {
      const { head, body } = await receive(this.#deps.transport, request, call.what, answerBytesMax, limited);
      if (head.status >= 200 && head.status < 300) return parseAnswer(body, call.what);
      throw readError(head, body, call.what);
    });
  }

  #request(call: Call, { headers, identity }: Awaited<ReturnType<Credentials['current']>>): HttpRequest {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined && value !== '' && !(name === 'limit' && value === 0)) query.set(name, String(value));
    }
    const text = query.toString();
    return {
      method: call.method,
      path: text === '' ? call.path : `${call.path}?${text}`,
      headers: {
        accept: call.accept ?? jsonType,
        'user-agent': this.#settings.userAgent,
        ...(call.contentType !== undefined && { 'content-type': call.contentType }),
        ...headers,
      },
      ...(call.body !== undefined && { body: Buffer.from(JSON.stringify(call.body)) }),
      isLongLived: false,
      identity,
    };
  }
}

// Of a refusal to watch; a Status is a few hundred bytes.
const errorChunksMax = 64;

function receive(
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
        else reject(new AnswerUnreadableError(what, `it is larger than ${bytesMax} bytes`));
      },
      end: () => resolve({ head, body: Buffer.concat(chunks) }),
      failed: reject,
    };
    transport.send(request, sink, signal).catch(reject);
  });
}

function isUnprocessed(error: unknown): boolean {
  return error instanceof ConnectionLostError && error.isUnprocessed;
}

function getCall(resource: ResourceReference, place: ObjectPlace & GetOptions): Call {
  return { ...callOf('get', resource, place), method: 'GET', query: { resourceVersion: place.resourceVersion } };
}

function callOf(verb: string, resource: ResourceReference, place: ObjectPlace): Pick<Call, 'what' | 'path'> {
  return { what: `${verb} ${resourceName(resource)} "${place.name}"`, path: objectPath(resource, place) };
}

function writeQuery({ fieldManager, dryRun }: WriteOptions): Query {
  return { fieldManager, dryRun };
}
