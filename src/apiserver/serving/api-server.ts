/**
 * Puts the server together and lets it listen: store, identity, admission, routes, controllers. Settings in, one running
 * server out; all it needs is given to it.
 */
import { setMaxListeners } from 'node:events';
import type { AddressInfo } from 'node:net';
import { onAbort } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { OperatingError } from '../../base/errors.ts';
import { ServiceRange, defaultServiceRange } from '../../kube/values/service-range.ts';
import { followServiceClaims } from '../admission/service-claims.ts';
import { standardAdmission } from '../admission/standard-admission.ts';
import { buildDiscovery } from '../documents/discovery.ts';
import { OpenApiDocuments } from '../documents/openapi.ts';
import { Authenticator, type StaticToken } from '../identity/authentication.ts';
import { Authorizer, type AuthorizerSettings } from '../identity/authorization.ts';
import { followNodeGraph } from '../identity/node-graph.ts';
import { followRoles } from '../identity/role-index.ts';
import {
  TokenIssuer,
  type TokenIssuerSettings,
  jsonWebKeySet,
  jwksPath,
  openIdConfiguration,
} from '../identity/service-account-tokens.ts';
import type { Notify } from '../model/notices.ts';
import type { Random } from '../model/random.ts';
import { type Resource, ResourceTable } from '../model/resource.ts';
import { StoredObjects, objectPrefix } from '../model/stored-objects.ts';
import { emptyResources } from '../resources/without-rules.ts';
import type { Exchange } from '../rest/api-request.ts';
import type { NodeConnector } from '../rest/pod-subresources.ts';
import { Router } from '../rest/router.ts';
import { WatchForms } from '../rest/watch.ts';
import type { Store } from '../store/store.ts';
import { WatchHub } from '../watch/watch-hub.ts';
import { watcherDefaults } from '../watch/watcher.ts';
import { ApiHandler } from './api-handler.ts';
import { relay } from './http-relay.ts';
import { type TlsSettings, startHttpListener } from './http-listener.ts';
import { type LargeRequestLimits, LargeRequests } from './large-requests.ts';
import { ApiMetrics } from './metrics.ts';
import { OpenRequests } from './open-requests.ts';
import type { PathDeps, VersionInfo } from './path-handler.ts';
import { StoreCluster } from './store-cluster.ts';

export interface ApiServerSettings {
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
  /** Absent: plain HTTP, over which kubectl sends no credentials. */
  readonly tls: TlsSettings | undefined;
  /** The certificate authority that pods trust, in PEM; becomes ConfigMap kube-root-ca.crt. */
  readonly authorityPem: string;
  /** The address by which pods reach this server: Service `kubernetes` leads there. */
  readonly advertisedAddress: string;
  /** What Services get their addresses of, `10.96.0.0/16`: IPv4, from /12 to /29. It overlaps no network of nodes or pods. */
  readonly serviceRange?: string;
  readonly version: VersionInfo;
  readonly staticTokens: readonly StaticToken[];
  readonly allowsAnonymous: boolean;
  readonly authorization: AuthorizerSettings;
  readonly tokens: TokenIssuerSettings;
  /** How long open answers may take to finish when the server stops. */
  readonly stopGraceMs: number;
  readonly largeRequests: LargeRequestLimits;
}

export interface ApiServerDeps {
  readonly store: Store;
  readonly resources: readonly Resource[];
  readonly clock: Clock;
  readonly random: Random;
  /** 0 to 1. */
  readonly chance: () => number;
  readonly notify: Notify;
  /** Reaches the agents of nodes for logs and exec; absent where there is no way to them. */
  readonly nodes?: NodeConnector;
  /** Runs until the signal aborts. Absent: another process runs controllers, or none does. */
  readonly controllers?: (host: ControllerHost, signal: AbortSignal) => RunningControllers;
}

/** What the server gives to the loops that keep its cluster in order. */
interface ControllerHost extends Pick<ApiServerDeps, 'clock' | 'random' | 'notify'> {
  /** The cluster as this controller sees it: its writes bear its name. */
  readonly clusterFor: (controller: string, signal: AbortSignal) => StoreCluster;
  readonly authorityPem: string;
  /** Where this server listens, and the address of its Service. */
  readonly endpoint: { readonly address: string; readonly port: number; readonly serviceAddress: string };
}

interface RunningControllers {
  /** The objects that every cluster has are there. */
  readonly settled: Promise<void>;
  /** All have stopped. */
  readonly done: Promise<unknown>;
}

export interface ApiServer {
  readonly url: string;
  readonly address: AddressInfo;
  /** For clients in the same process, whose identity needs no proof. */
  readonly serve: (exchange: Exchange) => void;
  /** Ends watches cleanly, finishes what was begun, and stops the controllers. The store stays open. */
  close(): Promise<void>;
}

/** Store and log are in this process: what answers has them. */
const healthyAlways = ['ping', 'log', 'etcd'].map((name) => ({ name, isHealthy: () => true }));

/** What kube-apiserver does after it listens; here all of it is done when the objects that every cluster has are there. */
const hookNames = [
  'start-apiserver-admission-initializer',
  'bootstrap-controller',
  'start-system-namespaces-controller',
  'start-cluster-authentication-info-controller',
  'rbac/bootstrap-roles',
  'scheduling/bootstrap-system-priority-classes',
];

function startHooks(isHealthy: () => boolean): PathDeps['readinessChecks'] {
  return hookNames.map((name) => ({ name: `poststarthook/${name}`, isHealthy }));
}

const bookmarkEveryMs = 60_000;

/** Listens when the objects every cluster has are there. Aborting the signal is the same as `close`. */
export async function startApiServer(
  settings: ApiServerSettings,
  deps: ApiServerDeps,
  signal: AbortSignal,
): Promise<ApiServer> {
  const { store, clock, random, chance, notify } = deps;
  const stop = new AbortController();
  const stopping = stop.signal;
  // One for every watch and controller; Node takes more than ten for a leak.
  setMaxListeners(0, stopping);
  const resources = new ResourceTable(deps.resources, emptyResources);
  // The graph gets a write before any watch or answer does, so that a node is never refused what its pod just got.
  const { graph, unfollow } = followNodeGraph(store);
  const hub = new WatchHub(store, watcherDefaults);
  const tokens = new TokenIssuer({ clock, subjects: new StoredObjects(store) }, settings.tokens);
  const authenticator = new Authenticator({ accountTokens: tokens }, settings);
  const { roles, unfollow: unfollowRoles } = followRoles(store);
  const authorizer = new Authorizer({ relations: graph, roles }, settings.authorization);
  const range = serviceRangeOf(settings);
  const { claims: services, unfollow: unfollowServices } = followServiceClaims(store, range);
  const admission = standardAdmission({ store, clock, random, services, authorizer });
  const large = new LargeRequests({ store, clock, services, authorizer }, settings.largeRequests);
  const writes = { store, clock, random, admission };
  const metrics = new ApiMetrics({ watches: () => hub.size, objectCounts: () => countObjects(store, resources) });
  const router = new Router({
    ...writes,
    large,
    resources,
    authenticator,
    authorizer,
    tokens: { audiences: settings.tokens.audiences, issue: (order) => tokens.issue(order) },
    nodes: deps.nodes,
    relay,
    hub,
    forms: new WatchForms(),
    chance,
    stopping,
    sent: (events) => metrics.watchEventsSent(events),
  });
  const open = new OpenRequests({ clock, metrics });
  const state = { isReady: false };
  const openIdDocuments = new Map<string, { contentType: string; body: string }>();
  const handler = new ApiHandler({
    clock,
    random,
    notify,
    authenticator,
    authorizer,
    resources,
    router,
    metrics,
    open,
    stopping,
    paths: {
      discovery: buildDiscovery(resources),
      openApi: new OpenApiDocuments(resources, settings.version.gitVersion),
      version: settings.version,
      livenessChecks: [...healthyAlways, ...startHooks(() => true)],
      readinessChecks: [
        ...healthyAlways,
        { name: 'etcd-readiness', isHealthy: () => true },
        { name: 'informer-sync', isHealthy: () => state.isReady },
        ...startHooks(() => state.isReady),
        { name: 'shutdown', isHealthy: () => !stopping.aborted },
      ],
      metrics: async () => ({ contentType: metrics.contentType, text: await metrics.text() }),
      openIdDocuments,
    },
  });

  const answers = new Set<Promise<void>>();
  const serve = (exchange: Exchange, trust: () => boolean): void => {
    const answer = handler.handle(exchange, trust).finally(() => answers.delete(answer));
    answers.add(answer);
  };
  const listener = await startHttpListener(settings, serve);
  // Not before it listens: a server that cannot would leave it running.
  const bookmarks = hub.runBookmarks(clock, bookmarkEveryMs, stopping);
  const url = urlOf(settings, listener.address);
  openIdDocuments.set('/.well-known/openid-configuration', {
    contentType: 'application/json',
    body: JSON.stringify(openIdConfiguration(settings.tokens, url)),
  });
  openIdDocuments.set(jwksPath, {
    contentType: 'application/jwk-set+json',
    body: JSON.stringify(jsonWebKeySet(settings.tokens)),
  });
  const { port } = listener.address;
  const endpoint = { address: settings.advertisedAddress, port, serviceAddress: range.first };
  const clusterFor = (controller: string, until: AbortSignal): StoreCluster =>
    new StoreCluster({ ...writes, resources }, controller, until);
  const host = { clock, random, notify, clusterFor, authorityPem: settings.authorityPem, endpoint };
  const none = { settled: Promise.resolve(), done: Promise.resolve() };
  const controllers = deps.controllers?.(host, stopping) ?? none;
  let stopListening = (): void => {};
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => (closed ??= shutDown());
  const shutDown = async (): Promise<void> => {
    stopListening();
    stop.abort();
    hub.close();
    open.stop();
    await listener.close(settings.stopGraceMs);
    await Promise.all([...answers, bookmarks, controllers.done]);
    await open.close();
    await large.close();
    unfollow();
    unfollowServices();
    unfollowRoles();
  };
  try {
    await controllers.settled;
  } catch (error) {
    await close();
    throw error;
  }
  state.isReady = true;
  if (signal.aborted) await close();
  else stopListening = onAbort(signal, () => void close());
  return { url, address: listener.address, serve: (exchange) => serve(exchange, () => true), close };
}

function serviceRangeOf({ serviceRange = defaultServiceRange }: ApiServerSettings): ServiceRange {
  const range = ServiceRange.parse(serviceRange);
  if (range !== undefined) return range;
  const text = `Cannot hand out addresses of "${serviceRange}": give an IPv4 range from /12 to /29, as 10.96.0.0/16`;
  throw new OperatingError('InvalidServiceRange', text);
}

function urlOf({ host, tls }: ApiServerSettings, { port }: AddressInfo): string {
  const name = host === '0.0.0.0' || host === '::' ? 'localhost' : host;
  return `${tls === undefined ? 'http' : 'https'}://${name.includes(':') ? `[${name}]` : name}:${port}`;
}

function* countObjects(store: Store, resources: ResourceTable): Iterable<readonly [string, number]> {
  for (const resource of resources.all) {
    if (!resource.isStored || resource.viewOf !== undefined) continue;
    const { items, remaining } = store.list({ prefix: objectPrefix(resource), limit: 1, leavesOutDamaged: true });
    const name = resource.group === '' ? resource.plural : `${resource.plural}.${resource.group}`;
    yield [name, items.length + remaining];
  }
}
