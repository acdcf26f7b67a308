/**
 * Mounts a volume for a pod, or brings its content up to date, which is the same with less to do. `mountVolume` is the
 * sequence; a node and `render` use it alike, but only a node has state to keep and devices to connect.
 */
import { onAbort } from '../base/abort.ts';
import { messageOf } from '../base/errors.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { requireNodeAffinity } from '../kube/references/node-affinity.ts';
import { commonRunAsUser } from '../kube/references/pod-references.ts';
import { type VolumeSpec, mountOptionsOf, specName } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { volumeDirectory } from '../kube/values/node-layout.ts';
import { showDuration } from '../kube/values/times.ts';
import {
  type FailureClass,
  FilesystemMismatchError,
  type GroupChangePolicy,
  type SetUpOutcome,
  type SetUpRequest,
  failureClassOf,
  VolumeError,
} from '../plugins/plugin.ts';
import type { ActualState, MountRecord } from './actual-state.ts';
import type { DesiredMount, SeenChange } from './desired-state.ts';
import { type MountFacts, type UpdateTrace, podRef } from './notices.ts';
import {
  type MountExpander,
  type MountExpansion,
  type NodeReader,
  type OperationDeps,
  type OperationKey,
  type OperationKind,
  type Step,
  operationTimeout,
  stepsOf,
  subjectOfMount,
} from './operation.ts';
import type { MountAction } from './plan.ts';
import { type PluginMatch, type VolumeName, canAttach, contentPathOf, deviceMountOf, podUidOf } from './volume-name.ts';

/** One volume of one pod. */
interface VolumeToMount extends PluginMatch {
  /** The node's root directory. */
  readonly root: string;
  readonly pod: Pod;
  readonly spec: VolumeSpec;
  /** The unique name, for messages. */
  readonly volume: string;
  readonly isRemount: boolean;
  readonly isReconstructed: boolean;
}

/** What a node does beside the plugin, in the order in which the sequence calls it. */
interface NodeSide {
  requireAffinity(signal: AbortSignal): Promise<void>;
  requireOnlyPod(): void;
  waitForAttach(signal: AbortSignal): Promise<string>;
  mountDevice(step: Step, devicePath: string, signal: AbortSignal): Promise<string>;
  recordFailedSetUp(cause: unknown, signal: AbortSignal): void;
  expand(made: Omit<MountExpansion, 'mount'>, signal: AbortSignal): Promise<void>;
  recordFailedExpansion(): void;
  recordMounted(): void;
}

/** Rejects with an OperationError that names the step. Without a node only the plugin's own steps are taken. */
export async function mountVolume(
  mount: VolumeToMount,
  node: NodeSide | undefined,
  signal: AbortSignal,
): Promise<SetUpOutcome> {
  const { plugin, source, spec, pod, root } = mount;
  const step = stepsOf(subjectOfMount(mount), 'MountVolume.');
  if (node !== undefined) await step('NodeAffinity check failed', () => node.requireAffinity(signal));
  const directory = await step('NewMounter initialization failed', () => {
    plugin.requireUsable?.(source);
    return volumeDirectory(root, podUidOf(pod), plugin.name, specName(spec));
  });
  await step('MountOptionSupport check failed', () => requireMountOptions(mount));
  const setUp = (): Promise<SetUpOutcome> => plugin.setUp(requestOf(mount, directory), signal);
  if (node === undefined) return step('SetUp failed', setUp);

  await step('SetUp failed', () => node.requireOnlyPod());
  const devicePath = await step('WaitForAttach failed', () => node.waitForAttach(signal));
  const deviceMountPath = await node.mountDevice(step, devicePath, signal);
  const outcome = await step('SetUp failed', setUp, { failed: (cause) => node.recordFailedSetUp(cause, signal) });
  await step(
    'Setup failed while expanding volume',
    () => node.expand({ directory: contentPathOf(plugin, directory), devicePath, deviceMountPath }, signal),
    { failed: () => node.recordFailedExpansion() },
  );
  await step('MarkVolumeAsMounted failed', () => node.recordMounted());
  return outcome;
}

/** A PersistentVolume with mount options is refused by plugins that would ignore them. */
function requireMountOptions({ plugin, spec }: VolumeToMount): void {
  if (mountOptionsOf(spec).length === 0 || plugin.supportsMountOptions) return;
  throw new VolumeError('MountRefused', 'mount options are not supported for this volume type');
}

function requestOf(mount: VolumeToMount, directory: string): SetUpRequest {
  const { pod, spec, source, isRemount, isReconstructed } = mount;
  const { fsGroup, fsGroupChangePolicy } = pod.spec.securityContext ?? {};
  return {
    pod,
    spec,
    source,
    volumeName: specName(spec),
    directory,
    fsGroup,
    fsGroupChangePolicy: fsGroupChangePolicy as GroupChangePolicy | undefined,
    fsUser: commonRunAsUser(pod),
    isRemount,
    isReconstructed,
  };
}

export function mountOperation(deps: OperationDeps, expander: MountExpander): OperationKind<MountAction> {
  return {
    name: 'volume_mount',
    key: keyOfMount,
    failureEvent: { reason: 'FailedMount', podsOf: ({ mount: { pod } }) => [pod] },
    run: (action, signal) => new FilesystemMount(deps, expander, action).run(signal),
  };
}

/** One mount at a time of a volume that pods share; other mounts do not get in each other's way. */
export function keyOfMount({ volume, mount: { podUid } }: MountAction): OperationKey {
  const isShared = volume.isAttachable || volume.isDeviceMountable;
  return isShared ? { volume: volume.volume } : { volume: volume.volume, podUid };
}

class FilesystemMount implements NodeSide {
  readonly #deps: OperationDeps;
  readonly #expander: MountExpander;
  readonly #action: MountAction;
  readonly #mount: DesiredMount;
  readonly #plannedAt: number;
  #writtenAt = 0;

  constructor(deps: OperationDeps, expander: MountExpander, action: MountAction) {
    this.#deps = deps;
    this.#expander = expander;
    this.#action = action;
    this.#mount = newest(deps, action.mount);
    this.#plannedAt = deps.now();
  }

  async run(signal: AbortSignal): Promise<void> {
    const { root, actual, desired } = this.#deps;
    const { isRemount } = this.#action;
    const isReconstructed = actual.isReconstructed(this.#mount);
    const outcome = await mountVolume({ ...this.#mount, root, isRemount, isReconstructed }, this, signal);
    this.#report(outcome);
    desired.shown(this.#mount, this.#mount.changes);
  }

  requireAffinity(signal: AbortSignal): Promise<void> {
    return requireAffinity(this.#deps, this.#mount, signal);
  }

  requireOnlyPod(): void {
    requireOnlyPod(this.#deps, this.#mount);
  }

  waitForAttach(signal: AbortSignal): Promise<string> {
    return waitForAttach(this.#deps, this.#mount, signal);
  }

  /** The device's path on the node, or the empty string where the plugin mounts none. */
  async mountDevice(step: Step, devicePath: string, signal: AbortSignal): Promise<string> {
    const { actual } = this.#deps;
    const { source, spec, volume, pod } = this.#mount;
    const deviceMount = deviceMountOf(this.#mount, spec);
    if (deviceMount === undefined) return '';
    const isMounted = actual.deviceState(volume) === 'mounted';
    const path = await step(`GetDeviceMountPath failed${isMounted ? ' for expansion' : ''}`, () =>
      deviceMount.pathOf(source, spec),
    );
    if (isMounted) return path;
    const { fsGroup } = pod.spec.securityContext ?? {};
    const request = { spec, source, path, devicePath: canAttach(this.#mount, spec) ? devicePath : undefined, fsGroup };
    await step('MountDevice failed', () => deviceMount.mount(request, signal), {
      failed: (cause) => recordFailedDevice(actual, { volume, devicePath, deviceMountPath: path }, cause, signal),
    });
    await step('MarkDeviceAsMounted failed', () => actual.deviceMounted(volume, devicePath, path));
    return path;
  }

  recordFailedSetUp(cause: unknown, signal: AbortSignal): void {
    this.#reportMismatch(cause);
    recordFailedMount(this.#deps.actual, this.#record(), cause, signal);
  }

  async expand(made: Omit<MountExpansion, 'mount'>, signal: AbortSignal): Promise<void> {
    this.#writtenAt = this.#deps.now();
    if (this.#mount.spec.persistentVolume === undefined) return;
    await this.#expander.expandOnMount({ mount: this.#mount, ...made }, signal);
  }

  recordFailedExpansion(): void {
    this.#deps.actual.uncertain(this.#record());
  }

  recordMounted(): void {
    this.#deps.actual.mounted(this.#record());
  }

  #record(): MountRecord {
    const { volume, podUid, spec, plugin, revision } = this.#mount;
    return { volume, podUid, spec, pluginName: plugin.name, gid: this.#action.volume.gid, revision };
  }

  #report({ changed, files, hidden, remade = false }: SetUpOutcome): void {
    const { notify, now } = this.#deps;
    const { volume, pod, podVolumeNames, plugin, revision, requestedAt, changes } = this.#mount;
    if (remade) {
      const named = podVolumeNames.map((name) => goQuote(name)).join(', ');
      const message = `Volume ${named} had been unmounted or deleted on the node and was made again: running containers that mount it keep what they had until they restart`;
      notify({ kind: 'PodEvent', type: 'Warning', pod: podRef(pod), reason: 'VolumeRemade', message });
    }
    const facts: MountFacts = {
      volume,
      pod: podRef(pod),
      podVolumeNames,
      plugin: plugin.name,
      revision,
      changed,
      files,
      hidden,
    };
    const visibleAt = now();
    if (!this.#action.isRemount) {
      notify({ kind: 'VolumeMounted', tookMs: visibleAt - requestedAt, ...facts });
    } else if (changed || changes.length > 0) {
      // While an object is gone there is nothing to show: that time is not ours.
      const isGone = ({ resourceVersion }: SeenChange): boolean => resourceVersion === undefined;
      const first = changes[changes.findLastIndex(isGone) + 1] ?? changes[0];
      const seenAt = first?.seenAt ?? this.#plannedAt;
      const times = { seenAt, plannedAt: this.#plannedAt, writtenAt: this.#writtenAt, visibleAt };
      const trace: UpdateTrace = { changes, ...times };
      notify({ kind: 'VolumeRefreshed', tookMs: visibleAt - seenAt, trace, ...facts });
    }
  }

  #reportMismatch(thrown: unknown): void {
    const { persistentVolume } = this.#mount.spec;
    if (persistentVolume === undefined || !isFilesystemMismatch(thrown)) return;
    const { name, uid = '' } = persistentVolume.metadata;
    this.#deps.notify({
      kind: 'ObjectEvent',
      type: 'Warning',
      object: { kind: 'PersistentVolume', namespace: '', name, uid },
      reason: 'FailedMountOnFilesystemMismatch',
      message: `MountVolume failed for volume ${goQuote(name)} ${messageOf(thrown)}`,
    });
  }
}

/** Between the plan and the start the pod may have changed again: the newest is what has to be shown. */
export function newest({ desired }: OperationDeps, planned: DesiredMount): DesiredMount {
  return desired.mount(planned) ?? planned;
}

function isFilesystemMismatch(thrown: unknown): boolean {
  for (let error = thrown; error instanceof Error; error = error.cause) {
    if (error instanceof FilesystemMismatchError) return true;
  }
  return false;
}

/** The volume's storage may be reachable from some nodes only. */
export async function requireAffinity(
  { node }: Pick<OperationDeps, 'node'>,
  { spec: { persistentVolume } }: DesiredMount,
  signal: AbortSignal,
): Promise<void> {
  if (persistentVolume?.spec.nodeAffinity?.required === undefined) return;
  const { metadata } = node.current() ?? (await readNode(node, signal));
  requireNodeAffinity(persistentVolume, { name: metadata.name, labels: metadata.labels ?? {} });
}

async function readNode(node: NodeReader, signal: AbortSignal): Promise<Node> {
  try {
    return await node.read(signal);
  } catch (cause) {
    throw new VolumeError('MountRefused', `error retrieving node: ${messageOf(cause)}`, { cause });
  }
}

/** Storage that one pod at a time may use is not given to a second one. */
export function requireOnlyPod({ actual }: Pick<OperationDeps, 'actual'>, mount: DesiredMount): void {
  const modes = mount.spec.persistentVolume?.spec.accessModes ?? [];
  const isForOne = modes.length === 1 && modes[0] === 'ReadWriteOncePod';
  if (!isForOne || !actual.isMountedElsewhere(mount)) return;
  const message = 'volume uses the ReadWriteOncePod access mode and is already in use by another pod';
  throw new VolumeError('MountRefused', message);
}

/** The kubelet's number: some storage takes minutes to appear. */
const attachMsMax = 10 * 60_000;

/** The device's path; empty for volumes that are not attached. */
export async function waitForAttach(
  { actual, timers }: Pick<OperationDeps, 'actual' | 'timers'>,
  mount: DesiredMount,
  signal: AbortSignal,
): Promise<string> {
  const { plugin, source, spec, pod, volume } = mount;
  const { devicePath = '' } = actual.volume(volume) ?? {};
  if (plugin.attach === undefined || !canAttach(mount, spec)) return devicePath;
  signal.throwIfAborted();
  const controller = new AbortController();
  const stopListening = onAbort(signal, () => controller.abort(signal.reason));
  const timer = timers.after(attachMsMax, () =>
    controller.abort(operationTimeout('WaitForAttach', showDuration(attachMsMax))),
  );
  try {
    return await plugin.attach.waitForAttach({ spec, source, pod, devicePath }, controller.signal);
  } finally {
    timer.cancel();
    stopListening();
  }
}

/**
 * What is known of the node after a set-up or a device mount failed:
 *
 * | before                      | uncertain failure | transient | final                                        |
 * |-----------------------------|-------------------|-----------|----------------------------------------------|
 * | not mounted                 | uncertain         | the same  | the same                                     |
 * | uncertain                   | the same          | the same  | not mounted                                  |
 * | uncertain, found on disk    | the same          | the same  | the same, so that it is unmounted one day    |
 * | mounted                     | the same          | the same  | the same: containers keep what they have     |
 */
export function recordFailedMount(
  actual: ActualState,
  record: MountRecord,
  thrown: unknown,
  signal: AbortSignal,
): void {
  const state = actual.mountState(record);
  const failure = classOf(thrown, signal);
  if (state === 'not-mounted' && failure === 'uncertain') actual.uncertain(record);
  if (state === 'uncertain' && failure === 'final' && !actual.isReconstructed(record)) actual.unmounted(record);
}

interface FailedDevice {
  readonly volume: VolumeName;
  readonly devicePath: string;
  readonly deviceMountPath: string;
}

export function recordFailedDevice(
  actual: ActualState,
  { volume, devicePath, deviceMountPath }: FailedDevice,
  thrown: unknown,
  signal: AbortSignal,
): void {
  const state = actual.deviceState(volume);
  const failure = classOf(thrown, signal);
  if (state === 'not-mounted' && failure === 'uncertain') actual.deviceUncertain(volume, devicePath, deviceMountPath);
  if (state === 'uncertain' && failure === 'final' && !actual.isDeviceReconstructed(volume)) {
    actual.deviceUnmounted(volume);
  }
}

/** A plugin that stopped because it was aborted may have been in the middle of anything. */
export function classOf(thrown: unknown, signal: AbortSignal): FailureClass {
  return signal.aborted && thrown === signal.reason ? 'uncertain' : failureClassOf(thrown);
}
