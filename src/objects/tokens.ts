/**
 * Tokens of service accounts for pods: requested, kept, and requested again in time. A token is refreshed when it is read after
 * its time has come; due() reports when that is, so that there is nothing to poll. While the API server is away, the last token
 * serves for as long as it is valid. No token is ever in a message.
 */
import { onAbort } from '../base/abort.ts';
import type { Clock } from '../base/clock.ts';
import { CoalescingTopic } from '../base/coalescing-queue.ts';
import { messageOf, OperatingError } from '../base/errors.ts';
import { Semaphore } from '../base/semaphore.ts';
import type { ApiClient } from '../client/api/api-client.ts';
import { NotFoundError } from '../client/api/api-errors.ts';
import { serviceAccounts, withShape } from '../client/api/resource-reference.ts';
import { type TokenRequest, tokenRequestShape } from '../kube/kinds/service-account.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { type NotifyObjects } from './object-manager.ts';

/** What a token is requested with. */
export interface ServiceAccountTokenRequest {
  readonly namespace: string;
  readonly serviceAccountName: string;
  /** Empty: the API server's own audience. */
  readonly audiences: readonly string[];
  /** Left out: the API server decides. */
  readonly expirationSeconds?: number | undefined;
  /** The token dies with this pod. */
  readonly pod: { readonly name: string; readonly uid: string };
  /** The service account must still be this one: of another with the same name, no token is given. */
  readonly serviceAccountUid?: string | undefined;
}

/**
 * Names a token in the cache and in messages: everything about it but the token. The form is that of the kubelet's key, which
 * users see when a token has expired.
 */
export function tokenRequestKey({
  namespace,
  serviceAccountName,
  audiences,
  expirationSeconds = 0,
  pod,
  serviceAccountUid = '',
}: ServiceAccountTokenRequest): string {
  const list = audiences.length === 0 ? '(nil)' : `{${audiences.map(goQuote).join(', ')}}`;
  const bound = `v1.BoundObjectReference{Kind:"Pod", APIVersion:"v1", Name:${goQuote(pod.name)}, UID:${goQuote(pod.uid)}}`;
  return [
    goQuote(serviceAccountName),
    goQuote(namespace),
    `[]string${list}`,
    String(expirationSeconds),
    bound,
    goQuote(serviceAccountUid),
  ].join('/');
}

export interface TokenRequester {
  /**
   * Answers with the request, its spec as the server understood it and its status. Rejects with the reason
   * TokenRequestsUnsupported when the server has no such endpoint at all.
   */
  requestToken(
    account: { readonly namespace: string; readonly name: string },
    request: TokenRequest,
    signal: AbortSignal,
  ): Promise<TokenRequest>;
}

interface TokenManagerDeps {
  /** Undefined: there is no API server. */
  readonly requester: TokenRequester | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly notify: NotifyObjects;
}

const secondMs = 1_000;
const purgeMs = 60_000;
/** However long a token lives, it is not used for longer. */
const ageMsMax = 24 * 60 * 60 * secondMs;
const refreshJitterSeconds = 10;
/** A refresh that was due and did not happen is reported again after as long as the kubelet takes to check again. */
const reportAgainMs = 60_000;
/** After an outage the tokens of all pods may be due at once. */
const requestsMax = 16;

interface Token {
  readonly text: string;
  readonly expiresMs: number;
  /** Undefined: never. */
  readonly dueMs: number | undefined;
}

interface Entry {
  readonly podUid: string;
  /** Two reads of one token make one request. */
  readonly turn: Semaphore;
  readers: number;
  token: Token | undefined;
  /** When to report that the token is due; undefined: not at all. */
  reportAtMs: number | undefined;
}

export class TokenManager {
  readonly #deps: TokenManagerDeps;
  readonly #entries = new Map<string, Entry>();
  readonly #requests = new Semaphore(requestsMax);
  readonly #due = new CoalescingTopic<string>();
  /** Ends the sleep of run(). */
  #timer = new AbortController();

  constructor(deps: TokenManagerDeps) {
    this.#deps = deps;
  }

  async get(request: ServiceAccountTokenRequest, signal: AbortSignal): Promise<string> {
    return (await this.issue(request, signal)).text;
  }

  /** The same with the time at which it expires. */
  async issue(request: ServiceAccountTokenRequest, signal: AbortSignal): Promise<Token> {
    const key = tokenRequestKey(request);
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      entry = { podUid: request.pod.uid, turn: new Semaphore(1), readers: 0, token: undefined, reportAtMs: undefined };
      this.#entries.set(key, entry);
    }
    entry.readers += 1;
    try {
      return await this.#read(key, entry, request, signal);
    } finally {
      entry.readers -= 1;
      const isUseless = entry.readers === 0 && entry.token === undefined && entry.reportAtMs === undefined;
      if (isUseless && this.#entries.get(key) === entry) this.#entries.delete(key);
    }
  }

  /** Drops every token that is bound to a pod; one that is being requested is returned but not kept. */
  forgetPod(podUid: string): void {
    for (const [key, entry] of this.#entries) if (entry.podUid === podUid) this.#entries.delete(key);
  }

  /** When the first of a pod's tokens is to be read again, in milliseconds since the epoch. */
  nextRefresh(podUid: string): number | undefined {
    const due = [...this.#entries.values()]
      .filter((entry) => entry.podUid === podUid)
      .flatMap(({ token }) => token?.dueMs ?? []);
    return due.length === 0 ? undefined : Math.min(...due);
  }

  /** The uids of pods with a token that is due, each again after a while until it was refreshed or the pod forgotten. Needs run(). */
  due(signal: AbortSignal): AsyncIterable<string> {
    return this.#due.follow(signal);
  }

  /** Reports what is due and drops what has expired, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    let purgeAtMs = clock.now();
    while (!signal.aborted) {
      const now = clock.now();
      if (now >= purgeAtMs) {
        this.#purge();
        purgeAtMs = now + purgeMs;
      }
      await this.#sleepUntil(Math.min(purgeAtMs, this.#reportDue()), signal);
    }
  }

  async #read(key: string, entry: Entry, request: ServiceAccountTokenRequest, signal: AbortSignal): Promise<Token> {
    const release = await entry.turn.acquire(signal);
    try {
      const { token } = entry;
      return token === undefined || this.#isDue(token) ? await this.#refresh(key, entry, request, signal) : token;
    } finally {
      release();
    }
  }

  async #refresh(key: string, entry: Entry, request: ServiceAccountTokenRequest, signal: AbortSignal): Promise<Token> {
    const { token } = entry;
    try {
      entry.token = await this.#request(key, request, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      if (token === undefined)
        throw new OperatingError('TokenFetchFailed', `failed to fetch token: ${messageOf(error)}`, { cause: error });
      if (this.#isExpired(token)) {
        const text = `token ${key} expired and refresh failed: ${messageOf(error)}`;
        throw new OperatingError('TokenExpired', text, { cause: error });
      }
      this.#deps.notify({ kind: 'TokenRefreshFailed', key, error });
      return token;
    }
    entry.reportAtMs = this.#reportAtMs(entry.token);
    this.#timer.abort(); // the next one may be due sooner
    return entry.token;
  }

  async #request(key: string, request: ServiceAccountTokenRequest, signal: AbortSignal): Promise<Token> {
    const { requester } = this.#deps;
    if (requester === undefined)
      throw new OperatingError('Standalone', 'cannot use TokenManager when kubelet is in standalone mode');
    const { namespace, serviceAccountName: name } = request;
    const release = await this.#requests.acquire(signal);
    try {
      return this.#tokenOf(key, await requester.requestToken({ namespace, name }, bodyOf(request), signal));
    } finally {
      release();
    }
  }

  #tokenOf(key: string, { spec, status }: TokenRequest): Token {
    if (status === undefined || status.token === '') throw answerWithout('token');
    const expiresMs = Date.parse(status.expirationTimestamp ?? '');
    if (Number.isNaN(expiresMs)) throw answerWithout('time of expiry');
    const { expirationSeconds } = spec;
    if (expirationSeconds === undefined) this.#deps.notify({ kind: 'TokenWithoutLifetime', key });
    const dueMs = expirationSeconds === undefined ? undefined : this.#dueMs(expiresMs, expirationSeconds);
    return { text: status.token, expiresMs, dueMs };
  }

  /** Jitter is drawn once per token, not at every check as in the kubelet, so that the time is known in advance. */
  #dueMs(expiresMs: number, lifeSeconds: number): number {
    const jitterMs = Math.floor(this.#deps.random() * refreshJitterSeconds) * secondMs;
    const issuedMs = expiresMs - lifeSeconds * secondMs;
    const lastFifthMs = Math.trunc((lifeSeconds * 20) / 100) * secondMs;
    return Math.min(issuedMs + ageMsMax, expiresMs - lastFifthMs) - jitterMs;
  }

  /**
   * A token that is due when it arrives, because the clocks of node and server are far apart or its life is too short, would
   * be requested without end if that were reported at once.
   */
  #reportAtMs({ dueMs }: Token): number | undefined {
    return dueMs === undefined || dueMs > this.#deps.clock.now() ? dueMs : this.#nextReportAtMs();
  }

  #nextReportAtMs(): number {
    return this.#deps.clock.now() + reportAgainMs * (1 + this.#deps.random() / 2);
  }

  #isDue({ dueMs }: Token): boolean {
    return dueMs !== undefined && this.#deps.clock.now() > dueMs;
  }

  #isExpired({ expiresMs }: Token): boolean {
    return this.#deps.clock.now() > expiresMs;
  }

  /** Drops expired tokens. That a pod waits for another one is remembered until the pod is forgotten. */
  #purge(): void {
    for (const [key, entry] of this.#entries) {
      if (entry.token === undefined || !this.#isExpired(entry.token)) continue;
      entry.token = undefined;
      if (entry.reportAtMs === undefined && entry.readers === 0) this.#entries.delete(key);
    }
  }

  /** Returns when the next token is due. */
  #reportDue(): number {
    const now = this.#deps.clock.now();
    let nextMs = Infinity;
    for (const entry of this.#entries.values()) {
      if (entry.reportAtMs === undefined) continue;
      if (now > entry.reportAtMs) {
        this.#due.publish(entry.podUid);
        entry.reportAtMs = this.#nextReportAtMs();
      }
      nextMs = Math.min(nextMs, entry.reportAtMs + 1);
    }
    return nextMs;
  }

  async #sleepUntil(atMs: number, signal: AbortSignal): Promise<void> {
    const timer = new AbortController();
    this.#timer = timer;
    const stopListening = onAbort(signal, () => timer.abort());
    await this.#deps.clock.sleep(Math.max(0, atMs - this.#deps.clock.now()), timer.signal).catch(() => {});
    stopListening();
  }
}

function bodyOf(request: ServiceAccountTokenRequest): TokenRequest {
  const { namespace, serviceAccountName, serviceAccountUid: uid, audiences, expirationSeconds, pod } = request;
  return {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    metadata: { name: serviceAccountName, namespace, ...(uid !== undefined && { uid }) },
    spec: {
      audiences,
      ...(expirationSeconds !== undefined && { expirationSeconds }),
      boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name: pod.name, uid: pod.uid },
    },
  };
}

const tokens = withShape(serviceAccounts, tokenRequestShape);

/** Requests tokens at an API server. */
export class ApiTokenRequester implements TokenRequester {
  readonly #client: Pick<ApiClient, 'create' | 'read'>;
  #isSupported = false;

  constructor(client: Pick<ApiClient, 'create' | 'read'>) {
    this.#client = client;
  }

  async requestToken(
    { namespace, name }: { readonly namespace: string; readonly name: string },
    request: TokenRequest,
    signal: AbortSignal,
  ): Promise<TokenRequest> {
    try {
      return await this.#client.create(tokens, { namespace, name, subresource: 'token' }, request, signal);
    } catch (error) {
      if (!(error instanceof NotFoundError) || (await this.#supportsTokens(signal))) throw error;
      const text = 'the API server does not have TokenRequest endpoints enabled';
      throw new OperatingError('TokenRequestsUnsupported', text, { cause: error });
    }
  }

  /** Asked only when a token was not found, to tell a missing account from a missing endpoint; a yes is remembered. */
  async #supportsTokens(signal: AbortSignal): Promise<boolean> {
    if (this.#isSupported) return true;
    try {
      const { resources } = await this.#client.read('/api/v1', {}, signal);
      this.#isSupported = Array.isArray(resources) && resources.some(isTokenResource);
    } catch {
      signal.throwIfAborted();
    }
    return this.#isSupported;
  }
}

function isTokenResource(resource: unknown): boolean {
  return (
    typeof resource === 'object' && resource !== null && 'name' in resource && resource.name === 'serviceaccounts/token'
  );
}

function answerWithout(part: string): OperatingError {
  return new OperatingError('TokenAnswerWrong', `the API server's answer to a TokenRequest has no ${part}`);
}
