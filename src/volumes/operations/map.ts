/**
 * Gives a pod a raw block device. Every step that fails ends the operation with its own prefix. Up to the pod's own part of
 * it failed-mount.ts says what is known of the node then; from there on, that something may be mapped.
 */
import { dirname, join } from 'node:path';
import { specName } from '../../kube/references/volume-spec.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { deviceDirectory } from '../../kube/values/node-layout.ts';
import type { BlockMapping } from '../../plugins/plugin.ts';
import type { MountRecord } from '../actual-state.ts';
import type { DesiredMount } from '../desired-state.ts';
import { isPanic } from '../operation-errors.ts';
import type { MountAction } from '../volume-actions.ts';
import { podRef } from '../volume-notices.ts';
import type { BlockMapper } from './block-mapper.ts';
import { recordFailedDevice, recordFailedMount } from './failed-mount.ts';
import { MountRefusedError, requireAffinity, requireOnlyPod } from './mount-conditions.ts';
import { keyOfMount, newest } from './mount.ts';
import { OperationError, failedStep, step, subjectOfMount } from './operation-error.ts';
import type { OperationDeps, OperationKind } from './operation-kind.ts';
import { waitForAttach } from './wait-for-attach.ts';

export function mapVolume(deps: OperationDeps, mapper: BlockMapper): OperationKind<MountAction> {
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
