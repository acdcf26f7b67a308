/**
 * Finds again what an earlier process had mounted. There is no file that remembers it: the directories of pods, what plugins
 * wrote down about attached storage, the node's status and the list of pods are all there is.
 *
 * ```text
 *   scan ──▶ each directory, by name ──▶ a guessed spec ──▶ actual state, uncertain      before any operation starts
 *                    │ no guess
 *                    ▼
 *                 failed ───────────────────────────────┐
 *   run ───▶ the node's status, until it can be read ──▶│ once all pods are known ──▶ unmounted, unless wanted
 * ```
 *
 * What is wanted is set up again, which leaves what is there as it is; everything else is unmounted like any other volume
 * that is not wanted, and not before the node knows both all its pods and its own status.
 */
import { setImmediate } from 'node:timers/promises';
import { BackOff } from '../base/back-off.ts';
import type { Clock } from '../base/clock.ts';
import { MountletError, messageOf } from '../base/errors.ts';
import type { Node } from '../kube/kinds/node.ts';
import { type VolumeMode, type VolumeSpec, volumeModeOf } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { unescapePluginName } from '../kube/values/node-layout.ts';
import { VolumeError, type VolumePlugin } from '../plugins/plugin.ts';
import type { ActualState } from './actual-state.ts';
import type { DesiredState } from './desired-state.ts';
import type { NotifyVolumes } from './notices.ts';
import type { NodeReader } from './operation.ts';
import type { Operations } from './operations.ts';
import type { PodsOnDisk, VolumeOnDisk } from './orphans.ts';
import type { Populator } from './populator.ts';
import {
  type Plugins,
  type PodUid,
  type VolumeIdentity,
  type VolumeName,
  asPodUid,
  asVolumeName,
  canAttach,
  deviceMountOf,
  identify,
} from './volume-name.ts';

interface ReconstructionDeps {
  readonly disk: Pick<PodsOnDisk, 'scan'>;
  readonly plugins: Plugins & { all(): Iterable<VolumePlugin> };
  readonly node: NodeReader;
  readonly desired: Pick<DesiredState, 'hasSpecName'>;
  readonly actual: ActualState;
  readonly operations: Pick<Operations, 'start'>;
  readonly populator: Pick<Populator, 'hasAddedPods' | 'isUnresolved'>;
  readonly clock: Clock;
  readonly notify: NotifyVolumes;
}

/** Directories of so many pods are read before others get a turn. */
const podsPerTurn = 32;
/** The kubelet asks again ten times in a second. A server that does not come back is asked less often. */
const retries = { firstMs: 100, msMax: 1_000 };

export class Reconstruction {
  readonly #deps: ReconstructionDeps;
  /** A volume that several pods have is in it as often. */
  #awaitingStatus: readonly VolumeName[] = [];
  #failed: readonly FoundVolume[] = [];
  #isScanned = false;

  constructor(deps: ReconstructionDeps) {
    this.#deps = deps;
  }

  /** Lists in the actual state what is on disk. Over before any operation starts. */
  async scan(signal: AbortSignal): Promise<void> {
    const { notify } = this.#deps;
    const groups = new Map<VolumeName, ReconstructedVolume[]>();
    const failed: FoundVolume[] = [];
    for await (const found of this.#found(signal)) {
      const volume = this.#reconstruct(found);
      if (volume === undefined) failed.push(found);
      else if (groups.get(volume.volume)?.push(volume) === undefined) groups.set(volume.volume, [volume]);
    }
    for (const group of groups.values()) this.#load(group);
    const connected = this.#loadLeftBehind();
    this.#awaitingStatus = [...[...groups.values()].flat().map(({ volume }) => volume), ...connected];
    this.#failed = failed;
    this.#isScanned = true;
    notify({ kind: 'ReconstructionFinished', volumes: this.#awaitingStatus.length, failed: failed.length });
  }

  /** The node's status was applied to all that was found: until then nothing is unmounted. */
  isApplied(): boolean {
    return this.#isScanned && this.#awaitingStatus.length === 0;
  }

  /** Volumes whose attachment only the node's status says. */
  get awaitingStatus(): readonly VolumeName[] {
    return this.#awaitingStatus;
  }

  /** What could not be identified and is not cleaned up yet. */
  get failed(): readonly FoundVolume[] {
    return this.#failed;
  }

  /** Applies the node's status as soon as it can be read, and says so. */
  async run(applied: () => void, signal: AbortSignal): Promise<void> {
    const backOff = new BackOff(retries);
    while (!this.isApplied()) {
      const node = await this.#readNode(backOff.next(), signal);
      if (signal.aborted) return;
      if (node !== undefined) this.#apply(node);
    }
    applied();
    this.cleanFailed();
  }

  /**
   * Unmounts, once, what could not be made sense of, as far as no pod wants it: one that does repairs it by mounting. To be
   * called whenever more is known of the pods.
   */
  cleanFailed(): void {
    const { populator } = this.#deps;
    if (this.#failed.length === 0 || !this.isApplied() || !populator.hasAddedPods) return;
    // If some of a pod's volumes are unresolved, this mount may be one of them.
    const ripe = this.#failed.filter(({ podUid }) => !populator.isUnresolved(podUid));
    this.#failed = this.#failed.filter((found) => !ripe.includes(found));
    for (const found of ripe) this.#clean(found);
  }

  async *#found(signal: AbortSignal): AsyncGenerator<FoundVolume, void> {
    const { disk, notify } = this.#deps;
    try {
      let inTurn = 0;
      for (const { podUid, volumes, devices, skipped } of disk.scan()) {
        for (const { path, why } of skipped) notify({ kind: 'EntrySkipped', path, message: why });
        for (const volume of volumes) yield foundVolume(podUid, volume, 'Filesystem');
        for (const device of devices) yield foundVolume(podUid, device, 'Block');
        inTurn += 1;
        if (inTurn % podsPerTurn === 0) await setImmediate();
        if (signal.aborted) return;
      }
    } catch (error) {
      if (!(error instanceof MountletError)) throw error;
      const message = `Cannot get volumes from disk, skip sync states for volume reconstruction: ${error.message}`;
      notify({ kind: 'ReconstructionProblem', volume: '', message });
    }
  }

  #reconstruct(found: FoundVolume): ReconstructedVolume | undefined {
    const { plugins, notify } = this.#deps;
    const { podUid, pluginName: plugin, volumeName, path } = found;
    const facts = { kind: 'VolumeReconstructed', podUid, plugin, volumeName, path } as const;
    try {
      const volume = reconstructVolume(plugins, found);
      notify({ ...facts, volume: volume.volume, problem: undefined });
      return volume;
    } catch (error) {
      notify({ ...facts, volume: undefined, problem: messageOf(error) });
      return undefined;
    }
  }

  /** All pods that have one volume. */
  #load(group: readonly ReconstructedVolume[]): void {
    const [first] = group;
    if (first === undefined) return;
    const { actual } = this.#deps;
    this.#attempt(first.volume, () => {
      actual.foundAttached({ volume: first.volume, spec: first.spec, devicePath: '' });
      for (const { volume, podUid, spec, pluginName } of group) {
        actual.foundMounted({ volume, podUid, spec, pluginName, gid: '', revision: 0 });
      }
      const place = devicePlaceOf(first);
      if (place !== undefined) actual.deviceUncertain(first.volume, '', place);
    });
  }

  /** Storage that is connected, or mounted on the node, though no pod has a directory for it: the crash came between. */
  #loadLeftBehind(): readonly VolumeName[] {
    const connected: VolumeName[] = [];
    for (const plugin of this.#deps.plugins.all()) {
      this.#attempt(plugin.name, () => {
        for (const spec of plugin.leftBehind?.() ?? []) {
          this.#attempt(plugin.name, () => connected.push(...this.#loadConnected(plugin, spec)));
        }
      });
    }
    return connected;
  }

  #loadConnected(plugin: VolumePlugin, spec: VolumeSpec): readonly VolumeName[] {
    const { plugins, actual } = this.#deps;
    const identity = identify(plugins, asPodUid(''), spec);
    const { volume } = identity;
    if (actual.volume(volume) !== undefined) return [];
    actual.foundAttached({ volume, spec, devicePath: '' });
    const found = { podUid: asPodUid(''), pluginName: plugin.name, volumeName: '', path: '', mode: volumeModeOf(spec) };
    const place = devicePlaceOf({ ...found, ...identity, spec });
    if (place !== undefined) actual.deviceUncertain(volume, '', place);
    return [volume];
  }

  /** A failure with one volume is reported and costs the others nothing. */
  #attempt(volume: string, act: () => void): void {
    try {
      act();
    } catch (error) {
      this.#deps.notify({ kind: 'ReconstructionProblem', volume, message: messageOf(error) });
    }
  }

  /** Undefined after a pause, when it could not be read. */
  async #readNode(delayMs: number, signal: AbortSignal): Promise<Node | undefined> {
    const { node, clock, notify } = this.#deps;
    try {
      return await node.read(signal);
    } catch (error) {
      if (signal.aborted) return undefined;
      notify({ kind: 'NodeStatusUnread', message: messageOf(error), retryAt: clock.now() + delayMs });
    }
    try {
      await clock.sleep(delayMs, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    return undefined;
  }

  #apply({ status }: Node): void {
    const { actual, notify } = this.#deps;
    const listed = new Map(status?.volumesAttached?.map(({ name, devicePath }) => [name, devicePath]));
    for (const volume of this.#awaitingStatus) {
      const devicePath = listed.get(volume);
      if (devicePath !== undefined) actual.resolveDevicePath(volume, devicePath);
      actual.resolveAttachable(volume, devicePath !== undefined || this.#isAttachedHere(volume));
    }
    notify({ kind: 'NodeStatusApplied', volumes: this.#awaitingStatus.length });
    this.#awaitingStatus = [];
  }

  /** No status lists what this node attaches itself. */
  #isAttachedHere(volume: VolumeName): boolean {
    const { actual, plugins } = this.#deps;
    const present = actual.volume(volume);
    if (present === undefined) return false;
    const plugin = plugins.findByName(present.pluginName);
    if (plugin.attach?.byNodeAlone === undefined) return false;
    return canAttach({ plugin, source: plugin.sourceOf(present.spec) }, present.spec);
  }

  #clean({ podUid, pluginName, volumeName }: FoundVolume): void {
    const { desired, operations, notify } = this.#deps;
    if (desired.hasSpecName(podUid, volumeName)) return;
    // Its unique name is unknown. The bare directory name cannot collide: real unique names start with a plugin name.
    const volume = asVolumeName(volumeName);
    const action = { kind: 'unmount', volume, podUid, pluginName, volumeName, gid: '', spec: undefined } as const;
    const result = operations.start(action);
    const problem = result === 'started' ? undefined : `its unmount is ${result}`;
    notify({ kind: 'FailedVolumeCleaned', podUid, plugin: pluginName, volumeName, problem });
  }
}

/** What one directory on disk says about the volume it belongs to. Reads nothing: only names and the mount table speak. */
interface FoundVolume {
  readonly podUid: PodUid;
  readonly pluginName: string;
  /** The name of its directory, which is the name of its spec. */
  readonly volumeName: string;
  readonly path: string;
  readonly mode: VolumeMode;
}

/** Its spec is a guess: good enough to unmount the volume, never to mount it. */
interface ReconstructedVolume extends FoundVolume, VolumeIdentity {
  readonly spec: VolumeSpec;
}

function foundVolume(podUid: string, { pluginDirectory, name, path }: VolumeOnDisk, mode: VolumeMode): FoundVolume {
  return { podUid: asPodUid(podUid), pluginName: unescapePluginName(pluginDirectory), volumeName: name, path, mode };
}

/** Whatever it throws, one bad directory does not stop a start. */
function reconstructVolume(plugins: Plugins, found: FoundVolume): ReconstructedVolume {
  const plugin = plugins.findByName(found.pluginName);
  const spec = specOf(plugin, found);
  if (spec !== undefined) return { ...found, ...identify(plugins, found.podUid, spec), spec };
  throw notReconstructed(`failed to reconstruct volume for plugin ${whatOf(found)}: the plugin leaves no directory`);
}

function notReconstructed(message: string): VolumeError {
  return new VolumeError('ReconstructionFailed', message);
}

function specOf(plugin: VolumePlugin, found: FoundVolume): VolumeSpec | undefined {
  const { podUid, volumeName, path, mode } = found;
  if (mode === 'Filesystem') return plugin.reconstruct(volumeName, path);
  if (plugin.block === undefined) throw notReconstructed(`could not find block volume plugin ${whatOf(found)}`);
  return plugin.block.reconstruct(podUid, volumeName, path);
}

function whatOf({ pluginName, volumeName, podUid }: FoundVolume): string {
  return `${goQuote(pluginName)} (spec.Name: ${goQuote(volumeName)}) pod ${goQuote(podUid)} (UID: ${goQuote(podUid)})`;
}

/** Where the volume's device is mounted on the node, or mapped; undefined for volumes that have none. */
function devicePlaceOf({ plugin, source, spec, mode }: ReconstructedVolume): string | undefined {
  if (mode === 'Block') return plugin.block?.globalMapPathOf(source, spec);
  return deviceMountOf({ plugin, source }, spec)?.pathOf(source, spec) || undefined;
}
