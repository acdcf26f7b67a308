/**
 * The storage of the test driver: sparse files with a record each, and what a node does with them. All nodes share one directory.
 * The kernel and the records say what is in use, so that a driver that was killed goes on where it was.
 */
import { createHash } from 'node:crypto';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../base/clock.ts';
import { type BlockDevice, blockDeviceAt, deviceNumbers, mountPointsOf } from '../../disk/devices/block-device.ts';
import { growFileSystem, mountDevice } from '../../disk/devices/device-mount.ts';
import { type FileIdentity, LoopDevices } from '../../disk/devices/loop-devices.ts';
import { isInMountTable, removeEmptyDirectory, systemPrograms, unmountLayers } from '../../disk/devices/programs.ts';
import { bindRestrictions, systemMounts } from '../../disk/mounts/mounts.ts';
import { replacePrivateFile } from '../../disk/paths/node-files.ts';

export interface DriverVolume {
  readonly id: string;
  /** Empty for an inline volume. */
  readonly name: string;
  readonly sizeBytes: number;
  /** By the id of the node. */
  readonly attachments: Readonly<Record<string, { readonly isReadOnly: boolean }>>;
}

/** Records of volumes and of the nodes that have ever run. */
export class VolumeTable {
  readonly #volumes: string;
  readonly #nodes: string;

  constructor(directory: string) {
    this.#volumes = join(directory, 'volumes');
    this.#nodes = join(directory, 'nodes');
    mkdirSync(this.#volumes, { recursive: true });
    mkdirSync(this.#nodes, { recursive: true });
  }

  all(): DriverVolume[] {
    const records = readdirSync(this.#volumes).filter((name) => name.endsWith('.json'));
    return records.flatMap((name) => this.#read(join(this.#volumes, name)) ?? []);
  }

  find(id: string): DriverVolume | undefined {
    return this.#read(`${this.file(id)}.json`);
  }

  file(id: string): string {
    const isPlain = /^[\w-]{1,100}$/.test(id);
    return join(this.#volumes, isPlain ? id : createHash('sha256').update(id).digest('hex'));
  }

  /** The file never shrinks. */
  write(volume: DriverVolume): void {
    const file = this.file(volume.id);
    if (!existsSync(file)) writeFileSync(file, '');
    if (statSync(file).size < volume.sizeBytes) truncateSync(file, volume.sizeBytes);
    replacePrivateFile(`${file}.json`, JSON.stringify(volume));
  }

  remove(id: string): void {
    for (const path of [`${this.file(id)}.json`, this.file(id)]) rmSync(path, { force: true });
  }

  addNode(id: string): void {
    writeFileSync(join(this.#nodes, encodeURIComponent(id)), '');
  }

  hasNode(id: string): boolean {
    return existsSync(join(this.#nodes, encodeURIComponent(id)));
  }

  #read(path: string): DriverVolume | undefined {
    return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as DriverVolume) : undefined;
  }
}

export interface StagedAs {
  readonly fileSystem: string;
  readonly options: readonly string[];
}

/** What a node does with a volume's file. Everything may be asked again. */
export class VolumeDevices {
  readonly #programs = systemPrograms();
  readonly #mounts = systemMounts();
  readonly #loops = new LoopDevices(this.#programs);

  async find(file: string, signal: AbortSignal): Promise<BlockDevice | undefined> {
    const [found] = existsSync(file) ? await this.#loops.of(identityOf(file), signal) : [];
    return found && blockDeviceAt(found.path);
  }

  async attach(file: string, signal: AbortSignal): Promise<BlockDevice> {
    return (await this.find(file, signal)) ?? blockDeviceAt(await this.#loops.make(file, signal));
  }

  async mount(file: string, target: string, { fileSystem, options }: StagedAs, signal: AbortSignal): Promise<void> {
    const device = await this.attach(file, signal);
    if (mountPointsOf(device).includes(target)) return;
    try {
      await mountDevice(this.#programs, { device, target, fileSystem, options }, signal);
    } catch (error) {
      await this.detach(file, false, signal); // a failure leaves nothing to undo
      throw error;
    }
  }

  /** Only the last element of the target's path is made, as the interface asks of a driver. */
  bind(source: string, target: string, options: readonly string[]): void {
    if (isInMountTable(target)) return;
    if (lstatSync(target, { throwIfNoEntry: false }) === undefined) {
      if (statSync(source).isDirectory()) mkdirSync(target);
      else writeFileSync(target, '');
    }
    const restrictions = bindRestrictions.filter((one) => options.includes(one));
    this.#mounts.bind(source, target, { options: restrictions, readOnly: options.includes('ro') });
  }

  unmount(target: string, signal: AbortSignal): Promise<void> {
    return unmountLayers(this.#programs, target, signal);
  }

  async unbind(target: string, signal: AbortSignal): Promise<void> {
    await this.unmount(target, signal);
    if (lstatSync(target, { throwIfNoEntry: false })?.isFile() === true) rmSync(target);
    else removeEmptyDirectory(target);
  }

  /** False while it is in use. Nodes of one kernel share the device: it goes with the last of them. */
  async detach(file: string, isShared: boolean, signal: AbortSignal): Promise<boolean> {
    const device = await this.find(file, signal);
    if (device === undefined) return true;
    if (mountPointsOf(device).length > 0) return false;
    if (isShared) {
      await this.#loops.release(device.path, signal);
      return true;
    }
    const find = async (): Promise<string[]> =>
      (await this.#loops.of(identityOf(file), signal)).map(({ path }) => path);
    return (await this.#loops.releaseAll(find, systemClock, signal)).length === 0;
  }

  /** The device takes over the size of its file, and the file system, if it is mounted there, that of the device. */
  async grow(file: string, mountPoint: string | undefined, signal: AbortSignal): Promise<void> {
    const device = await this.attach(file, signal);
    await this.#loops.refresh(device.path, signal);
    if (mountPoint !== undefined) await growFileSystem(this.#programs, device, mountPoint, signal);
  }

  /** Whether it is mounted or bound anywhere but where it is staged. */
  async isBound(file: string, staging: string, signal: AbortSignal): Promise<boolean> {
    const device = await this.find(file, signal);
    return device !== undefined && mountPointsOf(device).some((path) => path !== staging);
  }
}

function identityOf(file: string): FileIdentity {
  const { dev, ino } = statSync(file, { bigint: true });
  return { device: deviceNumbers(dev), inode: String(ino) };
}
