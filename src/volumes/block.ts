/**
 * Gives a pod a raw block device. Every step that fails ends the operation with its own prefix. Up to the pod's own part of
 * it `recordFailedMount` says what is known of the node then; from there on, that something may be mapped.
 */
import { dirname, join } from 'node:path';
import { MountletError } from '../base/errors.ts';
import { inlineSpec, specName } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { deviceDirectory } from '../kube/values/node-layout.ts';
import type { BlockMapping } from '../plugins/plugin.ts';
import type { MountRecord } from './actual-state.ts';
import type { DesiredMount } from './desired-state.ts';
import {
  MountRefusedError,
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
  type OperationDeps,
  OperationError,
  type OperationKind,
  type OperationTable,
  failedStep,
  isPanic,
  step,
  subjectOfDevice,
  subjectOfMount,
  subjectOfUnmount,
} from './operation.ts';
import type { MountAction, UnmountAction, UnmountDeviceAction } from './plan.ts';
import { DeviceBusyError, requireClosed } from './unmount.ts';

function mapVolume(deps: OperationDeps, mapper: BlockMapper): OperationKind<MountAction> {
  return {
    name: 'map_volume',
    key: keyOfMount,
    failureEvent: { reason: 'FailedMapVolume', podsOf: ({ mount: { pod } }) => [pod] },
    run: (action, signal) => new BlockMap(deps, mapper, action).run(signal),
  };
}

/** The text of the kubelet for a kind that has no raw devices. */
export function requireBlock(block: BlockMapping | undefined, mount: DesiredMount): BlockMapping {
  if (block !== undefined) return block;
  const prefix = 'MapVolume.FindMapperPluginBySpec failed to find BlockVolumeMapper plugin. Volume plugin is nil.';
  throw new OperationError(prefix, subjectOfMount(mount));
}

class BlockMap {
  readonly #deps: OperationDeps;
  readonly #mapper: BlockMapper;
  readonly #action: MountAction;
  readonly #mount: DesiredMount;

  constructor(deps: OperationDeps, mapper: BlockMapper, action: MountAction) {
    this.#deps = deps;
    this.#mapper = mapper;
    this.#action = action;
    this.#mount = newest(deps, action.mount);
  }

  async run(signal: AbortSignal): Promise<void> {
    const { actual, desired, root } = this.#deps;
    const { plugin, source, spec, volume, podUid, changes } = this.#mount;
    const block = requireBlock(plugin.block, this.#mount);
    await requireAffinity(this.#deps, this.#mount, 'MapVolume.NodeAffinity check failed', signal, 'FailedMount');
    const link = await this.#step('MapVolume.NewBlockVolumeMapper initialization failed', () => {
      plugin.requireUsable?.(source);
      return deviceDirectory(root, podUid, plugin.name, specName(spec));
    });
    requireOnlyPod(this.#deps, this.#mount, 'MapVolume.SetUpDevice failed');
    const mapPath = await this.#step('MapVolume.GetGlobalMapPath failed', () => block.globalMapPathOf(source, spec));
    const attachedPath = await waitForAttach(this.#deps, this.#mount, 'MapVolume.WaitForAttach failed', signal);
    const nodePath = await this.#setUpDevice(block, attachedPath, mapPath, signal);
    await this.#markDevice(nodePath, mapPath);
    const podPath = await this.#mapPodDevice(block, mapPath, signal);
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
  async #setUpDevice(block: BlockMapping, attached: string, mapPath: string, signal: AbortSignal): Promise<string> {
    const { actual } = this.#deps;
    const { source, spec, pod, volume } = this.#mount;
    if (block.setUpDevice === undefined || actual.deviceState(volume) === 'mounted') return attached;
    try {
      const made = await block.setUpDevice({ spec, source, pod }, signal);
      return made === '' ? attached : made;
    } catch (cause) {
      recordFailedDevice(actual, { volume, devicePath: attached, deviceMountPath: mapPath }, cause, signal);
      throw this.#error('MapVolume.SetUpDevice failed', cause);
    }
  }

  async #mapPodDevice(block: BlockMapping, mapPath: string, signal: AbortSignal): Promise<string> {
    const { source, spec, pod } = this.#mount;
    try {
      return (await block.mapPodDevice?.({ spec, source, pod }, signal)) ?? '';
    } catch (cause) {
      // Whatever the plugin says of its own part, what an earlier attempt bound is still there.
      if (await this.#mayBeBound(mapPath, signal)) this.#markUncertain();
      else recordFailedMount(this.#deps.actual, this.#record(), cause, signal);
      throw this.#error('MapVolume.MapPodDevice failed', cause);
    }
  }

  async #mayBeBound(mapPath: string, signal: AbortSignal): Promise<boolean> {
    try {
      const references = await this.#mapper.referencesBelow(mapPath, signal);
      return references.includes(join(mapPath, this.#mount.podUid));
    } catch (error) {
      if (isPanic(error)) throw error;
      return true; // nobody can tell
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
    const { actual, expander } = this.#deps;
    const { podUid, spec } = this.#mount;
    const { mapPath, link, nodePath } = given;
    if (given.devicePath === '') {
      throw this.#error('MapVolume failed', new MountRefusedError('device path of the volume is empty'));
    }
    const devicePath = await this.#step('MapVolume.EvalHostSymlinks failed', () =>
      this.#mapper.resolve(given.devicePath, signal),
    );
    if (devicePath !== nodePath) await this.#markDevice(devicePath, mapPath);
    await this.#step('MapVolume.MapBlockVolume failed', () =>
      this.#mapper.map({ devicePath, mapPath, podUid, link }, signal),
    );
    this.#tell(`globalMapPath ${goQuote(mapPath)}`);
    this.#tell(`volumeMapPath ${goQuote(dirname(link))}`);
    if (expander !== undefined && spec.persistentVolume !== undefined) {
      try {
        await expander.expandOnMount({ mount: this.#mount, devicePath }, signal);
      } catch (cause) {
        actual.uncertain(this.#record());
        throw this.#error('MapVolume.MarkVolumeAsMounted failed while expanding volume', cause);
      }
    }
    await this.#step('MapVolume.MarkVolumeAsMounted failed', () => actual.mounted(this.#record()));
  }

  #markDevice(devicePath: string, mapPath: string): Promise<void> {
    const { actual } = this.#deps;
    return this.#step('MapVolume.MarkDeviceAsMounted failed', () =>
      actual.deviceMounted(this.#mount.volume, devicePath, mapPath),
    );
  }

  #record(): MountRecord {
    const { volume, podUid, spec, plugin, revision } = this.#mount;
    return { volume, podUid, spec, pluginName: plugin.name, gid: this.#action.volume.gid, revision };
  }

  #tell(what: string): void {
    const { pod, spec } = this.#mount;
    const message = `MapVolume.MapPodDevice succeeded for volume ${goQuote(specName(spec))} ${what}`;
    this.#deps.notify({ kind: 'PodEvent', type: 'Normal', pod: podRef(pod), reason: 'SuccessfulMountVolume', message });
  }

  #step<T>(prefix: string, act: () => T | Promise<T>): Promise<T> {
    return step(prefix, subjectOfMount(this.#mount), act);
  }

  #error(prefix: string, cause: unknown): Error {
    return failedStep(prefix, subjectOfMount(this.#mount), cause);
  }
}

/** Takes a raw block device away from a pod. The device itself stays for the next one. */
function unmapVolume(deps: OperationDeps, mapper: BlockMapper): OperationKind<UnmountAction> {
  const { root, plugins, actual, notify } = deps;
  return {
    name: 'unmap_volume',
    key: ({ volume, podUid }) => ({ volume, podUid, node: '' }),
    async run(action, signal) {
      const { volume, podUid, pluginName, volumeName, gid, spec = inlineSpec({ name: volumeName }) } = action;
      const subject = subjectOfUnmount(action);
      const plugin = await step('UnmapVolume.FindMapperPluginByName failed', subject, () =>
        plugins.findByName(pluginName),
      );
      const { block } = plugin;
      if (block === undefined) {
        const prefix =
          'UnmapVolume.FindMapperPluginByName failed to find BlockVolumeMapper plugin. Volume plugin is nil.';
        throw new OperationError(prefix, subject);
      }
      const link = await step('UnmapVolume.NewUnmapper failed', subject, () =>
        deviceDirectory(root, podUid, pluginName, volumeName),
      );
      const mapPath = await step('UnmapVolume.GetGlobalMapPath failed', subject, () =>
        block.globalMapPathOf(plugin.sourceOf(spec), spec),
      );
      // Whichever step fails, it is not the pod's to use any more and still to be cleaned up.
      const { revision = 0 } = actual.mount(action) ?? {};
      await step('UnmapVolume.MarkDeviceAsUncertain failed', subject, () =>
        actual.uncertain({ volume, podUid, spec, pluginName, gid, revision }),
      );
      await step('UnmapVolume.UnmapBlockVolume failed', subject, () => mapper.unmap({ mapPath, podUid, link }, signal));
      await step('UnmapVolume.UnmapPodDevice failed', subject, () =>
        block.unmapPodDevice?.({ podUid, volumeName }, signal),
      );
      try {
        actual.unmounted(action);
      } catch (error) {
        if (!(error instanceof MountletError)) throw error; // the volume is not listed any more; the device is gone all the same
      }
      const message =
        `UnmapVolume succeeded for volume ${goQuote(volume)} pod ${goQuote(podUid)} (UID: ${goQuote(podUid)}). ` +
        `InnerVolumeSpecName ${goQuote(volumeName)}. PluginName ${goQuote(pluginName)}, VolumeGIDValue ${goQuote(gid)}`;
      notify({ kind: 'VolumeUnmounted', volume, podUid, plugin: pluginName, message });
    },
  };
}

/** Takes a raw block device away from the node, once no pod has it any more. */
function unmapDevice(deps: OperationDeps, mapper: BlockMapper): OperationKind<UnmountDeviceAction> {
  const { plugins, actual, node } = deps;
  return {
    name: 'unmap_device',
    key: ({ volume: { volume } }) => ({ volume, podUid: '', node: '' }),
    async run({ volume: attached }, signal) {
      const { volume, devicePath, deviceMountPath, spec, pluginName } = attached;
      const subject = subjectOfDevice(attached, node.name);
      const plugin = await step('UnmapDevice.FindMapperPluginByName failed', subject, () =>
        plugins.findByName(pluginName),
      );
      const { block } = plugin;
      if (block === undefined) {
        const prefix =
          'UnmapDevice.FindMapperPluginByName failed to find BlockVolumeMapper plugin. Volume plugin is nil.';
        throw new OperationError(prefix, subject);
      }
      // Where it was mapped, and not where it would be now: the plugin's settings may have changed.
      const mapPath = await step('UnmapDevice.NewUnmapper failed', subject, () =>
        deviceMountPath === '' ? block.globalMapPathOf(plugin.sourceOf(spec), spec) : deviceMountPath,
      );
      const references = await step('UnmapDevice.GetDeviceBindMountRefs check failed', subject, () =>
        mapper.referencesBelow(mapPath, signal),
      );
      if (references.length > 0) {
        const why = `the device ${goQuote(mapPath)} is still referenced from other Pods [${references.join(' ')}]`;
        throw new OperationError('UnmapDevice failed', subject, new DeviceBusyError(why));
      }
      await step('UnmapDevice.MarkDeviceAsUncertain failed', subject, () =>
        actual.deviceUncertain(volume, devicePath, mapPath),
      );
      await step('UnmapDevice.TearDownDevice failed', subject, () =>
        block.tearDownDevice?.(mapPath, devicePath, signal),
      );
      await step('UnmapDevice.RemoveMapPath failed', subject, () => mapper.remove(mapPath, signal));
      await requireClosed(deps, attached, mapPath, 'UnmapDevice failed', signal);
      await step('MarkDeviceAsUnmounted failed', subject, () => actual.deviceUnmounted(volume));
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

/** The operations of raw block devices, for nodes that can have some. */
export function blockOperations(deps: OperationDeps, mapper: BlockMapper): OperationTable {
  return { map: mapVolume(deps, mapper), unmap: unmapVolume(deps, mapper), unmapDevice: unmapDevice(deps, mapper) };
}
