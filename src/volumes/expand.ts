/** Grows a volume while pods use it. "Not yet" is not a failure: it is tried again after a while. */
import { KeyedBackOff } from '../base/back-off.ts';
import { messageOf } from '../base/errors.ts';
import type { PersistentVolumeClaim } from '../kube/kinds/storage/persistent-volume-claim.ts';
import {
  type ClaimStatusPatch,
  failed,
  finished,
  hasResizeProgress,
  inProgress,
  infeasible,
  resizeStatusOf,
  storageOf,
} from '../kube/references/claim-resize.ts';
import { specName } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { volumeDirectory } from '../kube/values/node-layout.ts';
import { Quantity } from '../kube/values/quantity.ts';
import { expansionRefusalOf, VolumeError } from '../plugins/plugin.ts';
import { claimOf } from './attach.ts';
import { requireBlock } from './block.ts';
import type { DesiredMount } from './desired-state.ts';
import { classOf, newest } from './mount.ts';
import { podRef } from './notices.ts';
import {
  type MountExpander,
  type MountExpansion,
  type OperationDeps,
  type OperationKind,
  type Step,
  type OperationKey,
  isPanic,
  stepsOf,
  subjectOfMount,
} from './operation.ts';
import { type ExpandAction, modeOf } from './plan.ts';
import { type VolumeName, contentPathOf, deviceMountOf } from './volume-name.ts';

/** The claim is read at each attempt. A controller that is at work needs seconds; the kubelet asks ten times a second. */
const retries = { firstMs: 1_000, msMax: 30_000 };

export class ExpandInUse implements OperationKind<ExpandAction> {
  readonly name = 'volume_fs_resize';
  readonly failureEvent = { reason: 'VolumeResizeFailed', podsOf: ({ mount: { pod } }: ExpandAction) => [pod] };
  readonly #deps: OperationDeps;
  readonly #expander: NodeExpander;
  /** Of volumes that could not be grown yet. */
  readonly #retries = new KeyedBackOff<VolumeName>(retries);

  constructor(deps: OperationDeps, expander: NodeExpander) {
    this.#deps = deps;
    this.#expander = expander;
  }

  key({ volume: { volume } }: ExpandAction): OperationKey {
    return { volume };
  }

  async run(action: ExpandAction, signal: AbortSignal): Promise<void> {
    const { actual } = this.#deps;
    const mount = newest(this.#deps, action.mount);
    const { volume } = mount;
    const step = stepsOf(subjectOfMount(mount), 'NodeExpandVolume.');
    const expansion = await this.#expansion(mount, step);
    const { done, sizeBytes } = await step('NodeExpandVolume failed', () =>
      this.#expander.expandInUse(expansion, action, signal),
    );
    await step('MarkVolumeAsResized failed', () => {
      if (done && !actual.resized(volume, sizeBytes)) throw expansionFailed('unable to mark volume as resized');
    });
    const isOver =
      (done && sizeBytes >= action.sizeBytesWanted) || actual.volume(volume)?.refusesExpansionInUse === true;
    if (isOver) this.#retries.reset(volume);
    else this.#tryAgainLater(mount);
  }

  async #expansion(mount: DesiredMount, step: Step): Promise<MountExpansion> {
    const { root, actual } = this.#deps;
    const { plugin, source, spec, volume, podUid } = mount;
    const { devicePath = '' } = actual.volume(volume) ?? {};
    if (modeOf(spec) === 'Block') {
      requireBlock(plugin.block, mount);
      return { mount, devicePath };
    }
    const directory = await step('NewMounter initialization failed', () => {
      plugin.requireUsable?.(source);
      return contentPathOf(plugin, volumeDirectory(root, podUid, plugin.name, specName(spec)));
    });
    const deviceMountPath = await step('GetDeviceMountPath failed', () =>
      deviceMountOf(mount, spec)?.pathOf(source, spec),
    );
    return { mount, directory, devicePath, deviceMountPath };
  }

  /** Nothing failed, so nothing would wait by itself: without this the same would be planned again at once. */
  #tryAgainLater({ volume, pod }: DesiredMount): void {
    const { actual, desired, timers, notify } = this.#deps;
    const retryMs = this.#retries.next(volume);
    actual.postponeExpansion(volume, true);
    const message = 'Waiting for volume to be expandable on the node';
    notify({ kind: 'VolumeNotGrown', volume, pod: podRef(pod), message });
    timers.after(retryMs, () => {
      actual.postponeExpansion(volume, false);
      if (desired.volume(volume) === undefined) this.#retries.reset(volume);
      desired.touch(volume);
    });
  }
}

// The node's part in growing a volume: its plugin grows the file system, or learns the size of the device, and the claim is
// updated. Whether a volume is to be grown is decided by the plans, for one in use, and by the claim, for one that is mounted.
//
// A controller that reports its progress (`allocatedResources`, `allocatedResourceStatuses`) is followed step by step;
// with any other, the size of the PersistentVolume is what counts.

/** `done` false: not yet, and no failure either. */
export interface Expanded {
  readonly done: boolean;
  readonly sizeBytes: bigint;
}

interface Growth extends MountExpansion {
  readonly claim: PersistentVolumeClaim;
  readonly oldSize: Quantity;
  readonly newSize: Quantity;
}

type ExpanderDeps = Pick<OperationDeps, 'actual' | 'claims' | 'node' | 'now' | 'notify'>;

export class NodeExpander implements MountExpander {
  readonly #deps: ExpanderDeps;
  readonly #writer: ClaimWriter;

  constructor(deps: ExpanderDeps, writer: ClaimWriter) {
    this.#deps = deps;
    this.#writer = writer;
  }

  /** Within a mount, where the claim is smaller than its volume. "Not yet" does not keep the pod from having the volume. */
  async expandOnMount(expansion: MountExpansion, signal: AbortSignal): Promise<void> {
    const { mount } = expansion;
    const { persistentVolume } = mount.spec;
    if (mount.plugin.expand === undefined || persistentVolume?.spec.claimRef === undefined) return;
    const newSize = storageOf(persistentVolume.spec.capacity);
    // It was as large as this when it was attached, and it never shrinks.
    if (this.#deps.actual.sizeOf(mount.volume) >= newSize.value()) return;
    const claim = await this.#readClaim(mount, signal);
    const oldSize = storageOf(claim.status?.capacity);
    if (oldSize.compare(newSize) >= 0) return;
    if (mount.spec.readOnly) return this.#refuseReadOnly(mount, claim);
    const { done, sizeBytes } = await this.#grow({ ...expansion, claim, oldSize, newSize }, signal);
    // So that it is not grown once more as soon as it is in use.
    if (done) this.#deps.actual.resized(mount.volume, sizeBytes);
  }

  /** While pods use the volume. */
  async expandInUse(
    expansion: MountExpansion,
    sizes: { readonly sizeBytesNow: bigint; readonly sizeBytesWanted: bigint },
    signal: AbortSignal,
  ): Promise<Expanded> {
    const { mount } = expansion;
    const { sizeBytesNow, sizeBytesWanted } = sizes;
    const { persistentVolume } = mount.spec;
    const canExpand = mount.plugin.expand !== undefined && persistentVolume?.spec.claimRef !== undefined;
    if (!canExpand || sizeBytesWanted <= sizeBytesNow) return { done: true, sizeBytes: sizeBytesNow };
    const claim = await this.#readClaim(mount, signal);
    if (mount.spec.readOnly) {
      this.#refuseReadOnly(mount, claim);
      return { done: true, sizeBytes: storageOf(claim.status?.capacity).value() };
    }
    const oldSize = bytes(sizeBytesNow);
    const asWritten = storageOf(persistentVolume.spec.capacity);
    const newSize = asWritten.value() === sizeBytesWanted ? asWritten : bytes(sizeBytesWanted);
    return this.#grow({ ...expansion, claim, oldSize, newSize }, signal);
  }

  #grow(growth: Growth, signal: AbortSignal): Promise<Expanded> {
    const { claim, newSize } = growth;
    if (!hasResizeProgress(claim)) return this.#growByVolume(growth, signal);
    const allocated = storageOf(claim.status?.allocatedResources);
    // A status without a size would make the claim an empty one.
    return this.#growByClaim({ ...growth, newSize: allocated.isZero() ? newSize : allocated }, signal);
  }

  /** With a controller that reports its progress. */
  async #growByClaim(growth: Growth, signal: AbortSignal): Promise<Expanded> {
    const { mount, oldSize, newSize } = growth;
    const { actual } = this.#deps;
    let { claim } = growth;
    const resizeStatus = resizeStatusOf(claim);
    const isUpdated = resizeStatus === '' && storageOf(claim.status?.capacity).compare(newSize) >= 0;
    // Somebody asked for another size since, and this one failed for good before: then the controller has to take over.
    const wasChanged = !storageOf(claim.spec.resources?.requests).equals(newSize);
    const givesUp = wasChanged && actual.hasFinalExpansionError(mount.volume);
    const done = { done: true, sizeBytes: newSize.value() };
    const notDone = { done: false, sizeBytes: oldSize.value() };
    const isDue = resizeStatus === 'NodeResizePending' || resizeStatus === 'NodeResizeInProgress';
    if (!isDue && !(isUpdated && growsOnEachNode(claim))) return isUpdated ? done : notDone;
    if (!isUpdated) claim = await this.#patch(claim, inProgress(claim), signal);
    try {
      if (!(await callPlugin(growth, signal))) return notDone;
    } catch (error) {
      const refusal = expansionRefusalOf(error);
      if (isPanic(error)) throw error;
      if (refusal === 'not-supported' && isUpdated) return done;
      if (classOf(error, signal) === 'final') {
        actual.addFinalExpansionError(mount.volume);
        await this.#markFailed(mount, claim, error, refusal === 'infeasible' || givesUp, signal);
      }
      if (refusal !== 'in-use') throw error;
      this.#refuseInUse(mount, error);
      return notDone;
    }
    this.#tellGrown(mount, claim);
    if (!isUpdated) {
      await because('mountVolume.NodeExpandVolume update pvc status failed: ', () =>
        this.#patch(claim, finished(claim, newSize), signal),
      );
    }
    return done;
  }

  /** With any other controller: what the PersistentVolume says is so. */
  async #growByVolume(growth: Growth, signal: AbortSignal): Promise<Expanded> {
    const { mount, claim, oldSize, newSize } = growth;
    const done = { done: true, sizeBytes: newSize.value() };
    try {
      if (!(await callPlugin(growth, signal))) return { done: false, sizeBytes: oldSize.value() };
    } catch (error) {
      const refusal = expansionRefusalOf(error);
      if (refusal === 'not-supported') return done;
      if (refusal !== 'in-use') throw error;
      this.#refuseInUse(mount, error);
      return done;
    }
    this.#tellGrown(mount, claim);
    if (storageOf(claim.status?.capacity).compare(newSize) < 0) {
      await because('mountVolume.NodeExpandVolume update PVC status failed : ', () =>
        this.#patch(claim, finished(claim, newSize), signal),
      );
    }
    return done;
  }

  async #markFailed(
    mount: DesiredMount,
    claim: PersistentVolumeClaim,
    error: unknown,
    isInfeasible: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const now = this.#deps.now();
    const patch = (isInfeasible ? infeasible : failed)(claim, messageOf(error), now);
    if (patch === undefined) return;
    try {
      await this.#patch(claim, patch, signal);
    } catch (thrown) {
      if (isPanic(thrown)) throw thrown;
      // Why the volume was not grown matters more and is what is thrown.
      const prefix = 'MountVolume.NodeExpandVolume failed to mark node expansion as failed';
      this.#tell(mount, `${prefix}: ${messageOf(thrown)}`);
    }
  }

  #refuseInUse(mount: DesiredMount, error: unknown): void {
    this.#deps.actual.refuseExpansionInUse(mount.volume);
    const message = `MountVolume.NodeExpandVolume failed with ${messageOf(error)}`;
    this.#tell(mount, message);
    // The user has to act, and the operation has not failed: nothing else would report it.
    this.#deps.notify({
      kind: 'PodEvent',
      type: 'Warning',
      pod: podRef(mount.pod),
      reason: 'VolumeResizeFailed',
      message,
    });
  }

  #refuseReadOnly(mount: DesiredMount, claim: PersistentVolumeClaim): void {
    const text = 'MountVolume.NodeExpandVolume failed';
    this.#tellBoth('Warning', 'FileSystemResizeFailed', mount, claim, text, 'requested read-only file system');
  }

  #tellGrown(mount: DesiredMount, claim: PersistentVolumeClaim): void {
    const node = mount.pod.spec.nodeName ?? this.#deps.node.name;
    const text = 'MountVolume.NodeExpandVolume succeeded';
    this.#tellBoth('Normal', 'FileSystemResizeSuccessful', mount, claim, text, node);
  }

  /** An Event of the pod and one of the claim. */
  #tellBoth(
    type: 'Normal' | 'Warning',
    reason: string,
    { pod, spec }: DesiredMount,
    { metadata: { namespace = '', name, uid = '' } }: PersistentVolumeClaim,
    text: string,
    suffix: string,
  ): void {
    const { notify } = this.#deps;
    const message = `${text} for volume ${goQuote(specName(spec))} ${suffix}`;
    const object = { kind: 'PersistentVolumeClaim', namespace, name, uid } as const;
    notify({ kind: 'PodEvent', type, pod: podRef(pod), reason, message });
    notify({ kind: 'ObjectEvent', type, object, reason, message });
  }

  #tell({ volume, pod }: DesiredMount, message: string): void {
    this.#deps.notify({ kind: 'VolumeNotGrown', volume, pod: podRef(pod), message });
  }

  async #readClaim(mount: DesiredMount, signal: AbortSignal): Promise<PersistentVolumeClaim> {
    return because('mountVolume.NodeExpandVolume get PVC failed : ', () => claimOf(this.#deps, mount, signal));
  }

  #patch(claim: PersistentVolumeClaim, patch: ClaimStatusPatch, signal: AbortSignal): Promise<PersistentVolumeClaim> {
    const { namespace = '', name } = claim.metadata;
    return because(`patchPVCStatus failed to patch PVC ${goQuote(name)}: `, () =>
      this.#writer.patchStatus(namespace, name, patch, signal),
    );
  }
}

async function callPlugin(growth: Growth, signal: AbortSignal): Promise<boolean> {
  const { mount, newSize, directory, devicePath, deviceMountPath } = growth;
  const { plugin, spec, source } = mount;
  const sizeBytes = newSize.value();
  return (
    (await plugin.expand?.expand({ spec, source, directory, devicePath, deviceMountPath, sizeBytes }, signal)) ?? true
  );
}

/** Storage that several nodes mount has to be grown on each of them, also when one of them has updated the claim. */
function growsOnEachNode({ metadata, spec }: PersistentVolumeClaim): boolean {
  const isNotRequired = metadata.annotations?.['volume.kubernetes.io/node-expansion-not-required'] !== undefined;
  return (spec.accessModes ?? []).includes('ReadWriteMany') && !isNotRequired;
}

function bytes(count: bigint): Quantity {
  return new Quantity(count, 0, 'BinarySI');
}

async function because<T>(prefix: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (cause) {
    throw isPanic(cause) ? cause : expansionFailed(`${prefix}${messageOf(cause)}`, { cause });
  }
}

/** Where claims are written whose volumes this node grows. */
export interface ClaimWriter {
  /** A strategic merge patch of the claim's `status` subresource. Resolves with the claim as it is then. */
  patchStatus(
    namespace: string,
    name: string,
    patch: ClaimStatusPatch,
    signal: AbortSignal,
  ): Promise<PersistentVolumeClaim>;
}

/** Where it was not the plugin that failed. The texts are the kubelet's. */
function expansionFailed(message: string, options?: ErrorOptions): VolumeError {
  return new VolumeError('ExpansionFailed', message, options);
}
