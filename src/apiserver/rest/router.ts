/** Finds the handler for a request: by verb, by what the resource's entry in the table says it can do, and by subresource. */
import type { Resource, ResourceTable, Subresource } from '../model/resource.ts';
import { methodNotAllowed, unknownResource } from '../model/status.ts';
import type { Store } from '../store/store.ts';
import type { ApiRequest, Handler, Reply } from './api-request.ts';
import { createHandler } from './create.ts';
import { deleteCollectionHandler, deleteHandler } from './delete.ts';
import { getHandler, listHandler } from './list.ts';
import { patchHandler } from './patch.ts';
import { type ConnectDeps, bindingHandler, connect, evict } from './pod-subresources.ts';
import { type ProxyDeps, proxy } from './proxy.ts';
import type { ResourceRequest } from './request-info.ts';
import { type ReviewDeps, reviewHandler } from './reviews.ts';
import { type TokenDeps, requestToken } from './token-request.ts';
import { updateHandler } from './update.ts';
import { usageMetricsHandler } from './usage-metrics.ts';
import { type WatchDeps, watch } from './watch.ts';
import type { WriteDeps } from './write-context.ts';

interface RouterDeps extends ReviewDeps, TokenDeps, ConnectDeps, ProxyDeps, WatchDeps {
  readonly store: Store;
  readonly resources: ResourceTable;
  /** Answers requests that would hold the event loop for too long; undefined for the others. */
  readonly large: {
    handle(verb: string, request: ApiRequest): Promise<Reply | undefined>;
  };
}

/** Those that need nothing but a store, and so can run in another thread. */
export function objectHandlers(deps: WriteDeps): Readonly<Record<string, Handler>> {
  return {
    get: getHandler(deps),
    list: listHandler(deps),
    create: createHandler(deps),
    update: updateHandler(deps),
    patch: patchHandler(deps),
  };
}

const connecting = new Set(['log', 'exec', 'attach', 'portforward']);

/** Requests that last as long as both sides like, and count against no limit. */
export function isLongRunning({ verb, subresource }: Pick<ResourceRequest, 'verb' | 'subresource'>): boolean {
  return verb === 'watch' || connecting.has(subresource) || subresource === 'proxy';
}

export class Router {
  readonly #deps: RouterDeps;
  readonly #verbs: Readonly<Record<string, Handler>>;
  /** Verbs of requests that may be large. */
  readonly #large: ReadonlySet<string>;
  readonly #bind: Handler;
  readonly #review: Handler;
  readonly #usageMetrics: Handler;

  constructor(deps: RouterDeps) {
    this.#deps = deps;
    this.#review = reviewHandler(deps);
    this.#usageMetrics = usageMetricsHandler(deps);
    const pods = deps.resources.byPlural({ group: '', version: 'v1' }, 'pods');
    this.#bind = pods === undefined ? () => Promise.reject(unknownResource()) : bindingHandler(deps, pods);
    const handlers = objectHandlers(deps);
    this.#large = new Set(Object.keys(handlers));
    this.#verbs = {
      ...handlers,
      watch: (request) => watch(deps, request),
      delete: deleteHandler(deps),
      deletecollection: deleteCollectionHandler(deps),
    };
  }

  /** The resource as it is served, for a path that can exist. Throws what a client gets for one that cannot. */
  find(info: ResourceRequest): Resource {
    const served = this.#deps.resources.byPlural(info, info.resource);
    if (served === undefined) throw unknownResource();
    const isNamespaceItself = info.resource === 'namespaces' && info.group === '';
    if (!served.namespaced && info.namespace !== '' && !isNamespaceItself) throw unknownResource();
    if (served.namespaced && info.namespace === '' && info.name !== '') throw unknownResource();
    const subresource = subresourceOf(served, info);
    if (info.subresource !== '' && subresource === undefined) throw unknownResource();
    // Only a proxy has a path behind its subresource.
    if (info.rest !== '' && info.subresource !== 'proxy') throw unknownResource();
    return subresource?.view ?? served;
  }

  handle(request: ApiRequest): Promise<Reply> | Reply {
    const { info, served, resource } = request;
    const subresource = subresourceOf(served, info);
    if (subresource !== undefined) return this.#handleSubresource(request, subresource);
    const { verb, name, namespace } = info;
    if (!(served.verbs as readonly string[]).includes(verb)) throw methodNotAllowed();
    const isCollection = name === '';
    const isForCollection = verb === 'create' || verb === 'list' || verb === 'deletecollection';
    if (verb !== 'watch' && isCollection !== isForCollection) throw methodNotAllowed();
    if (resource.namespaced && namespace === '' && (verb === 'create' || verb === 'deletecollection')) {
      throw methodNotAllowed();
    }
    return resource.isStored ? this.#run(verb, request) : this.#answering(resource)(request);
  }

  #answering({ group, kind }: Resource): Handler {
    if (group === 'metrics.k8s.io') return this.#usageMetrics;
    return kind === 'Binding' ? this.#bind : this.#review;
  }

  #handleSubresource(request: ApiRequest, subresource: Subresource): Promise<Reply> | Reply {
    const { verb } = request.info;
    // A verb of its own it has not: discovery would show it.
    const isPassedOn = subresource.name === 'proxy' && request.exchange.method === 'OPTIONS';
    if (!subresource.verbs.includes(verb) && !isPassedOn) throw methodNotAllowed();
    if (connecting.has(subresource.name)) return connect(this.#deps, request);
    switch (subresource.name) {
      case 'binding':
        return this.#bind(request);
      case 'eviction':
        return evict(this.#deps, request, subresource);
      case 'proxy':
        return proxy(this.#deps, request);
      case 'token':
        return requestToken(this.#deps, request, subresource);
      default:
        // A part of the object: shown as the object, changed by rules of its own.
        if (subresource.update === undefined) throw methodNotAllowed();
        return this.#run(verb, request);
    }
  }

  async #run(verb: string, request: ApiRequest): Promise<Reply> {
    const handler = Object.hasOwn(this.#verbs, verb) ? this.#verbs[verb] : undefined;
    if (handler === undefined) throw methodNotAllowed();
    const answer = this.#large.has(verb) ? await this.#deps.large.handle(verb, request) : undefined;
    const reply = answer ?? (await handler(request));
    warnOfNoEffect(verb, request);
    return reply;
  }
}

const writes = new Set(['create', 'update', 'patch']);

/** The object is as it was asked for, which must not look as if it did something. */
function warnOfNoEffect(verb: string, request: ApiRequest): void {
  const { kind, withoutEffect } = request.resource;
  if (withoutEffect === undefined || !writes.has(verb) || request.info.subresource !== '') return;
  request.warn(`mountlet stores this ${kind}, but nothing here acts on it: ${withoutEffect}`);
}

function subresourceOf(served: Resource, { subresource }: ResourceRequest): Subresource | undefined {
  return subresource === '' ? undefined : served.subresources.find(({ name }) => name === subresource);
}
