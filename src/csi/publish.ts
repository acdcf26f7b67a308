/**
 * A driver's volume as one pod has it.
 *
 *   read what the driver needs ─▶ vol_data.json ─▶ NodePublishVolume ─▶ group of the files
 *                                       │ final failure: both gone again, unless the volume was there before
 *                                       ▼ any other: the file stays, and says at tear-down whom to ask
 */
import { lstatSync, rmdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Clock } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Turns } from '../base/turns.ts';
import { type Programs, isInMountTable, unmountLayers } from '../disk/devices/programs.ts';
import { applyAnyGroup } from '../disk/pods/foreign-groups.ts';
import { makeDirectoryWithMode, makePodDirectories } from '../disk/paths/directories.ts';
import type { CsiDriver } from '../kube/kinds/storage/csi.ts';
import { podDirectory, podsDirectory } from '../kube/values/node-layout.ts';
import { guarded } from '../linux/system-call-error.ts';
import {
  type NotifyPlugin,
  type SetUpOutcome,
  type SetUpRequest,
  type TearDownRequest,
  failureClassOf,
  groupProgress,
} from '../plugins/plugin.ts';
import type { DriverCalls } from './driver-calls.ts';
import { type DriverInputs, inWords, withoutVerdict, wrapping } from './driver-inputs.ts';
import { CsiError, csiError } from './failures.ts';
import {
  type CsiSource,
  type NodeCapabilities,
  type SecretRef,
  type Strings,
  changesGroup,
  ephemeralHandle,
  lifecycleProblem,
  podInformation,
  publishRequest,
  tokenEntry,
  volumeCapability,
} from './requests.ts';
import {
  contentName,
  isThere,
  podVolumeData,
  readVolumeData,
  removeLink,
  removeVolume,
  stagedPath,
  writeVolumeData,
} from './vol-data.ts';

export interface CsiParts {
  readonly calls: DriverCalls;
  readonly inputs: DriverInputs;
  /** The node's root directory: absolute, and without symbolic links. */
  readonly root: string;
  readonly nodeName: string;
  readonly programs: Programs;
  readonly turns: Turns;
  readonly notify: NotifyPlugin;
  readonly clock: Clock;
}

type Request = SetUpRequest<CsiSource>;

export async function publishVolume(parts: CsiParts, request: Request, signal: AbortSignal): Promise<SetUpOutcome> {
  const { root, nodeName } = parts;
  const { pod, source, volumeName, directory, isRemount, isReconstructed } = request;
  const { driver, lifecycle } = source;
  const podUid = pod.metadata.uid ?? '';
  const handle = handleOf(source, podUid, volumeName);
  const target = join(directory, contentName);
  const call = await withoutVerdict(
    () => isThere(join(directory, 'vol_data.json')),
    () => prepare(parts, request, { handle, target }, signal),
    signal,
  );
  makePodDirectories(podDirectory(root, podUid));
  const { made } = makeDirectoryWithMode(directory, 0o750);
  const data = {
    ...podVolumeData({ driver, volumeHandle: handle }, volumeName, nodeName),
    volumeLifecycleMode: lifecycle,
  };
  try {
    await inWords(
      'transient',
      'mounter.SetUpAt failed to save volume info data',
      () => writeVolumeData(directory, data, call.request.stagingTargetPath === ''),
      signal,
    );
  } catch (error) {
    if (made) rmdirSync(directory);
    throw error;
  }
  if (!made) removeLink(target);
  try {
    await parts.calls.publish(driver, call.request, call.tokens, signal);
  } catch (error) {
    if (isRemount || isReconstructed) throw error;
    throw afterFailure(target, made, error, signal);
  }
  requireTarget(target);
  if (call.changesGroup) await changeGroup(parts, request, { handle, target }, signal);
  return { changed: !isRemount, files: 0, hidden: [] };
}

export function handleOf(source: CsiSource, podUid: string, volumeName: string): string {
  return source.handle ?? ephemeralHandle(podUid, volumeName);
}

/**
 * After a call that is over nothing of it stays. What the driver left mounted makes the outcome uncertain, so that it is undone.
 * `isNew`: there was nothing at the path before this attempt.
 */
export function afterFailure(path: string, isNew: boolean, error: unknown, signal: AbortSignal): unknown {
  // A call that was stopped here may go on there.
  if (signal.aborted || failureClassOf(error) === 'uncertain') return error;
  // The driver went before it was asked: that says nothing about earlier calls.
  if (failureClassOf(error) === 'transient' && !isNew) return error;
  try {
    if (removeVolume(path)) return error;
  } catch (thrown) {
    return new CsiError('uncertain', `${messageOf(error)}; ${messageOf(thrown)}`);
  }
  return new CsiError('uncertain', `${messageOf(error)}; ${path} is mounted all the same`);
}

interface Place {
  readonly handle: string;
  readonly target: string;
}

interface PublishCall {
  readonly request: ReturnType<typeof publishRequest>;
  readonly tokens: readonly string[];
  readonly changesGroup: boolean;
}

/** Reads everything, in the kubelet's order: what fails first is what users see. */
async function prepare(
  { calls, inputs, root }: CsiParts,
  { pod, source, fsGroup }: Request,
  { handle, target }: Place,
  signal: AbortSignal,
): Promise<PublishCall> {
  const { driver, lifecycle, secrets: refs } = source;
  const at = 'mounter.SetUpAt failed to';
  await inWords('transient', `${at} get CSI client`, () => calls.require(driver, signal), signal);
  const object = await inWords(
    'transient',
    'mounter.SetupAt failed to check volume lifecycle mode',
    () => allowedBy(inputs, source, signal),
    signal,
  );
  const isPersistent = lifecycle === 'Persistent';
  const capabilities = await inWords<NodeCapabilities>(
    isPersistent ? 'final' : 'transient',
    isPersistent
      ? `${at} check for STAGE_UNSTAGE_VOLUME capability`
      : `${at} determine if the node service has VOLUME_MOUNT_GROUP capability`,
    () => calls.capabilities(driver, signal),
    signal,
  );
  const publishContext = isPersistent
    ? await inWords('transient', `${at} fetch publishContext`, () => inputs.publishContext(source, signal), signal)
    : {};
  const { namespace = '' } = pod.metadata;
  const given = await secretOf(inputs, refs.publish, namespace, fetching('NodePublishSecretRef'), signal);
  const tokens = await inWords(
    'transient',
    `${at} get service accoount token attributes`,
    () => inputs.tokens(pod, object, signal),
    signal,
  );
  const issued: Strings = Object.keys(tokens).length === 0 ? {} : tokenEntry(tokens);
  const inSecrets = object?.spec.serviceAccountTokenInSecrets === true;
  const group = capabilities.mountsForGroup ? fsGroup : undefined;
  return {
    request: publishRequest(source, {
      volumeId: handle,
      volumeCapability: volumeCapability(source, capabilities, group),
      publishContext,
      secrets: { ...given, ...(inSecrets && issued) },
      stagingTargetPath: isPersistent && capabilities.stages ? stagedPath(root, driver, handle) : '',
      targetPath: target,
      context: { ...podInformation(pod, lifecycle, object), ...(!inSecrets && issued) },
    }),
    tokens: Object.values(tokens).map(({ token }) => token),
    changesGroup: fsGroup !== undefined && !capabilities.mountsForGroup && changesGroup(source, object),
  };
}

async function allowedBy(inputs: DriverInputs, source: CsiSource, signal: AbortSignal): Promise<CsiDriver | undefined> {
  const object = await inputs.driverObject(source.driver, signal);
  const problem = lifecycleProblem(source, object);
  if (problem !== undefined) throw new CsiError('transient', problem);
  return object;
}

/** Empty for a volume that names none. `failed` has the words around a failure. */
export async function secretOf(
  inputs: DriverInputs,
  ref: SecretRef | undefined,
  podNamespace: string,
  failed: (named: string, why: string) => Error,
  signal: AbortSignal,
): Promise<Strings> {
  if (ref === undefined) return {};
  const named = `${ref.namespace ?? podNamespace}/${ref.name}`;
  const read = (): Promise<Strings> => inputs.secret(ref, podNamespace, signal);
  return await wrapping(read, (thrown) => failed(named, messageOf(thrown)), signal);
}

/** `use` is the field that names the Secret. */
export function fetching(use: 'NodePublishSecretRef' | 'NodeStageSecretRef'): (named: string, why: string) => Error {
  return (named, why) => new CsiError('transient', `fetching ${use} ${named} failed: ${why}`);
}

/** Containers are given this place, by its path: a link would lead them anywhere. Uncertain, because the driver did something. */
function requireTarget(target: string): void {
  // What is mounted there is there, and may hang.
  if (isInMountTable(target)) return;
  if (guarded(target, () => lstatSync(target, { throwIfNoEntry: false }))?.isDirectory() === true) return;
  throw csiError('uncertain', `the driver has published the volume, but "${target}" is not a directory`);
}

async function changeGroup(
  { programs, turns, notify, clock, root }: CsiParts,
  { pod, fsGroup, fsGroupChangePolicy: policy = 'Always' }: Request,
  { handle, target }: Place,
  signal: AbortSignal,
): Promise<void> {
  if (fsGroup === undefined) return;
  const request = { directory: target, change: { group: fsGroup, readOnly: false, policy } };
  const progress = groupProgress(notify, pod, relative(podsDirectory(root), target));
  const reporting = { now: () => clock.now(), progress };
  try {
    await applyAnyGroup(request, { programs, turns, reporting }, signal);
  } catch (thrown) {
    if (signal.aborted) throw thrown;
    // The volume is there and cannot be used: uncertain, so that it is taken away some day.
    throw new CsiError('uncertain', `applyFSGroup failed for vol ${handle}: ${messageOf(thrown)}`);
  }
}

/** From what lies on disk alone. */
export async function unpublishVolume(
  { calls, programs }: CsiParts,
  { directory }: TearDownRequest,
  signal: AbortSignal,
): Promise<void> {
  const target = join(directory, contentName);
  const data = readVolumeData(directory);
  if (data === undefined) {
    // The driver is asked only after the file was written: without it there is nothing to undo, or no way to.
    if (removeVolume(target)) return;
    const why = 'no such file or directory, and the volume is mounted; unmount it and remove its directory';
    throw csiError('final', `unmounter failed to load volume data file [${directory}]: ${why}`);
  }
  const { driverName, volumeHandle: volumeId } = data;
  const at = 'Unmounter.TearDownAt failed';
  await inWords('transient', `${at} to get CSI client`, () => calls.require(driverName, signal), signal);
  removeLink(target);
  await inWords('final', at, () => calls.unpublish(driverName, { volumeId, targetPath: target }, signal), signal);
  const clean = async (): Promise<void> => {
    // A driver that lost its records says for ever that nothing is published, and no other call would end the mount.
    await unmountLayers(programs, target, signal);
    requireRemoved(target);
  };
  await inWords('final', `${at} to clean mount dir [${target}]`, clean, signal);
}

/** A driver that says it is done and is not is asked again: of mounts on top of each other it takes away one at a time. */
export function requireRemoved(path: string): void {
  if (removeVolume(path)) return;
  throw new CsiError('final', 'the driver has given it up, but it is still mounted');
}
