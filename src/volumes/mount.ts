/**
 * Mounts a volume for a pod, or brings its content up to date, which is the same with less to do. Every step that fails ends
 * the operation with its own prefix; what is on disk then is recorded by `recordFailedMount`.
 */
import { onAbort } from '../base/abort.ts';
import { MountletError, messageOf } from '../base/errors.ts';
import type { Node } from '../kube/kinds/node.ts';
import { requireNodeAffinity } from '../kube/references/node-affinity.ts';
import { mountOptionsOf, specName } from '../kube/references/volume-spec.ts';
import { commonRunAsUser } from '../kube/run-as-user.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { volumeDirectory } from '../kube/values/node-layout.ts';
import {
  type FailureClass,
  FilesystemMismatchError,
  type GroupChangePolicy,
  type SetUpOutcome,
  type SetUpRequest,
  failureClassOf,
} from '../plugins/plugin.ts';
import type { ActualState, MountRecord } from './actual-state.ts';
import type { DesiredMount } from './desired-state.ts';
import { type MountFacts, type UpdateTrace, podRef } from './notices.ts';
import {
  type NodeReader,
  type OperationDeps,
  OperationError,
  type OperationKind,
  OperationTimeoutError,
  failedStep,
  step,
  subjectOfMount,
} from './operation.ts';
import type { MountAction } from './plan.ts';
import { type VolumeName, canAttach } from './volume-name.ts';

export function mountVolume(deps: OperationDeps): OperationKind<MountAction> {
  return {
    name: 'volume_mount',
    key: keyOfMount,
    failureEvent: { reason: 'FailedMount', podsOf: ({ mount: { pod } }) => [pod] },
    run: (action, signal) => new FilesystemMount(deps, action).run(signal),
  };
}

/** One mount at a time of a volume that pods share; others are in nobody's way. */
export function keyOfMount({ volume, mount: { podUid } }: MountAction): ReturnType<OperationKind<MountAction>['key']> {
  const isShared = volume.isAttachable || volume.isDeviceMountable;
  return { volume: volume.volume, podUid: isShared ? '' : podUid, node: '' };
}

class FilesystemMount {
  readonly #deps: OperationDeps;
  readonly #action: MountAction;
  readonly #mount: DesiredMount;
  readonly #plannedAt: number;

  constructor(deps: OperationDeps, action: MountAction) {
    this.#deps = deps;
    this.#action = action;
    this.#mount = newest(deps, action.mount);
    this.#plannedAt = deps.now();
  }

  async run(signal: AbortSignal): Promise<void> {
    const { actual, expander, now } = this.#deps;
    const { plugin, source, spec, volume } = this.#mount;
    await requireAffinity(this.#deps, this.#mount, 'MountVolume.NodeAffinity check failed', signal);
    const directory = this.#step('MountVolume.NewMounter initialization failed', () => {
      plugin.requireUsable?.(source);
      return this.#directory();
    });
    if (mountOptionsOf(spec).length > 0 && !plugin.supportsMountOptions) {
      const why = new MountRefusedError('mount options are not supported for this volume type');
      throw this.#error('MountVolume.MountOptionSupport check failed', why);
    }
    requireOnlyPod(this.#deps, this.#mount, 'MountVolume.SetUp failed');

    const devicePath = await waitForAttach(this.#deps, this.#mount, 'MountVolume.WaitForAttach failed', signal);
    const deviceMountPath = await this.#mountDevice(devicePath, signal);
    const outcome = await this.#setUp(directory, signal);
    const writtenAt = now();
    if (expander !== undefined && spec.persistentVolume !== undefined) {
      try {
        await expander.expandOnMount({ mount: this.#mount, directory, devicePath, deviceMountPath }, signal);
      } catch (cause) {
        actual.uncertain(this.#record());
        throw this.#error('MountVolume.Setup failed while expanding volume', cause);
      }
    }
    this.#step('MountVolume.MarkVolumeAsMounted failed', () => actual.mounted(this.#record()));
    this.#tell(outcome, writtenAt);
    this.#deps.desired.shown({ volume, podUid: this.#mount.podUid }, this.#mount.changes);
  }

  /** The device's path on the node, or the empty string where the plugin mounts none. */
  async #mountDevice(devicePath: string, signal: AbortSignal): Promise<string> {
    const { actual } = this.#deps;
    const { plugin, source, spec, volume, pod } = this.#mount;
    const { deviceMount } = plugin;
    if (deviceMount === undefined) return '';
    const isMounted = actual.deviceState(volume) === 'mounted';
    const prefix = isMounted
      ? 'MountVolume.GetDeviceMountPath failed for expansion'
      : 'MountVolume.GetDeviceMountPath failed';
    const path = this.#step(prefix, () => deviceMount.pathOf(source, spec));
    if (isMounted) return path;
    try {
      const { fsGroup } = pod.spec.securityContext ?? {};
      await deviceMount.mount({ spec, source, path, devicePath: plugin.attach && devicePath, fsGroup }, signal);
    } catch (cause) {
      recordFailedDevice(actual, { volume, devicePath, deviceMountPath: path }, cause, signal);
      throw this.#error('MountVolume.MountDevice failed', cause);
    }
    this.#step('MountVolume.MarkDeviceAsMounted failed', () => actual.deviceMounted(volume, devicePath, path));
    return path;
  }

  async #setUp(directory: string, signal: AbortSignal): Promise<SetUpOutcome> {
    const { actual } = this.#deps;
    try {
      return await this.#mount.plugin.setUp(this.#request(directory), signal);
    } catch (cause) {
      this.#tellMismatch(cause);
      recordFailedMount(actual, this.#record(), cause, signal);
      throw this.#error('MountVolume.SetUp failed', cause);
    }
  }

  #request(directory: string): SetUpRequest {
    const { pod, spec, source } = this.#mount;
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
      sizeBytesMax: this.#action.volume.sizeBytesMax,
      isRemount: this.#action.isRemount,
      isReconstructed: this.#deps.actual.isReconstructed(this.#mount),
    };
  }

  #record(): MountRecord {
    const { volume, podUid, spec, plugin, revision } = this.#mount;
    return { volume, podUid, spec, pluginName: plugin.name, gid: this.#action.volume.gid, revision };
  }

  #tell({ changed, files, hidden, remade = false }: SetUpOutcome, writtenAt: number): void {
    const { notify, now } = this.#deps;
    const { volume, pod, outerNames, plugin, revision, requestedAt, changes } = this.#mount;
    if (remade) {
      const named = outerNames.map((name) => goQuote(name)).join(', ');
      const message = `Volume ${named} had been unmounted or deleted on the node and was made again: running containers that mount it keep what they had until they restart`;
      notify({ kind: 'PodEvent', type: 'Warning', pod: podRef(pod), reason: 'VolumeRemade', message });
    }
    const facts: MountFacts = {
      volume,
      pod: podRef(pod),
      outerNames,
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
      const seenAt = changes[0]?.seenAt ?? this.#plannedAt;
      const trace: UpdateTrace = { changes, seenAt, plannedAt: this.#plannedAt, writtenAt, visibleAt };
      notify({ kind: 'VolumeRefreshed', tookMs: visibleAt - seenAt, trace, ...facts });
    }
  }

  #tellMismatch(thrown: unknown): void {
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

  #directory(): string {
    const { podUid, plugin, spec } = this.#mount;
    return volumeDirectory(this.#deps.root, podUid, plugin.name, specName(spec));
  }

  /** A step that waits for nothing. */
  #step<T>(prefix: string, act: () => T): T {
    try {
      return act();
    } catch (cause) {
      throw this.#error(prefix, cause);
    }
  }

  #error(prefix: string, cause: unknown): Error {
    return failedStep(prefix, subjectOfMount(this.#mount), cause);
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

/** What must hold before a volume is mounted or mapped for a pod, whatever its kind. */
export class MountRefusedError extends MountletError {
  readonly reason = 'MountRefused';
}

/** The volume's storage may be reachable from some nodes alone. */
export async function requireAffinity(
  { node }: Pick<OperationDeps, 'node'>,
  mount: DesiredMount,
  prefix: string,
  signal: AbortSignal,
  eventReason?: string,
): Promise<void> {
  const { persistentVolume } = mount.spec;
  if (persistentVolume?.spec.nodeAffinity?.required === undefined) return;
  const check = async (): Promise<void> => {
    const { metadata } = node.current() ?? (await readNode(node, signal));
    requireNodeAffinity(persistentVolume, { name: metadata.name, labels: metadata.labels ?? {} });
  };
  await step(prefix, subjectOfMount(mount), check, eventReason);
}

async function readNode(node: NodeReader, signal: AbortSignal): Promise<Node> {
  try {
    return await node.read(signal);
  } catch (cause) {
    throw new MountRefusedError(`error retrieving node: ${messageOf(cause)}`, { cause });
  }
}

/** Storage that one pod at a time may use is not given to a second one. */
export function requireOnlyPod({ actual }: Pick<OperationDeps, 'actual'>, mount: DesiredMount, prefix: string): void {
  const modes = mount.spec.persistentVolume?.spec.accessModes ?? [];
  const isForOne = modes.length === 1 && modes[0] === 'ReadWriteOncePod';
  if (!isForOne || !actual.isMountedElsewhere(mount)) return;
  const why = 'volume uses the ReadWriteOncePod access mode and is already in use by another pod';
  throw new OperationError(prefix, subjectOfMount(mount), new MountRefusedError(why));
}

/** The kubelet's number: some storage takes minutes to appear. */
const waitMsMax = 10 * 60_000;

/** The device's path; empty for volumes that are not attached. */
export async function waitForAttach(
  { actual, timers }: Pick<OperationDeps, 'actual' | 'timers'>,
  mount: DesiredMount,
  prefix: string,
  signal: AbortSignal,
): Promise<string> {
  const { plugin, source, spec, pod, volume } = mount;
  const { devicePath = '' } = actual.volume(volume) ?? {};
  if (plugin.attach === undefined || !canAttach(mount, spec)) return devicePath;
  signal.throwIfAborted();
  const controller = new AbortController();
  const stopListening = onAbort(signal, () => controller.abort(signal.reason));
  const timer = timers.after(waitMsMax, () => controller.abort(new OperationTimeoutError('WaitForAttach', waitMsMax)));
  try {
    return await plugin.attach.waitForAttach({ spec, source, pod, devicePath }, controller.signal);
  } catch (cause) {
    throw failedStep(prefix, subjectOfMount(mount), cause);
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

/** A plugin that was told to stop and did may have been in the middle of anything. */
export function classOf(thrown: unknown, signal: AbortSignal): FailureClass {
  return signal.aborted && thrown === signal.reason ? 'uncertain' : failureClassOf(thrown);
}
