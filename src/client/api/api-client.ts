/**
 * Requests to any Kubernetes API server: get, list, create, update, patch, delete and watch. It keeps the rate, shows credentials,
 * asks again where asking again is harmless, and turns every refusal into its class of error. It remembers no object.
 */
import { withDeadline } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { type RateLimit, TokenBucket } from '../../base/token-bucket.ts';
import type { ClusterAccess } from '../credentials/cluster-access.ts';
import type { Credentials } from '../credentials/credentials.ts';
import { ConnectionPool, type PoolSettings } from '../transport/connection-pool.ts';
import { ClientError, ConnectionLostError, type HttpRequest, type Transport } from '../transport/transport.ts';
import { type ListPage, parseAnswer, readError, readList, readObject, receiveAnswer } from './api-answer.ts';
import {
  type Call,
  type GetOptions,
  type ListQuery,
  type PatchOptions,
  type Selection,
  type WatchQuery,
  type WriteOptions,
  callOf,
  getCall,
  jsonType,
  metadataType,
  patchCall,
  requestOf,
  writeQuery,
} from './api-call.ts';
import { ServiceUnavailableError, TooManyRequestsError, UnauthorizedError } from './api-errors.ts';
import { type GuardSettings, WatchGuard, guardDefaults, openWatch } from './open-watch.ts';
import {
  type ApiObject,
  type ObjectPlace,
  type Place,
  type ResourceReference,
  collectionPath,
  objectPath,
  resourceName,
} from './resource-reference.ts';
import { type JsonObject, type WatchLimits, type WatchStream, watchLimits } from './watch-stream.ts';

export interface ApiClientSettings {
  readonly userAgent: string;
  readonly rate: RateLimit;
  /** Of watches, which are not counted above. */
  readonly watchRate: RateLimit;
  /** For one attempt at a short request. */
  readonly requestTimeoutMs: number;
  /** How often a request is repeated because the server asked for that. */
  readonly retriesMax: number;
  /** A server that asks for more patience than this gets none: the request fails. */
  readonly retryAfterMsMax: number;
  /** A longer answer is an attack or a mistake; text beyond half a gigabyte cannot be held at all. */
  readonly answerBytesMax: number;
  readonly watch: WatchLimits;
  readonly guard: GuardSettings;
}

/**
 * Rate and retries as the kubelet's general client has them. That one opens watches without any limit; here a node with thousands
 * of objects comes back after an outage within seconds, and still does not fall on the server all at once.
 */
export const apiClientDefaults: ApiClientSettings = {
  userAgent: 'mountlet',
  rate: { perSecond: 50, burst: 100 },
  watchRate: { perSecond: 1_000, burst: 1_000 },
  requestTimeoutMs: 60_000,
  retriesMax: 10,
  retryAfterMsMax: 60_000,
  answerBytesMax: 256 * 1024 * 1024,
  watch: watchLimits,
  guard: guardDefaults,
};

interface ApiClientDeps {
  readonly transport: Transport;
  readonly credentials: Credentials;
  readonly clock: Clock;
}

// A connection may be closed by the other side just when it is used; the next one then works.
const resendsMax = 2;

export class ApiClient {
  readonly #deps: ApiClientDeps;
  readonly #settings: ApiClientSettings;
  readonly #bucket: TokenBucket;
  readonly #watchBucket: TokenBucket;
  readonly #guard: WatchGuard;

  constructor(deps: ApiClientDeps, settings: ApiClientSettings) {
    this.#deps = deps;
    this.#settings = settings;
    this.#bucket = new TokenBucket(deps.clock, settings.rate);
    this.#watchBucket = new TokenBucket(deps.clock, settings.watchRate);
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
    resource: ResourceReference,
    place: ObjectPlace & GetOptions,
    signal: AbortSignal,
  ): Promise<ApiObject> {
    return this.#objectOf(withoutShape(resource), { ...getCall(resource, place), accept: metadataType }, signal);
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
      contentType: jsonType,
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
    const call = { ...about, method: 'PUT', query: writeQuery(place), body: object, contentType: jsonType };
    return this.#objectOf(resource, call, signal);
  }

  async patch<T extends ApiObject>(
    resource: ResourceReference<T>,
    place: ObjectPlace & PatchOptions,
    patch: unknown,
    signal: AbortSignal,
  ): Promise<T> {
    return this.#objectOf(resource, patchCall(resource, place, patch), signal);
  }

  /** As `patch`, for what was written anyway: only the metadata comes back. */
  async patchForMetadata(
    resource: ResourceReference,
    place: ObjectPlace & PatchOptions,
    patch: unknown,
    signal: AbortSignal,
  ): Promise<ApiObject> {
    return this.#objectOf(
      withoutShape(resource),
      { ...patchCall(resource, place, patch), accept: metadataType },
      signal,
    );
  }

  /** Resolves to the object that was deleted, or to the Status that says so: some kinds answer with the one, some with the other. */
  async delete(
    resource: ResourceReference,
    place: ObjectPlace,
    options: unknown,
    signal: AbortSignal,
  ): Promise<JsonObject> {
    const about = callOf('delete', resource, place);
    const hasOptions = options !== undefined && { body: options, contentType: jsonType };
    return this.#answer({ ...about, method: 'DELETE', ...hasOptions }, signal);
  }

  /** For paths that are not resources (`/version`), and for other forms of those that are: a Table. */
  read(
    path: string,
    { accept, ...query }: Selection & { readonly accept?: string; readonly includeObject?: 'Object' | undefined },
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
    const times = {
      timeoutMs: query.timeoutSeconds === undefined ? Infinity : query.timeoutSeconds * 1000,
      // Else the first event may be a long time off, and some proxies hold the head of the answer back until it comes.
      answerMsMax: query.sendInitialEvents === true ? this.#settings.requestTimeoutMs : Infinity,
    };
    const deps = { transport: this.#deps.transport, guard: this.#guard, limits: this.#settings.watch };
    let mayRefresh = true;
    for (let sent = 1; ; sent++) {
      await this.#watchBucket.take(signal);
      const credentials = await this.#deps.credentials.current(signal);
      try {
        const request = requestOf(call, credentials, this.#settings.userAgent, true);
        return await openWatch(deps, request, what, times, signal);
      } catch (error) {
        if (error instanceof UnauthorizedError && mayRefresh && this.#deps.credentials.refused(credentials))
          mayRefresh = false;
        else if (!(error instanceof ConnectionLostError) || sent > resendsMax) throw error;
      }
    }
  }

  /** Waits before a retry: for no longer than this, and not after a server that was away is back. */
  pause(ms: number, signal: AbortSignal): Promise<void> {
    return this.#deps.transport.pause(ms, signal);
  }

  /** Hears each time that a server which was away is back. */
  onReturn(listener: () => void): void {
    this.#deps.transport.onReturn(listener);
  }

  /** Ends every request, watch and connection. */
  async close(): Promise<void> {
    await Promise.all([this.#deps.transport.close(), this.#guard.close()]);
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
        return await this.#attempt(call, requestOf(call, used, this.#settings.userAgent, false), signal);
      } catch (error) {
        if (error instanceof UnauthorizedError) {
          if (!mayRefresh || !credentials.refused(used)) throw error;
          mayRefresh = false;
        } else if (error instanceof TooManyRequestsError || error instanceof ServiceUnavailableError) {
          const { retryAfterMs } = error;
          const isWorthIt = retryAfterMs !== undefined && retryAfterMs <= retryAfterMsMax && retries < retriesMax;
          // A request too many was not looked at; one that met an unavailable server may have been carried out.
          if (!(isRepeatable || error instanceof TooManyRequestsError) || !isWorthIt) throw error;
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
    const late = (): Error =>
      new ClientError(
        'RequestTimedOut',
        `The API server did not answer "${call.what}" within ${requestTimeoutMs / 1000} s`,
      );
    return withDeadline(this.#deps.clock, requestTimeoutMs, late, signal, async (limited) => {
      const { head, body } = await receiveAnswer(this.#deps.transport, request, call.what, answerBytesMax, limited);
      if (head.status >= 200 && head.status < 300) return parseAnswer(body, call.what);
      throw readError(head, body, call.what);
    });
  }
}

function withoutShape({ group, version, plural, kind, isNamespaced }: ResourceReference): ResourceReference {
  return { group, version, plural, kind, isNamespaced };
}

function isUnprocessed(error: unknown): boolean {
  return error instanceof ConnectionLostError && error.isUnprocessed;
}

/** An API client for what `clusterAccess` found. It connects at the first request; the caller closes it. */
export function connectApiClient(
  { endpoint, credentials, transport }: Pick<ClusterAccess, 'endpoint' | 'credentials' | 'transport'>,
  clock: Clock,
  settings: ApiClientSettings,
  pool: PoolSettings,
): ApiClient {
  const connected = transport?.() ?? new ConnectionPool(endpoint, clock, pool);
  return new ApiClient({ transport: connected, credentials, clock }, settings);
}
