/**
 * What stands behind a local volume: a directory, a block device, or a file that becomes one through a loop device. Attaching,
 * formatting, mounting on the node and growing are here; the part of each pod is in local.ts.
 *
 *   plugins/kubernetes.io/local-volume/mounts/<volume>     the device, mounted for the whole node
 *   plugins/kubernetes.io/local-volume/attached/<volume>   which file has a loop device, for the process after a crash
 */
import { basename, dirname, join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import { MountletError, messageOf } from '../base/errors.ts';
import { blockDeviceAt, deviceSizeBytes } from '../disk/devices/block-device.ts';
import { growFileSystem, mountDevice } from '../disk/devices/device-mount.ts';
import { LoopAttachments } from '../disk/devices/loop-attachments.ts';
import { type Programs, isInMountTable, removeEmptyDirectory, runUnmount } from '../disk/devices/programs.ts';
import { DiskError } from '../disk/mounts/disk-error.ts';
import { isForeign, isWithin, readMountTable } from '../disk/mounts/mount-table.ts';
import { makeDirectoryWithMode } from '../disk/paths/directories.ts';
import { hostKindOf } from '../disk/paths/host-kind.ts';
import type { LocalVolumeSource } from '../kube/kinds/storage/persistent-volume.ts';
import { preResizeCapacity } from '../kube/references/claim-resize.ts';
import {
  type VolumeMode,
  type VolumeSpec,
  mountOptionsOf,
  persistentSpec,
  specName,
  volumeModeOf,
} from '../kube/references/volume-spec.ts';
import { globalMountDirectory, pluginDirectory } from '../kube/values/node-layout.ts';
import { Quantity } from '../kube/values/quantity.ts';
import {
  type ExpansionRefusal,
  type FailureClass,
  type NotifyPlugin,
  ExpansionRefusedError,
  VolumeError,
  failureClassOf,
} from './plugin.ts';

export const localPluginName = 'kubernetes.io/local-volume';

interface LocalStorageDeps {
  /** The node's root directory. */
  readonly root: string;
  readonly programs: Programs;
  readonly clock: Clock;
  readonly notify: NotifyPlugin;
}

type LocalKind = 'Directory' | 'BlockDevice' | 'File';

export class LocalStorage {
  /** Where devices are mounted for the whole node. */
  readonly mountsDirectory: string;
  readonly attachments: LoopAttachments;
  readonly #deps: LocalStorageDeps;

  constructor(deps: LocalStorageDeps) {
    const own = pluginDirectory(deps.root, localPluginName);
    this.mountsDirectory = join(own, 'mounts');
    this.attachments = new LoopAttachments({ directory: join(own, 'attached'), ...deps });
    this.#deps = deps;
  }

  /** A file that is attached is a file even when it was deleted since: it must be detached all the same. */
  kindOf({ path }: LocalVolumeSource, spec: VolumeSpec): LocalKind {
    const isAttached = path !== '' && this.attachments.find(specName(spec))?.path === path;
    return isAttached ? 'File' : kindAt(path);
  }

  /** What pods bind: the directory itself, or where the device is mounted on the node. */
  nodePathOf(source: LocalVolumeSource, spec: VolumeSpec): string {
    const isDirectory = this.kindOf(source, spec) === 'Directory';
    return isDirectory ? source.path : globalMountDirectory(this.#deps.root, localPluginName, specName(spec));
  }

  isFile(source: LocalVolumeSource, spec: VolumeSpec): boolean {
    try {
      return this.kindOf(source, spec) === 'File';
    } catch (error) {
      if (error instanceof MountletError) return false; // a path that cannot be looked at cannot be attached
      throw error;
    }
  }

  async attach({ path }: LocalVolumeSource, spec: VolumeSpec, signal: AbortSignal): Promise<string> {
    requireNoBacksteps(path);
    return this.attachments.attach(specName(spec), path, signal);
  }

  /** The path that was found now, and not one that was remembered: it is about to be formatted. */
  async deviceOf(source: LocalVolumeSource, spec: VolumeSpec, signal: AbortSignal): Promise<string> {
    const { path } = source;
    const kind = this.kindOf(source, spec);
    if (kind === 'Directory')
      throw new VolumeError('LocalVolumeUnusable', `Cannot use "${path}" as a device: it is a directory`);
    if (kind === 'BlockDevice') return path;
    const device = await this.attachments.deviceOf(specName(spec), signal);
    if (device === undefined)
      throw new VolumeError('LocalVolumeUnusable', `Cannot use "${path}": it has no loop device; attach it first`);
    return device;
  }

  async mount(source: LocalVolumeSource, spec: VolumeSpec, target: string, signal: AbortSignal): Promise<void> {
    const kind = this.kindOf(source, spec);
    if (kind === 'Directory') return;
    requireNoBacksteps(source.path);
    if (isInMountTable(target)) return;
    const device = await this.deviceOf(source, spec, signal);
    const fileSystem = source.fsType ?? 'ext4';
    if (kind === 'File' && isBeingGrown(spec) && !spec.readOnly) {
      // Before it is mounted, when an ext4 can always grow. A size that cannot be had is refused by `expand`.
      await this.#growFile(device, spec, capacityOf(spec), signal).catch(unlessRefused);
    }
    const options = [...new Set([...mountOptionsOf(spec), ...(spec.readOnly ? ['ro'] : [])])].toSorted();
    makeDirectoryWithMode(target, 0o750);
    try {
      const { formatted, repaired } = await mountDevice(
        this.#deps.programs,
        {
          device: blockDeviceAt(device),
          target,
          fileSystem,
          options,
          sizeBytes: capacityOf(spec),
          blankOnly: kind === 'File' ? this.attachments.formatMark(specName(spec)) : undefined,
        },
        signal,
      );
      this.#tell(specName(spec), device, fileSystem, formatted, repaired);
    } catch (error) {
      // A mount that may still come to pass needs its directory.
      if (failureClassOf(error) === 'final' && !isInMountTable(target)) removeEmptyDirectory(target);
      throw error instanceof MountletError ? new LocalDeviceError(device, target, fileSystem, error) : error;
    }
  }

  #tell(name: string, device: string, fileSystem: string, formatted: boolean, repaired: string | undefined): void {
    const { notify } = this.#deps;
    if (formatted) {
      notify({ kind: 'DeviceFormatted', message: `Formatted ${device} of volume "${name}" as ${fileSystem}` });
    }
    if (repaired !== undefined) {
      notify({
        kind: 'DeviceRepaired',
        message: `Device ${device} has errors which were corrected by fsck: ${repaired}`,
      });
    }
  }

  /** A directory is mounted nowhere on the node and is left as it is. */
  async unmount(path: string, signal: AbortSignal): Promise<void> {
    if (path !== this.mountsDirectory && isWithin(this.mountsDirectory, path)) {
      await runUnmount(this.#deps.programs, path, signal);
    }
  }

  /**
   * While a controller grows the claim (`isBeingGrown`), the node makes the storage as large as it says, or refuses. Without one, an
   * administrator has made both larger by hand, and the volume gets what there is.
   */
  async expand(source: LocalVolumeSource, spec: VolumeSpec, sizeBytes: bigint, signal: AbortSignal): Promise<void> {
    const kind = this.kindOf(source, spec);
    if (kind === 'Directory') {
      if (!isBeingGrown(spec)) return; // it is as large as the file system it is on
      const why = `Cannot grow volume "${specName(spec)}": "${source.path}" is a directory`;
      throw new ExpansionRefusedError(
        'infeasible',
        `${why}, which has no size of its own; use a file or a block device`,
      );
    }
    try {
      const device = await this.deviceOf(source, spec, signal);
      if (kind === 'File') await this.#growFile(device, spec, sizeBytes, signal);
      const deviceBytes = deviceSizeBytes(blockDeviceAt(device));
      if (isBeingGrown(spec) && deviceBytes < sizeBytes) {
        const why = `Cannot grow volume "${specName(spec)}" to ${sizeBytes} bytes: ${source.path} has ${deviceBytes}`;
        throw new DiskError('StorageTooSmall', `${why}; ask for less, or make the device larger`);
      }
      if (volumeModeOf(spec) === 'Block') return;
      await growFileSystem(this.#deps.programs, blockDeviceAt(device), this.nodePathOf(source, spec), signal);
    } catch (error) {
      const refusal = error instanceof DiskError ? refusals[error.reason] : undefined;
      throw refusal === undefined ? error : new ExpansionRefusedError(refusal, messageOf(error), { cause: error });
    }
  }

  async #growFile(device: string, spec: VolumeSpec, sizeBytes: bigint, signal: AbortSignal): Promise<void> {
    if (isBeingGrown(spec)) await this.attachments.grow(specName(spec), sizeBytes, signal);
    else await this.attachments.refresh(device, signal);
  }

  /**
   * Files that have a loop device, and devices that are mounted on the node: of these too no pod has a directory once
   * the last pod has gone.
   */
  leftBehind(): readonly VolumeSpec[] {
    this.attachments.removeUnfinished();
    const left = new Map(this.attachments.all().map(({ name }) => [name, this.reconstruct(name, 'Filesystem')]));
    for (const { mountPoint, source } of readMountTable()) {
      if (dirname(mountPoint) !== this.mountsDirectory) continue;
      const name = basename(mountPoint);
      left.set(name, this.reconstruct(name, 'Filesystem', source));
    }
    return [...left.values()];
  }

  /** What is known after a restart. For a file its path is known, so that it is detached in the end. */
  reconstruct(name: string, volumeMode: VolumeMode, device = ''): VolumeSpec {
    const path = this.attachments.find(name)?.path ?? device;
    return persistentSpec({ metadata: { name }, spec: { volumeMode, local: { path } } }, false);
  }
}

/** What stands behind the path, which the volume's administrator made. */
export function kindAt(path: string): LocalKind {
  if (path === '') throw new VolumeError('LocalVolumeUnusable', 'local volume source is nil or local path is not set');
  // On a server's disk it can only be a directory, and a look may take for ever: `setUp` has another process look.
  const kind = isForeign(path) ? 'Directory' : hostKindOf(path);
  if (kind === 'Directory' || kind === 'BlockDevice' || kind === 'File') return kind;
  throw new VolumeError('LocalVolumeUnusable', 'only directory and block device are supported');
}

export function requireNoBacksteps(path: string): void {
  if (path.split('/').includes('..'))
    throw new VolumeError('LocalVolumeUnusable', `invalid path: ${path} must not contain '..'`);
}

const refusals: Readonly<Record<string, ExpansionRefusal>> = {
  StorageTooSmall: 'infeasible',
  FileSystemInUse: 'in-use',
};

function unlessRefused(error: unknown): void {
  if (!(error instanceof DiskError) || refusals[error.reason] === undefined) throw error;
}

/** A controller has begun to grow the claim and waits for this node. */
function isBeingGrown({ persistentVolume }: VolumeSpec): boolean {
  return persistentVolume?.metadata.annotations?.[preResizeCapacity] !== undefined;
}

function capacityOf({ persistentVolume }: VolumeSpec): bigint {
  const storage = persistentVolume?.spec.capacity?.['storage'];
  return storage === undefined ? 0n : Quantity.parse(storage).value();
}

/** Has what the failure behind it has: its reason, and whether anything may still be going on. */
export class LocalDeviceError extends MountletError {
  readonly reason: string;
  readonly failureClass: FailureClass;
  constructor(device: string, directory: string, fileSystem: string, cause: MountletError) {
    super(
      `local: failed to mount device ${device} at ${directory} (fstype: ${fileSystem}), error ${messageOf(cause)}`,
      { cause },
    );
    this.reason = cause.reason;
    this.failureClass = failureClassOf(cause);
  }
}
