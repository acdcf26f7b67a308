/**
 * Volumes of storage drivers that are not part of this program: each is a server on this machine, which is asked to mount and
 * unmount. What is asked is in requests.ts; where volumes lie and how they are found again, in vol-data.ts.
 */
import { join } from 'node:path';
import { messageOf } from '../base/errors.ts';
import type { Turns } from '../base/turns.ts';
import type { Programs } from '../disk/devices/programs.ts';
import { readMountTable, referencesOf } from '../disk/mounts/mount-table.ts';
import { VolumeUsage_Unit as Unit, type VolumeUsage as DriverUsage } from '../grpc/messages/csi_pb.ts';
import { specName } from '../kube/references/volume-spec.ts';
import { podsDirectory } from '../kube/values/node-layout.ts';
import {
  type ExpandRequest,
  ExpansionRefusedError,
  type Follow,
  type NotifyPlugin,
  type UsageRequest,
  type VolumePlugin,
  type VolumeUsage,
  VolumeError,
} from '../plugins/plugin.ts';
import { csiBlock } from './block.ts';
import { DriverCalls, type DriverCallsDeps } from './driver-calls.ts';
import { DriverInputs, type DriverInputsDeps, wrapping } from './driver-inputs.ts';
import { DriverError, csiError } from './failures.ts';
import { type CsiParts, handleOf, publishVolume, secretOf, unpublishVolume } from './publish.ts';
import { type CsiSource, csiSourceOf, expandRequest, volumeCapability } from './requests.ts';
import { requireAttached, stageVolume, unstageVolume } from './stage.ts';
import { contentName, csiPluginName, devicePaths, recordedSpec, stagedPath, writtenDown } from './vol-data.ts';

interface CsiPluginDeps extends DriverCallsDeps, DriverInputsDeps {
  /** The node's root directory: absolute, and without symbolic links. */
  readonly root: string;
  readonly programs: Programs;
  readonly turns: Turns;
  readonly notify: NotifyPlugin;
  /** The node turned out to have room for fewer volumes of the driver than was known. */
  readonly limitReached: (driver: string) => void;
}

export function csiPlugin(deps: CsiPluginDeps): VolumePlugin<CsiSource> {
  const { root } = deps;
  const inputs = new DriverInputs(deps);
  const parts: CsiParts = { ...deps, inputs, calls: new DriverCalls(deps) };
  return {
    name: csiPluginName,
    isFallback: true,
    sourceOf: csiSourceOf,
    follows: (source) => followsOf(deps, source),
    contentName,
    supportsMountOptions: true,
    attributes: ({ readOnly }) => ({ readOnly }),
    setUp: (request, signal) => publishVolume(parts, request, signal),
    tearDown: (request, signal) => unpublishVolume(parts, request, signal),
    reconstruct: (volumeName, directory) => recordedSpec(directory, volumeName, 'Filesystem'),
    leftBehind: () => writtenDown(root),
    usage: (request, signal) => usageOf(parts, request, signal),
    attach: {
      canAttach: (source) => inputs.isAttached(source),
      waitForAttach: (request, signal) => requireAttached(inputs, request, signal),
      async isLimitReached(source, _spec, signal) {
        const isReached = await isLimitReached(inputs, source, signal);
        if (isReached) deps.limitReached(source.driver);
        return isReached;
      },
    },
    deviceMount: {
      appliesTo: ({ lifecycle }) => lifecycle === 'Persistent',
      identityOf: ({ driver, handle }) => `${driver}^${requirePersistent(handle)}`,
      pathOf: ({ driver, handle }) => stagedPath(root, driver, requirePersistent(handle)),
      mount: (request, signal) => stageVolume(parts, request, signal),
      referencesTo: async (path) => referencesOf(readMountTable(), path),
      unmount: (path, signal) => unstageVolume(parts, path, signal),
    },
    block: csiBlock(parts),
    expand: {
      expand: (request, signal) => expandVolume(parts, request, signal),
    },
  };
}

/** Drivers that ask for it are called again at each sweep, and when a token has been replaced. */
function followsOf({ driverObjects }: CsiPluginDeps, { driver }: CsiSource): readonly Follow[] | undefined {
  const { requiresRepublish, tokenRequests = [] } = driverObjects.get(driver)?.spec ?? {};
  if (requiresRepublish !== true) return undefined;
  return tokenRequests.length === 0 ? [] : [{ token: true }];
}

function requirePersistent(handle: string | undefined): string {
  if (handle !== undefined) return handle;
  throw new VolumeError('CsiVolumeFailed', 'unexpected api.CSIVolumeSource found in volume.Spec');
}

/** The kubelet's number for an attachment that failed because the node is full: gRPC's ResourceExhausted. */
const resourceExhausted = 8;

/** A driver that cannot be asked says nothing: the pod goes on waiting. */
async function isLimitReached(inputs: DriverInputs, source: CsiSource, signal: AbortSignal): Promise<boolean> {
  if (!inputs.isAttached(source)) return false;
  try {
    return (await inputs.attachment(source, signal)).status?.attachError?.errorCode === resourceExhausted;
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

async function expandVolume(
  { calls, inputs }: CsiParts,
  { source, directory, devicePath, deviceMountPath = '', sizeBytes }: ExpandRequest<CsiSource>,
  signal: AbortSignal,
): Promise<boolean> {
  const { driver, mode, secrets } = source;
  const capabilities = await wrapping(
    () => calls.capabilities(driver, signal),
    (thrown) =>
      thrown instanceof DriverError
        ? expansionFailed(`Expander.NodeExpand failed to check if node supports expansion : ${thrown.message}`)
        : (thrown as Error),
    signal,
  );
  if (!capabilities.expands) {
    throw new ExpansionRefusedError('not-supported', `NodeExpand is not supported by the CSI driver ${driver}`);
  }
  const failed = (named: string, why: string): VolumeError =>
    expansionFailed(`expander.NodeExpand failed to get NodeExpandSecretRef ${named}: ${why}`);
  const request = expandRequest(source, {
    volumeCapability: volumeCapability(source, capabilities),
    secrets: await secretOf(inputs, secrets.expand, '', failed, signal),
    volumePath: (mode === 'Block' ? devicePath : directory) ?? '',
    stagingTargetPath: deviceMountPath,
    sizeBytes,
  });
  await wrapping(() => calls.expand(driver, request, signal), refusalOf, signal);
  return true;
}

/** In words of its own, even what may be going on still counts as over: the next attempt repeats it. */
function refusalOf(thrown: unknown): Error {
  const message = `Expander.NodeExpand failed to expand the volume : ${messageOf(thrown)}`;
  const code = thrown instanceof DriverError ? thrown.code : undefined;
  if (code === 'FAILED_PRECONDITION') return new ExpansionRefusedError('in-use', message);
  if (code !== 'INVALID_ARGUMENT' && code !== 'OUT_OF_RANGE' && code !== 'NOT_FOUND') return expansionFailed(message);
  const infeasible = `Expander.NodeExpand failed to expand the volume ${messageOf(thrown)}`;
  return new ExpansionRefusedError('infeasible', infeasible);
}

function expansionFailed(message: string): VolumeError {
  return new VolumeError('ExpansionFailed', message);
}

/** Undefined where the driver has no figures. */
async function usageOf(
  { calls, root }: CsiParts,
  { source, spec, path }: UsageRequest<CsiSource>,
  signal: AbortSignal,
): Promise<VolumeUsage | undefined> {
  const { driver, mode } = source;
  // The first name below the directory of all pods is that of the pod.
  const [podUid = ''] = path.slice(podsDirectory(root).length + 1).split('/');
  const volumeId = handleOf(source, podUid, specName(spec));
  const volumePath = mode === 'Block' ? join(devicePaths(root, specName(spec)).map, podUid) : path;
  if (!(await calls.capabilities(driver, signal)).hasStats) return undefined;
  const usage = await calls.figures(driver, { volumeId, volumePath }, signal);
  if (usage.length === 0) throw csiError('final', 'failed to get usage from response. usage is nil');
  const bytes = figuresOf(usage, Unit.BYTES);
  const inodes = figuresOf(usage, Unit.INODES);
  return {
    ...(bytes && { capacityBytes: bytes.total, availableBytes: bytes.available, usedBytes: bytes.used }),
    ...(inodes && { inodes: inodes.total, inodesFree: inodes.available, inodesUsed: inodes.used }),
  };
}

/** A driver can say anything: what is no amount counts as nothing. */
function figuresOf(
  usage: readonly DriverUsage[],
  wanted: Unit,
): { readonly total: number; readonly available: number; readonly used: number } | undefined {
  const found = usage.find(({ unit }) => unit === wanted);
  if (found === undefined) return undefined;
  const amount = (figure: bigint): number => Math.max(0, Math.min(Number(figure), Number.MAX_SAFE_INTEGER));
  return { total: amount(found.total), available: amount(found.available), used: amount(found.used) };
}
