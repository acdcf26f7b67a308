/** Grows a volume while pods use it. "Not yet" is no failure: then it is tried again after a while. */
import { specName } from '../../kube/references/volume-spec.ts';
import { volumeDirectory } from '../../kube/values/node-layout.ts';
import type { DesiredMount } from '../desired-state.ts';
import type { VolumeName } from '../mount-id.ts';
import { type ExpandAction, modeOf } from '../volume-actions.ts';
import { podRef } from '../volume-notices.ts';
import type { ClaimWriter } from './claim-writer.ts';
import { ExpansionError } from './expansion-error.ts';
import { requireBlock } from './map.ts';
import { newest } from './mount.ts';
import { NodeExpander } from './node-expander.ts';
import { OperationError, step, subjectOfMount } from './operation-error.ts';
import type { MountExpansion, OperationDeps, OperationKind, OperationTable } from './operation-kind.ts';

/** The claim is read at each attempt. A controller that is at work needs seconds; the kubelet asks ten times a second. */
const retryMsFirst = 1_000;
const retryMsMax = 30_000;

export function expansionOperations(deps: OperationDeps, writer: ClaimWriter): OperationTable {
  return { expand: new ExpandInUse(deps, writer) };
}

class ExpandInUse implements OperationKind<ExpandAction> {
  readonly name = 'volume_fs_resize';
  readonly failureEvent = { reason: 'VolumeResizeFailed', podsOf: ({ mount: { pod } }: ExpandAction) => [pod] };
  readonly #deps: OperationDeps;
  readonly #expander: NodeExpander;
  /** Of volumes that could not be grown yet. */
  readonly #retryMs = new Map<VolumeName, number>();

  constructor(deps: OperationDeps, writer: ClaimWriter) {
    this.#deps = deps;
    this.#expander = new NodeExpander(deps, writer);
  }

  key({ volume }: ExpandAction): ReturnType<OperationKind<ExpandAction>['key']> {
    return { volume: volume.volume, podUid: '', node: '' };
  }

  async run(action: ExpandAction, signal: AbortSignal): Promise<void> {
    const { actual } = this.#deps;
    const mount = newest(this.#deps, action.mount);
    const { volume } = mount;
    const subject = subjectOfMount(mount);
    if (action.sizeBytesNow === 0n || action.sizeBytesWanted === 0n) {
      const why = new ExpansionError('current or new size of the volume is not set');
      throw new OperationError('NodeExpandvolume.expansion failed', subject, why);
    }
    const expansion = await this.#expansion(mount);
    const { done, sizeBytes } = await step('NodeExpandVolume.NodeExpandVolume failed', subject, () =>
      this.#expander.expandInUse(expansion, action, signal),
    );
    if (done && !actual.resized(volume, sizeBytes)) {
      const why = new ExpansionError('unable to mark volume as resized');
      throw new OperationError('NodeExpandVolume.MarkVolumeAsResized failed', subject, why);
    }
    const isOver =
      (done && sizeBytes >= action.sizeBytesWanted) || actual.volume(volume)?.refusesExpansionInUse === true;
    if (isOver) this.#retryMs.delete(volume);
    else this.#tryAgainLater(mount);
  }

  async #expansion(mount: DesiredMount): Promise<MountExpansion> {
    const { root, actual } = this.#deps;
    const { plugin, source, spec, volume, podUid } = mount;
    const subject = subjectOfMount(mount);
    const { devicePath = '' } = actual.volume(volume) ?? {};
    if (modeOf(spec) === 'Block') {
      requireBlock(plugin.block, mount);
      return { mount, devicePath };
    }
    const directory = await step('NodeExpandVolume.NewMounter initialization failed', subject, () => {
      plugin.requireUsable?.(source);
      return volumeDirectory(root, podUid, plugin.name, specName(spec));
    });
    const deviceMountPath = await step('NodeExpandVolume.GetDeviceMountPath failed', subject, () =>
      plugin.deviceMount?.pathOf(source, spec),
    );
    return { mount, directory, devicePath, deviceMountPath };
  }

  /** Nothing failed, so nothing would wait by itself: without this the same would be planned again at once. */
  #tryAgainLater({ volume, pod }: DesiredMount): void {
    const { actual, desired, alarms, notify } = this.#deps;
    const retryMs = this.#retryMs.get(volume) ?? retryMsFirst;
    this.#retryMs.set(volume, Math.min(retryMsMax, retryMs * 2));
    actual.postponeExpansion(volume, true);
    const message = 'Waiting for volume to be expandable on the node';
    notify({ kind: 'VolumeNotGrown', volume, pod: podRef(pod), message });
    alarms.after(retryMs, () => {
      actual.postponeExpansion(volume, false);
      if (desired.volume(volume) === undefined) this.#retryMs.delete(volume);
      desired.touch(volume);
    });
  }
}
