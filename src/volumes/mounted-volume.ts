/** What others are told about volumes: containers about what is mounted for them, users and metrics about everything. */
import { type VolumeMode, type VolumeSpec, specName } from '../kube/references/volume-spec.ts';
import { deviceDirectory, volumeDirectory } from '../kube/values/node-layout.ts';
import type { MountState } from './actual-state.ts';
import type { DesiredMount } from './desired-state.ts';
import type { PodUid, VolumeName } from './mount-id.ts';
import { modeOf } from './volume-actions.ts';
import type { PluginMatch } from './volume-identity.ts';

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

export function mountedVolume(root: string, mount: DesiredMount, name: string): MountedVolume {
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
  return volumeDirectory(root, podUid, plugin.name, specName(spec));
}

/** One line of `get volumes`: a mount that is wanted, or is still there. */
export interface VolumeStatus {
  readonly podUid: PodUid;
  readonly namespace: string;
  readonly podName: string;
  readonly outerNames: readonly string[];
  readonly specName: string;
  readonly volume: VolumeName;
  readonly plugin: string;
  readonly state: MountState;
  readonly isWanted: boolean;
  /** Wanted at a newer revision than it is mounted at. */
  readonly isStale: boolean;
  readonly requestedAt: number | undefined;
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
