/**
 * A driver's volume as a raw device: staged for the node, then published for each pod, which gives the path that the volume
 * manager binds and links to. As for file systems, a file says whose it is before the driver is asked.
 */
import { join } from 'node:path';
import { removeEmptyDirectory, unmountLayers } from '../disk/devices/programs.ts';
import { makeDirectoryWithMode } from '../disk/paths/directories.ts';
import { removeTree } from '../disk/paths/remove-tree.ts';
import { specName } from '../kube/references/volume-spec.ts';
import { pathSegment } from '../kube/values/node-layout.ts';
import { type BlockMapping, type DeviceRequest, type UnmapRequest, failureClassOf } from '../plugins/plugin.ts';
import type { DriverCalls } from './driver-calls.ts';
import { inWords, withoutVerdict } from './driver-inputs.ts';
import { csiError } from './failures.ts';
import { type CsiParts, secretOf } from './publish.ts';
import {
  type CsiSource,
  type NodeCapabilities,
  type Strings,
  podInformation,
  publishRequest,
  stageRequest,
  volumeCapability,
} from './requests.ts';
import {
  devicePaths,
  isThere,
  namesIn,
  podVolumeData,
  readVolumeData,
  recordedSpec,
  removeLeftover,
  removeLink,
  volumeOfMapPath,
  writeVolumeData,
} from './vol-data.ts';

type Request = DeviceRequest<CsiSource>;

export function csiBlock(parts: CsiParts): BlockMapping<CsiSource> {
  const { root } = parts;
  return {
    globalMapPathOf: (_source, spec) => devicePaths(root, specName(spec)).map,
    setUpDevice: (request, signal) => stageDevice(parts, request, signal),
    mapPodDevice: (request, signal) => publishDevice(parts, request, signal),
    unmapPodDevice: (request, signal) => unpublishDevice(parts, request, signal),
    tearDownDevice: (mapPath, _devicePath, signal) => unstageDevice(parts, volumeOfMapPath(mapPath), signal),
    reconstruct: (_podUid, volumeName) => recordedSpec(devicePaths(root, volumeName).data, volumeName, 'Block'),
  };
}

/** Resolves with no path: what was staged is for the driver alone. */
async function stageDevice(parts: CsiParts, { source, spec }: Request, signal: AbortSignal): Promise<string> {
  const { calls, inputs, root } = parts;
  const { driver } = source;
  const paths = devicePaths(root, specName(spec));
  const at = 'blockMapper.stageVolumeForBlock failed to';
  const ready = await withoutVerdict(
    () => isThere(paths.data),
    async () => {
      const publishContext = await attachedContext(parts, source, 'SetUpDevice', signal);
      const capabilities = await inWords<NodeCapabilities>(
        'final',
        `${at} check STAGE_UNSTAGE_VOLUME capability`,
        () => calls.capabilities(driver, signal),
        signal,
      );
      const ref = capabilities.stages ? source.secrets.stage : undefined;
      const secrets = await secretOf(inputs, ref, '', gettingSecret('NodeStageSecretRef'), signal);
      return { publishContext, capabilities, secrets };
    },
    signal,
  );
  await writeDown(parts, source, specName(spec), signal);
  if (!ready.capabilities.stages) return '';
  await makePlace(at, paths.staging, signal);
  const { capabilities, ...given } = ready;
  const capability = volumeCapability(source, capabilities);
  const request = stageRequest(source, { ...given, volumeCapability: capability, stagingTargetPath: paths.staging });
  try {
    await calls.stage(driver, request, signal);
  } catch (error) {
    if (!signal.aborted && failureClassOf(error) === 'final') tryToClean(root, specName(spec));
    throw error;
  }
  // A directory is no device: the driver names the pod's when it publishes it.
  return '';
}

/** Resolves with the path that the driver made for the pod. */
async function publishDevice(parts: CsiParts, { source, spec, pod }: Request, signal: AbortSignal): Promise<string> {
  const { calls, inputs, root } = parts;
  const { driver, handle = '', lifecycle } = source;
  const paths = devicePaths(root, specName(spec));
  const targetPath = join(paths.publish, pathSegment('a pod UID', pod.metadata.uid ?? ''));
  const at = 'blockMapper.publishVolumeForBlock failed to';
  const ready = await withoutVerdict(
    () => isThere(targetPath),
    async () => {
      const publishContext = await attachedContext(parts, source, 'MapPodDevice', signal);
      const object = await inWords(
        'transient',
        `${at} assemble volume attributes`,
        () => inputs.driverObject(driver, signal),
        signal,
      );
      const namespace = pod.metadata.namespace ?? '';
      const failed = gettingSecret('NodePublishSecretRef');
      const secrets = await secretOf(inputs, source.secrets.publish, namespace, failed, signal);
      const capabilities = await calls.capabilities(driver, signal);
      return { publishContext, secrets, capabilities, context: podInformation(pod, lifecycle, object) };
    },
    signal,
  );
  await writeDown(parts, source, specName(spec), signal);
  await makePlace(at, paths.publish, signal);
  removeLink(targetPath);
  const { capabilities, ...given } = ready;
  const capability = volumeCapability(source, capabilities);
  const places = { stagingTargetPath: paths.staging, targetPath };
  const request = publishRequest(source, { ...given, ...places, volumeId: handle, volumeCapability: capability });
  await calls.publish(driver, request, [], signal);
  return targetPath;
}

async function attachedContext(
  { calls, inputs }: CsiParts,
  source: CsiSource,
  step: 'SetUpDevice' | 'MapPodDevice',
  signal: AbortSignal,
): Promise<Strings> {
  await requireClient(calls, step, source.driver, signal);
  const failed = `blockMapper.${step} failed to get volume attachment [id=${inputs.attachmentName(source)}]`;
  return await inWords('transient', failed, () => inputs.publishContext(source, signal), signal);
}

async function requireClient(calls: DriverCalls, step: string, driver: string, signal: AbortSignal): Promise<void> {
  const failed = `blockMapper.${step} failed to get CSI client`;
  await inWords('transient', failed, () => calls.require(driver, signal), signal);
}

function gettingSecret(use: 'NodePublishSecretRef' | 'NodeStageSecretRef'): (named: string, why: string) => Error {
  return (named, why) => csiError('transient', `failed to get ${use} ${named}: ${why}`);
}

async function writeDown(
  { root, nodeName }: CsiParts,
  { driver, handle = '' }: CsiSource,
  volumeName: string,
  signal: AbortSignal,
): Promise<void> {
  const { data } = devicePaths(root, volumeName);
  await inWords(
    'final',
    'failed to save volume info data',
    async () => {
      makeDirectoryWithMode(data, 0o750);
      await writeVolumeData(data, podVolumeData({ driver, volumeHandle: handle }, volumeName, nodeName));
    },
    signal,
  );
}

async function makePlace(at: string, path: string, signal: AbortSignal): Promise<void> {
  await inWords('final', `${at} create dir ${path}`, () => makeDirectoryWithMode(path, 0o750), signal);
}

async function unpublishDevice(
  { calls, root, programs }: CsiParts,
  { podUid, volumeName }: UnmapRequest,
  signal: AbortSignal,
): Promise<void> {
  const paths = devicePaths(root, volumeName);
  const data = readVolumeData(paths.data);
  if (data === undefined) return;
  const { driverName, volumeHandle: volumeId } = data;
  const targetPath = join(paths.publish, pathSegment('a pod UID', podUid));
  await requireClient(calls, 'UnmapPodDevice', driverName, signal);
  const at = 'blockMapper.unpublishVolumeForBlock failed';
  // Also where there is nothing at the path: an earlier call that timed out may yet have an effect, and this one ends it.
  await inWords('final', at, () => calls.unpublish(driverName, { volumeId, targetPath }, signal), signal);
  // As for file systems, what the driver has left although it says that it is done.
  await inWords('final', at, () => unmountLayers(programs, targetPath, signal), signal);
  removeLeftover(targetPath);
}

async function unstageDevice(parts: CsiParts, volumeName: string, signal: AbortSignal): Promise<void> {
  const { calls, root } = parts;
  const { data: directory, staging, publish } = devicePaths(root, volumeName);
  const data = readVolumeData(directory);
  if (data === undefined) return;
  const { driverName, volumeHandle: volumeId } = data;
  await requireClient(calls, 'TearDownDevice', driverName, signal);
  // The pod's directory says that a pod has it, and does not yet, or any more, when a process is killed close to the call.
  for (const podUid of namesIn(publish)) await unpublishDevice(parts, { podUid, volumeName }, signal);
  const at = 'blockMapper.unstageVolumeForBlock failed';
  const { stages } = isThere(staging)
    ? await inWords<NodeCapabilities>(
        'final',
        `${at} to check STAGE_UNSTAGE_VOLUME capability`,
        () => calls.capabilities(driverName, signal),
        signal,
      )
    : { stages: false };
  if (stages) {
    const request = { volumeId, stagingTargetPath: staging };
    await inWords('final', at, () => calls.unstage(driverName, request, signal), signal);
    const removing = `${at} to remove staging path after NodeUnstageVolume() error [${staging}]`;
    await inWords('final', removing, () => removeTree(staging), signal);
  }
  cleanDevice(root, volumeName);
}

/** What a device leaves that no pod has any more: empty directories, and the file that says whose it was. */
function cleanDevice(root: string, volumeName: string): void {
  const { staging, publish, own } = devicePaths(root, volumeName);
  removeEmptyDirectory(publish);
  removeEmptyDirectory(staging);
  removeTree(own);
}

/** Where something is left, the file stays too and is found by the next start. */
function tryToClean(root: string, volumeName: string): void {
  try {
    cleanDevice(root, volumeName);
  } catch {}
}
