/**
 * Tokens of service accounts for pods: asked for, kept, and asked for again in time. A token is refreshed when somebody reads
 * it after its time has come; due() tells when that is, so that nobody has to poll. While the API server is away, the last
 * token serves for as long as it is valid.
 */
import { onAbort } from '../base/abort.ts';
import type { Clock } from '../base/clock.ts';
import { CoalescingTopic } from '../base/coalescing-queue.ts';
import { Semaphore } from '../base/semaphore.ts';
import type { TokenRequest } from '../kube/kinds/service-account.ts';
import type { NotifyObjects } from './object-notices.ts';
import { StandaloneTokenError, TokenAnswerError, TokenExpiredError, TokenFetchError } from './token-errors.ts';
import { type ServiceAccountTokenRequest, tokenRequestKey } from './token-request-key.ts';

export interface TokenRequester {
  /**
   * Answers with the request, its spec as the server understood it and its status. Rejects with TokenRequestsUnsupportedError
   * when the server has no such endpoint at all.
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
/** A refresh that was due and did not happen is told again after as long as the kubelet would take to look again. */
const tellAgainMs = 60_000;
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
  /** When to say that the token is due; undefined: not at all. */
  tellAtMs: number | undefined;
}

export class TokenManager {
  readonly #deps: TokenManagerDeps;
  readonly #entries = new Map<string, Entry>();
  readonly #requests = new Semaphore(requestsMax);
  readonly #due = new CoalescingTopic<string>();
  #nap = new AbortController();

  constructor(deps: TokenManagerDeps) {
    this.#deps = deps;
  }

  async get(request: ServiceAccountTokenRequest, signal: AbortSignal): Promise<string> {
    const key = tokenRequestKey(request);
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      entry = { podUid: request.pod.uid, turn: new Semaphore(1), readers: 0, token: undefined, tellAtMs: undefined };
      this.#entries.set(key, entry);
    }
    entry.readers += 1;
    try {
      return await this.#read(key, entry, request, signal);
    } finally {
      entry.readers -= 1;
      const isUseless = entry.readers === 0 && entry.token === undefined && entry.tellAtMs === undefined;
      if (isUseless && this.#entries.get(key) === entry) this.#entries.delete(key);
    }
  }

  /** Drops every token that is bound to a pod; one that is being asked for is given out but not kept. */
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

  /** Tells what is due and drops what has expired, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    let purgeAtMs = clock.now();
    while (!signal.aborted) {
      const now = clock.now();
      if (now >= purgeAtMs) {
        this.#purge();
        purgeAtMs = now + purgeMs;
      }
      const tellAtMs = this.#tellDue();
      await this.#sleepUntil(Math.min(purgeAtMs, tellAtMs), signal);
    }
  }

  async #read(key: string, entry: Entry, request: ServiceAccountTokenRequest, signal: AbortSignal): Promise<string> {
    const release = await entry.turn.acquire(signal);
    try {
      const { token } = entry;
      return token === undefined || this.#isDue(token) ? await this.#refresh(key, entry, request, signal) : token.text;
    } finally {
      release();
    }
  }

  async #refresh(key: string, entry: Entry, request: ServiceAccountTokenRequest, signal: AbortSignal): Promise<string> {
    const { token } = entry;
    try {
      entry.token = await this.#request(key, request, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      if (token === undefined) throw new TokenFetchError(error);
      if (this.#isExpired(token)) throw new TokenExpiredError(key, error);
      this.#deps.notify({ kind: 'TokenRefreshFailed', key, error });
      return token.text;
    }
    entry.tellAtMs = this.#tellAtMs(entry.token);
    this.#nap.abort();
    return entry.token.text;
  }

  async #request(key: string, request: ServiceAccountTokenRequest, signal: AbortSignal): Promise<Token> {
    const { requester } = this.#deps;
    if (requester === undefined) throw new StandaloneTokenError();
    const { namespace, serviceAccountName: name } = request;
    const release = await this.#requests.acquire(signal);
    try {
      return this.#tokenOf(key, await requester.requestToken({ namespace, name }, bodyOf(request), signal));
    } finally {
      release();
    }
  }

  #tokenOf(key: string, { spec, status }: TokenRequest): Token {
    if (status === undefined || status.token === '') throw new TokenAnswerError('token');
    const expiresMs = Date.parse(status.expirationTimestamp ?? '');
    if (Number.isNaN(expiresMs)) throw new TokenAnswerError('time of expiry');
    const { expirationSeconds } = spec;
    if (expirationSeconds === undefined) this.#deps.notify({ kind: 'TokenWithoutLifetime', key });
    const dueMs = expirationSeconds === undefined ? undefined : this.#dueMs(expiresMs, expirationSeconds);
    return { text: status.token, expiresMs, dueMs };
  }

  /** With one throw of the dice for each token, where the kubelet throws at every look: ours can be told in advance. */
  #dueMs(expiresMs: number, lifeSeconds: number): number {
    const jitterMs = Math.floor(this.#deps.random() * refreshJitterSeconds) * secondMs;
    const issuedMs = expiresMs - lifeSeconds * secondMs;
    const lastFifthMs = Math.trunc((lifeSeconds * 20) / 100) * secondMs;
    return Math.min(issuedMs + ageMsMax, expiresMs - lastFifthMs) - jitterMs;
  }

  /**
   * A token that is due when it comes, because the clocks of node and server are far apart or its life is too short, would be
   * asked for without end if that were told at once.
   */
  #tellAtMs({ dueMs }: Token): number | undefined {
    return dueMs === undefined || dueMs > this.#deps.clock.now() ? dueMs : this.#nextTellAtMs();
  }

  #nextTellAtMs(): number {
    return this.#deps.clock.now() + tellAgainMs * (1 + this.#deps.random() / 2);
  }

  #isDue({ dueMs }: Token): boolean {
    return dueMs !== undefined && this.#deps.clock.now() > dueMs;
  }

  #isExpired({ expiresMs }: Token): boolean {
    return this.#deps.clock.now() > expiresMs;
  }

  /** The token goes; that its pod waits for another is remembered until the pod is forgotten. */
  #purge(): void {
    for (const [key, entry] of this.#entries) {
      if (entry.token === undefined || !this.#isExpired(entry.token)) continue;
      entry.token = undefined;
      if (entry.tellAtMs === undefined && entry.readers === 0) this.#entries.delete(key);
    }
  }

  /** Answers when the next token is due. */
  #tellDue(): number {
    const now = this.#deps.clock.now();
    let nextMs = Infinity;
    for (const entry of this.#entries.values()) {
      if (entry.tellAtMs === undefined) continue;
      if (now > entry.tellAtMs) {
        this.#due.publish(entry.podUid);
        entry.tellAtMs = this.#nextTellAtMs();
      }
      nextMs = Math.min(nextMs, entry.tellAtMs + 1);
    }
    return nextMs;
  }

  async #sleepUntil(atMs: number, signal: AbortSignal): Promise<void> {
    const nap = new AbortController();
    this.#nap = nap;
    const stopListening = onAbort(signal, () => nap.abort());
    await this.#deps.clock.sleep(Math.max(0, atMs - this.#deps.clock.now()), nap.signal).catch(() => {});
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
