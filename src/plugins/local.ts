/**
 * Storage of this very node behind a PersistentVolume: a directory, bind mounted for each pod. A block device would be
 * formatted and mounted once on the node first. The contract for that (`deviceMount`) is honoured here, the device work
 * itself is not done yet: a block device is refused with an error that says so.
 */
import { lstatSync, realpathSync, rmdirSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { MountletError } from '../base/errors.ts';
import { hostKindOf } from '../disk/paths/host-kind.ts';
import { readMountTable, referencesOf } from '../disk/mounts/mount-table.ts';
import { bindRestrictions } from '../disk/mounts/mounter.ts';
import type { BindRestriction } from '../disk/mounts/mounter.ts';
import type { Mounts } from '../disk/mounts/mounts.ts';
import { applyGroup } from '../disk/ownership.ts';
import type { GroupReporting } from '../disk/ownership.ts';
import { isWithin } from '../disk/paths/path-within.ts';
import { makeDirectoryWithMode, makePodDirectories } from '../disk/pod-directories.ts';
import { systemCallError } from '../disk/system-call-error.ts';
import { globalMountDirectory, pluginDirectory, podDirectory, podsDirectory } from '../kube/node-layout.ts';
import type { LocalVolumeSource } from '../kube/objects/persistent-volume.ts';
import { mountOptionsOf, persistentSpec, specName } from '../kube/objects/volume-spec.ts';
import type { NotifyPlugin, SetUpOutcome, SetUpRequest, VolumePlugin } from './plugin.ts';

const pluginName = 'kubernetes.io/local-volume';

export interface LocalDeps {
  readonly mounts: Mounts;
  readonly notify: NotifyPlugin;
  /** The node's root directory. */
  readonly root: string;
  readonly now: () => number;
}

export class LocalVolumeError extends MountletError {
  readonly reason = 'LocalVolumeUnusable';
}

export class BlockDeviceUnsupportedError extends MountletError {
  readonly reason = 'BlockDeviceUnsupported';
  constructor(path: string) {
    super(
      `Cannot mount block device "${path}": mountlet mounts only directories as local volumes so far; use a directory`,
    );
  }
}

export function localPlugin(deps: LocalDeps): VolumePlugin<LocalVolumeSource> {
  const { mounts, root } = deps;
  const deviceMounts = join(pluginDirectory(root, pluginName), 'mounts');
  return {
    name: pluginName,
    sourceOf: ({ persistentVolume }) => persistentVolume?.spec.local,
    requiresRemount: false,
    supportsMountOptions: true,
    attributes: (_source, { readOnly }) => ({ readOnly, managed: !readOnly, selinuxRelabel: true }),
    requireUsable: ({ path }) => void backingOf(path),
    setUp: (request, signal) => setUpDirectory(deps, request, signal),
    async tearDown({ directory }) {
      unmountAndRemove(mounts, directory);
    },
    reconstruct(volumeName, directory) {
      const device = deviceBehind(directory, deviceMounts);
      return persistentSpec(
        { metadata: { name: volumeName }, spec: { volumeMode: 'Filesystem', local: { path: device ?? '' } } },
        false,
      );
    },
    deviceMount: {
      identityOf: (_source, spec) => specName(spec),
      pathOf: ({ path }, spec) =>
        backingOf(path) === 'Directory' ? path : globalMountDirectory(root, pluginName, specName(spec)),
      async mount({ source: { path } }) {
        if (backingOf(path) === 'BlockDevice') throw new BlockDeviceUnsupportedError(path);
      },
      async referencesTo(path) {
        return referencesOf(readMountTable(), path);
      },
      async unmount(path) {
        if (isWithin(deviceMounts, path)) unmountAndRemove(mounts, path);
      },
    },
    expand: {
      async expand({ source: { path } }) {
        // A directory is as large as the file system it is on; that is no reason to refuse the volume.
        if (backingOf(path) === 'BlockDevice') throw new BlockDeviceUnsupportedError(path);
        return true;
      },
    },
  };
}

/** What stands behind the path, which the volume's administrator made. */
function backingOf(path: string): 'Directory' | 'BlockDevice' {
  if (path === '') throw new LocalVolumeError('local volume source is nil or local path is not set');
  const kind = hostKindOf(path);
  if (kind === 'Directory' || kind === 'BlockDevice') return kind;
  throw new LocalVolumeError('only directory and block device are supported');
}

/** No pause between looking for other mounts of the source and making this one: the first pod's group stays. */
async function setUpDirectory(
  deps: LocalDeps,
  request: SetUpRequest<LocalVolumeSource>,
  signal: AbortSignal,
): Promise<SetUpOutcome> {
  const { mounts } = deps;
  const { directory, spec, source, fsGroup, fsGroupChangePolicy } = request;
  const { path } = source;
  if (backingOf(path) === 'BlockDevice') throw new BlockDeviceUnsupportedError(path);
  if (path.split('/').includes('..')) throw new LocalVolumeError(`invalid path: ${path} must not contain '..'`);
  if (isMounted(mounts, directory)) return unchanged;
  if (mounts.unavailable !== undefined) {
    throw new LocalVolumeError(`Cannot mount local volume "${request.volumeName}": ${mounts.unavailable}`);
  }

  const references = referencesOf(readMountTable(), realPath(path));
  if (fsGroup !== undefined) warnOfOtherGroup(deps, request, fsGroup, references);
  bind(deps, request);
  if (fsGroup !== undefined && !spec.readOnly && references.length === 0) {
    const policy = fsGroupChangePolicy ?? 'Always';
    await applyGroup(directory, { group: fsGroup, readOnly: false, policy }, reporting(deps, request), signal);
  }
  return { changed: true, files: 0, hidden: [] };
}

const unchanged: SetUpOutcome = { changed: false, files: 0, hidden: [] };

function bind({ mounts, root }: LocalDeps, request: SetUpRequest<LocalVolumeSource>): void {
  const { pod, directory, spec, source } = request;
  const wanted = mountOptionsOf(spec);
  const readOnly = spec.readOnly || wanted.includes('ro');
  const options = wanted.filter((option) => !impliedOptions.has(option)).map(restriction);
  makePodDirectories(podDirectory(root, pod.metadata.uid ?? ''));
  makeDirectoryWithMode(directory, 0o750);
  try {
    mounts.bind(realPath(source.path), directory, { readOnly, options });
  } catch (error) {
    unmountAndRemove(mounts, directory); // a bind whose options were refused must not stay without them
    throw error;
  }
}

/** Said by how the mount is made, or the default anyway. */
const impliedOptions: ReadonlySet<string> = new Set(['bind', 'ro', 'rw', 'defaults']);

/** An option that would have no effect is refused: it was meant to protect something. */
function restriction(option: string): BindRestriction {
  const known = bindRestrictions.find((usable) => usable === option);
  if (known !== undefined) return known;
  const all = bindRestrictions.join(', ');
  throw new LocalVolumeError(`Cannot mount a directory with option "${option}": the options it can have are ${all}`);
}

/** Other pods have the storage under another group: it is mounted all the same, and they may lose access. */
function warnOfOtherGroup(
  { notify, root }: LocalDeps,
  { pod, volumeName, source: { path } }: SetUpRequest<LocalVolumeSource>,
  fsGroup: number,
  references: readonly string[],
): void {
  const pods = podsDirectory(root);
  if (!references.some((reference) => reference !== pods && isWithin(pods, reference))) return;
  const { gid } = statSync(path);
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

/** The kubelet's two texts for an ownership change that takes long: advice first, then how far it got. */
function reporting({ notify, now, root }: LocalDeps, { pod, directory }: SetUpRequest): GroupReporting {
  const shown = relative(podsDirectory(root), directory);
  const advice =
    'is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods';
  let reports = 0;
  return {
    now,
    progress({ processed }) {
      reports += 1;
      const text = reports === 1 ? ` ${advice}` : `, processed ${processed} files.`;
      notify({
        kind: 'PodWarning',
        podUid: pod.metadata.uid ?? '',
        namespace: pod.metadata.namespace ?? '',
        podName: pod.metadata.name,
        reason: 'VolumePermissionChangeInProgress',
        message: `Setting volume ownership for ${shown}${text}`,
      });
    },
  };
}

/** Only an empty directory is removed: whatever else is there is somebody's storage. */
function unmountAndRemove(mounts: Mounts, directory: string): void {
  try {
    // Mounted twice over, one unmount would show the other mount and not the directory.
    for (let layers = 0; layers < layersMax && isMounted(mounts, directory); layers += 1) mounts.unmount(directory);
    if (lstatSync(directory, { throwIfNoEntry: false }) !== undefined) rmdirSync(directory);
  } catch (thrown) {
    throw systemCallError(thrown, directory);
  }
}

/** More than any mistake of ours could pile up; a table that grows faster is not ours to fight. */
const layersMax = 16;

function isMounted(mounts: Mounts, directory: string): boolean {
  return lstatSync(directory, { throwIfNoEntry: false }) !== undefined && mounts.isMountPoint(directory);
}

/** Asked of the mount table alone: the directory itself may hang. */
function deviceBehind(directory: string, deviceMounts: string): string | undefined {
  const table = readMountTable();
  const onNode = referencesOf(table, directory).find((reference) => isWithin(deviceMounts, reference));
  return table.find(({ mountPoint }) => mountPoint === onNode)?.source;
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (thrown) {
    throw systemCallError(thrown, path);
  }
}
