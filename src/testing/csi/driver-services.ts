/** What each call of the storage interface does in the test driver when nothing is to go wrong: as its specification says, strictly. */
import { createHash } from 'node:crypto';
import { chmodSync, chownSync, existsSync, mkdirSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import { deviceSizeBytes } from '../../disk/devices/block-device.ts';
import { isInMountTable } from '../../disk/devices/programs.ts';
import { DiskError } from '../../disk/mounts/disk-error.ts';
import {
  type CapacityRange,
  type Controller,
  ControllerServiceCapability_RPC_Type as ControllerCapability,
  type Identity,
  type Node,
  NodeServiceCapability_RPC_Type as NodeCapability,
  PluginCapability_Service_Type as PluginService,
  PluginCapability_VolumeExpansion_Type as PluginExpansion,
  type VolumeCapability,
  VolumeCapability_AccessMode_Mode as AccessMode,
  VolumeUsage_Unit as Unit,
} from '../../grpc/messages/csi_pb.ts';
import { CallFailure } from '../servers/grpc-server.ts';
import { type DriverScript, defaultCapabilities } from './driver-script.ts';
import { type DriverVolume, VolumeDevices, type VolumeTable } from './driver-volumes.ts';

type Methods = (typeof Identity)['method'] & (typeof Controller)['method'] & (typeof Node)['method'];
type Request<Name extends keyof Methods> = MessageShape<Methods[Name]['input']>;
type Answer<Name extends keyof Methods> = MessageInitShape<Methods[Name]['output']>;
export type DriverServices = {
  readonly [Name in keyof Methods]: (
    request: Request<Name>,
    signal: AbortSignal,
  ) => Answer<Name> | Promise<Answer<Name>>;
};

interface ServiceDeps {
  readonly name: string;
  readonly nodeId: string;
  /** For what a driver without a stage mounts of its own accord. */
  readonly stagingDirectory: string;
  readonly volumes: VolumeTable;
  readonly script: () => DriverScript;
}

const mebibyte = 1024 * 1024;
const sizeBytesDefault = 64 * mebibyte;
/** Sparse files take no room, so that only the absurd is refused. */
const sizeBytesMax = 1024 * 1024 * mebibyte;

export function driverServices({ name, nodeId, stagingDirectory, volumes, script }: ServiceDeps): DriverServices {
  const devices = new VolumeDevices();
  const capabilitiesOf = (kind: keyof typeof defaultCapabilities): readonly string[] =>
    script().capabilities?.[kind] ?? defaultCapabilities[kind];

  const volumeOf = (id: string): DriverVolume => {
    required('volume id', id);
    const volume = volumes.find(id);
    if (volume === undefined) throw new CallFailure('NOT_FOUND', `volume ${id} does not exist`);
    return volume;
  };

  const mountAt = async (
    id: string,
    target: string,
    capability: VolumeCapability,
    signal: AbortSignal,
  ): Promise<void> => {
    const file = volumes.file(id);
    if (capability.accessType.case === 'block') return void (await devices.attach(file, signal));
    const { fsType = '', mountFlags = [], volumeMountGroup = '' } = capability.accessType.value ?? {};
    const options = readers.has(capability.accessMode?.mode ?? 0) ? [...mountFlags, 'ro'] : mountFlags;
    await devices.mount(file, target, { fileSystem: fsType, options }, signal);
    if (volumeMountGroup === '' || options.includes('ro')) return;
    chownSync(target, 0, Number(volumeMountGroup));
    chmodSync(target, 0o2775);
  };

  /** Of what is published without a stage. */
  const ownStaging = (id: string): string => join(stagingDirectory, basename(volumes.file(id)));

  const detach = async (id: string, signal: AbortSignal): Promise<void> => {
    const isShared = Object.keys(volumes.find(id)?.attachments ?? {}).some((node) => node !== nodeId);
    if (await devices.detach(volumes.file(id), isShared, signal)) return;
    throw new CallFailure('FAILED_PRECONDITION', `volume ${id} is still in use on ${nodeId}`);
  };

  return {
    getPluginInfo: () => ({ name, vendorVersion: '1' }),
    getPluginCapabilities: () => ({
      capabilities: capabilitiesOf('plugin').map((one) => ({
        type:
          one in PluginExpansion
            ? { case: 'volumeExpansion', value: { type: PluginExpansion[one as keyof typeof PluginExpansion] } }
            : { case: 'service', value: { type: PluginService[one as keyof typeof PluginService] } },
      })),
    }),
    probe: () => ({ ready: script().isReady ?? true }),

    createVolume({ name: volumeName, capacityRange, volumeCapabilities, accessibilityRequirements }) {
      required('name', volumeName);
      requireCapabilities(volumeCapabilities);
      const sizeBytes = sizeWithin(capacityRange, sizeBytesDefault);
      const id = `vol-${createHash('sha256').update(volumeName).digest('hex').slice(0, 12)}`;
      const found = volumes.find(id);
      const limitBytes = Number(capacityRange?.limitBytes ?? 0n);
      const requiredBytes = Number(capacityRange?.requiredBytes ?? 0n);
      if (found && (found.sizeBytes < requiredBytes || (limitBytes > 0 && found.sizeBytes > limitBytes)))
        throw new CallFailure('ALREADY_EXISTS', `volume ${volumeName} exists with ${found.sizeBytes} bytes`);
      const volume = found ?? { id, name: volumeName, sizeBytes, attachments: {} };
      if (found === undefined) volumes.write(volume);
      const isBoundToNode = capabilitiesOf('plugin').includes('VOLUME_ACCESSIBILITY_CONSTRAINTS');
      return {
        volume: {
          volumeId: id,
          capacityBytes: BigInt(volume.sizeBytes),
          volumeContext: { name: volumeName },
          accessibleTopology: isBoundToNode ? (accessibilityRequirements?.preferred.slice(0, 1) ?? []) : [],
        },
      };
    },
    async deleteVolume({ volumeId }, signal) {
      required('volume id', volumeId);
      const volume = volumes.find(volumeId);
      if (volume === undefined) return {};
      const [user] = Object.keys(volume.attachments);
      const isOpen = (await devices.find(volumes.file(volumeId), signal)) !== undefined;
      if (user !== undefined || isOpen)
        throw new CallFailure('FAILED_PRECONDITION', `volume ${volumeId} is in use on ${user ?? 'a node'}`);
      volumes.remove(volumeId);
      return {};
    },
    controllerPublishVolume({ volumeId, nodeId: on, volumeCapability, readonly }) {
      required('volume id', volumeId);
      required('node id', on);
      const capability = requireCapability(volumeCapability);
      const volume = volumeOf(volumeId);
      if (!volumes.hasNode(on)) throw new CallFailure('NOT_FOUND', `node ${on} does not exist`);
      const present = volume.attachments[on];
      if (present !== undefined && present.isReadOnly !== readonly)
        throw new CallFailure('ALREADY_EXISTS', `volume ${volumeId} is attached to ${on}, but not so`);
      const other = Object.keys(volume.attachments).find((node) => node !== on);
      if (other !== undefined && !ofManyNodes.has(capability.accessMode?.mode ?? 0))
        throw new CallFailure('FAILED_PRECONDITION', `volume ${volumeId} is attached to ${other}`);
      volumes.write({ ...volume, attachments: { ...volume.attachments, [on]: { isReadOnly: readonly } } });
      return { publishContext: { attachedTo: on } };
    },
    controllerUnpublishVolume({ volumeId, nodeId: from }) {
      required('volume id', volumeId);
      const volume = volumes.find(volumeId);
      if (volume === undefined) return {};
      const kept = Object.entries(volume.attachments).filter(([node]) => from !== '' && node !== from);
      volumes.write({ ...volume, attachments: Object.fromEntries(kept) });
      return {};
    },
    validateVolumeCapabilities({ volumeId, volumeContext, volumeCapabilities, parameters }) {
      volumeOf(volumeId);
      requireCapabilities(volumeCapabilities);
      return { confirmed: { volumeContext, volumeCapabilities, parameters } };
    },
    controllerGetCapabilities: () => ({
      capabilities: capabilitiesOf('controller').map((one) => ({
        type: { case: 'rpc', value: { type: ControllerCapability[one as keyof typeof ControllerCapability] } },
      })),
    }),
    controllerExpandVolume({ volumeId, capacityRange }) {
      const volume = volumeOf(volumeId);
      if (capacityRange === undefined) required('capacity range', '');
      const sizeBytes = Math.max(volume.sizeBytes, sizeWithin(capacityRange, volume.sizeBytes));
      volumes.write({ ...volume, sizeBytes });
      return {
        capacityBytes: BigInt(sizeBytes),
        nodeExpansionRequired: capabilitiesOf('node').includes('EXPAND_VOLUME'),
      };
    },

    async nodeStageVolume({ volumeId, stagingTargetPath, volumeCapability, publishContext }, signal) {
      required('volume id', volumeId);
      required('staging target path', stagingTargetPath);
      const capability = requireCapability(volumeCapability);
      const { attachments } = volumeOf(volumeId);
      const isAttached = attachments[nodeId] !== undefined && publishContext['attachedTo'] === nodeId;
      if (capabilitiesOf('controller').includes('PUBLISH_UNPUBLISH_VOLUME') && !isAttached)
        throw new CallFailure('FAILED_PRECONDITION', `volume ${volumeId} is not attached to ${nodeId}`);
      await mountAt(volumeId, stagingTargetPath, capability, signal);
      return {};
    },
    async nodeUnstageVolume({ volumeId, stagingTargetPath }, signal) {
      required('volume id', volumeId);
      required('staging target path', stagingTargetPath);
      await devices.unmount(stagingTargetPath, signal);
      await detach(volumeId, signal);
      return {};
    },
    async nodePublishVolume(request, signal) {
      const { volumeId, targetPath, stagingTargetPath, volumeCapability, readonly, volumeContext } = request;
      required('volume id', volumeId);
      required('target path', targetPath);
      const capability = requireCapability(volumeCapability);
      const isInline = volumeContext['csi.storage.k8s.io/ephemeral'] === 'true';
      if (isInline && volumes.find(volumeId) === undefined) {
        const sizeBytes = Number(volumeContext['sizeBytes'] ?? sizeBytesDefault);
        volumes.write({ id: volumeId, name: '', sizeBytes, attachments: {} });
      }
      volumeOf(volumeId);
      let staging = stagingTargetPath;
      if (isInline || !capabilitiesOf('node').includes('STAGE_UNSTAGE_VOLUME')) {
        staging = ownStaging(volumeId);
        mkdirSync(staging, { recursive: true });
        await mountAt(volumeId, staging, capability, signal);
      } else required('staging target path', staging);
      const isBlock = capability.accessType.case === 'block';
      const device = await devices.find(volumes.file(volumeId), signal);
      if (device === undefined || (!isBlock && !isInMountTable(staging)))
        throw new CallFailure('FAILED_PRECONDITION', `volume ${volumeId} is not staged at ${staging}`);
      const { mountFlags = [] } = capability.accessType.case === 'mount' ? capability.accessType.value : {};
      devices.bind(isBlock ? device.path : staging, targetPath, [...mountFlags, ...(readonly ? ['ro'] : [])]);
      return {};
    },
    async nodeUnpublishVolume({ volumeId, targetPath }, signal) {
      required('volume id', volumeId);
      required('target path', targetPath);
      await devices.unbind(targetPath, signal);
      const volume = volumes.find(volumeId);
      const staging = ownStaging(volumeId);
      // Also without the directory: an earlier call may have died after it removed it.
      const isStaged = volume?.name !== '' && capabilitiesOf('node').includes('STAGE_UNSTAGE_VOLUME');
      if (volume === undefined || (isStaged && !existsSync(staging))) return {};
      if (await devices.isBound(volumes.file(volumeId), staging, signal)) return {};
      await devices.unbind(staging, signal);
      await detach(volumeId, signal);
      if (volume.name === '') volumes.remove(volumeId);
      return {};
    },
    async nodeGetVolumeStats({ volumeId, volumePath }, signal) {
      required('volume path', volumePath);
      volumeOf(volumeId);
      const status = statSync(volumePath, { throwIfNoEntry: false });
      if (status === undefined || (status.isDirectory() && !isInMountTable(volumePath)))
        throw new CallFailure('NOT_FOUND', `nothing is published at ${volumePath}`);
      const device = await devices.find(volumes.file(volumeId), signal);
      if (device === undefined) throw new CallFailure('NOT_FOUND', `volume ${volumeId} is not on ${nodeId}`);
      if (!status.isDirectory()) return { usage: [{ unit: Unit.BYTES, total: deviceSizeBytes(device) }] };
      const { bsize, blocks, bfree, bavail, files, ffree } = await statfs(volumePath, { bigint: true });
      const used = (blocks - bfree) * bsize;
      return {
        usage: [
          { unit: Unit.BYTES, total: blocks * bsize, available: bavail * bsize, used },
          { unit: Unit.INODES, total: files, available: ffree, used: files - ffree },
        ],
      };
    },
    async nodeExpandVolume({ volumeId, volumePath, capacityRange }, signal) {
      required('volume path', volumePath);
      const volume = volumeOf(volumeId);
      if (!existsSync(volumePath)) throw new CallFailure('NOT_FOUND', `nothing is published at ${volumePath}`);
      const sizeBytes = Math.max(volume.sizeBytes, sizeWithin(capacityRange, volume.sizeBytes));
      volumes.write({ ...volume, sizeBytes });
      const isMounted = statSync(volumePath).isDirectory() && isInMountTable(volumePath);
      try {
        await devices.grow(volumes.file(volumeId), isMounted ? volumePath : undefined, signal);
      } catch (error) {
        if (!(error instanceof DiskError) || error.reason !== 'FileSystemInUse') throw error;
        throw new CallFailure('FAILED_PRECONDITION', error.message);
      }
      return { capacityBytes: BigInt(sizeBytes) };
    },
    nodeGetCapabilities: () => ({
      capabilities: capabilitiesOf('node').map((one) => ({
        type: { case: 'rpc', value: { type: NodeCapability[one as keyof typeof NodeCapability] } },
      })),
    }),
    nodeGetInfo: () => ({
      nodeId,
      maxVolumesPerNode: BigInt(script().volumesMax ?? 0),
      accessibleTopology: { segments: { [`topology.${name}/node`]: nodeId } },
    }),
  };
}

function required(what: string, value: string): void {
  if (value === '') throw new CallFailure('INVALID_ARGUMENT', `${what} is missing`);
}

function requireCapability(capability: VolumeCapability | undefined): VolumeCapability {
  if (capability?.accessType.case === undefined || (capability.accessMode?.mode ?? 0) === AccessMode.UNKNOWN)
    throw new CallFailure('INVALID_ARGUMENT', 'volume capability is missing');
  return capability;
}

function requireCapabilities(capabilities: readonly VolumeCapability[]): void {
  if (capabilities.length === 0) requireCapability(undefined);
  for (const one of capabilities) requireCapability(one);
}

const readers: ReadonlySet<number> = new Set([AccessMode.SINGLE_NODE_READER_ONLY, AccessMode.MULTI_NODE_READER_ONLY]);
const ofManyNodes: ReadonlySet<number> = new Set([
  AccessMode.MULTI_NODE_READER_ONLY,
  AccessMode.MULTI_NODE_SINGLE_WRITER,
  AccessMode.MULTI_NODE_MULTI_WRITER,
]);

/** The size that is required, or the default where it fits. */
function sizeWithin(range: CapacityRange | undefined, fallback: number): number {
  const requiredBytes = Number(range?.requiredBytes ?? 0n);
  const limitBytes = Number(range?.limitBytes ?? 0n);
  if (requiredBytes < 0 || limitBytes < 0) throw new CallFailure('INVALID_ARGUMENT', 'a size is negative');
  const bytesMax = limitBytes === 0 ? sizeBytesMax : Math.min(limitBytes, sizeBytesMax);
  if (requiredBytes > bytesMax) throw new CallFailure('OUT_OF_RANGE', `${requiredBytes} bytes are too many`);
  return requiredBytes === 0 ? Math.min(fallback, bytesMax) : requiredBytes;
}
