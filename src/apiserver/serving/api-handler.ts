/**
 * The path of every request: authentication, authorization, the handler, the answer. Every failure becomes an answer; nothing
 * that a client sends can end the process.
 */
import type { Clock } from '../../base/clock.ts';
import type { Authenticator } from '../identity/authentication.ts';
import type { Authorizer } from '../identity/authorization.ts';
import { type User, anonymousUser } from '../identity/user.ts';
import type { Notify, RequestNotice } from '../model/notices.ts';
import type { Random } from '../model/random.ts';
import type { ResourceTable } from '../model/resource.ts';
import { StatusError, internalError, tooManyRequests, unavailable } from '../model/status.ts';
import type { Exchange, RawReply, Representation } from '../rest/api-request.ts';
import { encodeReply, encodeText, plainJson, representationOf } from '../rest/representation.ts';
import {
  type RequestInfo,
  type RequestTarget,
  type ResourceRequest,
  parseTarget,
  requestInfo,
} from '../rest/request-info.ts';
import { type Router, isLongRunning } from '../rest/router.ts';
import { DiskFullError, StoreBusyError, StoreClosedError, StoreError, StoreFullError } from '../store/store-errors.ts';
import { ConnectionLost } from './http-exchange.ts';
import type { ApiMetrics } from './metrics.ts';
import { OpenRequest, type OpenRequests } from './open-requests.ts';
import { type PathDeps, handlePath, pageNotFound } from './path-handler.ts';
import { authenticateRequest, authorizeRequest } from './request-access.ts';
import { Warnings, sendReply } from './send-reply.ts';

interface ApiHandlerDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly notify: Notify;
  readonly authenticator: Authenticator;
  readonly authorizer: Authorizer;
  readonly resources: ResourceTable;
  readonly router: Router;
  readonly paths: PathDeps;
  readonly metrics: ApiMetrics;
  readonly open: OpenRequests;
  /** The server is about to end: answers close their connections, long ones end. */
  readonly stopping: AbortSignal;
}

/** Ready to be sent, or sent already. */
type Answer = RawReply | { readonly kind: 'streamed' };

interface Served {
  readonly info: RequestInfo | undefined;
  readonly user: string;
  readonly code: number;
}

export class ApiHandler {
  readonly #deps: ApiHandlerDeps;

  constructor(deps: ApiHandlerDeps) {
    this.#deps = deps;
  }

  /** Resolves when the answer is complete. Never rejects. */
  async handle(exchange: Exchange, trust: () => boolean): Promise<void> {
    const { clock, random } = this.#deps;
    const auditId = random.uuid();
    const startedAt = clock.now();
    try {
      const served = await this.#serve(exchange, trust, auditId);
      this.#report(exchange, auditId, served, clock.now() - startedAt);
    } catch (error) {
      // A failure of the answer itself. It concerns this request alone.
      this.#deps.notify({ kind: 'RequestFailed', auditId, error });
      exchange.fail();
    }
  }

  async #serve(exchange: Exchange, trust: () => boolean, auditId: string): Promise<Served> {
    const warnings = new Warnings();
    const target = parseTarget(exchange.target);
    let info: RequestInfo | undefined;
    let user = '';
    let reply: Answer = pageNotFound;
    let representation = plainJson;
    try {
      if (target !== undefined) {
        info = requestInfo(exchange.method, target);
        const { authenticated, user: known } = authenticateRequest(this.#deps, exchange);
        user = authenticated.name;
        if (user !== anonymousUser.name && !trust())
          throw tooManyRequests('Too many connections, please try again later.', 1);
        // Discovery and streams of bytes negotiate for themselves.
        const isNegotiated = info.kind === 'resource' && (info.verb === 'watch' || !isLongRunning(info));
        if (isNegotiated) representation = representationOf({ exchange, query: target.query }, this.#hasTable(info));
        reply = await this.#answer(exchange, target, info, known, representation, warnings);
      }
    } catch (error) {
      if (error instanceof ConnectionLost) return { info, user, code: 499 };
      reply = this.#refusal(error, auditId, representation);
    }
    if (reply.kind === 'streamed') return { info, user, code: 200 };
    const headers = {
      'audit-id': auditId,
      'cache-control': 'no-cache, private',
      ...warnings.headers(),
      ...(this.#deps.stopping.aborted && { connection: 'close' }),
      ...reply.headers,
    };
    await sendReply(exchange, reply.code, headers, reply.body);
    return { info, user, code: reply.code };
  }

  /** What is only sent and answered, a review or a token, is in no table. */
  #hasTable(info: RequestInfo): boolean {
    if (info.kind === 'path') return true;
    const served = this.#deps.resources.byPlural(info, info.resource);
    if (served === undefined) return true;
    const part = served.subresources.find(({ name }) => name === info.subresource);
    return part === undefined ? served.isStored || served.verbs.includes('list') : part.kind === undefined;
  }

  async #answer(
    exchange: Exchange,
    target: RequestTarget,
    info: RequestInfo,
    user: User,
    representation: Representation,
    warnings: Warnings,
  ): Promise<Answer> {
    const { router, stopping, clock, open } = this.#deps;
    const { query } = target;
    authorizeRequest(this.#deps, user, info, query);
    if (info.kind === 'path') return handlePath(this.#deps.paths, { exchange, info, query });
    if (!this.#deps.resources.hasPath(info)) return pageNotFound;
    const served = router.find(info);
    const resource = served.viewOf?.resource ?? served;
    const place = resource.namespaced ? info : { ...info, namespace: '' };
    const parts = { exchange, info: place, resource, served, query, user, representation };
    const request = new OpenRequest(parts, isLongRunning(info), warnings, stopping);
    open.enter(request);
    try {
      const reply = await router.handle(request);
      if (reply.kind !== 'object' && reply.kind !== 'list' && reply.kind !== 'status') return reply;
      const code = reply.kind === 'list' ? 200 : reply.code;
      const { contentType, body } = encodeReply(reply, { representation, resource: served, query, now: clock.now() });
      return { kind: 'raw', code, headers: { 'content-type': contentType }, body };
    } finally {
      open.leave(request);
    }
  }

  #refusal(error: unknown, auditId: string, representation: Representation): RawReply {
    const refused = error instanceof StatusError ? error : statusOfFailure(error);
    if (!(error instanceof StatusError) && refused.code >= 500) {
      this.#deps.notify({ kind: 'RequestFailed', auditId, error });
    }
    const { contentType, body } = encodeText(JSON.stringify(refused.status), representation);
    const headers = { 'content-type': contentType, ...refused.headers, ...(refused.code === 403 && nosniff) };
    return { kind: 'raw', code: refused.code, headers, body };
  }

  #report(exchange: Exchange, auditId: string, { info, user, code }: Served, tookMs: number): void {
    const isResource = info?.kind === 'resource';
    const notice: RequestNotice = {
      kind: 'RequestServed',
      auditId,
      method: exchange.method,
      path: info?.path ?? '',
      verb: info?.verb ?? '',
      group: isResource ? info.group : '',
      version: isResource ? info.version : '',
      resource: isResource ? info.resource : '',
      subresource: isResource ? info.subresource : '',
      scope: isResource ? scopeOf(info) : '',
      user,
      userAgent: exchange.header('user-agent') ?? '',
      remoteAddress: exchange.remoteAddress,
      code,
      tookMs,
    };
    const isKnown = isResource && this.#deps.resources.byPlural(info, info.resource) !== undefined;
    // Names that a client made up must not become labels.
    if (isKnown) this.#deps.metrics.served(notice, isLongRunning(info));
    this.#deps.notify(notice);
  }
}

const nosniff = { 'x-content-type-options': 'nosniff' };

function scopeOf({ name, namespace }: ResourceRequest): RequestNotice['scope'] {
  if (name !== '') return 'resource';
  return namespace === '' ? 'cluster' : 'namespace';
}

/** The answer to a failure that is not the client's: the store is busy, full or closed, or there is a bug. */
function statusOfFailure(error: unknown): StatusError {
  if (error instanceof StoreBusyError) return tooManyRequests('Too many requests, please try again later.', 1);
  if (error instanceof StoreClosedError) return unavailable();
  if (error instanceof DiskFullError || error instanceof StoreFullError) {
    return new StatusError(507, 'InsufficientStorage', error.message);
  }
  if (error instanceof StoreError) return internalError(error.message); // names keys, never values
  // The message of an unexpected error may quote what it was working on, and that may be a Secret.
  return internalError(error instanceof Error ? `unexpected ${error.name}` : 'unexpected failure');
}
