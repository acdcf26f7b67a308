/** What one directory on disk says about the volume it belongs to. Reads nothing: only names and the mount table speak. */
import { MountletError, messageOf } from '../base/errors.ts';
import type { VolumeMode, VolumeSpec } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { unescapePluginName } from '../kube/values/node-layout.ts';
import type { VolumePlugin } from '../plugins/plugin.ts';
import { type PodUid, asPodUid } from './mount-id.ts';
import type { VolumeOnDisk } from './pods-on-disk.ts';
import { type Plugins, type VolumeIdentity, identify } from './volume-identity.ts';

export interface FoundVolume {
  readonly podUid: PodUid;
  readonly pluginName: string;
  /** The name of its directory, which is the name of its spec. */
  readonly volumeName: string;
  readonly path: string;
  readonly mode: VolumeMode;
}

/** Its spec is a guess: good enough to unmount the volume, never to mount it. */
export interface ReconstructedVolume extends FoundVolume, VolumeIdentity {
  readonly spec: VolumeSpec;
}

class ReconstructionError extends MountletError {
  readonly reason = 'ReconstructionFailed';
}

export function foundVolume(
  podUid: string,
  { pluginDirectory, name, path }: VolumeOnDisk,
  mode: VolumeMode,
): FoundVolume {
  return { podUid: asPodUid(podUid), pluginName: unescapePluginName(pluginDirectory), volumeName: name, path, mode };
}

/** Throws a ReconstructionError; whatever the plugin throws is one too, since one bad directory must not stop a start. */
export function reconstructVolume(plugins: Plugins, found: FoundVolume): ReconstructedVolume {
  try {
    const plugin = plugins.findByName(found.pluginName);
    const spec = specOf(plugin, found);
    if (spec === undefined) {
      throw new ReconstructionError(`failed to reconstruct volume for plugin ${whatOf(found)}: got nil`);
    }
    return { ...found, ...identify(plugins, found.podUid, spec), spec };
  } catch (thrown) {
    if (thrown instanceof ReconstructionError) throw thrown;
    throw new ReconstructionError(messageOf(thrown), { cause: thrown });
  }
}

function specOf(plugin: VolumePlugin, found: FoundVolume): VolumeSpec | undefined {
  const { podUid, volumeName, path, mode } = found;
  if (mode === 'Filesystem') return plugin.reconstruct(volumeName, path);
  if (plugin.block === undefined) throw new ReconstructionError(`could not find block volume plugin ${whatOf(found)}`);
  return plugin.block.reconstruct(podUid, volumeName, path);
}

function whatOf({ pluginName, volumeName, podUid }: FoundVolume): string {
  return `${goQuote(pluginName)} (spec.Name: ${goQuote(volumeName)}) pod ${goQuote(podUid)} (UID: ${goQuote(podUid)})`;
}

/** Where the volume's device is mounted on the node, or mapped; undefined for kinds that have none. */
export function devicePlaceOf({ plugin, source, spec, mode }: ReconstructedVolume): string | undefined {
  if (mode === 'Block') return plugin.block?.globalMapPathOf(source, spec);
  return plugin.deviceMount?.pathOf(source, spec);
}
