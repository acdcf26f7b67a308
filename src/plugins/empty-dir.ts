/** Scratch space that lives exactly as long as its pod is on the node: on disk, in memory or on huge pages. */
import { lstatSync, realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { MountletError, messageOf } from '../base/errors.ts';
import type { Turns } from '../base/turns.ts';
import { fileSystemOf, hugePageSizeBytes } from '../disk/mounts/file-system.ts';
import { mountOf, readMountTable } from '../disk/mounts/mount-table.ts';
import type { Mounts } from '../disk/mounts/mounts.ts';
import {
  clearReady,
  isMarkedReady,
  makeDirectoryWithMode,
  makePodDirectories,
  markReady,
} from '../disk/paths/directories.ts';
import { applyGroup } from '../disk/paths/ownership.ts';
import { removal, removeTree } from '../disk/paths/remove-tree.ts';
import type { MemoryDirectories } from '../disk/pods/memory-directories.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { EmptyDirVolumeSource } from '../kube/kinds/pod/volume.ts';
import { type ResourceList, tmpfsSizeBytes } from '../kube/references/pod-resources.ts';
import { inlineSpec } from '../kube/references/volume-spec.ts';
import { podDirectory, readyMarker } from '../kube/values/node-layout.ts';
import { Quantity } from '../kube/values/quantity.ts';
import { type NotifyPlugin, type VolumePlugin, VolumeError } from './plugin.ts';

interface EmptyDirDeps {
  readonly nodes: NodeReader;
  readonly emptyDirectories: EmptyDirectories;
}

export function emptyDirPlugin({ nodes, emptyDirectories }: EmptyDirDeps): VolumePlugin<EmptyDirVolumeSource> {
  return {
    name: 'kubernetes.io/empty-dir',
    sourceOf: ({ volume }) => volume?.emptyDir,
    supportsMountOptions: false,
    attributes: () => ({ readOnly: false }),
    async setUp({ pod, source, volumeName, directory, fsGroup }, signal) {
      const memory = source.medium === 'Memory' ? await allocatableMemory(nodes, signal) : Quantity.zero();
      const { made } = await emptyDirectories.setUp(
        {
          podUid: pod.metadata.uid ?? '',
          directory,
          markerName: volumeName,
          medium: mediumOf(source, pod, memory),
          mode: source.mode,
          fsGroup,
        },
        signal,
      );
      return { changed: made, files: 0, hidden: [] };
    },
    tearDown: ({ podUid, directory, volumeName }) =>
      emptyDirectories.tearDown({ podUid, directory, markerName: volumeName }),
    // Which medium it has is not known and need not be: tear-down looks at the directory.
    reconstruct: (name) => inlineSpec({ name, emptyDir: {} }),
  };
}

/** All that tear-down needs to know. */
export interface EmptyDirectoryPlace {
  readonly podUid: string;
  readonly directory: string;
  /** The volume's name, or `wrapped_<volume>` below a projection volume. */
  readonly markerName: string;
}

interface EmptyDirectoryRequest extends EmptyDirectoryPlace {
  readonly medium: Medium;
  /** Left out: everybody may do everything. Memory has the mode of its mount instead, as with the kubelet. */
  readonly mode?: number | undefined;
  readonly fsGroup?: number | undefined;
}

interface EmptyDirectory {
  /** Where the content is: the directory itself, or what it links to. */
  readonly path: string;
  /** False: it was there and ready, and was not touched. */
  readonly made: boolean;
}

interface EmptyDirectoryDeps {
  /** The node's root directory. */
  readonly root: string;
  readonly mounts: Mounts;
  readonly memory: MemoryDirectories;
  /** A container may have left any number of files. */
  readonly turns: Turns;
  readonly notify: NotifyPlugin;
}

const openToAll = 0o777;
/** More than any mistake of ours could pile up; a table that grows faster is not ours to fight. */
const layersMax = 16;

/**
 * Directories that begin empty: emptyDir volumes, and the base of projection volumes. On disk, in memory or on huge pages,
 * with a ready marker, so that a repeated set-up leaves a container's files as they are.
 */
export class EmptyDirectories {
  readonly #deps: EmptyDirectoryDeps;
  #toldGroupRefused = false;

  constructor(deps: EmptyDirectoryDeps) {
    this.#deps = deps;
  }

  /**
   * Where the content of a volume that was set up is; undefined when it must be set up (again). A caller that knows that it was set
   * up completely skips the check of the marker, which is for later processes.
   */
  find(place: EmptyDirectoryPlace, kind: 'disk' | 'memory', isKnownReady = false): string | undefined {
    if (!isKnownReady && !isMarkedReady(this.#markerOf(place))) return undefined;
    if (kind === 'memory') return this.#deps.memory.find(place.directory);
    return isDirectory(place.directory) ? place.directory : undefined;
  }

  async setUp(request: EmptyDirectoryRequest, signal: AbortSignal): Promise<EmptyDirectory> {
    const { medium, fsGroup } = request;
    // Huge pages are looked at each time: their page size may differ from the one that is asked for.
    const ready = medium.kind === 'hugePages' ? undefined : this.find(request, medium.kind);
    if (ready !== undefined) return { path: ready, made: false };

    makePodDirectories(podDirectory(this.#deps.root, request.podUid));
    const directory = this.#make(request);
    if (fsGroup !== undefined) await this.#giveToGroup(directory.path, fsGroup, signal);
    markReadyIfPossible(this.#markerOf(request));
    return directory;
  }

  /** Unmounts before it deletes, and never deletes what is mounted. What is there decides, not what was asked for. */
  async tearDown(place: EmptyDirectoryPlace): Promise<void> {
    const marker = this.#markerOf(place);
    try {
      clearReady(marker);
    } catch (cause) {
      const message = `failed to remove ready dir [${dirname(marker)}]: ${messageOf(cause)}`;
      throw new VolumeError('ReadyMarkerLeft', message, { cause });
    }
    const { mounts, memory, turns } = this.#deps;
    const entry = lstatSync(place.directory, { throwIfNoEntry: false });
    if (entry === undefined) return;
    if (entry.isSymbolicLink()) return turns.run(memory.removingLink(place.directory));
    // Mounted twice over, one unmount would show the other mount and not the directory.
    for (let layers = 0; layers < layersMax && this.#isInMemory(place.directory); layers += 1) {
      mounts.unmount(place.directory);
    }
    await turns.run(removal(place.directory));
  }

  isMounted(directory: string): boolean {
    return isDirectory(directory) && this.#deps.mounts.isMountPoint(directory);
  }

  /** Once for the node: a user who may not change one group may not change any. */
  tellGroupRefused(directory: string, group: number | undefined): void {
    if (this.#toldGroupRefused || group === undefined) return;
    this.#toldGroupRefused = true;
    this.#deps.notify({
      kind: 'GroupImpossible',
      message: `cannot give "${directory}" to group ${group}: not permitted; fsGroup has no effect unless mountlet runs as root`,
    });
  }

  #isInMemory(directory: string): boolean {
    return this.isMounted(directory) && fileSystemOf(directory) !== 'other';
  }

  async #giveToGroup(path: string, group: number, signal: AbortSignal): Promise<void> {
    const { refused } = await applyGroup(this.#deps.turns, path, { group, readOnly: false }, undefined, signal);
    if (refused > 0) this.tellGroupRefused(path, group);
  }

  #markerOf({ podUid, markerName }: EmptyDirectoryPlace): string {
    return readyMarker(this.#deps.root, podUid, markerName);
  }

  #make(request: EmptyDirectoryRequest): EmptyDirectory {
    const { directory, medium, mode = openToAll } = request;
    switch (medium.kind) {
      case 'disk':
        return { path: directory, ...makeDirectoryWithMode(directory, mode) };
      case 'memory':
        return this.#deps.memory.make(directory, { mode, sizeBytes: medium.sizeBytes });
      case 'hugePages':
        return this.#makeHugePages(request, medium.pageSize, medium.anySize);
    }
  }

  #makeHugePages(request: EmptyDirectoryRequest, pageSize: string, anySize: boolean): EmptyDirectory {
    const { mounts } = this.#deps;
    const { directory, podUid, mode = openToAll } = request;
    if (this.isMounted(directory) && fileSystemOf(directory) === 'hugetlbfs') {
      const mounted = pageSizeAt(directory);
      if (anySize || mounted.equals(Quantity.parse(pageSize))) return { path: directory, made: false };
      throw new VolumeError(
        'UnusableMedium',
        `pod ${podUid}: mounted dir ${directory} pagesize '${mounted.toString()}' and requested medium size '${pageSize}' differ`,
      );
    }
    if (mounts.unavailable !== undefined)
      throw new VolumeError('UnusableMedium', `huge pages must be mounted: ${mounts.unavailable}`);
    const { made } = makeDirectoryWithMode(directory, mode);
    try {
      mounts.mountHugetlbfs(directory, { pageSize });
    } catch (error) {
      if (made) removeTree(directory);
      throw error;
    }
    return { path: directory, made: true };
  }
}

/** Without the marker the next set-up makes the directory again, which does no harm; a full disk must not stop a Secret. */
function markReadyIfPossible(marker: string): void {
  try {
    markReady(marker);
  } catch (error) {
    if (!(error instanceof MountletError)) throw error;
  }
}

function isDirectory(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

function pageSizeAt(directory: string): Quantity {
  const entry = mountOf(readMountTable(), realpathSync(directory));
  return new Quantity((entry && hugePageSizeBytes(entry)) ?? 0n, 0, 'BinarySI');
}

export type Medium =
  | { readonly kind: 'disk' }
  /** 0: as large as the kernel allows. */
  | { readonly kind: 'memory'; readonly sizeBytes: bigint }
  /** `anySize`: a mount that is there already may have another page size. */
  | { readonly kind: 'hugePages'; readonly pageSize: string; readonly anySize: boolean };

const sizedPrefix = 'HugePages-';

/** `nodeMemory`: what the node has for pods; only the medium Memory needs it. */
export function mediumOf(source: EmptyDirVolumeSource, pod: Pod, nodeMemory: Quantity): Medium {
  const medium = source.medium ?? '';
  if (medium === '') return { kind: 'disk' };
  if (medium === 'Memory') return { kind: 'memory', sizeBytes: tmpfsSizeBytes(nodeMemory, pod.spec, source.sizeLimit) };
  if (medium === 'HugePages' || medium.startsWith(sizedPrefix)) {
    return { kind: 'hugePages', pageSize: hugePageSize(medium, pod), anySize: medium === 'HugePages' };
  }
  throw new VolumeError('UnusableMedium', `unknown storage medium "${medium}"`);
}

/**
 * The page size in the kernel's and Kubernetes' common spelling (`2Mi`): the one that the pod's huge page requests
 * agree in, or the one the medium names, if a container requests it.
 */
export function hugePageSize(medium: string, { spec }: Pick<Pod, 'spec'>): string {
  const wanted = medium === 'HugePages' ? undefined : Quantity.parse(medium.slice(sizedPrefix.length));
  const lists = [
    isPodLevelSet(spec.resources) ? spec.resources?.requests : undefined,
    ...[...spec.containers, ...(spec.initContainers ?? [])].map(({ resources }) => resources?.requests),
  ];
  let found: Quantity | undefined;
  for (const name of lists.flatMap((list) => Object.keys(list ?? {}))) {
    if (!name.startsWith(resourcePrefix)) continue;
    const size = Quantity.parse(name.slice(resourcePrefix.length));
    if (wanted !== undefined && !size.equals(wanted)) continue;
    if (found !== undefined && !found.equals(size)) {
      throw new VolumeError(
        'UnusableMedium',
        `medium: ${medium} can't be used if container requests multiple huge page sizes`,
      );
    }
    found = size;
  }
  if (found === undefined) {
    throw new VolumeError(
      'UnusableMedium',
      `medium ${medium}: hugePages storage requested, but there is no resource request for huge pages`,
    );
  }
  return found.toString();
}

const resourcePrefix = 'hugepages-';

/** Only these resources mean anything for a pod as a whole. */
function isPodLevelSet(resources: Pod['spec']['resources']): boolean {
  return [...Object.keys(resources?.requests ?? {}), ...Object.keys(resources?.limits ?? {})].some(
    (name) => name === 'cpu' || name === 'memory' || name.startsWith(resourcePrefix),
  );
}

/** The node this process runs on. */
export interface NodeReader {
  get(signal: AbortSignal): Promise<Node | undefined>;
}

export async function nodeAllocatable(nodes: NodeReader, signal: AbortSignal): Promise<ResourceList> {
  const node = await nodes.get(signal).catch((error: unknown) => {
    if (!(error instanceof MountletError)) throw error; // an abort or a bug, not an answer
    throw nodeUnavailable(messageOf(error), { cause: error });
  });
  if (node === undefined) throw nodeUnavailable('node not found');
  return node.status?.allocatable ?? {};
}

function nodeUnavailable(problem: string, options?: ErrorOptions): VolumeError {
  return new VolumeError('NodeUnavailable', `error retrieving node: ${problem}`, options);
}

export async function allocatableMemory(nodes: NodeReader, signal: AbortSignal): Promise<Quantity> {
  const { memory } = await nodeAllocatable(nodes, signal);
  return memory === undefined ? Quantity.zero('BinarySI') : Quantity.parse(memory);
}
