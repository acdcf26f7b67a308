/**
 * What is mounted where in a container: its volume mounts in order, then the managed hosts file. Decisions are made here; files
 * are made by the effects that the caller passes in.
 */
import { posix } from 'node:path';
import { MountletError } from '../../base/errors.ts';
import type { VolumeMount } from '../../kube/kinds/pod/container.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { MissingVariablesError } from '../../kube/references/environment.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { type HostsFileRequest, type HostsFiles, buildHostsMount, wantsManagedHostsFile } from './hosts-file.ts';
import {
  ContainerConfigError,
  ExpansionBudget,
  type LookUp,
  type Variable,
  expandPathVariables,
  lookUpIn,
} from './variables.ts';

/** One mount of a container, decided and ready for a runtime. */
export interface ContainerMount {
  /** The volume's name in the pod, or `k8s-managed-etc-hosts`. */
  readonly name: string;
  /** Where the container sees it. */
  readonly mountPath: string;
  /** What it sees there; undefined for an image, which the runtime mounts. */
  readonly hostPath: string | undefined;
  readonly image?: string;
  readonly subPath: string | undefined;
  /** `subPath` was expanded from a variable that holds a Secret. Never print it. */
  readonly secretSubPath: boolean;
  readonly readOnly: boolean;
  readonly recursiveReadOnly: boolean;
  /** Also `HostToContainer` for a subPath that follows its volume: new content is mounted there later. */
  readonly propagation: MountPropagation;
  readonly bindMountOptions: readonly string[];
}

/** The volumes of a pod that are mounted on this node. */
export interface MountedVolumes {
  get(volumeName: string): MountedVolume | undefined;
}

export type MountedVolume = FilesystemVolume | BlockVolume | ImageVolume;

interface FilesystemVolume {
  readonly kind: 'filesystem';
  /** The volume's directory on this machine; for a hostPath, the host's own path. */
  readonly hostPath: string;
  /** Names the directory of sub path mounts: the volume's name, or for a claim that of its persistent volume. */
  readonly specName: string;
  /** Of the volume itself. A mount of it may be read-only although the volume is not. */
  readonly readOnly: boolean;
  /** Only the node writes the content, and it replaces it as a whole: a subPath of it can follow. */
  readonly replaced?: boolean;
}

interface BlockVolume {
  readonly kind: 'block';
  /** The link to the device in the pod's device directory; undefined while there is none. */
  readonly link: string | undefined;
  readonly readOnly: boolean;
}

/** Mounted by the container runtime, from the image. */
interface ImageVolume {
  readonly kind: 'image';
  readonly reference: string;
}

/** Undoes what building one mount has made. */
export type CleanUp = () => Promise<void>;

interface SubPathRequest {
  readonly podDirectory: string;
  readonly volumeDirectory: string;
  /** The name of the volume's directory; for a claim, the name of its persistent volume. */
  readonly volumeName: string;
  /** The name in the pod, for messages. */
  readonly volumeMountName: string;
  readonly containerName: string;
  /** Which of the container's mounts this is: two mounts of one volume get different places. */
  readonly index: number;
  /** Relative and without `..`, but links inside the volume may still lead anywhere. */
  readonly subPath: string;
  /** Later content of the volume may be shown there; see `canFollow`. */
  readonly mayFollow: boolean;
  /** `noexec` and the like. They hold for later content too. */
  readonly bindMountOptions: readonly string[];
}

interface PreparedSubPath {
  /** Keeps naming the same file, whatever the container does to links in the volume. */
  readonly hostPath: string;
  /** Later content is mounted over it, so the container needs it with propagation from the host. */
  readonly follows?: boolean;
  readonly cleanUp?: CleanUp;
}

export interface SubPathPreparer {
  /**
   * Makes a directory where nothing exists yet, never outside of the volume, and pins what is there. Rejects with a
   * `MountletError` in the kubelet's words, which contain neither the sub path nor anything of the host's files; those
   * belong in its cause.
   */
  prepare(request: SubPathRequest, signal: AbortSignal): Promise<PreparedSubPath>;
  /**
   * The container has its mounts: what was prepared for it follows from now on, and at once if the volume has changed since.
   * Called after each start, when the runtime has answered, and for each container that runs when this program starts. A
   * repeated call is harmless; one that comes too early would keep the container from ever seeing an update.
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
  /** To be run in this order: the last mount's first. */
  readonly cleanUps: readonly CleanUp[];
}

/** The mounts before the one that failed may have made something already: `cleanUps` undo it. */
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

/** The order of the checks decides which of several errors a user sees. It is the kubelet's. */
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
    // Causes are printed too, and this one may contain the path.
    throw new ContainerConfigError(thrown.message, secret ? {} : { cause: thrown });
  }
}

/** An absolute path is passed on as it is written, `..` included; the runtime cleans it. */
function absolute(path: string): string {
  if (path.startsWith('/')) return path;
  const clean = posix.normalize(`/${path}`);
  return clean.length > 1 && clean.endsWith('/') ? clean.slice(0, -1) : clean;
}

type MountPropagation = 'None' | 'HostToContainer' | 'Bidirectional';

function propagationOf({ mountPropagation: mode }: VolumeMount): MountPropagation {
  switch (mode) {
    case undefined:
    case 'None':
      return 'None';
    case 'HostToContainer':
    case 'Bidirectional':
      return mode;
    default:
      throw new ContainerConfigError(`invalid MountPropagation mode: ${goQuote(mode)}`);
  }
}

/** Throws a ContainerConfigError when the mount cannot be made as it says. */
export function isRecursivelyReadOnly(
  { name, recursiveReadOnly: mode, readOnly = false, mountPropagation = 'None' }: VolumeMount,
  supported: boolean,
): boolean {
  if (mode === undefined || mode === 'Disabled') return false;
  const failed = 'failed to resolve recursive read-only mode:';
  const requested = `${failed} volume ${goQuote(name)} requested recursive read-only mode, but it is`;
  // Only the mount's own `readOnly` counts, although some volumes are read-only anyway.
  if (!readOnly) throw new ContainerConfigError(`${requested} not read-only`);
  if (mountPropagation !== 'None') {
    throw new ContainerConfigError(`${requested} not compatible with propagation ${goQuote(mountPropagation)}`);
  }
  if (mode === 'IfPossible') return supported;
  if (mode !== 'Enabled') throw new ContainerConfigError(`${failed} unknown recursive read-only mode ${goQuote(mode)}`);
  if (!supported) throw new ContainerConfigError(`${requested} not supported by the runtime`);
  return true;
}

/** The part of a volume that a mount names: `subPath`, or `subPathExpr` with the container's variables in it. */
interface ResolvedSubPath {
  /** Relative to the volume, without `..`; undefined for the volume itself. */
  readonly path: string | undefined;
  /** It was expanded from a variable that holds a Secret. */
  readonly secret: boolean;
}

function resolveSubPath(mount: VolumeMount, lookUp: LookUp, budget: ExpansionBudget): ResolvedSubPath {
  const { subPath = '', subPathExpr = '' } = mount;
  const { value, secret } =
    subPathExpr === '' ? { value: subPath, secret: false } : expandExpression(subPathExpr, lookUp, budget);
  // The API server refuses both too, but cannot know what a variable expands to.
  const shown = secret ? subPathExpr : value;
  if (value.startsWith('/')) throw new ContainerConfigError(`error SubPath \`${shown}\` must not be an absolute path`);
  if (value.split('/').includes('..')) {
    throw new ContainerConfigError(`unable to provision SubPath \`${shown}\`: must not contain '..'`);
  }
  return { path: value === '' ? undefined : value, secret };
}

/** Unlike in a command, a variable that is missing or empty is an error: it would mount more than was meant. */
function expandExpression(
  expression: string,
  lookUp: LookUp,
  budget: ExpansionBudget,
): { readonly value: string; readonly secret: boolean } {
  try {
    return expandPathVariables(expression, lookUp, budget);
  } catch (cause) {
    if (cause instanceof MissingVariablesError) throw new ContainerConfigError(cause.message);
    throw cause;
  }
}

/**
 * `"false"` on a pod: its mounts by subPath stay as they were when their container started, as with the kubelet. Otherwise
 * they show later content of their volumes.
 */
const subPathUpdatesAnnotation = 'mountlet.dev/subpath-updates';

function wantsSubPathUpdates({ metadata }: Pod): boolean {
  const value = metadata.annotations?.[subPathUpdatesAnnotation] ?? 'true';
  if (value === 'true' || value === 'false') return value === 'true';
  throw new ContainerConfigError(
    `invalid annotation ${subPathUpdatesAnnotation}: ${goQuote(value)}: must be "true" or "false"`,
  );
}

/** What runtimes mount into a container without being asked. */
const runtimePaths = ['/dev', '/proc', '/sys', '/etc/hosts', '/etc/hostname', '/etc/resolv.conf'];
const terminationMessagePathDefault = '/dev/termination-log';

/**
 * Whether a mount by subPath can show later content of its volume. New content is mounted over a directory as a whole, and would
 * hide what else is mounted in it. `Bidirectional` would let
 * the container mount over it on the host. Runtimes refuse recursively read-only mounts with propagation.
 */
export function canFollow(mount: VolumeMount, container: AnyContainer): boolean {
  const { mountPropagation = 'None', recursiveReadOnly = 'Disabled' } = mount;
  if (mountPropagation === 'Bidirectional' || recursiveReadOnly !== 'Disabled') return false;
  const { volumeMounts = [], volumeDevices = [], terminationMessagePath = terminationMessagePathDefault } = container;
  const others = [
    ...volumeMounts.map(({ mountPath }) => mountPath),
    ...volumeDevices.map(({ devicePath }) => devicePath),
    ...runtimePaths,
    terminationMessagePath,
  ];
  const directory = directoryText(mount.mountPath);
  return !others.some((path) => path !== mount.mountPath && directoryText(path).startsWith(directory));
}

/** `/etc/` for `etc`, `/etc` and `//etc/./`. */
function directoryText(path: string): string {
  return posix.normalize(`/${path}/`);
}
