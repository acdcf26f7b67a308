/**
 * A driver's volume as all pods of the node share it: staged once, where the driver does such a thing. A file beside the place
 * says whose it is before the driver is asked, so that a crash in between leaves nothing off the record.
 */
import { dirname } from 'node:path';
import { errorCode, messageOf } from '../base/errors.ts';
import { makeDirectoryWithMode } from '../disk/paths/directories.ts';
import { removeEmptyDirectory } from '../disk/devices/programs.ts';
import { type AttachRequest, type DeviceMountRequest, VolumeError } from '../plugins/plugin.ts';
import { type DriverInputs, inWords, withoutVerdict, wrapping } from './driver-inputs.ts';
import { CsiError } from './failures.ts';
import { type CsiParts, afterFailure, fetching, requireRemoved, secretOf } from './publish.ts';
import { type CsiSource, type NodeCapabilities, type Strings, stageRequest, volumeCapability } from './requests.ts';
import { readVolumeData, writeVolumeData } from './vol-data.ts';

/** Resolves with the name of the VolumeAttachment, which is all that stands for a device here. */
export async function requireAttached(
  inputs: DriverInputs,
  { source }: AttachRequest<CsiSource>,
  signal: AbortSignal,
): Promise<string> {
  await inputs.driverObject(source.driver, signal);
  if (!inputs.isAttached(source)) return '';
  const { handle = '' } = source;
  const name = inputs.attachmentName(source);
  const { metadata, status } = await wrapping(
    () => inputs.attachment(source, signal),
    (thrown) => refused(`volume ${handle} has GET error for volume attachment ${name}: ${messageOf(thrown)}`),
    signal,
  );
  if (metadata.deletionTimestamp !== undefined) throw refused('volume attachment is being deleted');
  if (status?.attached === true) return name;
  throw refused(status?.attachError?.message ?? `volume ${handle} is not attached for volume attachment ${name}`);
}

function refused(message: string): VolumeError {
  return new VolumeError('NotAttached', message);
}

interface Stageable {
  readonly capabilities: NodeCapabilities;
  readonly publishContext: Strings;
  readonly secrets: Strings;
}

export async function stageVolume(
  parts: CsiParts,
  { source, path, fsGroup }: DeviceMountRequest<CsiSource>,
  signal: AbortSignal,
): Promise<void> {
  const { driver, handle = '' } = source;
  const directory = dirname(path);
  const isNew = readVolumeData(directory) === undefined;
  const ready = await withoutVerdict(
    () => !isNew,
    () => prepare(parts, source, signal),
    signal,
  );
  makeDirectoryWithMode(path, 0o750);
  if (!ready.capabilities.stages) return;
  await inWords(
    'final',
    'failed to save volume info data',
    () => writeVolumeData(directory, { driverName: driver, volumeHandle: handle }),
    signal,
  );
  const { capabilities, ...given } = ready;
  const capability = volumeCapability(source, capabilities, capabilities.mountsForGroup ? fsGroup : undefined);
  const request = stageRequest(source, { ...given, volumeCapability: capability, stagingTargetPath: path });
  try {
    await parts.calls.stage(driver, request, signal);
  } catch (error) {
    throw afterFailure(path, isNew, error, signal);
  }
}

async function prepare({ calls, inputs }: CsiParts, source: CsiSource, signal: AbortSignal): Promise<Stageable> {
  const { driver } = source;
  await inWords(
    'transient',
    'attacher.MountDevice failed to create newCsiDriverClient',
    () => calls.require(driver, signal),
    signal,
  );
  const capabilities = await calls.capabilities(driver, signal);
  const publishContext = await wrapping(
    () => inputs.publishContext(source, signal),
    (thrown) => new CsiError('transient', messageOf(thrown)),
    signal,
  );
  const ref = capabilities.stages ? source.secrets.stage : undefined;
  const secrets = await secretOf(inputs, ref, '', fetching('NodeStageSecretRef'), signal);
  return { capabilities, publishContext, secrets };
}

export async function unstageVolume({ calls }: CsiParts, path: string, signal: AbortSignal): Promise<void> {
  const directory = dirname(path);
  const data = readVolumeData(directory);
  if (data === undefined) {
    // Nothing was ever staged there. The directories are ours, unless somebody uses them.
    for (const empty of [path, directory]) removeIfUnused(empty);
    return;
  }
  const { driverName, volumeHandle: volumeId } = data;
  const at = 'attacher.UnmountDevice failed';
  await inWords('transient', `${at} to create newCsiDriverClient`, () => calls.require(driverName, signal), signal);
  const { stages } = await inWords<NodeCapabilities>(
    'final',
    `${at} to check whether STAGE_UNSTAGE_VOLUME set`,
    () => calls.capabilities(driverName, signal),
    signal,
  );
  if (stages) {
    await inWords('final', at, () => calls.unstage(driverName, { volumeId, stagingTargetPath: path }, signal), signal);
  }
  await inWords('final', `failed to clean up global mount ${directory}`, () => requireRemoved(path), signal);
}

function removeIfUnused(directory: string): void {
  try {
    removeEmptyDirectory(directory);
  } catch (thrown) {
    if (!['ENOTEMPTY', 'EBUSY', 'ENOTDIR'].includes(errorCode(thrown) ?? '')) throw thrown;
  }
}
