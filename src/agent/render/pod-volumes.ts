/** The volumes of one pod below the root: set up, taken back when the pod fails, removed when the pod no longer has them. */
import { existsSync, lstatSync, readdirSync, rmdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { MountletError, errorCode } from '../../base/errors.ts';
import { removeTree } from '../../disk/paths/remove-tree.ts';
import { cleanSubPaths } from '../../disk/pods/sub-paths.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { usedVolumes } from '../../kube/references/pod-references.ts';
import { type VolumeSpec, resolveVolume, specName, volumeModeOf } from '../../kube/references/volume-spec.ts';
import {
  podDirectory,
  subPathsDirectory,
  unescapePluginName,
  volumeDirectory,
  volumesDirectory,
} from '../../kube/values/node-layout.ts';
import { systemCallError } from '../../linux/system-call-error.ts';
import type { VolumePlugin } from '../../plugins/plugin.ts';
import type { PluginMatch } from '../../plugins/registry.ts';
import { mountVolume } from '../../volumes/mount.ts';
import { OperationError } from '../../volumes/operation.ts';
import { type VolumeIdentity, asPodUid, contentPathOf, identify } from '../../volumes/volume-name.ts';
import { VolumesNotMountedError } from '../../volumes/waits.ts';
import type { RenderNode } from './render-node.ts';
import { PodStartError } from './rendered-pod.ts';

/** A volume that stands on disk. */
export interface PreparedVolume extends PluginMatch {
  /** The pod's word for it. */
  readonly name: string;
  readonly spec: VolumeSpec;
  /** A container opens it as a block device. */
  readonly isDevice: boolean;
  /** Undefined when there are no files on this host: an image, a device. */
  readonly path: string | undefined;
}

interface Wanted extends VolumeIdentity {
  readonly name: string;
  readonly spec: VolumeSpec;
  readonly isDevice: boolean;
}

export class PodVolumes {
  readonly #node: RenderNode;
  readonly #pod: Pod;
  readonly #uid: string;
  readonly #directory: string;
  readonly #podIsNew: boolean;
  readonly #made: { readonly plugin: VolumePlugin; readonly volumeName: string; readonly directory: string }[] = [];

  constructor(node: RenderNode) {
    this.#node = node;
    this.#pod = node.pod;
    this.#uid = node.pod.metadata.uid ?? '';
    this.#directory = podDirectory(node.root, this.#uid);
    this.#podIsNew = !existsSync(this.#directory);
  }

  /** Sets up every volume that a container uses, in the pod's order, and reports all failures. */
  async prepare(signal: AbortSignal): Promise<readonly PreparedVolume[]> {
    const { wanted, refused } = this.#find();
    const prepared: PreparedVolume[] = [];
    const messages: string[] = [];
    for (const volume of wanted) {
      await yieldAndCheck(signal);
      try {
        prepared.push(await this.#setUp(volume, signal));
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof OperationError)) throw error;
        messages.push(error.simple);
      }
    }
    if (refused.length > 0) messages.push(refusal(refused));
    if (messages.length > 0) throw new PodStartError(messages);
    return prepared;
  }

  /** Takes down what stands on disk for this pod and is not among `kept`. */
  async removeOthers(kept: readonly PreparedVolume[], signal: AbortSignal): Promise<void> {
    const paths = new Set(kept.map(({ plugin, spec }) => this.#pathOf(plugin, spec)));
    for (const pluginDirectory of entriesOf(volumesDirectory(this.#node.root, this.#uid))) {
      const plugin = this.#pluginOf(pluginDirectory);
      if (plugin === undefined) continue; // not made by us, so not ours to take down
      for (const directory of entriesOf(pluginDirectory)) {
        if (paths.has(directory)) continue;
        await this.#tearDown(plugin, basename(directory), directory, signal);
      }
    }
    // A hostPath has no directory of its own, yet its subPaths have been bound.
    const names = new Set(kept.map(({ spec }) => specName(spec)));
    for (const directory of entriesOf(subPathsDirectory(this.#node.root, this.#uid))) {
      const volumeName = basename(directory);
      if (!names.has(volumeName)) cleanSubPaths(this.#directory, volumeName, this.#node.mounts);
    }
  }

  /**
   * Takes back what `prepare` made. What stood there before stays, with the content it has by now: each volume is brought
   * up to date on its own, as by the kubelet.
   */
  async undo(): Promise<void> {
    const never = new AbortController().signal;
    for (const { plugin, volumeName, directory } of this.#made.splice(0).toReversed()) {
      await this.#tearDown(plugin, volumeName, directory, never);
    }
    if (this.#podIsNew) removeTree(this.#directory);
  }

  #find(): { readonly wanted: readonly Wanted[]; readonly refused: readonly Refused[] } {
    const used = usedVolumes(this.#pod);
    const wanted: Wanted[] = [];
    const refused: Refused[] = [];
    for (const volume of this.#pod.spec.volumes ?? []) {
      const { name } = volume;
      const use = { mounted: used.mounted.has(name), asDevice: used.devices.has(name) };
      if (!use.mounted && !use.asDevice) continue;
      try {
        const resolved = resolveVolume(this.#pod, volume, use, this.#node.claims);
        const isDevice = volumeModeOf(resolved) === 'Block';
        const spec = this.#node.claims.shown(volume, resolved);
        wanted.push({ name, spec, isDevice, ...identify(this.#node.plugins, asPodUid(this.#uid), spec) });
      } catch (error) {
        if (!(error instanceof MountletError)) throw error;
        refused.push({ name, why: error.message });
      }
    }
    return { wanted, refused };
  }

  async #setUp({ name, spec, isDevice, plugin, source, volume }: Wanted, signal: AbortSignal): Promise<PreparedVolume> {
    const { root, note } = this.#node;
    if (isDevice) {
      note(
        `volume ${name} of pod ${podName(this.#pod)} is a raw block device (volumeMode Block), which render does not show`,
      );
      return { name, spec, isDevice, plugin, source, path: undefined };
    }
    const directory = this.#pathOf(plugin, spec);
    const isNew = lstatSync(directory, { throwIfNoEntry: false }) === undefined;
    const mount = { root, pod: this.#pod, spec, plugin, source, volume, isRemount: !isNew, isReconstructed: false };
    await mountVolume(mount, undefined, signal);
    if (isNew) this.#made.push({ plugin, volumeName: specName(spec), directory });
    return {
      name,
      spec,
      isDevice,
      plugin,
      source,
      path: plugin.hostPathOf === undefined ? contentPathOf(plugin, directory) : plugin.hostPathOf(source),
    };
  }

  #pluginOf(pluginDirectory: string): VolumePlugin | undefined {
    const name = unescapePluginName(basename(pluginDirectory));
    return this.#node.plugins.all().find((plugin) => plugin.name === name);
  }

  #pathOf(plugin: VolumePlugin, spec: VolumeSpec): string {
    return volumeDirectory(this.#node.root, this.#uid, plugin.name, specName(spec));
  }

  async #tearDown(plugin: VolumePlugin, volumeName: string, directory: string, signal: AbortSignal): Promise<void> {
    cleanSubPaths(this.#directory, volumeName, this.#node.mounts);
    await plugin.tearDown({ podUid: this.#uid, volumeName, directory }, signal);
    removeIfEmpty(dirname(directory));
  }
}

function podName({ metadata: { namespace, name } }: Pod): string {
  return `${namespace}/${name}`;
}

interface Refused {
  readonly name: string;
  readonly why: string;
}

/** The kubelet's event for volumes that could not be resolved. */
function refusal(refused: readonly Refused[]): string {
  const names = refused.map(({ name }) => name).sort();
  const volumes = { unmounted: names, unattached: [], unprocessed: names };
  const causes = new PodStartError([refused.map(({ why }) => why).join('; ')]);
  return `Unable to attach or mount volumes: ${new VolumesNotMountedError(volumes, causes).message}`;
}

/** The directory of a volume kind, once its last volume has gone. */
function removeIfEmpty(directory: string): void {
  try {
    rmdirSync(directory);
  } catch (error) {
    // Other volumes are in it, or it was never made (a hostPath has none).
    if (!['ENOTEMPTY', 'EEXIST', 'ENOENT'].includes(errorCode(error) ?? '')) throw systemCallError(error, directory);
  }
}

function entriesOf(directory: string): readonly string[] {
  return existsSync(directory) ? readdirSync(directory).map((name) => join(directory, name)) : [];
}

/**
 * Lets the event loop turn, and throws if the signal has aborted. Files are written synchronously, which is faster, and a loop
 * that only awaits such work never gives the process a chance to receive SIGINT.
 */
export async function yieldAndCheck(signal: AbortSignal): Promise<void> {
  await setImmediate();
  signal.throwIfAborted();
}
