/**
 * Where the volumes of drivers lie below the node's root, and the files that say whose they are. Those are the kubelet's, so that
 * either program can take away what the other has mounted: nothing else is needed for that, no API server and no object of it.
 *
 *   pods/<uid>/volumes/kubernetes.io~csi/<volume>/mount          the driver makes it
 *   pods/<uid>/volumes/kubernetes.io~csi/<volume>/vol_data.json
 *   plugins/kubernetes.io/csi/<driver>/<hash>/globalmount        staged for all pods of the node, with its vol_data.json beside it
 *   plugins/kubernetes.io/csi/volumeDevices/staging/<volume>     a raw device
 *   plugins/kubernetes.io/csi/volumeDevices/publish/<volume>/<uid>      the driver makes it
 *   plugins/kubernetes.io/csi/volumeDevices/<volume>/data/vol_data.json
 *   plugins/kubernetes.io/csi/volumeDevices/<volume>/dev
 */
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  rmdirSync,
  unlinkSync,
} from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errorCode, messageOf } from '../base/errors.ts';
import { isInMountTable } from '../disk/devices/programs.ts';
import { type CsiVolume, attachmentName } from '../kube/references/csi-volumes.ts';
import { type VolumeMode, type VolumeSpec, inlineSpec, persistentSpec } from '../kube/references/volume-spec.ts';
import { goJson, inKeyOrder } from '../kube/values/go-text.ts';
import { pathSegment, pluginDirectory } from '../kube/values/node-layout.ts';
import { guarded, systemCallError, systemErrorText } from '../linux/system-call-error.ts';
import { csiError } from './failures.ts';
import { type Lifecycle, sha256 } from './requests.ts';

export const csiPluginName = 'kubernetes.io/csi';
/** Of a volume's directory: what containers mount. */
export const contentName = 'mount';
const fileName = 'vol_data.json';
/** The one name that a crash can leave; only one operation at a time works on a volume. */
const draftName = `.${fileName}.draft`;
const devicesName = 'volumeDevices';
/** Beside the directories of devices, which have the names of PersistentVolumes. */
const sharedNames: ReadonlySet<string> = new Set(['staging', 'publish']);

/** Where the driver puts what all pods of the node share. */
export function stagedPath(root: string, driver: string, handle: string): string {
  // The API allows capitals in names of drivers.
  if (driver === devicesName) {
    throw csiError('final', `a driver cannot be called "${driver}": the node keeps raw devices under that name`);
  }
  return join(pluginDirectory(root, csiPluginName), pathSegment('a driver', driver), sha256(handle), 'globalmount');
}

interface DevicePaths {
  readonly staging: string;
  readonly publish: string;
  /** All of the volume but those two. */
  readonly own: string;
  readonly data: string;
  readonly map: string;
}

/** Throws for a name that is a directory of all devices: its clean-up would remove what is of others. */
export function devicePaths(root: string, volumeName: string): DevicePaths {
  if (sharedNames.has(volumeName)) {
    const why = 'the node keeps what it shares of all raw devices under that name; give the PersistentVolume another';
    throw csiError('final', `a PersistentVolume with volumeMode Block cannot be called "${volumeName}": ${why}`);
  }
  const devices = join(pluginDirectory(root, csiPluginName), devicesName);
  const volume = pathSegment('a volume name', volumeName);
  const own = join(devices, volume);
  return {
    staging: join(devices, 'staging', volume),
    publish: join(devices, 'publish', volume),
    own,
    data: join(own, 'data'),
    map: join(own, 'dev'),
  };
}

/** The device whose map path this is. */
export function volumeOfMapPath(mapPath: string): string {
  return basename(dirname(mapPath));
}

/** What a file says. Of a staged volume only the first two are written. */
interface VolumeData {
  readonly driverName: string;
  readonly volumeHandle: string;
  readonly specVolID?: string;
  readonly nodeName?: string;
  readonly attachmentID?: string;
  readonly volumeLifecycleMode?: Lifecycle;
}

/** What is written of a volume of one pod, or of a raw device. */
export function podVolumeData(csi: CsiVolume, specVolID: string, nodeName: string): VolumeData {
  const { driver: driverName, volumeHandle } = csi;
  return { driverName, volumeHandle, specVolID, nodeName, attachmentID: attachmentName(csi, nodeName) };
}

/**
 * `isDurable`: after a power failure too, somebody has to know what a driver may have made. Otherwise the file may be empty then,
 * or missing: nothing is mounted any more, and what the driver has staged is on record elsewhere.
 */
export async function writeVolumeData(directory: string, data: VolumeData, isDurable = true): Promise<void> {
  const draft = join(directory, draftName);
  try {
    // A draft that is there may be anything: a pipe that nothing reads, or another name of a file elsewhere.
    rmSync(draft, { force: true });
    const { O_WRONLY, O_CREAT, O_EXCL } = constants;
    const file = await open(draft, O_WRONLY | O_CREAT | O_EXCL, 0o666);
    try {
      await file.writeFile(`${goJson(inKeyOrder({ ...data }))}\n`);
      if (isDurable) await file.sync();
    } finally {
      await file.close();
    }
    await rename(draft, join(directory, fileName));
  } catch (thrown) {
    throw systemCallError(thrown, join(directory, fileName));
  }
}

/** More than any file of a kubelet has: handles have no limit of their own in the API but that of an object. */
const fileBytesMax = 1024 * 1024;

/** Undefined when there is none, or an empty one. Throws when it cannot be read or makes no sense. */
export function readVolumeData(directory: string): VolumeData | undefined {
  const path = join(directory, fileName);
  let text: string;
  try {
    const descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const found = fstatSync(descriptor);
      if (!found.isFile() || found.size > fileBytesMax) throw unreadable(path, 'not a file of this program');
      if (found.size === 0) return undefined;
      text = readFileSync(descriptor, 'utf8');
    } finally {
      closeSync(descriptor);
    }
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return undefined;
    if (errorCode(thrown) === undefined) throw thrown;
    throw csiError('final', `failed to open volume data file [${path}]: ${systemErrorText(thrown)}`);
  }
  return parsed(path, text);
}

function parsed(path: string, text: string): VolumeData {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    throw unreadable(path, messageOf(thrown));
  }
  const fields: Readonly<Record<string, unknown>> = { ...(typeof value === 'object' ? value : {}) };
  const { driverName, volumeHandle, specVolID, volumeLifecycleMode } = fields;
  if (typeof driverName !== 'string' || typeof volumeHandle !== 'string') {
    throw unreadable(path, 'driverName and volumeHandle must be strings');
  }
  pathSegment('a driver', driverName);
  return {
    driverName,
    volumeHandle,
    ...(typeof specVolID === 'string' && { specVolID }),
    // A file of a kubelet that knew no other has none.
    volumeLifecycleMode: volumeLifecycleMode === 'Ephemeral' ? 'Ephemeral' : 'Persistent',
  };
}

function unreadable(path: string, why: string): Error {
  return csiError('final', `failed to parse volume data file [${path}]: ${why}`);
}

/** A spec to unmount by, never to mount. The directory names the volume, whatever the file says. Throws when there is none. */
export function recordedSpec(directory: string, volumeName: string, volumeMode: VolumeMode): VolumeSpec {
  const data = readVolumeData(directory);
  if (data === undefined) {
    throw csiError('final', `failed to open volume data file [${directory}]: no such file or directory`);
  }
  const { driverName: driver, volumeHandle, volumeLifecycleMode } = data;
  if (volumeLifecycleMode === 'Ephemeral') return inlineSpec({ name: volumeName, csi: { driver } });
  return persistentSpec({ metadata: { name: volumeName }, spec: { volumeMode, csi: { driver, volumeHandle } } }, false);
}

/**
 * What was staged, or was about to be, whether a pod has it or not. Takes away the directory of a volume that a crash has left
 * without its file: after the one, before the other was removed.
 */
export function writtenDown(root: string): readonly VolumeSpec[] {
  const plugin = pluginDirectory(root, csiPluginName);
  const staged = namesIn(plugin)
    .filter((driver) => driver !== devicesName)
    .flatMap((driver) => namesIn(join(plugin, driver)).map((volume) => join(plugin, driver, volume)))
    .flatMap((directory) => specAt(directory, basename(directory), 'Filesystem', [directory]));
  const devices = namesIn(join(plugin, devicesName))
    .filter((name) => !sharedNames.has(name))
    .flatMap((volume) => {
      const { data, map, own } = devicePaths(root, volume);
      return specAt(data, volume, 'Block', [data, map, own]);
    });
  return [...staged, ...devices];
}

/** A file that cannot be read is skipped: it must not cost the others their clean-up. */
function specAt(
  directory: string,
  volumeName: string,
  mode: VolumeMode,
  directories: readonly string[],
): readonly VolumeSpec[] {
  try {
    if (readVolumeData(directory) !== undefined) return [recordedSpec(directory, volumeName, mode)];
    for (const one of directories) removeOwn(one);
  } catch {}
  return [];
}

/** None where there is no such directory. */
export function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (thrown) {
    if (['ENOENT', 'ENOTDIR'].includes(errorCode(thrown) ?? '')) return [];
    throw systemCallError(thrown, directory);
  }
}

/**
 * Removes what a driver made at a place, where it left something, and says whether it is gone: what is still mounted is left to
 * the driver. Never more than one entry: an unmounted directory with something in it may be somebody's data.
 */
export function removeLeftover(path: string): boolean {
  // Asked of the mount table, since what is mounted may hang.
  if (isInMountTable(path)) return false;
  return guarded(path, () => {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found?.isDirectory() === true) rmdirSync(path);
    else if (found !== undefined) unlinkSync(path);
    return true;
  });
}

/** A driver that mounts or unmounts at a place would follow a link there, to anywhere. No link is ever made by this program. */
export function removeLink(path: string): void {
  if (isInMountTable(path)) return;
  guarded(path, () => {
    if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true) unlinkSync(path);
  });
}

/**
 * Removes a place that a driver has let go of, with the file beside it and their directory. False, with all of it still there,
 * where something is mounted. Whatever else is in the directory keeps the file there, so that this can be tried again.
 */
export function removeVolume(path: string): boolean {
  const directory = dirname(path);
  if (!removeLeftover(path)) return false;
  removeOwn(directory);
  return true;
}

/** Throws where there is anything else in it. */
function removeOwn(directory: string): void {
  guarded(directory, () => {
    const own = [draftName, fileName];
    const names = namesIn(directory);
    const isOurs = names.every((name) => own.includes(name));
    if (isOurs) for (const name of own) if (names.includes(name)) unlinkSync(join(directory, name));
    if (lstatSync(directory, { throwIfNoEntry: false }) !== undefined) rmdirSync(directory);
  });
}

/** A mount point is, and may hang when it is looked at. */
export function isThere(path: string): boolean {
  return isInMountTable(path) || guarded(path, () => lstatSync(path, { throwIfNoEntry: false })) !== undefined;
}
