/** The names of this room. The compiler keeps a pod from being taken for a volume. */
import { messageOf } from '../base/errors.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { type VolumeSpec, specName } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { uniqueVolumeName, uniqueVolumeNameOfPod } from '../kube/values/node-layout.ts';
import { type DeviceMount, type VolumePlugin, VolumeError } from '../plugins/plugin.ts';

declare const brand: unique symbol;

/** A pod is known by its UID alone: two pods of one name may follow each other. */
export type PodUid = string & { readonly [brand]: 'PodUid' };
/** A volume's name on this node, as kube/values/node-layout.ts makes it; several pods may share one volume. */
export type VolumeName = string & { readonly [brand]: 'VolumeName' };

/** One volume of one pod. */
export interface MountId {
  readonly volume: VolumeName;
  readonly podUid: PodUid;
}

export function asPodUid(text: string): PodUid {
  return text as PodUid;
}

export function asVolumeName(text: string): VolumeName {
  return text as VolumeName;
}

export function podUidOf(pod: Pick<Pod, 'metadata'>): PodUid {
  return asPodUid(pod.metadata.uid ?? '');
}

// What a spec is on this node: whose plugin it is, what it is called, and whether pods share it. Decided when a volume is
// wanted and again, from what lies on disk, after a restart: both must come to the same name.

/** All this room asks of the registry of plugins. Both reject a spec or name that is not exactly one plugin's. */
export interface Plugins {
  findBySpec(spec: VolumeSpec | undefined): PluginMatch;
  findByName(name: string): VolumePlugin;
}

export interface PluginMatch {
  readonly plugin: VolumePlugin;
  readonly source: unknown;
}

export interface VolumeIdentity extends PluginMatch {
  readonly volume: VolumeName;
  /** Must be connected to the node before it is mounted. */
  readonly isAttachable: boolean;
  /** Is mounted once for all its pods. */
  readonly isDeviceMountable: boolean;
}

export function identify(plugins: Plugins, podUid: PodUid, spec: VolumeSpec): VolumeIdentity {
  const match = matchOf(plugins, spec);
  const isAttachable = canAttach(match, spec);
  const isDeviceMountable = deviceMountOf(match, spec) !== undefined;
  const volume =
    isAttachable || isDeviceMountable
      ? sharedName(match, spec)
      : asVolumeName(uniqueVolumeNameOfPod(match.plugin.name, podUid, specName(spec)));
  return { ...match, volume, isAttachable, isDeviceMountable };
}

export function matchOf(plugins: Plugins, spec: VolumeSpec): PluginMatch {
  try {
    return plugins.findBySpec(spec);
  } catch (cause) {
    const why = `failed to get Plugin from volumeSpec for volume ${goQuote(specName(spec))} err=${messageOf(cause)}`;
    throw new VolumeError('VolumeNotIdentified', why, { cause });
  }
}

/** A plugin that cannot answer attaches nothing: what it cannot identify it must not connect. */
export function canAttach({ plugin, source }: PluginMatch, spec: VolumeSpec): boolean {
  try {
    return plugin.attach?.canAttach(source, spec) ?? false;
  } catch {
    return false;
  }
}

/** What containers mount of a volume that has this directory. */
export function contentPathOf({ contentName }: Pick<VolumePlugin, 'contentName'>, directory: string): string {
  return contentName === undefined ? directory : `${directory}/${contentName}`;
}

/** Undefined where each pod has the volume for itself. */
export function deviceMountOf({ plugin, source }: PluginMatch, spec: VolumeSpec): DeviceMount | undefined {
  const { deviceMount } = plugin;
  return deviceMount?.appliesTo?.(source, spec) === false ? undefined : deviceMount;
}

/** The name of storage that pods share. */
export function sharedName({ plugin, source }: PluginMatch, spec: VolumeSpec): VolumeName {
  const name = goQuote(specName(spec));
  try {
    const identity = plugin.deviceMount?.identityOf(source, spec) ?? '';
    if (identity === '') throw new VolumeError('VolumeNotIdentified', 'the plugin has no name for it');
    return asVolumeName(uniqueVolumeName(plugin.name, identity));
  } catch (cause) {
    const inner = `failed to GetVolumeName from volumePlugin for volumeSpec ${name} err=${messageOf(cause)}`;
    const why = `failed to GetUniqueVolumeNameFromSpec for volumeSpec ${name} using volume plugin ${goQuote(plugin.name)} err=${inner}`;
    throw new VolumeError('VolumeNotIdentified', why, { cause });
  }
}
