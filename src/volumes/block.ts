/**
 * Gives a pod a raw block device. Every step that fails ends the operation with its own prefix. Up to the pod's own part of
 * it `recordFailedMount` says what is known of the node then; from there on, that something may be mapped.
 */
import { dirname, join } from 'node:path';
import { inlineSpec, specName } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { deviceDirectory } from '../kube/values/node-layout.ts';
import { type BlockMapping, type DeviceRequest, VolumeError } from '../plugins/plugin.ts';
import type { MountRecord } from './actual-state.ts';
import type { DesiredMount } from './desired-state.ts';
import {
  keyOfMount,
  newest,
  recordFailedDevice,
  recordFailedMount,
  requireAffinity,
  requireOnlyPod,
  waitForAttach,
} from './mount.ts';
import { podRef } from './notices.ts';
import {
  type MountExpander,
  type OperationDeps,
  OperationError,
  type OperationKind,
  type Step,
  isPanic,
  stepsOf,
  subjectOfDevice,
  subjectOfMount,
  subjectOfUnmount,
} from './operation.ts';
import type { MountAction, UnmountAction, UnmountDeviceAction } from './plan.ts';
import { detailsOf, recordHalfUnmounted, recordUnmounted, reportUnmounted, requireClosed } from './unmount.ts';
import { canAttach } from './volume-name.ts';

export function mapVolume(
  deps: OperationDeps,
  mapper: BlockMapper,
  expander: MountExpander,
): OperationKind<MountAction> {
  return {
    name: 'map_volume',
    key: keyOfMount,
    failureEvent: { reason: 'FailedMapVolume', podsOf: ({ mount: { pod } }) => [pod] },
    run: (action, signal) => new BlockMap(deps, mapper, expander, action).run(signal),
  };
}

/** The kubelet's words for a kind that has no raw devices. */
const notMappable = 'failed to find BlockVolumeMapper plugin. Volume plugin is nil.';

export function requireBlock(block: BlockMapping | undefined, mount: DesiredMount): BlockMapping {
  if (block !== undefined) return block;
  throw new OperationError(`MapVolume.FindMapperPluginBySpec ${notMappable}`, subjectOfMount(mount));
}

class BlockMap {
  readonly #deps: OperationDeps;
  readonly #mapper: BlockMapper;
  readonly #expander: MountExpander;
  readonly #action: MountAction;
  readonly #mount: DesiredMount;
  readonly #step: Step;

  constructor(deps: OperationDeps, mapper: BlockMapper, expander: MountExpander, action: MountAction) {
    this.#deps = deps;
    this.#mapper = mapper;
    this.#expander = expander;
    this.#action = action;
    this.#mount = newest(deps, action.mount);
    this.#step = stepsOf(subjectOfMount(this.#mount), 'MapVolume.');
  }

  async run(signal: AbortSignal): Promise<void> {
    const { actual, desired, root } = this.#deps;
    const { plugin, source, spec, volume, podUid, changes } = this.#mount;
    const block = requireBlock(plugin.block, this.#mount);
    await this.#step('NodeAffinity check failed', () => requireAffinity(this.#deps, this.#mount, signal), {
      eventReason: 'FailedMount',
    });
    const link = await this.#step('NewBlockVolumeMapper initialization failed', () => {
      plugin.requireUsable?.(source);
      return deviceDirectory(root, podUid, plugin.name, specName(spec));
    });
    await this.#step('SetUpDevice failed', () => requireOnlyPod(this.#deps, this.#mount));
    const mapPath = await this.#step('GetGlobalMapPath failed', () => block.globalMapPathOf(source, spec));
    const attachedPath = await this.#step('WaitForAttach failed', () => waitForAttach(this.#deps, this.#mount, signal));
    const request = {
      spec,
      source,
      pod: this.#mount.pod,
      devicePath: canAttach(this.#mount, spec) ? attachedPath : undefined,
    };
    const nodePath = await this.#setUpDevice(block, request, attachedPath, mapPath, signal);
    await this.#markDevice(nodePath, mapPath);
    const podPath = await this.#mapPodDevice(block, request, mapPath, signal);
    try {
      await this.#map({ devicePath: podPath === '' ? nodePath : podPath, nodePath, mapPath, link }, signal);
    } catch (error) {
      // The pod may have it mapped from here on: it is unmapped when the pod goes.
      if (actual.volume(volume) !== undefined) this.#markUncertain();
      throw error;
    }
    desired.shown(this.#mount, changes);
  }

  /** Once for all pods. The path of a device that is ready is the one it had when it became so. */
  async #setUpDevice(
    block: BlockMapping,
    request: DeviceRequest,
    attached: string,
    mapPath: string,
    signal: AbortSignal,
  ): Promise<string> {
    const { actual } = this.#deps;
    const { volume } = this.#mount;
    if (block.setUpDevice === undefined || actual.deviceState(volume) === 'mounted') return attached;
    const made = await this.#step('SetUpDevice failed', () => block.setUpDevice?.(request, signal) ?? '', {
      failed: (cause) =>
        recordFailedDevice(actual, { volume, devicePath: attached, deviceMountPath: mapPath }, cause, signal),
    });
    return made === '' ? attached : made;
  }

  async #mapPodDevice(
    block: BlockMapping,
    request: DeviceRequest,
    mapPath: string,
    signal: AbortSignal,
  ): Promise<string> {
    const map = async (): Promise<string> => (await block.mapPodDevice?.(request, signal)) ?? '';
    return this.#step('MapPodDevice failed', map, {
      failed: async (cause) => {
        // Whatever the plugin says of its own part, what an earlier attempt bound is still there.
        if (await this.#mayBeBound(mapPath, signal)) this.#markUncertain();
        else recordFailedMount(this.#deps.actual, this.#record(), cause, signal);
      },
    });
  }

  async #mayBeBound(mapPath: string, signal: AbortSignal): Promise<boolean> {
    try {
      const references = await this.#mapper.referencesBelow(mapPath, signal);
      return references.includes(join(mapPath, this.#mount.podUid));
    } catch (error) {
      if (isPanic(error)) throw error;
      return true; // unknown counts as bound
    }
  }

  /** What is mapped stays so: containers keep what they have. */
  #markUncertain(): void {
    const { actual } = this.#deps;
    if (actual.mountState(this.#mount) === 'not-mounted') actual.uncertain(this.#record());
  }

  async #map(
    given: { readonly devicePath: string; readonly nodePath: string; readonly mapPath: string; readonly link: string },
    signal: AbortSignal,
  ): Promise<void> {
    const { actual } = this.#deps;
    const { podUid, spec } = this.#mount;
    const { mapPath, link, nodePath } = given;
    if (given.devicePath === '') {
      const why = new VolumeError('MountRefused', 'device path of the volume is empty');
      throw new OperationError('MapVolume failed', subjectOfMount(this.#mount), why);
    }
    const devicePath = await this.#step('EvalHostSymlinks failed', () =>
      this.#mapper.resolve(given.devicePath, signal),
    );
    if (devicePath !== nodePath) await this.#markDevice(devicePath, mapPath);
    await this.#step('MapBlockVolume failed', () => this.#mapper.map({ devicePath, mapPath, podUid, link }, signal));
    this.#reportMapped(`globalMapPath ${goQuote(mapPath)}`);
    this.#reportMapped(`volumeMapPath ${goQuote(dirname(link))}`);
    if (spec.persistentVolume !== undefined) {
      await this.#step(
        'MarkVolumeAsMounted failed while expanding volume',
        () => this.#expander.expandOnMount({ mount: this.#mount, devicePath }, signal),
        { failed: () => actual.uncertain(this.#record()) },
      );
    }
    await this.#step('MarkVolumeAsMounted failed', () => actual.mounted(this.#record()));
  }

  #markDevice(devicePath: string, mapPath: string): Promise<void> {
    const { actual } = this.#deps;
    return this.#step('MarkDeviceAsMounted failed', () =>
      actual.deviceMounted(this.#mount.volume, devicePath, mapPath),
    );
  }

  #record(): MountRecord {
    const { volume, podUid, spec, plugin, revision } = this.#mount;
    return { volume, podUid, spec, pluginName: plugin.name, gid: this.#action.volume.gid, revision };
  }

  #reportMapped(what: string): void {
    const { pod, spec } = this.#mount;
    const message = `MapVolume.MapPodDevice succeeded for volume ${goQuote(specName(spec))} ${what}`;
    this.#deps.notify({ kind: 'PodEvent', type: 'Normal', pod: podRef(pod), reason: 'SuccessfulMountVolume', message });
  }
}

/** Takes a raw block device away from a pod. The device itself stays for the next one. */
export function unmapVolume(deps: OperationDeps, mapper: BlockMapper): OperationKind<UnmountAction> {
  const { root, plugins, actual } = deps;
  return {
    name: 'unmap_volume',
    key: ({ volume, podUid }) => ({ volume, podUid }),
    async run(action, signal) {
      const { podUid, pluginName, volumeName, spec = inlineSpec({ name: volumeName }) } = action;
      const subject = subjectOfUnmount(action);
      const step = stepsOf(subject, 'UnmapVolume.');
      const plugin = await step('FindMapperPluginByName failed', () => plugins.findByName(pluginName));
      const { block } = plugin;
      if (block === undefined) throw new OperationError(`UnmapVolume.FindMapperPluginByName ${notMappable}`, subject);
      const link = await step('NewUnmapper failed', () => deviceDirectory(root, podUid, pluginName, volumeName));
      const mapPath = await step('GetGlobalMapPath failed', () => block.globalMapPathOf(plugin.sourceOf(spec), spec));
      await step('MarkDeviceAsUncertain failed', () => recordHalfUnmounted(actual, action));
      await step('UnmapBlockVolume failed', () => mapper.unmap({ mapPath, podUid, link }, signal));
      await step('UnmapPodDevice failed', () => block.unmapPodDevice?.({ podUid, volumeName }, signal));
      recordUnmounted(actual, action);
      reportUnmounted(deps, action, `UnmapVolume succeeded ${detailsOf(action)}`);
    },
  };
}

/** Takes a raw block device away from the node, once no pod has it any more. */
export function unmapDevice(deps: OperationDeps, mapper: BlockMapper): OperationKind<UnmountDeviceAction> {
  const { plugins, actual, node } = deps;
  return {
    name: 'unmap_device',
    key: ({ volume: { volume } }) => ({ volume }),
    async run({ volume: attached }, signal) {
      const { volume, devicePath, deviceMountPath, spec, pluginName } = attached;
      const subject = subjectOfDevice(attached, node.name);
      const step = stepsOf(subject);
      const plugin = await step('UnmapDevice.FindMapperPluginByName failed', () => plugins.findByName(pluginName));
      const { block } = plugin;
      if (block === undefined) throw new OperationError(`UnmapDevice.FindMapperPluginByName ${notMappable}`, subject);
      // Where it was mapped, and not where it would be now: the plugin's settings may have changed.
      const mapPath = await step('UnmapDevice.NewUnmapper failed', () =>
        deviceMountPath === '' ? block.globalMapPathOf(plugin.sourceOf(spec), spec) : deviceMountPath,
      );
      const references = await step('UnmapDevice.GetDeviceBindMountRefs check failed', () =>
        mapper.referencesBelow(mapPath, signal),
      );
      await step('UnmapDevice failed', () => {
        if (references.length === 0) return;
        const list = references.join(' ');
        throw new VolumeError(
          'DeviceBusy',
          `the device ${goQuote(mapPath)} is still referenced from other Pods [${list}]`,
        );
      });
      await step('UnmapDevice.MarkDeviceAsUncertain failed', () => actual.deviceUncertain(volume, devicePath, mapPath));
      await step('UnmapDevice.TearDownDevice failed', () => block.tearDownDevice?.(mapPath, devicePath, signal));
      await step('UnmapDevice.RemoveMapPath failed', () => mapper.remove(mapPath, signal));
      await requireClosed(deps, { attached, path: mapPath, failure: 'UnmapDevice failed' }, step, signal);
      await step('MarkDeviceAsUnmounted failed', () => actual.deviceUnmounted(volume));
    },
  };
}

/** What the operations of raw block devices need of the machine; disk/devices/block-mappings.ts does it. */
export interface BlockMapper {
  /** The device's own path, behind links such as those of `/dev/disk/by-id`. */
  resolve(devicePath: string, signal: AbortSignal): Promise<string>;
  /** Binds the device for the pod, links to it and keeps it open. What is there already is left as it is. */
  map(mapping: NewPodDevice, signal: AbortSignal): Promise<void>;
  /** In the opposite order. What is gone already is a success. */
  unmap(mapping: PodDevice, signal: AbortSignal): Promise<void>;
  /** The bind mounts of pods below a map path; none where there is no such directory. */
  referencesBelow(mapPath: string, signal: AbortSignal): Promise<readonly string[]>;
  /** The directory of a device that no pod has; one that is not there is a success. */
  remove(mapPath: string, signal: AbortSignal): Promise<void>;
}

export interface PodDevice {
  /** The directory on the node in which each pod's bind mount is a file named after its UID. */
  readonly mapPath: string;
  readonly podUid: string;
  readonly link: string;
}

export interface NewPodDevice extends PodDevice {
  readonly devicePath: string;
}
