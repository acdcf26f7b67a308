/** Questions about volumes: of container starts, of the node's status, of users and of metrics. They change nothing. */
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { type VolumeMode, type VolumeSpec, specName } from '../kube/references/volume-spec.ts';
import { deviceDirectory, volumeDirectory } from '../kube/values/node-layout.ts';
import type { ActualMount, ActualState, MountState } from './actual-state.ts';
import type { DesiredMount, DesiredState } from './desired-state.ts';
import type { Operations } from './operations.ts';
import { modeOf } from './plan.ts';
import type { Populator, Resolution } from './populator.ts';
import {
  type MountId,
  type PluginMatch,
  type PodUid,
  type VolumeName,
  contentPathOf,
  podUidOf,
} from './volume-name.ts';

interface VolumeQueriesDeps {
  /** The node's root directory. */
  readonly root: string;
  readonly desired: DesiredState;
  readonly actual: ActualState;
  readonly operations: Pick<Operations, 'failureOf'>;
  readonly populator: Pick<Populator, 'resolutionsOf'>;
}

export class VolumeQueries {
  readonly #deps: VolumeQueriesDeps;

  constructor(deps: VolumeQueriesDeps) {
    this.#deps = deps;
  }

  /** By the pod's words for them: what is wanted and mounted. */
  mountedVolumesOf(podUid: PodUid): ReadonlyMap<string, MountedVolume> {
    const { root, desired, actual } = this.#deps;
    const volumes = new Map<string, MountedVolume>();
    for (const mount of desired.mountsOf(podUid)) {
      if (actual.mountState(mount) !== 'mounted') continue;
      for (const name of mount.podVolumeNames) volumes.set(name, mountedVolume(root, mount, name));
    }
    return volumes;
  }

  hasPossiblyMounted(podUid: PodUid): boolean {
    return this.#deps.actual.possiblyMountedOf(podUid).length > 0;
  }

  /** Groups that mounted volumes give the pod beyond its own. */
  extraSupplementalGroups(pod: Pod): readonly number[] {
    const own = pod.spec.securityContext?.supplementalGroups ?? [];
    const gids = this.#deps.actual.mountedOf(podUidOf(pod)).map(({ gid }) => gid);
    const groups = new Set(gids.filter((gid) => /^[+-]?\d+$/.test(gid)).map(Number));
    return [...groups].filter((group) => Number.isSafeInteger(group) && !own.includes(group));
  }

  /** For the node's status: what a controller must not detach. Sorted. */
  volumesInUse(): readonly VolumeName[] {
    const names = new Set<VolumeName>();
    for (const { volume, isAttachable } of this.#deps.desired.volumes()) if (isAttachable) names.add(volume);
    for (const { volume, attachable } of this.#deps.actual.volumes()) if (attachable === 'yes') names.add(volume);
    return [...names].sort();
  }

  isAttached(volume: VolumeName): boolean {
    return this.#deps.actual.volume(volume) !== undefined;
  }

  /** How the pod's volumes were resolved last: claims, and what could not be found. By the pod's words for them. */
  resolutionsOf(podUid: PodUid): ReadonlyMap<string, Resolution> {
    return this.#deps.populator.resolutionsOf(podUid);
  }

  /** The device that stands for the volume on this node, or the empty string. */
  devicePathOf(volume: VolumeName): string {
    return this.#deps.actual.volume(volume)?.devicePath ?? '';
  }

  /** Every mount that is wanted or there. */
  statuses(): readonly VolumeStatus[] {
    const { desired, actual } = this.#deps;
    const wanted = [...desired.volumes()].flatMap(({ mounts }) => [...mounts.values()]);
    const left = [...actual.volumes()]
      .flatMap(({ mounts }) => [...mounts.values()])
      .filter((mount) => desired.mount(mount) === undefined);
    return [...wanted.map((mount) => this.#statusOfWanted(mount)), ...left.map((mount) => this.#statusOfLeft(mount))];
  }

  /** A plugin without volumes has no entry. */
  counts(): readonly VolumeCount[] {
    const { desired, actual } = this.#deps;
    const counts = new Map<string, VolumeCount>();
    const add = (plugin: string, state: VolumeCount['state']): void => {
      const key = `${state} ${plugin}`;
      counts.set(key, { plugin, state, count: (counts.get(key)?.count ?? 0) + 1 });
    };
    for (const { mounts } of actual.volumes()) {
      for (const { state, pluginName } of mounts.values()) {
        if (state === 'mounted') add(pluginName, 'actual_state_of_world');
      }
    }
    for (const { mounts } of desired.volumes()) {
      for (const { plugin } of mounts.values()) add(plugin.name, 'desired_state_of_world');
    }
    return [...counts.values()];
  }

  #statusOfWanted(mount: DesiredMount): VolumeStatus {
    const { podUid, pod, podVolumeNames, spec, volume, plugin, requestedAt, revision } = mount;
    const present = this.#deps.actual.mount(mount);
    return {
      podUid,
      namespace: pod.metadata.namespace ?? '',
      podName: pod.metadata.name,
      podVolumeNames,
      specName: specName(spec),
      volume,
      plugin: plugin.name,
      state: present?.state ?? 'not-mounted',
      isWanted: true,
      isStale: present !== undefined && present.revision < revision,
      requestedAt,
      objects: (mount.follows ?? []).flatMap((follow) => ('object' in follow ? [follow.object] : [])),
      ...this.#failureOf(mount),
    };
  }

  #statusOfLeft(mount: ActualMount): VolumeStatus {
    const { podUid, spec, volume, pluginName, state } = mount;
    const nobody = { namespace: '', podName: '', podVolumeNames: [], requestedAt: undefined, objects: [] };
    const known = { podUid, specName: specName(spec), volume, plugin: pluginName, state };
    return { ...nobody, ...known, isWanted: false, isStale: false, ...this.#failureOf(mount) };
  }

  #failureOf({ volume, podUid }: MountId): Pick<VolumeStatus, 'lastError' | 'retryAt'> {
    const failure = this.#deps.operations.failureOf({ volume, podUid });
    return { lastError: failure?.error, retryAt: failure?.retryAt };
  }
}

/** A volume of a pod that is wanted and mounted. */
export interface MountedVolume extends PluginMatch {
  /** The pod's word for it. */
  readonly name: string;
  readonly volume: VolumeName;
  readonly spec: VolumeSpec;
  readonly specName: string;
  readonly mode: VolumeMode;
  /** Of a file system; undefined when the content is not on this host (an image), and for raw devices. */
  readonly path: string | undefined;
  /** Of a raw device: what containers open, and follow to the device. */
  readonly link: string | undefined;
  /** The pod's claim says so; the plugin's attributes may besides. */
  readonly readOnly: boolean;
}

function mountedVolume(root: string, mount: DesiredMount, name: string): MountedVolume {
  const { plugin, source, spec, volume, podUid } = mount;
  const mode = modeOf(spec);
  return {
    name,
    volume,
    plugin,
    source,
    spec,
    specName: specName(spec),
    mode,
    path: mode === 'Block' ? undefined : pathOf(root, podUid, mount),
    link: mode === 'Block' ? deviceDirectory(root, podUid, plugin.name, specName(spec)) : undefined,
    readOnly: spec.readOnly,
  };
}

function pathOf(root: string, podUid: PodUid, { plugin, source, spec }: DesiredMount): string | undefined {
  if (plugin.hostPathOf !== undefined) return plugin.hostPathOf(source);
  return contentPathOf(plugin, volumeDirectory(root, podUid, plugin.name, specName(spec)));
}

/** One line of `get volumes`: a mount that is wanted, or is still there. */
export interface VolumeStatus {
  readonly podUid: PodUid;
  readonly namespace: string;
  readonly podName: string;
  readonly podVolumeNames: readonly string[];
  readonly specName: string;
  readonly volume: VolumeName;
  readonly plugin: string;
  readonly state: MountState;
  readonly isWanted: boolean;
  /** Wanted at a newer revision than it is mounted at. */
  readonly isStale: boolean;
  readonly requestedAt: number | undefined;
  /** What its content comes from; without a name all objects of the kind. */
  readonly objects: readonly { readonly kind: string; readonly name?: string | undefined }[];
  /** What keeps it from being as it is wanted. */
  readonly lastError: string | undefined;
  readonly retryAt: number | undefined;
}

/** The series of `volume_manager_total_volumes`. */
export interface VolumeCount {
  readonly plugin: string;
  readonly state: 'actual_state_of_world' | 'desired_state_of_world';
  readonly count: number;
}
