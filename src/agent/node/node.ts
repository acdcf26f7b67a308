/**
 * One running node. Settings and a cluster (or none) in, a node out that runs pods, mounts their volumes and keeps them up to
 * date. It speaks to the API server over HTTP alone, also where both are one process.
 */
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, realpathSync } from 'node:fs';
import { hostname } from 'node:os';
import { OperatingError, messageOf } from '../../base/errors.ts';
import type { Clock, Pausing } from '../../base/clock.ts';
import { systemClock } from '../../base/clock.ts';
import { NoticeStream } from '../../base/notice-stream.ts';
import type { ClusterAccess } from '../../client/credentials/cluster-access.ts';
import { systemMounts } from '../../disk/mounts/mounts.ts';
import { makeDirectories } from '../../disk/paths/directories.ts';
import { lockDirectory } from '../../disk/paths/directory-lock.ts';
import { podsDirectory } from '../../kube/values/node-layout.ts';
import { startHealthServer } from '../../node-server/health-server.ts';
import { type NodeServerSettings, startNodeServer } from '../../node-server/node-server.ts';
import type { NodeServer } from '../../node-server/node-server.ts';
import { streamLimits } from '../../node-server/streams/protocols.ts';
import { EventRecorder } from '../../node/event-recorder.ts';
import { standardPlugins } from '../../plugins/registry.ts';
import type { NodeLogins } from '../../pods/images/image-puller.ts';
import type { PodLoop } from '../../pods/loop/pod-loop.ts';
import type { Runtime } from '../../runtimes/runtime.ts';
import type { VolumeManager } from '../../volumes/volume-manager.ts';
import { chosenRuntime } from '../machine/chosen-runtime.ts';
import { type OpenRuntime, type OpenedRuntime, secretPaths } from '../machine/process-runtime.ts';
import { type AgentSettings, AgentSettingsError, type Taint, requireSettings } from './agent-settings.ts';
import { openNodeLogins } from '../machine/node-logins.ts';
import { type NodeParts, runNode } from './lifecycle.ts';
import { startNodeControl } from './node-control.ts';
import { nodeCsi } from './node-csi.ts';
import { runNodeLocalPath } from './node-local-path.ts';
import { NodeMetrics } from './node-metrics.ts';
import { NodeObjects } from './node-objects.ts';
import { type NodeServices, type ServiceAccess, noServices, openNodeServices } from './node-services.ts';
import { PodView, checkResolvConf, nodePods, readResolvConf } from './node-pods.ts';
import { type NodeClients, NodePresence, connectNode } from './node-presence.ts';
import { runServingCertificate } from './serving-certificate.ts';
import { agentServing, nodeAccess, servedConfiguration, serverPods } from './node-serving.ts';
import { diskPressure, nodeReclaim } from './node-reclaim.ts';
import { type NodeStats, nodeStats, servedStats } from './node-stats.ts';
import { type MakePlugins, nodeVolumes } from './node-volumes.ts';
import { type NodeNotice, type NotifyNode, eventSink, metricSink } from './notices.ts';

export interface NodeDeps {
  /** Undefined: pods come from the folder of manifests alone. */
  readonly cluster: Pick<ClusterAccess, 'endpoint' | 'credentials' | 'secretFiles' | 'transport'> | undefined;
  /** The certificate of the node's own server, and the authority whose clients it accepts; undefined: there is no server. */
  readonly serving:
    | (Pick<NodeServerSettings, 'certificatePem' | 'keyPem' | 'clientAuthorityPem'> & {
        /** Of the cluster that is asked for a certificate in place of this one; absent: none is. */
        readonly clusterAuthorityPem?: string;
      })
    | undefined;
  /** The API server is this program's own, so that pods which can only idle here may come and may be ready. */
  readonly isOwnServer: boolean;
  /** Who follows Services for this node; undefined: they are somebody else's affair, in most clusters kube-proxy's. */
  readonly serviceAccess: ServiceAccess | undefined;
  readonly openRuntime: OpenRuntime;
  readonly plugins: MakePlugins;
  readonly clock: Clock;
  /** From 0 to 1, for jitter and names of versions. */
  readonly random: () => number;
  /** State directories of this program that no container may see, beside the root. */
  readonly hidden: readonly string[];
  /** When the node ends, so do its containers, and their volumes are unmounted; otherwise the next start adopts them. */
  readonly drains: boolean;
  /** XDG_RUNTIME_DIR of an ordinary user. */
  readonly runtimeDirectory: string | undefined;
  /** Containers that name no user run as this one. */
  readonly uid: number;
  /** Of this process, for credential providers. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly notify: NotifyNode;
}

/** A node on its own: processes as containers, the standard volume kinds, no cluster, no server, no log. */
export const nodeDefaults: NodeDeps = {
  cluster: undefined,
  serving: undefined,
  isOwnServer: false,
  serviceAccess: undefined,
  openRuntime: chosenRuntime,
  plugins: standardPlugins,
  clock: systemClock,
  random: Math.random,
  hidden: [],
  drains: false,
  runtimeDirectory: undefined,
  uid: process.geteuid?.() ?? 0,
  environment: {},
  notify: () => {},
};

export interface RunningNode {
  readonly pods: PodLoop;
  readonly volumes: VolumeManager;
  readonly runtime: Runtime;
  /** Why Services do not answer here; undefined: they do, or are not this node's affair. */
  readonly servicesProblem: string | undefined;
  /** For programs that want to read along: `for await (const notice of node.notices.follow(signal))`. */
  readonly notices: Pick<NoticeStream<NodeNotice>, 'follow'>;
  /** Resolves when the node has ended, and rejects when it could not go on. */
  readonly ended: Promise<void>;
  /** Closes the runtime and the connections to the API server. To be called after `ended`. */
  close(): Promise<void>;
}

/** Runs until the signal aborts. */
export async function startNode(given: AgentSettings, deps: NodeDeps, signal: AbortSignal): Promise<RunningNode> {
  const { settings, release } = claimRoot(given);
  const closing = [release];
  const close = async (): Promise<void> => {
    const last = closing.pop();
    if (last === undefined) return;
    try {
      await last();
    } finally {
      await close();
    }
  };
  try {
    const notices = new NoticeStream<NodeNotice>();
    notices.subscribe(deps.notify);
    const connection = connect(settings, deps, notices);
    closing.push(async () => await connection.clients?.close());
    const runtime = await deps.openRuntime({
      root: settings.rootDirectory,
      hidden: hiddenPaths(settings, deps),
      settings,
      server: deps.cluster?.endpoint.url,
      clock: deps.clock,
      report: (problem) => notices.emit({ kind: 'ContainerProblem', ...problem }),
      drains: deps.drains,
      notify: (notice) => notices.emit(notice),
      afterClose: (act) => void closing.push(act),
      signal,
    });
    closing.push(() => runtime.close());
    const nodeLogins = await openNodeLogins(
      { ...deps, notify: (notice) => notices.emit(notice) },
      settings.rootDirectory,
      settings.credentialProviders,
      signal,
    );
    const services = await seeToServices(settings, deps, connection, runtime);
    closing.push(() => services.close());
    const parts = assemble(settings, deps, connection, { runtime, services }, nodeLogins);
    closing.push(() => parts.stats.close());
    const metrics = nodeMetrics(parts);
    notices.subscribe(metricSink(metrics));
    const { health } = settings.serving;
    if (health !== undefined) closing.push(await startHealthServer(health.host, health.port));
    const server = await serve(settings, deps, connection, parts, metrics);
    closing.push(await control(settings, deps, parts));
    subscribe(parts, connection);
    // Pods of the process runtime have the names of the machine.
    if (runtime.images !== undefined) await checkResolvConf(parts.presence, settings);
    const ended = runNode(
      { ...parts, server, certificate: certificateTask(settings, deps, connection, parts, server) },
      deps.drains,
      signal,
    );
    const { problem: servicesProblem } = services;
    return { pods: parts.pods, volumes: parts.volumes.manager, runtime, servicesProblem, notices, ended, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** What is absent is as in `nodeDefaults`. */
interface AgentDeps extends Partial<Omit<NodeDeps, 'cluster' | 'serving'>> {
  readonly cluster: ClusterAccess | undefined;
}

/** A node alone, against any API server or none, with a certificate that it keeps in its root. Runs until the signal aborts. */
export async function startAgent(settings: AgentSettings, deps: AgentDeps, signal: AbortSignal): Promise<RunningNode> {
  const { cluster } = deps;
  if (cluster === undefined && settings.manifestsDirectory === undefined) {
    throw new OperatingError(
      'NoPodSource',
      'Cannot run a node without pods: give --kubeconfig FILE, --in-cluster or --manifests DIR',
    );
  }
  if (cluster === undefined && settings.localPath) {
    throw new OperatingError('NoCluster', 'Cannot make local-path volumes without a cluster: give --kubeconfig FILE');
  }
  requireCgroupVersion(settings);
  makeDirectories(settings.rootDirectory);
  const serving = await agentServing(settings, hostname(), cluster, signal);
  return await startNode(settings, { ...nodeDefaults, ...deps, serving }, signal);
}

function requireCgroupVersion({ failsOnCgroupV1 }: AgentSettings): void {
  if (!failsOnCgroupV1 || existsSync('/sys/fs/cgroup/cgroup.controllers')) return;
  const text = 'Cannot run on a machine with control groups of version 1: failCgroupV1 forbids it; set it to false';
  throw new AgentSettingsError('settings', [text]);
}

/** One node for a root directory: a second one would end the pods of the first as leftovers. */
function claimRoot(given: AgentSettings): { readonly settings: AgentSettings; readonly release: () => Promise<void> } {
  requireSettings('startNode', { nodeName: given.nodeName, rootDirectory: given.rootDirectory });
  mkdirSync(podsDirectory(given.rootDirectory), { recursive: true, mode: 0o750 });
  // The mount table has no links in its paths.
  const settings = { ...given, rootDirectory: realpathSync(given.rootDirectory) };
  const lock = lockDirectory(settings.rootDirectory);
  return { settings, release: async () => lock.release() };
}

/** What all parts share, and how they reach the cluster. */
interface Connection extends Pausing {
  readonly random: () => number;
  readonly notify: NotifyNode;
  readonly clients: NodeClients | undefined;
  readonly recorder: EventRecorder | undefined;
}

function connect(settings: AgentSettings, deps: NodeDeps, notices: NoticeStream<NodeNotice>): Connection {
  const { clock, random, cluster } = deps;
  const notify = (notice: NodeNotice): void => notices.emit(notice);
  if (cluster === undefined) return { clock, random, notify, clients: undefined, recorder: undefined };
  const clients = connectNode(cluster, clock, settings);
  // All requests go to one server: when it is back, everything that waits to try again goes on.
  const pause = (ms: number, over: AbortSignal): Promise<void> => clients.general.pause(ms, over);
  const recorder = new EventRecorder(
    { client: clients.events, clock, pause, random, uuid: randomUUID, notify },
    { nodeName: settings.nodeName, flushMs: 2_000 },
  );
  notices.subscribe(eventSink(recorder));
  return { clock, random, pause, notify, clients, recorder };
}

async function seeToServices(
  settings: AgentSettings,
  { serviceAccess: access }: NodeDeps,
  connection: Connection,
  runtime: Runtime,
): Promise<NodeServices> {
  if (access === undefined) return noServices;
  const resolvConf = (): Promise<string | undefined> => readResolvConf(settings.resolvConf);
  return await openNodeServices({ ...connection, access, runtime, resolvConf }, settings);
}

function hiddenPaths({ rootDirectory, manifestsDirectory }: AgentSettings, deps: NodeDeps): readonly string[] {
  const stateDirectories = [rootDirectory, ...deps.hidden];
  const clusterFiles = deps.cluster?.secretFiles ?? [];
  return secretPaths({ stateDirectories, manifests: manifestsDirectory, clusterFiles }, existsSync);
}

type Assembled = Omit<NodeParts, 'server' | 'certificate'> & { readonly stats: NodeStats };

/** Each part is made of those above it. */
function assemble(
  settings: AgentSettings,
  deps: NodeDeps,
  connection: Connection,
  { runtime, services }: { readonly runtime: OpenedRuntime; readonly services: NodeServices },
  nodeLogins: readonly NodeLogins[],
): Assembled {
  const { notify } = connection;
  const client = connection.clients?.general;
  const mounts = systemMounts();
  const shared = { ...deps, ...connection, client, mounts, runtime };
  const pressure = diskPressure(settings, runtime);
  const isUnderDiskPressure = (): boolean => pressure.isUnderPressure;
  const csi = client && nodeCsi({ ...shared, client }, settings);
  const presence = new NodePresence(
    {
      ...shared,
      events: { record: (event) => notify({ kind: 'NodeEvent', ...event }) },
      runtimeVersion: `${runtime.name}://${runtime.version}`,
      problems: () => [...runtime.problems(), ...(csi?.problems() ?? [])],
      isUnderDiskPressure,
    },
    { ...settings, taints: settings.taints ?? defaultTaints(deps, runtime) },
  );
  const objects = new NodeObjects({ ...shared, ownNode: () => presence.current() }, settings);
  const view = new PodView();
  const volumes = nodeVolumes({ ...shared, csi, objects, node: presence, pods: view }, settings);
  const pods = nodePods({ ...shared, presence, services, objects, volumes, nodeLogins, isUnderDiskPressure }, settings);
  view.attach(pods);
  const stats = nodeStats({ ...shared, volumes, pods }, settings);
  const changed = (): void => presence.pressureChanged();
  const reclaim = nodeReclaim({ ...shared, pressure, pods, stats, events: presence, changed }, settings);
  const localPath: Assembled['localPath'] =
    client && settings.localPath ? (stop) => runNodeLocalPath({ ...shared, client }, settings, stop) : undefined;
  return { ...connection, runtime, services, presence, objects, csi, volumes, view, pods, stats, reclaim, localPath };
}

/** Where other people schedule, a pod that needs its image must not come to a runtime without images. */
function defaultTaints({ isOwnServer }: NodeDeps, { images }: Pick<Runtime, 'images'>): readonly Taint[] {
  return isOwnServer || images !== undefined
    ? []
    : [{ key: 'mountlet.dev/no-images', value: '', effect: 'NoSchedule' }];
}

function nodeMetrics({ pods, volumes }: Assembled): NodeMetrics {
  const isRunning = (uid = ''): boolean => pods.statusOf(uid)?.phase === 'Running';
  return new NodeMetrics({
    volumes: () => volumes.manager.queries.counts(),
    volumeStatuses: () => volumes.manager.queries.statuses(),
    operationsRunning: () => volumes.manager.operationsRunning,
    runningPods: () => pods.pods().filter(({ metadata }) => isRunning(metadata.uid)).length,
  });
}

async function serve(
  settings: AgentSettings,
  deps: NodeDeps,
  { clients, notify }: Connection,
  { pods, runtime, stats }: Assembled,
  metrics: NodeMetrics,
): Promise<NodeServer | undefined> {
  const { address: host, port, nodeName, serving: own } = settings;
  const { serving, clock } = deps;
  if (serving === undefined || !own.isEnabled) return undefined;
  const access = nodeAccess(clients?.general, nodeName, own);
  const effective = { ...settings, taints: settings.taints ?? defaultTaints(deps, runtime) };
  return await startNodeServer(
    { host, port, ...own, ...serving, limits: { ...streamLimits, idleMs: own.streamIdleMs } },
    {
      pods: serverPods(pods, runtime),
      runtime,
      access,
      clock,
      metrics: () => metrics.text(),
      stats: servedStats(stats),
      configuration: servedConfiguration(effective, runtime),
      notify,
    },
  );
}

function certificateTask(
  { rootDirectory, nodeName }: AgentSettings,
  { serving }: NodeDeps,
  { clients, ...connection }: Connection,
  { presence }: Assembled,
  server: NodeServer | undefined,
): NodeParts['certificate'] {
  const { clusterAuthorityPem } = serving ?? {};
  if (clients === undefined || server === undefined || clusterAuthorityPem === undefined) return undefined;
  const deps = { ...connection, client: clients.general, node: presence, server };
  return (stop) => runServingCertificate(deps, { rootDirectory, nodeName, clusterAuthorityPem }, stop);
}

/** A node without its socket runs pods all the same. */
async function control(
  { rootDirectory }: AgentSettings,
  { clock }: NodeDeps,
  parts: Assembled,
): Promise<() => Promise<void>> {
  try {
    return await startNodeControl(rootDirectory, process.geteuid?.() ?? 0, { ...parts, clock });
  } catch (error) {
    const message = `commands such as "mountlet get volumes" cannot ask this node: ${messageOf(error)}`;
    parts.notify({ kind: 'ControlUnavailable', message });
    return async () => {};
  }
}

/** What is to happen when the cluster is back, or has another Node object. */
function subscribe({ presence, csi, pods, runtime, volumes: { manager } }: Assembled, { clients }: Connection): void {
  presence.subscribe({
    changed() {
      manager.nodeChanged();
      csi?.nodeChanged(presence.current()?.metadata.uid);
      runtime.setPodRanges?.(presence.current()?.spec?.podCIDRs ?? []);
    },
    registered: () => pods.nodeRegistered(),
  });
  clients?.general.onReturn(() => {
    manager.retryNow();
    csi?.retryNow();
  });
}
