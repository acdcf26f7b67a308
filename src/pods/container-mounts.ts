/**
 * What a container finds where in its file system: its volume mounts in order, then the managed hosts file. Decisions
 * are made here; sub paths and the hosts file are made by the effects it is given.
 */
import { posix } from 'node:path';
import { MountletError } from '../base/errors.ts';
import type { VolumeMount } from '../kube/kinds/pod/container.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { ContainerConfigError } from './container-config-error.ts';
import type { ContainerMount } from './container-mount.ts';
import {
  type HostsFileRequest,
  type HostsFiles,
  buildHostsMount,
  wantsManagedHostsFile,
} from './managed-hosts-file.ts';
import { isRecursivelyReadOnly, propagationOf } from './mount-options.ts';
import type { FilesystemVolume, MountedVolumes } from './mounted-volumes.ts';
import { canFollow, wantsSubPathUpdates } from './sub-path-updates.ts';
import { type ResolvedSubPath, resolveSubPath } from './sub-path.ts';
import { ExpansionBudget, type LookUp, type Variable, lookUpIn } from './variables.ts';

/** Takes back what building one mount has made. */
export type CleanUp = () => Promise<void>;

export interface SubPathRequest {
  readonly podDirectory: string;
  readonly volumeDirectory: string;
  /** The name of the volume's directory: of a claim, the name of its persistent volume. */
  readonly volumeName: string;
  /** The name in the pod, for messages. */
  readonly volumeMountName: string;
  readonly containerName: string;
  /** Which of the container's mounts this is: two mounts of one volume get different places. */
  readonly index: number;
  /** Relative and without `..`, but links inside the volume may still lead anywhere. */
  readonly subPath: string;
  /** Nothing speaks against showing later content of the volume there; see sub-path-updates.ts. */
  readonly mayFollow: boolean;
  /** What the container's mount does not allow: `noexec`. It holds for later content too. */
  readonly bindMountOptions: readonly string[];
}

export interface PreparedSubPath {
  /** Goes on meaning the same file, whatever the container does to links in the volume. */
  readonly hostPath: string;
  /** Later content is mounted over it: the container has to be given it with propagation from the host. */
  readonly follows?: boolean;
  readonly cleanUp?: CleanUp;
}

export interface SubPathPreparer {
  /**
   * Makes a directory where nothing is yet, never outside of the volume, and pins what is there. Rejects with a
   * `MountletError` in the kubelet's words, which tell neither the sub path nor anything of the host's files; those
   * belong in its cause.
   */
  prepare(request: SubPathRequest, signal: AbortSignal): Promise<PreparedSubPath>;
  /**
   * The container has its mounts: what was prepared for it follows from now on, and at once if the volume has changed since.
   * To be called after each start, when the runtime has answered, and for each container that is found running when this
   * program starts. Once more is harmless; too early, and that container would never see an update.
   */
  started?(container: StartedContainer): void;
}

interface StartedContainer {
  readonly podDirectory: string;
  readonly containerName: string;
}

export interface MountsRequest extends HostsFileRequest {
  readonly podDirectory: string;
  readonly environment: readonly Variable[];
  readonly volumes: MountedVolumes;
  readonly runtimeSupportsRecursiveReadOnly: boolean;
}

export interface MountsDeps {
  readonly subPaths: SubPathPreparer;
  readonly hostsFiles: HostsFiles;
}

export interface ContainerMounts {
  readonly mounts: readonly ContainerMount[];
  /** In the order in which to run them, the last mount's first. */
  readonly cleanUps: readonly CleanUp[];
}

/** The mounts before the one that failed may have made something already: `cleanUps` takes it back. */
export class ContainerMountsError extends ContainerConfigError {
  readonly cleanUps: readonly CleanUp[];

  constructor(message: string, cleanUps: readonly CleanUp[], options?: ErrorOptions) {
    super(message, options);
    this.cleanUps = cleanUps;
  }
}

export async function buildMounts(
  request: MountsRequest,
  deps: MountsDeps,
  signal: AbortSignal,
): Promise<ContainerMounts> {
  const cleanUps: CleanUp[] = [];
  const lookUp = lookUpIn(request.environment);
  const budget = new ExpansionBudget(request.container.name);
  const mounts: ContainerMount[] = [];
  try {
    for (const [index, mount] of (request.container.volumeMounts ?? []).entries()) {
      mounts.push(await buildMount(mount, index, request, { ...deps, lookUp, budget, cleanUps }, signal));
    }
    if (wantsManagedHostsFile(request)) mounts.push(await buildHostsMount(request, deps.hostsFiles, signal));
  } catch (thrown) {
    if (!(thrown instanceof ContainerConfigError)) throw thrown;
    throw new ContainerMountsError(thrown.message, cleanUps.toReversed(), { cause: thrown.cause });
  }
  return { mounts, cleanUps: cleanUps.toReversed() };
}

interface MountContext extends MountsDeps {
  readonly lookUp: LookUp;
  readonly budget: ExpansionBudget;
  readonly cleanUps: CleanUp[];
}

/** The order of the checks decides which of several errors a user sees first; it is the kubelet's. */
async function buildMount(
  mount: VolumeMount,
  index: number,
  request: MountsRequest,
  context: MountContext,
  signal: AbortSignal,
): Promise<ContainerMount> {
  const { name } = mount;
  const volume = request.volumes.get(name);
  if (volume === undefined || volume.kind === 'block') {
    throw new ContainerConfigError(
      `cannot find volume ${goQuote(name)} to mount into container ${goQuote(request.container.name)}`,
    );
  }
  const subPath = resolveSubPath(mount, context.lookUp, context.budget);
  const { hostPath, follows = false } =
    volume.kind === 'image' ? {} : await hostPathOf(volume, mount, subPath, index, request, context, signal);
  const propagation = propagationOf(mount);
  return {
    name,
    mountPath: absolute(mount.mountPath),
    hostPath,
    ...(volume.kind === 'image' ? { image: volume.reference } : {}),
    subPath: subPath.path,
    secretSubPath: subPath.secret,
    // A projected volume is read-only whatever the mount says.
    readOnly: (mount.readOnly ?? false) || volume.kind === 'image' || volume.readOnly,
    recursiveReadOnly: isRecursivelyReadOnly(mount, request.runtimeSupportsRecursiveReadOnly),
    propagation: follows ? 'HostToContainer' : propagation,
    bindMountOptions: mount.bindMountOptions ?? [],
  };
}

async function hostPathOf(
  volume: FilesystemVolume,
  mount: VolumeMount,
  { path: subPath, secret }: ResolvedSubPath,
  index: number,
  { container, podDirectory, pod }: MountsRequest,
  { subPaths, cleanUps }: MountContext,
  signal: AbortSignal,
): Promise<Pick<PreparedSubPath, 'hostPath' | 'follows'>> {
  if (subPath === undefined) return { hostPath: volume.hostPath };
  const request: SubPathRequest = {
    podDirectory,
    volumeDirectory: volume.hostPath,
    volumeName: volume.specName,
    volumeMountName: mount.name,
    containerName: container.name,
    index,
    subPath,
    mayFollow: volume.replaced === true && wantsSubPathUpdates(pod) && canFollow(mount, container),
    bindMountOptions: mount.bindMountOptions ?? [],
  };
  try {
    const { cleanUp, ...prepared } = await subPaths.prepare(request, signal);
    if (cleanUp !== undefined) cleanUps.push(cleanUp);
    return prepared;
  } catch (thrown) {
    if (!(thrown instanceof MountletError)) throw thrown;
    // Causes are printed too, and this one may quote the path.
    throw new ContainerConfigError(thrown.message, secret ? {} : { cause: thrown });
  }
}

/** An absolute path is passed on as it is written, `..` and all; the runtime cleans it. */
function absolute(path: string): string {
  if (path.startsWith('/')) return path;
  const clean = posix.normalize(`/${path}`);
  return clean.length > 1 && clean.endsWith('/') ? clean.slice(0, -1) : clean;
}
