/**
 * One running node: every room wired. Settings and a cluster (or none) in, a node out that runs pods, mounts their volumes and
 * keeps them up to date. It speaks to the API server over HTTP alone, also where both are one process.
 */
import { NoticeStream } from '../../base/notice-stream.ts';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { untilAborted } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { runTask } from '../../base/run-task.ts';
import type { ClusterAccess } from '../../client/cluster-access.ts';
import { ObjectCache } from '../../client/object-cache.ts';
import { reflectorDefaults } from '../../client/reflector.ts';
import { services, withShape } from '../../client/resource-reference.ts';
import { systemMounts } from '../../disk/mounts/mounts.ts';
import { lockDirectory } from '../../disk/paths/directory-lock.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type Service, serviceShape } from '../../kube/kinds/service.ts';
import { podsDirectory } from '../../kube/values/node-layout.ts';
import { type NodeServer, type NodeServerSettings, startNodeServer } from '../../node-server/node-server.ts';
import { streamLimits } from '../../node-server/streams/protocols.ts';
import { EventRecorder } from '../../node/event-recorder.ts';
import { readerOf } from '../../objects/object-manager.ts';
import { PodLoop } from '../../pods/loop/pod-loop.ts';
import { type FolderContent, folderContents } from '../../pods/sources/manifests-folder.ts';
import { openProcessRuntime } from '../../runtimes/process/machine.ts';
import { defaultProcessRuntimeSettings } from '../../runtimes/process/process-runtime.ts';
import type { Runtime } from '../../runtimes/runtime.ts';
import type { VolumeManager } from '../../volumes/volume-manager.ts';
import { asPodUid } from '../../volumes/volume-name.ts';
import { containerEffects, containerFiles, logTail } from '../machine/container-files.ts';
import { manifestsFolderReader } from '../machine/manifests-folder-reader.ts';
import { secretPaths } from '../machine/secret-paths.ts';
import type { AgentSettings } from './agent-settings.ts';
import { NodeAdmission } from './node-admission.ts';
import { noRecorder, podEvents } from './node-events.ts';
import { NodeMetrics } from './node-metrics.ts';
import { NodeObjects, followChanges } from './node-objects.ts';
import { apiPods, podLists, podNetwork, runtimeHandler } from './node-pods.ts';
import { NodePresence, connectNode } from './node-presence.ts';
import { mastersOnly, reviewedAccess, serverPods } from './node-serving.ts';
import { nodeVolumes, podVolumes } from './node-volumes.ts';
import { type NodeNotice, type NotifyNode, recordNotice } from './notices.ts';
import { inOrder } from './run-together.ts';

export interface NodeDeps {
  /** Undefined: pods come from the folder of manifests alone. */
  readonly cluster: Pick<ClusterAccess, 'endpoint' | 'credentials' | 'secretFiles' | 'transport'> | undefined;
  /** What the node's own server shows, and whom it believes; undefined: it has none. */
  readonly serving: Pick<NodeServerSettings, 'certificatePem' | 'keyPem' | 'clientAuthorityPem'> | undefined;
  /** State directories of this program that no container may see, beside the root. */
  readonly hidden: readonly string[];
  readonly clock: Clock;
  /** When the node ends, so do its containers, and their volumes are unmounted; otherwise the next start adopts them. */
  readonly drains: boolean;
  /** XDG_RUNTIME_DIR of an ordinary user. */
  readonly runtimeDirectory: string | undefined;
  readonly uid: number;
  readonly notify: NotifyNode;
}

export interface RunningNode {
  readonly pods: PodLoop;
  readonly volumes: VolumeManager;
  readonly runtime: Runtime;
  readonly notices: Pick<NoticeStream<NodeNotice>, 'follow'>;
  /** Resolves when the node has ended, and rejects when it could not go on. */
  readonly ended: Promise<void>;
  /** Lets go of the runtime and the API server, last of all. */
  close(): Promise<void>;
}

/** Runs until the signal aborts. One node for a root directory: a second one would end the pods of the first as leftovers. */
export async function startNode(given: AgentSettings, deps: NodeDeps, signal: AbortSignal): Promise<RunningNode> {
  mkdirSync(podsDirectory(given.rootDirectory), { recursive: true, mode: 0o750 });
  // The mount table has no links in its paths.
  const settings = { ...given, rootDirectory: realpathSync(given.rootDirectory) };
  const lock = lockDirectory(settings.rootDirectory);
  try {
    const node = await assembleNode(settings, deps, signal);
    return { ...node, close: () => node.close().finally(() => lock.release()) };
  } catch (error) {
    lock.release();
    throw error;
  }
}

async function assembleNode(settings: AgentSettings, deps: NodeDeps, signal: AbortSignal): Promise<RunningNode> {
  const { clock, cluster, notify: tell } = deps;
  const { rootDirectory: root, nodeName } = settings;
  const runtime = await openProcessRuntime(
    {
      ...defaultProcessRuntimeSettings,
      stateDirectory: join(root, 'runtime'),
      hidden: secretPaths(
        {
          stateDirectories: [root, ...deps.hidden],
          manifests: settings.manifestsDirectory,
          clusterFiles: cluster?.secretFiles ?? [],
        },
        existsSync,
      ),
      logSizeBytesMax: settings.logBytesMax,
      logFilesMax: settings.logFilesMax,
      hostFiles: settings.hostFiles,
      hostPaths: settings.hostPaths,
      writableBytesMax: settings.writableLayerBytesMax,
    },
    { clock, report: (problem) => notify({ kind: 'ContainerProblem', ...problem }) },
  );
  const clients = cluster && connectNode(cluster, clock, settings);
  const random = Math.random;
  // One server for all of them: what waits to try again goes on when it is back.
  const pause = clients && ((ms: number, over: AbortSignal): Promise<void> => clients.general.pause(ms, over));
  const recorder =
    clients &&
    new EventRecorder(
      { client: clients.events, clock, pause, random, uuid: randomUUID, notify: (notice) => notify(notice) },
      { nodeName, flushMs: 2_000 },
    );
  const metrics = new NodeMetrics({
    volumes: () => manager.queries.counts(),
    runningPods: () =>
      pods.pods().filter(({ metadata }) => pods.statusOf(metadata.uid ?? '')?.phase === 'Running').length,
  });
  const notices = new NoticeStream<NodeNotice>();
  notices.subscribe((notice) => recordNotice(notice, recorder ?? noRecorder, metrics));
  notices.subscribe(tell);
  const notify = (notice: NodeNotice): void => notices.emit(notice);
  const reflection = clients && { client: clients.general, clock, pause, random, notify };
  const mounts = systemMounts();
  const presence = new NodePresence(
    {
      clients,
      clock,
      pause,
      random,
      events: recorder ?? noRecorder,
      notify,
      runtimeVersion: `${runtime.name}://${runtime.version}`,
      volumesInUse: () => (manager.areStatesSynced() ? manager.queries.volumesInUse() : undefined),
      reportedInUse: (names) => manager.markReportedInUse(names),
      changed: () => manager.nodeChanged(),
      registered: () => pods.nodeRegistered(),
    },
    settings,
  );
  const objects = new NodeObjects(
    { client: clients?.general, clock, pause, random, ownNode: () => presence.current(), notify },
    settings,
  );
  const {
    manager,
    subPaths,
    run: runVolumes,
  } = nodeVolumes(
    {
      ...deps,
      client: clients?.general,
      reflection,
      mounts,
      objects,
      node: presence,
      pods: {
        pods: () => pods.pods(),
        pod: (uid) => pods.pod(uid),
        areSourcesReady: () => pods.areSourcesReady(),
      },
      states: {
        shouldContainersBeTerminating: (uid) => isDrained || pods.shouldContainersBeTerminating(uid),
        shouldRuntimeBeRemoved: (uid) => isDrained || pods.shouldRuntimeBeRemoved(uid),
      },
      notify,
    },
    settings,
  );
  clients?.general.onReturn(() => manager.retryNow());
  let isDrained = false;
  const serviceCache = new ObjectCache<Service>(clock);
  const effects = containerEffects(root, mounts, subPaths);
  const admission = new NodeAdmission(settings);
  const { manifestsDirectory } = settings;
  const folder =
    manifestsDirectory === undefined
      ? undefined
      : (ended: AbortSignal): AsyncIterable<FolderContent> =>
          folderContents(
            { reader: manifestsFolderReader(manifestsDirectory, clock), clock, notify },
            { nodeName, rereadPeriodMs: settings.fileCheckMs, quietMs: 100 },
            ended,
          );
  const pods = new PodLoop(
    {
      sources: {
        ...(reflection && { api: (ended: AbortSignal) => podLists(reflection, nodeName, ended) }),
        ...(folder && { file: (ended: AbortSignal) => folderPods(folder(ended), objects) }),
      },
      runtime,
      clock,
      pause,
      random,
      events: podEvents(recorder ?? noRecorder, tell),
      api: clients === undefined ? noPodApi : apiPods(clients.general),
      files: containerFiles({ root, logRoot: join(root, 'logs'), tailLog: logTail(clock) }),
      volumes: podVolumes(manager),
      registrations: objects,
      network: podNetwork(runtime),
      view: () => ({
        configMaps: readerOf(objects.configMaps),
        secrets: readerOf(objects.secrets),
        services: clients === undefined ? [] : serviceCache.isSynced ? serviceCache.list() : 'unsynced',
        node: presence.known(),
        ...effects,
      }),
      node: () => ({ owner: presence.owner(), hostIPs: presence.hostIps() }),
      admit: (pod, others) =>
        admission.admit(pod, others, presence.current(), presence.known().status?.allocatable ?? {}),
      runtimeHandler: async (name, ended) => clients && (await runtimeHandler(clients.general, name, ended)),
      notify,
    },
    {
      resyncMs: settings.syncMs,
      clusterDomain: settings.clusterDomain,
      runtimeSupportsRecursiveReadOnly: true,
      defaultUid: deps.uid,
    },
  );
  let server: NodeServer | undefined;
  if (deps.serving !== undefined) {
    server = await startNodeServer(
      { host: settings.address, port: settings.port, ...deps.serving, limits: streamLimits },
      {
        pods: serverPods(pods, runtime),
        runtime,
        access: clients === undefined ? mastersOnly : reviewedAccess(clients.general, nodeName),
        clock,
        metrics: () => metrics.text(),
        notify,
      },
    );
  }

  /** Pods end first; what they live on, and what tells of them, stays until they have. */
  const drain = async (): Promise<void> => {
    const limit = AbortSignal.timeout(drainMsMax);
    await pods.endContainers(undefined, limit);
    for (const { uid } of await runtime.list()) await runtime.stopPod(uid, limit);
    isDrained = true;
    for (const { metadata } of pods.pods()) manager.podChanged(asPodUid(metadata.uid ?? ''));
    await manager.waitForAllUnmounted(pods.pods(), limit);
  };
  const ended = inOrder(
    [
      async (stop) => {
        await pods.run(stop);
        // A failure is no reason to end pods: the next start adopts them.
        if (deps.drains && signal.aborted) await drain();
      },
    ],
    [
      (stop) => objects.run(stop),
      runVolumes,
      (stop) => presence.run(server?.address.port ?? 0, stop),
      (stop) => followChanges('ConfigMap', objects.configMaps, [manager, pods], { clock, notify }, stop),
      (stop) => followChanges('Secret', objects.secrets, [manager, pods], { clock, notify }, stop),
      async (stop) => {
        for await (const podUid of objects.tokens.due(stop)) manager.tokenDue(asPodUid(podUid));
      },
      async (stop) => {
        const target = { ...reflectorDefaults, resource: serviceResource };
        if (reflection === undefined) return;
        const follow = (over: AbortSignal): Promise<void> => serviceCache.follow(reflection, target, over);
        await runTask('the Services', follow, { clock, notify }, stop);
      },
      async (stop) => {
        await untilAborted(stop);
        await server?.close();
      },
    ],
    async (stop) => await recorder?.run(stop),
    signal,
  );

  return {
    pods,
    volumes: manager,
    runtime,
    notices,
    ended,
    async close() {
      await runtime.close();
      await clients?.close();
    },
  };
}

/** Longer than any grace a pod should need; whoever presses Ctrl-C twice does not wait for it. */
const drainMsMax = 60_000;

const serviceResource = withShape(services, serviceShape);

/** The folder's objects are known before the pods that use them, and go after those are known to go. */
async function* folderPods(
  contents: AsyncIterable<FolderContent>,
  objects: NodeObjects,
): AsyncGenerator<readonly Pod[]> {
  for await (const content of contents) {
    objects.addFolder(content.objects);
    yield content.pods;
    objects.replaceFolder(content.objects);
  }
}

const noPodApi = {
  get: async () => undefined,
  patchStatus: async () => undefined,
  delete: async () => {},
  create: async () => false,
};
