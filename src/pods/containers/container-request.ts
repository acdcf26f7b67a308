/** Everything a runtime needs to make one container, decided: variables, mounts, user, limits and labels. */
import type { ResourceRequirements } from '../../kube/kinds/pod/container.ts';
import { describePod, podNamespace, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { podLimits } from '../../kube/references/pod-resources.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { Quantity } from '../../kube/values/quantity.ts';
import type {
  ContainerRequest,
  ContainerSecurity,
  ImageStatus,
  ResourceLimits,
  RuntimeMount,
} from '../../runtimes/runtime.ts';
import { type ContainerView, type ContainerViewDeps, viewContainer } from '../view/container-view.ts';
import { type CleanUp, type ContainerMount, ContainerMountsError, type MountedVolumes } from '../view/mounts.ts';
import { ContainerConfigError, type Defect } from '../view/variables.ts';
import {
  containerHash,
  containerNameLabel,
  environmentObjects,
  environmentObjectsLabel,
  hashLabel,
  messageFileLabel,
  messagePolicyLabel,
  podNameLabel,
  podNamespaceLabel,
  podUidLabel,
  writeEnvironmentObjects,
} from './runtime-containers.ts';
import { ContainerStartError } from './start-errors.ts';

/** The files of pods and containers on this machine that belong neither to volumes nor to the runtime. */
export interface ContainerFiles {
  /** Below the node's root. */
  podDirectory(podUid: string): string;
  logDirectory(pod: Pod): string;
  /** The directories every pod has, with mode 0750. */
  makePodDirectories(pod: Pod, signal: AbortSignal): Promise<void>;
  /** An empty file with mode 0666, to be mounted as the container's termination message. Returns its path. */
  makeMessageFile(podUid: string, container: string, attempt: number, signal: AbortSignal): Promise<string>;
  /** Empty if there is none. Never follows a link and reads no more than `bytesMax`: the container wrote it. */
  readMessageFile(path: string, bytesMax: number, signal: AbortSignal): Promise<string>;
  /** The end of a log, without what the runtime adds to each line. */
  tailLog(path: string, bytesMax: number, linesMax: number, signal: AbortSignal): Promise<string>;
  removeLog(path: string, signal: AbortSignal): Promise<void>;
}

/** What a container needs of the volumes of its pod. */
export interface ContainerVolumes {
  mountedVolumesOf(pod: Pod): MountedVolumes;
  /** Groups that own volumes of the pod, so that its containers can read them. */
  groupsOf(pod: Pod): readonly number[];
}

export interface ContainerRequestDeps {
  /** As the node is now: its services and addresses change. */
  readonly view: () => ContainerViewDeps;
  readonly volumes: ContainerVolumes;
  readonly files: ContainerFiles;
}

export interface NodeSettings {
  readonly clusterDomain: string;
  readonly runtimeSupportsRecursiveReadOnly: boolean;
  /** The user of a container if neither pod nor image name one. */
  readonly defaultUid: number;
}

export interface BuiltContainer {
  readonly request: ContainerRequest;
  /** To be run if the container is not created. */
  readonly cleanUps: readonly CleanUp[];
}

interface ContainerInput {
  readonly pod: Pod;
  readonly container: AnyContainer;
  readonly attempt: number;
  readonly podIPs: readonly string[];
  readonly image: ImageStatus;
}

/** Rejects with a ContainerConfigError, or a ContainerStartError for what every runtime would refuse. */
export async function buildContainerRequest(
  { pod, container, attempt, podIPs, image }: ContainerInput,
  { view: viewDeps, volumes, files }: ContainerRequestDeps,
  { clusterDomain, runtimeSupportsRecursiveReadOnly, defaultUid }: NodeSettings,
  signal: AbortSignal,
): Promise<BuiltContainer> {
  const uid = podUid(pod);
  const security = containerSecurity({ pod, container, image, defaultUid, volumeGroups: volumes.groupsOf(pod) });
  let view: ContainerView;
  try {
    view = await viewContainer(
      {
        pod,
        container,
        podIPs,
        clusterDomain,
        runtimeSupportsRecursiveReadOnly,
        volumes: volumes.mountedVolumesOf(pod),
        podDirectory: files.podDirectory(uid),
      },
      viewDeps(),
      signal,
    );
  } catch (error) {
    if (error instanceof ContainerMountsError) await runCleanUps(error.cleanUps);
    throw error;
  }
  const defect = defectOf(view);
  if (defect !== undefined) {
    await runCleanUps(view.cleanUps);
    throw new ContainerStartError('CreateContainerError', defect);
  }
  const messagePath = container.terminationMessagePath ?? '';
  const messageFile =
    messagePath === '' ? undefined : await files.makeMessageFile(uid, container.name, attempt, signal);
  const request: ContainerRequest = {
    podUid: uid,
    name: container.name,
    attempt,
    image: container.image ?? '',
    command: view.command.map(({ value }) => value),
    args: view.args.map(({ value }) => value),
    program: container.command?.[0] ?? container.args?.[0] ?? '',
    workingDirectory: container.workingDir ?? '',
    environment: view.environment.map(({ name, value }) => ({ name, value })),
    mounts: [
      ...view.mounts.map(runtimeMount),
      ...(messageFile === undefined ? [] : [fileMount(messageFile, messagePath)]),
    ],
    devices: view.devices.map(({ hostPath, devicePath, permissions }) => ({
      hostPath,
      containerPath: devicePath,
      permissions,
    })),
    security,
    resources: containerResources(container.resources),
    stdin: container.stdin ?? false,
    stdinOnce: container.stdinOnce ?? false,
    tty: container.tty ?? false,
    stopSignal: container.lifecycle?.stopSignal ?? 'SIGTERM',
    logPath: `${container.name}/${attempt}.log`,
    labels: {
      [podNameLabel]: pod.metadata.name,
      [podNamespaceLabel]: podNamespace(pod),
      [podUidLabel]: uid,
      [containerNameLabel]: container.name,
      [hashLabel]: containerHash(container),
      [messagePolicyLabel]: container.terminationMessagePolicy ?? 'File',
      [environmentObjectsLabel]: writeEnvironmentObjects(environmentObjects(view.environment)),
      ...(messageFile === undefined ? {} : { [messageFileLabel]: messageFile }),
    },
  };
  return { request, cleanUps: view.cleanUps };
}

const defects: Readonly<Record<Defect, string>> = {
  NulByte: 'holds a NUL byte, with which no program can be started',
  NotUtf8: 'is not valid UTF-8, and runtimes accept nothing else',
};

/** Reported here, and without the text, which may be a secret: a runtime that refuses it may quote it. */
function defectOf({ environment, command, args }: ContainerView): string | undefined {
  for (const { name, defect } of environment) {
    if (defect !== undefined) return `variable ${goQuote(name)} ${defects[defect]}`;
  }
  for (const [index, { defect }] of [...command, ...args].entries()) {
    if (defect !== undefined) return `argument ${index} ${defects[defect]}`;
  }
  return undefined;
}

/** A failure does not keep the others from being run: the tear-down of the volumes repeats them. */
export async function runCleanUps(cleanUps: readonly CleanUp[]): Promise<void> {
  for (const cleanUp of cleanUps) await cleanUp().catch(() => {});
}

function runtimeMount({ hostPath = '', mountPath, image, subPath, ...mount }: ContainerMount): RuntimeMount {
  const { readOnly, recursiveReadOnly, propagation } = mount;
  return {
    hostPath,
    containerPath: mountPath,
    readOnly,
    recursiveReadOnly,
    propagation,
    ...(image === undefined ? {} : { image, ...(subPath === undefined ? {} : { imageSubPath: subPath }) }),
  };
}

function fileMount(hostPath: string, containerPath: string): RuntimeMount {
  return { hostPath, containerPath, readOnly: false, recursiveReadOnly: false, propagation: 'None' };
}

/** As whom a container runs and what it may do: the container's security context over that of its pod. */
interface SecurityRequest {
  readonly pod: Pod;
  readonly container: AnyContainer;
  readonly image: Pick<ImageStatus, 'uid' | 'username'>;
  /** The user if neither the pod nor the image name one. */
  readonly defaultUid: number;
  /** Groups that own volumes of the pod. */
  readonly volumeGroups: readonly number[];
}

function containerSecurity(request: SecurityRequest): ContainerSecurity {
  const { pod, container, volumeGroups } = request;
  const ofPod = pod.spec.securityContext ?? {};
  const own = container.securityContext ?? {};
  checkNonRoot(request);
  const { supplementalGroups = [], fsGroup } = ofPod;
  const groups = new Set([...supplementalGroups, ...(fsGroup === undefined ? [] : [fsGroup]), ...volumeGroups]);
  return {
    uid: own.runAsUser ?? ofPod.runAsUser,
    gid: own.runAsGroup ?? ofPod.runAsGroup,
    supplementalGroups: [...groups],
    readOnlyRootFilesystem: own.readOnlyRootFilesystem ?? false,
    privileged: own.privileged ?? false,
    noNewPrivileges: own.allowPrivilegeEscalation === false,
    addCapabilities: (own.capabilities?.add ?? []).map(withoutPrefix),
    dropCapabilities: (own.capabilities?.drop ?? []).map(withoutPrefix),
    // By default a pod gets the runtime's own profile; the kubelet leaves it unconfined.
    seccomp: profileType(own.seccompProfile ?? ofPod.seccompProfile),
    appArmor: profileType(own.appArmorProfile ?? ofPod.appArmorProfile),
    procMount: own.procMount === 'Unmasked' ? 'Unmasked' : 'Default',
    seLinux: own.seLinuxOptions !== undefined || ofPod.seLinuxOptions !== undefined,
  };
}

function profileType(profile: { readonly type: string } | undefined): ContainerSecurity['seccomp'] {
  const { type = 'RuntimeDefault' } = profile ?? {};
  return type === 'Unconfined' || type === 'Localhost' ? type : 'RuntimeDefault';
}

function withoutPrefix(capability: string): string {
  return capability.toUpperCase().replace(/^CAP_/, '');
}

function checkNonRoot({ pod, container, image, defaultUid }: SecurityRequest): void {
  const ofPod = pod.spec.securityContext ?? {};
  const own = container.securityContext ?? {};
  if (!(own.runAsNonRoot ?? ofPod.runAsNonRoot ?? false)) return;
  const where = `(pod: "${describePod(pod)}", container: ${container.name})`;
  const user = own.runAsUser ?? ofPod.runAsUser;
  if (user !== undefined) {
    if (user !== 0) return;
    throw new ContainerConfigError(`container's runAsUser breaks non-root policy ${where}`);
  }
  const { username = '', uid } = image;
  if (uid === undefined && username !== '') {
    throw new ContainerConfigError(
      `container has runAsNonRoot and image has non-numeric user (${username}), cannot verify user is non-root ${where}`,
    );
  }
  if ((uid ?? defaultUid) === 0) {
    throw new ContainerConfigError(`container has runAsNonRoot and image will run as root ${where}`);
  }
}

function containerResources({ limits = {}, requests = {} }: ResourceRequirements = {}): ResourceLimits {
  return {
    memoryBytesMax: bytes(limits['memory']),
    cpuMilliMax: milli(limits['cpu']),
    cpuMilliRequested: milli(requests['cpu']),
  };
}

/** A pod is limited as a whole only if every container is limited. */
export function podResources({ spec }: Pod): ResourceLimits {
  const all = [...spec.containers, ...(spec.initContainers ?? [])];
  const limits = podLimits(spec);
  const bounded = (name: string): Quantity | undefined => {
    const isSet = spec.resources?.limits?.[name] !== undefined;
    return isSet || all.every(({ resources }) => resources?.limits?.[name] !== undefined)
      ? limits.get(name)
      : undefined;
  };
  return { memoryBytesMax: number(bounded('memory')?.value()), cpuMilliMax: number(bounded('cpu')?.milliValue()) };
}

function bytes(quantity: string | number | undefined): number | undefined {
  return quantity === undefined ? undefined : number(Quantity.parse(quantity).value());
}

function milli(quantity: string | number | undefined): number | undefined {
  return quantity === undefined ? undefined : number(Quantity.parse(quantity).milliValue());
}

function number(value: bigint | undefined): number | undefined {
  return value === undefined ? undefined : Number(value);
}
