/** Everything a runtime needs to make one container, decided: variables, mounts, user, limits and labels. */
import { podNamespace, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import {
  type ContainerRequest,
  type ImageStatus,
  type RuntimeMount,
  type RuntimePod,
  podNameLabel,
  podNamespaceLabel,
  podUidLabel,
} from '../../runtimes/runtime.ts';
import { type ContainerView, type ContainerViewDeps, viewContainer } from '../view/container-view.ts';
import { type CleanUp, type ContainerMount, ContainerMountsError, type MountedVolumes } from '../view/mounts.ts';
import { ContainerConfigError, type Defect } from '../view/variables.ts';
import { containerResources } from './container-resources.ts';
import { containerSecurity } from './container-security.ts';
import {
  containerNameLabel,
  environmentObjects,
  environmentObjectsAnnotation,
  kubeletAnnotations,
  messageFileAnnotation,
  newest,
  writeEnvironmentObjects,
} from './runtime-containers.ts';
import { ContainerStartError } from './start-errors.ts';

/** The files of pods and containers on this machine that belong neither to volumes nor to the runtime. */
export interface ContainerFiles {
  /** Below the node's root. */
  podDirectory(podUid: string): string;
  logDirectory(pod: Pod): string;
  /** Of a profile that a pod names, which need not exist. */
  seccompFile(profile: string): string;
  /** The highest attempt of a container that left a log; undefined without any. */
  lastLogAttempt(pod: Pod, container: string, signal: AbortSignal): Promise<number | undefined>;
  /** The directories every pod has, with mode 0750. */
  makePodDirectories(pod: Pod, signal: AbortSignal): Promise<void>;
  /** An empty file with mode 0666, to be mounted as the container's termination message. Returns its path. */
  makeMessageFile(podUid: string, container: string, attempt: number, signal: AbortSignal): Promise<string>;
  /** Its end; empty if there is none. Never follows a link and reads no more than `bytesMax`: the container wrote it. */
  readMessageFile(path: string, bytesMax: number, signal: AbortSignal): Promise<string>;
  /** The end of a log, without what the runtime adds to each line. */
  tailLog(path: string, bytesMax: number, linesMax: number, signal: AbortSignal): Promise<string>;
  /** With what was rotated away from it. */
  removeLog(path: string, signal: AbortSignal): Promise<void>;
  /** UIDs of the pods that have a directory of logs. */
  podsWithLogs(signal: AbortSignal): Promise<readonly string[]>;
  /** All logs of a pod that is unknown by now. */
  removePodLogs(podUid: string, signal: AbortSignal): Promise<void>;
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
  /** How long a container that fails again and again waits at most. */
  readonly restartBackOffMsMax: number;
  /** The user of a container if neither pod nor image name one. */
  readonly defaultUid: number;
  /** Of the machine: a container that asks for a large part of it is killed late when there is none left. */
  readonly memoryBytes: number;
  /** Containers whose pod names no seccomp profile get the runtime's own; otherwise they are unconfined. */
  readonly seccompDefault: boolean;
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
  /** Of the volumes that are images, by name. */
  readonly imageVolumes: ReadonlyMap<string, Pick<ImageStatus, 'id'>>;
  readonly runtimePod: RuntimePod;
  readonly runtimeSupportsRecursiveReadOnly: boolean;
}

/** Rejects with a ContainerConfigError, or a ContainerStartError for what every runtime would refuse. */
export async function buildContainerRequest(
  {
    pod,
    container,
    attempt,
    podIPs,
    image,
    imageVolumes,
    runtimePod,
    runtimeSupportsRecursiveReadOnly,
  }: ContainerInput,
  { view: viewDeps, volumes, files }: ContainerRequestDeps,
  { clusterDomain, defaultUid, memoryBytes, seccompDefault }: NodeSettings,
  signal: AbortSignal,
): Promise<BuiltContainer> {
  const uid = podUid(pod);
  const volumeGroups = volumes.groupsOf(pod);
  const seccompFile = (profile: string): string => files.seccompFile(profile);
  const security = containerSecurity({ pod, container, image, defaultUid, volumeGroups, seccompFile, seccompDefault });
  const processesOf = targetOf(container, runtimePod);
  let view: ContainerView;
  try {
    view = await viewContainer(
      {
        pod,
        container,
        podIPs,
        loopbackIp: runtimePod.loopbackIp,
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
    imageId: image.id,
    command: view.command.map(({ value }) => value),
    args: view.args.map(({ value }) => value),
    program: container.command?.[0] ?? container.args?.[0] ?? '',
    workingDirectory: container.workingDir ?? '',
    environment: view.environment.map(({ name, value }) => ({ name, value })),
    mounts: [
      ...view.mounts.map((mount) => runtimeMount(mount, imageVolumes.get(mount.name)?.id)),
      ...(messageFile === undefined ? [] : [fileMount(messageFile, messagePath)]),
    ],
    devices: view.devices.map(({ hostPath, devicePath, permissions }) => ({
      hostPath,
      containerPath: devicePath,
      permissions,
    })),
    security,
    resources: containerResources(container, pod, memoryBytes),
    stdin: container.stdin ?? false,
    stdinOnce: container.stdinOnce ?? false,
    tty: container.tty ?? false,
    stopSignal: container.lifecycle?.stopSignal ?? '',
    logPath: `${container.name}/${attempt}.log`,
    labels: {
      [podNameLabel]: pod.metadata.name,
      [podNamespaceLabel]: podNamespace(pod),
      [podUidLabel]: uid,
      [containerNameLabel]: container.name,
    },
    annotations: {
      ...kubeletAnnotations(pod, container, attempt),
      [environmentObjectsAnnotation]: writeEnvironmentObjects(environmentObjects(view.environment)),
      ...(messageFile === undefined ? {} : { [messageFileAnnotation]: messageFile }),
    },
    processesOf,
  };
  return { request, cleanUps: view.cleanUps };
}

/** The ID of the container that an ephemeral one looks at. */
function targetOf(container: AnyContainer, runtimePod: RuntimePod): string | undefined {
  const name = 'targetContainerName' in container ? (container.targetContainerName ?? '') : '';
  if (name === '') return undefined;
  const target = newest(runtimePod, name);
  if (target === undefined) throw new ContainerConfigError(`unable to find target container ${name}`);
  return target.id;
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

function runtimeMount(
  { hostPath = '', mountPath, image, subPath, ...mount }: ContainerMount,
  imageId = image,
): RuntimeMount {
  const { readOnly, recursiveReadOnly, propagation } = mount;
  return {
    hostPath,
    containerPath: mountPath,
    readOnly,
    recursiveReadOnly,
    propagation,
    ...(image === undefined || imageId === undefined
      ? {}
      : { image, imageId, ...(subPath === undefined ? {} : { imageSubPath: subPath }) }),
  };
}

function fileMount(hostPath: string, containerPath: string): RuntimeMount {
  return { hostPath, containerPath, readOnly: false, recursiveReadOnly: false, propagation: 'None' };
}
