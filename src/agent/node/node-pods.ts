/** The pods of a node: the loop that runs them, wired to the runtime, the volumes and the API server. */
import { connect } from 'node:net';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { onAbort } from '../../base/abort.ts';
import type { Pausing } from '../../base/clock.ts';
import { OperatingError, errorCode, messageOf } from '../../base/errors.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import { AlreadyExistsError, ConflictError, ForbiddenError, NotFoundError } from '../../client/api/api-errors.ts';
import { objectKey, pods, withShape } from '../../client/api/resource-reference.ts';
import { type ReflectorDeps, reflect } from '../../client/reflector.ts';
import type { Mounts } from '../../disk/mounts/mounts.ts';
import type { EventSink } from '../../kube/kinds/event.ts';
import { type Pod, podShape } from '../../kube/kinds/pod/pod.ts';
import { podEventObject } from '../../node/event-recorder.ts';
import type { NodeLogins } from '../../pods/images/image-puller.ts';
import type { PodApi, PodLoopDeps } from '../../pods/loop/loop-parts.ts';
import { PodLoop } from '../../pods/loop/pod-loop.ts';
import type { PodNetwork } from '../../pods/probes/http-exchange.ts';
import { folderContents } from '../../pods/sources/manifests-folder.ts';
import { resolvConfProblem } from '../../pods/view/dns.ts';
import type { Runtime } from '../../runtimes/runtime.ts';
import { podRef } from '../../volumes/notices.ts';
import type { PodSource, PodStates } from '../../volumes/populator.ts';
import type { PodUid } from '../../volumes/volume-name.ts';
import { containerEffects, containerFiles, logTail } from '../machine/container-files.ts';
import { manifestsFolderReader, readRegularFile } from '../machine/manifests-folder-reader.ts';
import type { AgentSettings } from './agent-settings.ts';
import { NodeAdmission } from './node-admission.ts';
import type { NodeObjects } from './node-objects.ts';
import type { NodePresence } from './node-presence.ts';
import type { NodeServices } from './node-services.ts';
import { type NodeVolumes, podVolumes } from './node-volumes.ts';
import type { NotifyNode } from './notices.ts';

interface NodePodsDeps extends Pausing {
  readonly client: ApiClient | undefined;
  readonly random: () => number;
  readonly runtime: Runtime;
  readonly mounts: Mounts;
  readonly presence: NodePresence;
  readonly objects: NodeObjects;
  readonly services: Pick<NodeServices, 'clusterDns'>;
  readonly volumes: NodeVolumes;
  readonly isUnderDiskPressure: () => boolean;
  readonly uid: number;
  readonly isOwnServer: boolean;
  readonly nodeLogins: readonly NodeLogins[];
  readonly notify: NotifyNode;
}

export function nodePods(deps: NodePodsDeps, settings: AgentSettings): PodLoop {
  const { client, clock, runtime, presence, objects, services, volumes, notify } = deps;
  const { rootDirectory: root } = settings;
  const admission = new NodeAdmission(deps, settings);
  const effects = containerEffects(root, deps.mounts, volumes.subPaths);
  return new PodLoop(
    {
      ...deps,
      sources: podSources(deps, settings),
      events: podEvents(notify),
      nodeEvents: presence,
      api: client === undefined ? noPodApi : apiPods(client),
      files: containerFiles({ root, logRoot: settings.logsDirectory ?? join(root, 'logs'), tailLog: logTail(clock) }),
      volumes: podVolumes(volumes.manager),
      registrations: objects,
      network: { connect: dial },
      view: () => ({
        configMaps: objects.configMaps,
        secrets: objects.secrets,
        services: objects.services(),
        node: presence.known(),
        ...effects,
      }),
      dns: async () => ({
        clusterDns: settings.clusterDns.length > 0 ? settings.clusterDns : await services.clusterDns(),
        clusterDomain: settings.clusterDomain,
        restartBackOffMsMax: settings.restartBackOffMsMax,
        resolvConf: await readResolvConf(settings.resolvConf),
        nodeIps: presence.hostIps(),
        // Pods of the process runtime have the names of the machine, and most of them want no others.
        warnsWithoutCluster: runtime.images !== undefined,
      }),
      node: () => ({ owner: presence.owner(), hostIPs: presence.hostIps() }),
      admit: (pod, others) =>
        admission.admit(pod, others, presence.current(), presence.known().status?.allocatable ?? {}),
      runtimeClasses: objects,
    },
    {
      ...settings,
      resyncMs: settings.syncMs,
      idleIsReady: deps.isOwnServer || client === undefined,
      // Nothing that the process runtime runs was made for this machine alone.
      seccompDefault: settings.seccompDefault || runtime.images === undefined,
      defaultUid: deps.uid,
      memoryBytes: totalmem(),
    },
  );
}

/** As the kubelet's. */
const resolvConfBytesMax = 10 * 1024 ** 2;

/** At the start: what is wrong with the file has nothing to do with single pods. */
export async function checkResolvConf(
  events: PodLoopDeps['nodeEvents'],
  { resolvConf: path, clusterDomain }: Pick<AgentSettings, 'resolvConf' | 'clusterDomain'>,
): Promise<void> {
  const problem = async (): Promise<string | undefined> =>
    resolvConfProblem(path, (await readResolvConf(path)) ?? '', clusterDomain);
  const message = await problem().catch(messageOf);
  if (message !== undefined) events.record({ type: 'Warning', reason: 'CheckLimitsForResolvConf', message });
}

/** Undefined when pods are to see none of it; a machine that has no such file has no servers to name. */
export async function readResolvConf(path: string): Promise<string | undefined> {
  if (path === '') return undefined;
  const read = async (file: string): Promise<string> =>
    await readRegularFile(file, resolvConfBytesMax).catch((cause: unknown) => {
      if (errorCode(cause) === 'ENOENT') return '';
      throw new OperatingError('NoResolvConf', `Cannot read ${file}: ${messageOf(cause)}`, { cause });
    });
  const text = await read(path);
  // A server on the loopback address answers the machine alone: systemd-resolved keeps a list of those it asks itself.
  return path === '/etc/resolv.conf' && /^nameserver 127\.0\.0\.53$/m.test(text)
    ? (await read('/run/systemd/resolve/resolv.conf')) || text
    : text;
}

/** Pods come from the API server, from the folder of manifests, or from both. */
function podSources(
  { client, clock, pause, random, objects, notify }: NodePodsDeps,
  { nodeName, manifestsDirectory, fileCheckMs }: AgentSettings,
): PodLoopDeps['sources'] {
  const folder = manifestsDirectory && manifestsFolderReader(manifestsDirectory, clock);
  const folderSettings = { nodeName, rereadPeriodMs: fileCheckMs, quietMs: 100 };
  return {
    ...(client && {
      api: (ended: AbortSignal) => podLists({ client, clock, pause, random, notify }, nodeName, ended),
    }),
    ...(folder && {
      file: (ended: AbortSignal) =>
        objects.podsOf(folderContents({ reader: folder, clock, notify }, folderSettings, ended)),
    }),
  };
}

/**
 * What the volume manager asks about pods. The manager is made before the loop that runs the pods, because the loop needs it:
 * until the loop is attached there are no pods, and nothing is known to be complete.
 */
export class PodView implements PodSource, PodStates {
  #loop: PodLoop | undefined;
  #isDrained = false;

  attach(loop: PodLoop): void {
    this.#loop = loop;
  }

  /** From now on every pod counts as ended, so that its volumes are unmounted. */
  drained(): void {
    this.#isDrained = true;
  }

  pods(): Iterable<Pod> {
    return this.#loop?.pods() ?? [];
  }

  pod(uid: PodUid): Pod | undefined {
    return this.#loop?.pod(uid);
  }

  areSourcesReady(): boolean {
    return this.#loop?.areSourcesReady() ?? false;
  }

  shouldContainersBeTerminating(uid: PodUid): boolean {
    return this.#isDrained || (this.#loop?.progress.shouldContainersBeTerminating(uid) ?? false);
  }

  shouldRuntimeBeRemoved(uid: PodUid): boolean {
    return this.#isDrained || (this.#loop?.progress.shouldRuntimeBeRemoved(uid) ?? false);
  }
}

/** What happens to pods is a notice, from which its Kubernetes Event follows. */
function podEvents(notify: NotifyNode): EventSink {
  return {
    record({ pod, container, type, reason, message, annotations }) {
      const { fieldPath, resourceVersion } = podEventObject(pod, container);
      notify({ kind: 'PodEvent', type, pod: podRef(pod), reason, message, fieldPath, resourceVersion, annotations });
    },
  };
}

const noPodApi: PodApi = {
  get: async () => undefined,
  patchStatus: async () => undefined,
  delete: async () => {},
  create: async () => false,
};

const podResource = withShape<Pod>(pods, podShape);

export function apiPods(client: Pick<ApiClient, 'get' | 'patchForMetadata' | 'delete' | 'create'>): PodApi {
  return {
    get: (namespace, name, signal) =>
      unlessGone(() => client.get(podResource, { namespace, name }, signal)).catch((error: unknown) => {
        // Nodes may read their own pods alone: to servers since 1.32 one that is gone is no node's.
        if (error instanceof ForbiddenError) return undefined;
        throw error;
      }),
    patchStatus: (namespace, name, patch, signal) =>
      unlessGone(() =>
        client.patchForMetadata(pods, { namespace, name, subresource: 'status', type: 'strategic' }, patch, signal),
      ),
    async delete(namespace, name, uid, signal) {
      const options = { apiVersion: 'v1', kind: 'DeleteOptions', gracePeriodSeconds: 0, preconditions: { uid } };
      await unlessGone(() => client.delete(pods, { namespace, name }, options, signal));
    },
    async create(pod, signal) {
      try {
        await client.create(podResource, { namespace: pod.metadata.namespace }, { ...pod, ...kindOfPod }, signal);
        return true;
      } catch (error) {
        if (error instanceof AlreadyExistsError) return false;
        throw error;
      }
    },
  };
}

const kindOfPod = { apiVersion: 'v1', kind: 'Pod' };

/** A pod that is gone, or whose name another pod has now, is no longer this node's to write. */
async function unlessGone<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof NotFoundError || error instanceof ConflictError) return undefined;
    throw error;
  }
}

/** All pods that are bound to the node: a complete list after every change. */
export async function* podLists(
  deps: ReflectorDeps,
  nodeName: string,
  signal: AbortSignal,
): AsyncGenerator<readonly Pod[]> {
  const known = new Map<string, Pod>();
  const target = { resource: podResource, fieldSelector: `spec.nodeName=${nodeName}` };
  for await (const reflection of reflect(deps, target, signal)) {
    if (reflection.kind === 'replaced') {
      known.clear();
      for (const pod of reflection.objects) known.set(objectKey(pod), pod);
    } else if (reflection.kind === 'changed') known.set(objectKey(reflection.object), reflection.object);
    else known.delete(objectKey(reflection.object));
    yield [...known.values()];
  }
}

/** How this node reaches ports of pods, for probes and hooks. */
function dial(...[{ host, port }, signal]: Parameters<PodNetwork['connect']>): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const socket = connect({ host, port });
    const stopListening = onAbort(signal, () => void socket.destroy(signal.reason as Error));
    const settle = (act: () => void): void => {
      stopListening();
      act();
    };
    socket.once('connect', () => settle(() => resolve(socket)));
    socket.on('error', (error) => settle(() => reject(error)));
  });
}
