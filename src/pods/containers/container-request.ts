/** Everything a runtime needs to make one container, decided: variables, mounts, user, limits and labels. */
import { podNamespace, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import type { ContainerRequest, ImageStatus, RuntimeMount } from '../../runtimes/runtime.ts';
import type { ContainerFiles } from '../container-files.ts';
import type { ContainerMount } from '../container-mount.ts';
import { type CleanUp, ContainerMountsError } from '../container-mounts.ts';
import { type ContainerView, type ContainerViewDeps, viewContainer } from '../container-view.ts';
import type { PodVolumes } from '../pod-volumes.ts';
import type { Defect } from '../variables.ts';
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
} from './container-labels.ts';
import { containerResources } from './container-resources.ts';
import { containerSecurity } from './container-security.ts';
import { ContainerStartError } from './container-start-error.ts';

export interface ContainerRequestDeps {
  /** As the node is now: its services and addresses change. */
  readonly view: () => ContainerViewDeps;
  readonly volumes: PodVolumes;
  readonly files: ContainerFiles;
}

export interface NodeSettings {
  readonly clusterDomain: string;
  readonly runtimeSupportsRecursiveReadOnly: boolean;
  /** The user of a container of which neither pod nor image say who it is. */
  readonly defaultUid: number;
}

export interface BuiltContainer {
  readonly request: ContainerRequest;
  /** To be run if the container does not come to be. */
  readonly cleanUps: readonly CleanUp[];
}

interface ContainerInput {
  readonly pod: Pod;
  readonly container: AnyContainer;
  readonly attempt: number;
  readonly podIPs: readonly string[];
  readonly image: ImageStatus;
}

/** Rejects with a ContainerConfigError, or a ContainerStartError for what no runtime would take. */
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
    if (error instanceof ContainerMountsError) await takeBack(error.cleanUps);
    throw error;
  }
  const defect = defectOf(view);
  if (defect !== undefined) {
    await takeBack(view.cleanUps);
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
  NotUtf8: 'is not valid UTF-8, and nothing else can be told to a runtime',
};

/** Said here and without the text itself: what refuses it further on may quote it, and it may be a secret. */
function defectOf({ environment, command, args }: ContainerView): string | undefined {
  for (const { name, defect } of environment) {
    if (defect !== undefined) return `variable ${goQuote(name)} ${defects[defect]}`;
  }
  for (const [index, { defect }] of [...command, ...args].entries()) {
    if (defect !== undefined) return `argument ${index} ${defects[defect]}`;
  }
  return undefined;
}

/** One that fails leaves the others to be tried: the volumes' own tear-down repeats it. */
export async function takeBack(cleanUps: readonly CleanUp[]): Promise<void> {
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
