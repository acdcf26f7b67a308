/**
 * Storage of this very node behind a PersistentVolume. A directory is bind mounted for each pod. A block device is formatted
 * when there is nothing on it, mounted once on the node, then bound for each pod. A regular file, which the kubelet refuses,
 * is attached as a loop device first and is a block device from then on.
 */
import { lstatSync, realpathSync, rmdirSync, statSync } from 'node:fs';
import { relative } from 'node:path';
import type { Clock } from '../base/clock.ts';
import type { Turns } from '../base/turns.ts';
import { foreignKindOf } from '../disk/devices/foreign-paths.ts';
import { type Programs, isInMountTable } from '../disk/devices/programs.ts';
import { isForeign, isWithin, readMountTable, referencesOf } from '../disk/mounts/mount-table.ts';
import { type BindRestriction, type Mounts, bindRestrictions } from '../disk/mounts/mounts.ts';
import { makeDirectoryWithMode, makePodDirectories } from '../disk/paths/directories.ts';
import { applyGroup } from '../disk/paths/ownership.ts';
import type { LocalVolumeSource } from '../kube/kinds/storage/persistent-volume.ts';
import { mountOptionsOf, specName } from '../kube/references/volume-spec.ts';
import { globalMapDirectory, podDirectory, podsDirectory } from '../kube/values/node-layout.ts';
import { systemCallError } from '../linux/system-call-error.ts';
import { LocalStorage, kindAt, localPluginName, requireNoBacksteps } from './local-storage.ts';
import {
  type NotifyPlugin,
  type SetUpOutcome,
  type SetUpRequest,
  type VolumePlugin,
  VolumeError,
  groupProgress,
} from './plugin.ts';

interface LocalDeps {
  readonly mounts: Mounts;
  readonly programs: Programs;
  readonly notify: NotifyPlugin;
  /** The node's root directory: absolute, and without symbolic links. */
  readonly root: string;
  readonly clock: Clock;
  readonly turns: Turns;
}

export function localPlugin(deps: LocalDeps): VolumePlugin<LocalVolumeSource> {
  const { mounts, programs, notify, root, clock, turns } = deps;
  const storage = new LocalStorage(deps);
  return {
    name: localPluginName,
    sourceOf: ({ persistentVolume }) => persistentVolume?.spec.local,
    supportsMountOptions: true,
    attributes: (_source, { readOnly }) => ({ readOnly }),
    requireUsable: ({ path }) => void kindAt(path),
    async setUp(request, signal) {
      const { path } = request.source;
      if (isForeign(path)) await foreignKindOf(programs, path, signal);
      const nodePath = storage.nodePathOf(request.source, request.spec);
      return setUpLocal({ mounts, notify, root, turns, now: () => clock.now() }, request, nodePath, signal);
    },
    async tearDown({ directory }) {
      tearDownLocal(mounts, directory);
    },
    reconstruct: (volumeName, directory) =>
      storage.reconstruct(volumeName, 'Filesystem', deviceBehind(directory, storage.mountsDirectory)),
    leftBehind: () => storage.leftBehind(),
    attach: {
      canAttach: (source, spec) => storage.isFile(source, spec),
      byNodeAlone: {
        attach: ({ source, spec }, signal) => storage.attach(source, spec, signal),
        detach: (identity, signal) => storage.attachments.detach(identity, signal),
      },
      // What is attached is found again.
      waitForAttach: ({ source, spec }, signal) => storage.attach(source, spec, signal),
    },
    deviceMount: {
      identityOf: (_source, spec) => specName(spec),
      // After a restart the path of a directory is not known, and nothing is mounted for it.
      pathOf: (source, spec) => (source.path === '' ? '' : storage.nodePathOf(source, spec)),
      mount: ({ source, spec, path }, signal) => storage.mount(source, spec, path, signal),
      async referencesTo(path) {
        return referencesOf(readMountTable(), path);
      },
      unmount: (path, signal) => storage.unmount(path, signal),
    },
    block: {
      globalMapPathOf: (_source, spec) => globalMapDirectory(root, localPluginName, specName(spec)),
      setUpDevice: ({ source, spec }, signal) => storage.deviceOf(source, spec, signal),
      reconstruct: (_podUid, volumeName) => storage.reconstruct(volumeName, 'Block'),
    },
    expand: {
      async expand({ source, spec, sizeBytes }, signal) {
        await storage.expand(source, spec, sizeBytes, signal);
        return true;
      },
    },
  };
}

/** Asked of the mount table alone: the directory itself may hang. */
function deviceBehind(directory: string, mountsDirectory: string): string | undefined {
  const table = readMountTable();
  const onNode = referencesOf(table, directory).find((reference) => isWithin(mountsDirectory, reference));
  return table.find(({ mountPoint }) => mountPoint === onNode)?.source;
}

interface LocalSetUpDeps {
  readonly mounts: Mounts;
  readonly notify: NotifyPlugin;
  /** The node's root directory. */
  readonly root: string;
  readonly now: () => number;
  readonly turns: Turns;
}

type Request = SetUpRequest<LocalVolumeSource>;

/** No pause between looking for other mounts of the source and making this one: the first pod's group stays. */
async function setUpLocal(
  deps: LocalSetUpDeps,
  request: Request,
  /** What is bound: the volume's directory, or where its device is mounted on the node. */
  nodePath: string,
  signal: AbortSignal,
): Promise<SetUpOutcome> {
  const { mounts } = deps;
  const { directory, spec, source, volumeName, fsGroup, fsGroupChangePolicy } = request;
  const isDevice = nodePath !== source.path;
  requireNoBacksteps(source.path);
  if (isInMountTable(directory)) return unchanged;
  if (mounts.unavailable !== undefined) {
    throw new VolumeError('LocalVolumeUnusable', `Cannot mount local volume "${volumeName}": ${mounts.unavailable}`);
  }
  if (isDevice && !isInMountTable(nodePath)) throw deviceNotMounted(volumeName, source.path);

  const references = referencesOf(readMountTable(), realPath(nodePath));
  if (fsGroup !== undefined) warnOfOtherGroup(deps, request, nodePath, fsGroup, references);
  bind(deps, request, nodePath, isDevice ? usableOptions : requireUsableOptions);
  if (fsGroup !== undefined && !spec.readOnly && references.length === 0) {
    const change = { group: fsGroup, readOnly: false, policy: fsGroupChangePolicy ?? 'Always' };
    const shown = relative(podsDirectory(deps.root), directory);
    const reporting = { now: deps.now, progress: groupProgress(deps.notify, request.pod, shown) };
    try {
      await applyGroup(deps.turns, directory, change, reporting, signal);
    } catch (error) {
      tearDownLocal(mounts, directory); // what is mounted counts as done, and the rest would never get its group
      throw error;
    }
  }
  return { changed: true, files: 0, hidden: [] };
}

/** Only a node attaches and mounts devices: a single set-up, as in `render`, does not. */
function deviceNotMounted(volumeName: string, path: string): VolumeError {
  return new VolumeError(
    'DeviceNotMounted',
    `Cannot set up local volume "${volumeName}": "${path}" is a device or the file of one, and is not mounted on this node; ` +
      'the agent formats and mounts devices, `mountlet render` does not',
  );
}

const unchanged: SetUpOutcome = { changed: false, files: 0, hidden: [] };

function bind(
  { mounts, root }: LocalSetUpDeps,
  { pod, directory, spec }: Request,
  nodePath: string,
  choose: (wanted: readonly string[]) => readonly BindRestriction[],
): void {
  const wanted = mountOptionsOf(spec);
  const readOnly = spec.readOnly || wanted.includes('ro');
  const options = choose(wanted.filter((option) => !impliedOptions.has(option)));
  makePodDirectories(podDirectory(root, pod.metadata.uid ?? ''));
  makeDirectoryWithMode(directory, 0o750);
  try {
    mounts.bind(realPath(nodePath), directory, { readOnly, options });
  } catch (error) {
    tearDownLocal(mounts, directory); // a bind whose options were refused must not stay without them
    throw error;
  }
}

/** Said by how the mount is made, or the default anyway. */
const impliedOptions: ReadonlySet<string> = new Set(['bind', 'ro', 'rw', 'defaults']);

/** An option that would have no effect is refused: it was meant to protect something. */
function requireUsableOptions(wanted: readonly string[]): readonly BindRestriction[] {
  const unknown = wanted.find((option) => bindRestrictions.every((usable) => usable !== option));
  if (unknown === undefined) return usableOptions(wanted);
  const all = bindRestrictions.join(', ');
  throw new VolumeError(
    'LocalVolumeUnusable',
    `Cannot mount a directory with option "${unknown}": the options it can have are ${all}`,
  );
}

/** Of a device: it was mounted on the node with all its options. */
function usableOptions(wanted: readonly string[]): readonly BindRestriction[] {
  return bindRestrictions.filter((usable) => wanted.includes(usable));
}

/** Other pods have the storage under another group: it is mounted all the same, and they may lose access. */
function warnOfOtherGroup(
  { notify, root }: LocalSetUpDeps,
  { pod, volumeName }: Request,
  nodePath: string,
  fsGroup: number,
  references: readonly string[],
): void {
  const pods = podsDirectory(root);
  if (!references.some((reference) => reference !== pods && isWithin(pods, reference))) return;
  const { gid } = statSync(nodePath);
  if (gid === fsGroup) return;
  notify({
    kind: 'PodWarning',
    podUid: pod.metadata.uid ?? '',
    namespace: pod.metadata.namespace ?? '',
    podName: pod.metadata.name,
    reason: 'AlreadyMountedVolume',
    message: `The requested fsGroup is ${fsGroup}, but the volume ${volumeName} has GID ${gid}. The volume may not be shareable.`,
  });
}

/** Only an empty directory is removed: whatever else is there is user data. */
function tearDownLocal(mounts: Mounts, directory: string): void {
  try {
    // Mounted twice over, one unmount would show the other mount and not the directory.
    for (let layers = 0; layers < layersMax && isInMountTable(directory); layers += 1) mounts.unmount(directory);
    if (lstatSync(directory, { throwIfNoEntry: false }) !== undefined) rmdirSync(directory);
  } catch (thrown) {
    throw systemCallError(thrown, directory);
  }
}

/** More than any mistake of ours could pile up; a table that grows faster is not ours to fight. */
const layersMax = 16;

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (thrown) {
    throw systemCallError(thrown, path);
  }
}
