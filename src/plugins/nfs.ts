/**
 * A directory that an NFS server exports, mounted for each pod on its own and attached to nothing. The server may be gone at
 * any time, so nothing here looks into the directory: the mount table says what is mounted.
 */
import { type Programs, isInMountTable, removeEmptyDirectory, runMount, runUnmount } from '../disk/devices/programs.ts';
import type { Mounts } from '../disk/mounts/mounts.ts';
import { makeDirectoryWithMode, makePodDirectories } from '../disk/paths/directories.ts';
import type { NfsVolumeSource } from '../kube/kinds/storage/volume-sources.ts';
import { type VolumeSpec, inlineSpec, mountOptionsOf } from '../kube/references/volume-spec.ts';
import { parseIpAddress } from '../kube/values/network-names.ts';
import { podDirectory } from '../kube/values/node-layout.ts';
import { type SetUpRequest, type VolumePlugin, failureClassOf, VolumeError } from './plugin.ts';

interface NfsDeps {
  readonly mounts: Mounts;
  readonly programs: Programs;
  /** The node's root directory: absolute, and without symbolic links. */
  readonly root: string;
}

export function nfsPlugin(deps: NfsDeps): VolumePlugin<NfsVolumeSource> {
  return {
    name: 'kubernetes.io/nfs',
    sourceOf: ({ volume, persistentVolume }) => volume?.nfs ?? persistentVolume?.spec.nfs,
    supportsMountOptions: true,
    attributes: (source, spec) => ({ readOnly: isReadOnly(source, spec) }),
    requireUsable: requireServer,
    async setUp(request, signal) {
      if (isInMountTable(request.directory)) return { changed: false, files: 0, hidden: [] };
      await mountExport(deps, request, signal);
      return { changed: true, files: 0, hidden: [] };
    },
    async tearDown({ directory }, signal) {
      await runUnmount(deps.programs, directory, signal);
    },
    reconstruct: (name) => inlineSpec({ name, nfs: { server: '', path: name } }),
  };
}

async function mountExport(
  { mounts, programs, root }: NfsDeps,
  { pod, spec, source, volumeName, directory }: SetUpRequest<NfsVolumeSource>,
  signal: AbortSignal,
): Promise<void> {
  requireServer(source);
  if (mounts.unavailable !== undefined) {
    throw new VolumeError('NfsVolumeUnusable', `Cannot mount NFS volume "${volumeName}": ${mounts.unavailable}`);
  }
  const options = [...new Set([...mountOptionsOf(spec), ...(isReadOnly(source, spec) ? ['ro'] : [])])].toSorted();
  makePodDirectories(podDirectory(root, pod.metadata.uid ?? ''));
  makeDirectoryWithMode(directory, 0o750);
  try {
    const from = `${hostOf(source.server)}:${source.path}`;
    await runMount(programs, { source: from, target: directory, fileSystem: 'nfs', options }, signal);
  } catch (error) {
    // A mount that may still come to pass needs its directory, and tear-down finds it there. So does the next start what came to
    // pass while the node was ending, which must not wait for a server.
    if (failureClassOf(error) !== 'final') throw error;
    if (!isInMountTable(directory)) removeEmptyDirectory(directory);
    else if (!signal.aborted) await runUnmount(programs, directory, signal);
    throw error;
  }
}

/** A PersistentVolume's own `readOnly` is not looked at: the pod's claim decides. */
function isReadOnly(source: NfsVolumeSource, spec: VolumeSpec): boolean {
  return spec.volume === undefined ? spec.readOnly : (source.readOnly ?? false);
}

/** A helper program gets the name as an argument: one that looks like an option, or like two words, is refused. */
function requireServer({ server }: NfsVolumeSource): void {
  if (/^[^-\s/\0][^\s/\0]*$/.test(server)) return;
  throw new VolumeError(
    'NfsVolumeUnusable',
    `Cannot mount from NFS server "${server}": write the name or the address of a server`,
  );
}

function hostOf(server: string): string {
  return parseIpAddress(server)?.family === 'IPv6' ? `[${server}]` : server;
}
