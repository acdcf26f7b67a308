/** The volumes of a node: plugins over this machine's disk, subPaths that follow, and the manager that drives them. */
import { readlinkSync } from 'node:fs';
import { type Clock, type Pausing, systemClock } from '../../base/clock.ts';
import { Timers } from '../../base/timers.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import { NotFoundError } from '../../client/api/api-errors.ts';
import { persistentVolumeClaims, persistentVolumes, withShape } from '../../client/api/resource-reference.ts';
import { SystemDevices } from '../../disk/devices/block-device.ts';
import { BlockMappings } from '../../disk/devices/block-mappings.ts';
import { type Programs, systemPrograms } from '../../disk/devices/programs.ts';
import { privateTmpfsDirectory } from '../../disk/mounts/file-system.ts';
import { mountHolders } from '../../disk/mounts/mount-holders.ts';
import { type Mounts, systemMounts } from '../../disk/mounts/mounts.ts';
import { replaceableMounts } from '../../disk/mounts/replaceable-mounts.ts';
import { cleanAnySubPaths } from '../../disk/pods/foreign-sub-paths.ts';
import { LiveSubPaths } from '../../disk/pods/live-sub-paths.ts';
import { PodTrees } from '../../disk/pods/pod-trees.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { persistentVolumeClaimShape } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { persistentVolumeShape } from '../../kube/kinds/storage/persistent-volume.ts';
import { podDirectory, podsDirectory } from '../../kube/values/node-layout.ts';
import { TrustBundles } from '../../objects/trust-bundles.ts';
import type { VolumePlugin } from '../../plugins/plugin.ts';
import { PluginRegistry, type StandardPluginDeps } from '../../plugins/registry.ts';
import type { PodVolumes } from '../../pods/loop/pod-lifecycle.ts';
import type { MountedVolume as ContainerVolume, MountedVolumes, SubPathPreparer } from '../../pods/view/mounts.ts';
import type { ClaimWriter } from '../../volumes/expand.ts';
import type { NodeReader, SubPathCleaner } from '../../volumes/operation.ts';
import type { ClaimSource, PodSource, PodStates } from '../../volumes/populator.ts';
import type { MountedVolume } from '../../volumes/queries.ts';
import { VolumeManager, type VolumeManagerDeps } from '../../volumes/volume-manager.ts';
import { asPodUid } from '../../volumes/volume-name.ts';
import { fixedSubPaths, followingSubPaths } from '../machine/container-files.ts';
import type { AgentSettings } from './agent-settings.ts';
import { type NodeCsi, csiVolumes } from './node-csi.ts';
import type { NodeObjects } from './node-objects.ts';
import type { NotifyNode } from './notices.ts';

interface NodeVolumesDeps extends Pausing {
  readonly client: ApiClient | undefined;
  /** Undefined without a cluster. */
  readonly csi: NodeCsi | undefined;
  /** From 0 to 1. */
  readonly random: () => number;
  readonly mounts: Mounts;
  readonly objects: NodeObjects;
  readonly node: NodeReader;
  readonly pods: PodSource & PodStates;
  readonly plugins: MakePlugins;
  readonly runtimeDirectory: string | undefined;
  readonly uid: number;
  readonly notify: NotifyNode;
}

/** The volume kinds of a node, made of what the standard ones need: `(parts) => [...standardPlugins(parts), mine()]`. */
export type MakePlugins = (parts: StandardPluginDeps) => readonly VolumePlugin[];

export interface NodeVolumes {
  readonly manager: VolumeManager;
  readonly subPaths: SubPathPreparer;
  /** Runs the manager, and removes what it leaves to be removed later. */
  readonly run: (signal: AbortSignal) => Promise<void>;
}

export function nodeVolumes(deps: NodeVolumesDeps, settings: AgentSettings): NodeVolumes {
  const { client, csi, clock, random, mounts, objects, node, pods, notify, runtimeDirectory, uid } = deps;
  const { rootDirectory: root, subPathUpdates, controllerAttaches, syncMs } = settings;
  const timers = new Timers(clock);
  const live = new LiveSubPaths({ mounts, replaceable: replaceableMounts(mounts), notify });
  const trustBundles = client && new TrustBundles({ ...deps, client });
  const standard = deps.plugins({
    configMaps: objects.configMaps,
    secrets: objects.secrets,
    nodes: { get: async (signal) => node.current() ?? (await node.read(signal)) },
    ...(trustBundles && { tokens: objects.tokens, trustBundles }),
    root,
    mounts,
    privateTmpfs: () => privateTmpfsDirectory({ ...(runtimeDirectory !== undefined && { runtimeDirectory }), uid }),
    now: () => clock.now(),
    random: () => Math.floor(random() * 2 ** 32),
    notify,
    // Also with updates switched off: containers that were started before go on following.
    beforeRemoval: ({ podUid, volumeName }) => live.refresh({ podDirectory: podDirectory(root, podUid), volumeName }),
    timers,
  });
  const drivers = client && csi && csiVolumes(csi, { ...deps, client }, settings);
  const { registry, problems } = PluginRegistry.of(drivers ? [...standard, drivers] : standard);
  for (const { message } of problems) notify({ kind: 'PluginRefused', message });
  const manager = new VolumeManager(
    {
      ...machineVolumes(root, mounts, clock),
      ...(client && { claims: clusterClaims(client), claimWriter: apiClaimWriter(client) }),
      plugins: registry,
      pods,
      states: pods,
      node,
      notify,
    },
    { root, controllerAttach: controllerAttaches && client !== undefined, sweepMs: syncMs },
  );
  const reportUnavailable = (message: string): void => notify({ kind: 'SubPathUpdatesUnavailable', message });
  const subPaths = subPathUpdates ? followingSubPaths({ mounts, live, reportUnavailable }) : fixedSubPaths(mounts);
  return {
    manager,
    subPaths,
    run: async (signal) => {
      const ended = new AbortController();
      const bundleChanged = (name: string, version: string | undefined): void =>
        manager.objectChanged({ kind: 'ClusterTrustBundle', namespace: '', name }, version);
      try {
        await Promise.all([
          manager.run(signal).finally(() => ended.abort()),
          timers.run(ended.signal),
          trustBundles?.run(bundleChanged, ended.signal),
        ]);
      } finally {
        timers.fireAll();
      }
    },
  };
}

type MachineVolumes = Omit<VolumeManagerDeps, 'plugins' | 'pods' | 'states' | 'node' | 'notify'>;

/** What a volume manager needs of this machine: directories and devices below `root`. Without a cluster there are no claims. */
export function machineVolumes(
  root: string,
  mounts: Mounts = systemMounts(),
  clock: Clock = systemClock,
): MachineVolumes {
  const programs = systemPrograms();
  return {
    clock,
    subPaths: subPathCleaner(root, mounts, programs),
    devices: new SystemDevices(),
    mountHolders,
    podsOnDisk: new PodTrees(podsDirectory(root)),
    blockMapper: new BlockMappings({ mounts, programs, clock }),
    claims: noClaims,
    claimWriter: noClaims,
  };
}

/** The volume manager as pod workers use it. */
export function podVolumes(manager: VolumeManager): PodVolumes {
  return {
    waitForMounted: (pod, signal) => manager.waitForMounted(pod, signal),
    waitForUnmounted: (pod, signal) => manager.waitForUnmounted(pod, signal),
    mountedVolumesOf: (pod) => containerVolumes(manager, pod),
    groupsOf: (pod) => manager.queries.extraSupplementalGroups(pod),
    waitForReleased: (podUid, signal) => manager.waitForReleased(asPodUid(podUid), signal),
    podVolumesExist: (podUid) => manager.podVolumesExist(asPodUid(podUid)),
    podChanged: (podUid) => manager.podChanged(asPodUid(podUid)),
    sourcesChanged: () => manager.sourcesChanged(),
  };
}

function containerVolumes(manager: VolumeManager, { metadata: { uid = '' } }: Pod): MountedVolumes {
  const volumes = manager.queries.mountedVolumesOf(asPodUid(uid));
  return {
    get(name) {
      const volume = volumes.get(name);
      return volume === undefined ? undefined : containerVolume(volume);
    },
  };
}

function containerVolume(volume: MountedVolume): ContainerVolume {
  const { plugin, source, spec, specName, mode, path, link, readOnly } = volume;
  if (mode === 'Block') {
    return { kind: 'block', link: link !== undefined && isLink(link) ? link : undefined, readOnly };
  }
  if (path === undefined) return { kind: 'image', reference: spec.volume?.image?.reference ?? '' };
  const attributes = plugin.attributes(source, spec);
  return {
    kind: 'filesystem',
    hostPath: path,
    specName,
    readOnly: readOnly || attributes.readOnly,
    ...(attributes.replaced !== undefined && { replaced: attributes.replaced }),
  };
}

function isLink(path: string): boolean {
  try {
    readlinkSync(path);
    return true;
  } catch {
    return false;
  }
}

function subPathCleaner(root: string, mounts: Mounts, programs: Programs): SubPathCleaner {
  return {
    clean: (podUid, volumeName, signal) =>
      cleanAnySubPaths(podDirectory(root, podUid), volumeName, { mounts, programs }, signal),
  };
}

// Claims and PersistentVolumes take one request each, and are never served from memory.
const claimResource = withShape(persistentVolumeClaims, persistentVolumeClaimShape);
const volumeResource = withShape(persistentVolumes, persistentVolumeShape);

function clusterClaims(client: ApiClient): ClaimSource {
  return {
    claim: (namespace, name, signal) => unlessMissing(client.get(claimResource, { namespace, name }, signal)),
    persistentVolume: (name, signal) => unlessMissing(client.get(volumeResource, { name }, signal)),
  };
}

/** A node without an API server has none. */
const noClaims: ClaimSource & ClaimWriter = {
  claim: async () => undefined,
  persistentVolume: async () => undefined,
  patchStatus: () => Promise.reject(new Error('There are no claims without an API server')),
};

async function unlessMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

/** Writes the outcome of growing a claim's volume to the API server. */
export function apiClaimWriter(client: Pick<ApiClient, 'patch'>): ClaimWriter {
  return {
    patchStatus: (namespace, name, patch, signal) =>
      client.patch(claimResource, { namespace, name, subresource: 'status', type: 'strategic' }, patch, signal),
  };
}
