/** The status of each container: its state, the state before, how often it was restarted, and its termination message. */
import { messageOf } from '../../base/errors.ts';
import { type AnyContainer, isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import type { ContainerStatus } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { timestamp } from '../../kube/values/times.ts';
import type { RuntimeContainer, RuntimePod } from '../../runtimes/runtime.ts';
import type { ContainerFiles } from '../containers/container-request.ts';
import { canRestartAll, shouldStart } from '../containers/plan-containers.ts';
import {
  messageFileAnnotation,
  messagePolicyAnnotation,
  newest,
  newestInSandbox,
} from '../containers/runtime-containers.ts';
import type { StartError } from '../containers/start-errors.ts';
import { isRecursivelyReadOnly } from '../view/mounts.ts';
import { ContainerConfigError } from '../view/variables.ts';

export interface ContainersInput {
  readonly pod: Pod;
  readonly runtimePod: RuntimePod | undefined;
  /** `process`, `containerd`: the scheme of container IDs. */
  readonly runtimeName: string;
  readonly supportsRecursiveReadOnly: boolean;
  readonly startError: (container: string) => StartError | undefined;
  /** By container ID. */
  readonly terminationMessages: ReadonlyMap<string, string>;
}

type ContainerKind = 'init' | 'regular' | 'ephemeral';

export const unknownExit = { exitCode: 137, reason: 'ContainerStatusUnknown' };

export function containerStatuses(
  input: ContainersInput,
  kind: ContainerKind,
  containers: readonly AnyContainer[],
  previous: readonly ContainerStatus[],
): readonly ContainerStatus[] {
  const hasInit = (input.pod.spec.initContainers ?? []).length > 0;
  const defaultReason = hasInit && kind !== 'ephemeral' ? 'PodInitializing' : 'ContainerCreating';
  const statuses = containers.map((container) => {
    const before = previous.find(({ name }) => name === container.name);
    return withStartError(statusOf(input, container, before, defaultReason), input, container, kind);
  });
  // Init containers keep the order in which they run.
  return kind === 'init' ? statuses : statuses.toSorted((a, b) => compareByteOrder(a.name, b.name));
}

function statusOf(
  input: ContainersInput,
  container: AnyContainer,
  before: ContainerStatus | undefined,
  defaultReason: string,
): ContainerStatus {
  const { pod, runtimePod, runtimeName, terminationMessages } = input;
  const { name, image = '' } = container;
  const [latest, earlier] = (runtimePod?.containers ?? []).filter((one) => one.name === name);
  const stateOf = (one: RuntimeContainer): NonNullable<ContainerStatus['state']> =>
    stateOfContainer(one, runtimeName, terminationMessages.get(one.id));
  // What a container was created with stays, also when the runtime learns something new.
  const mounts =
    before?.containerID === undefined || before.volumeMounts === undefined
      ? volumeMountsOf(container, input.supportsRecursiveReadOnly)
      : { volumeMounts: before.volumeMounts };
  if (latest?.state.kind === 'unknown' && before?.state?.running !== undefined) {
    // It ran, so it must not look as if it had never: what runs once would run twice.
    const message = 'The container could not be located when the pod was terminated';
    return {
      ...before,
      restartCount: before.restartCount + 1,
      ready: false,
      state: { terminated: { ...unknownExit, message } },
    };
  }
  if (latest !== undefined) {
    const lastState = earlier === undefined ? lastStateBefore(input, latest, before) : stateOf(earlier);
    return {
      name,
      image: latest.image,
      imageID: latest.imageId,
      containerID: `${runtimeName}://${latest.id}`,
      restartCount: latest.attempt,
      ready: false,
      state: stateOf(latest),
      ...mounts,
      ...(latest.user && { user: { linux: latest.user } }),
      ...(lastState?.terminated === undefined ? {} : { lastState: { terminated: lastState.terminated } }),
    };
  }
  // One that ended may have been removed: what was reported of it stays true.
  if (before?.state?.terminated !== undefined) return before;
  if (isInitialized(pod, runtimePod, container)) {
    const message =
      'Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally';
    const terminated = { exitCode: 0, reason: 'Completed', message };
    const restartCount = before?.restartCount ?? 0;
    return { name, image, imageID: '', ready: false, restartCount, state: { terminated }, ...mounts };
  }
  const waiting: ContainerStatus = {
    name,
    image,
    imageID: '',
    ready: false,
    restartCount: before?.restartCount ?? 0,
    state: { waiting: { reason: defaultReason } },
    ...mounts,
    ...(before?.lastState === undefined ? {} : { lastState: before.lastState }),
  };
  if (before?.state?.running === undefined || before.lastState?.terminated !== undefined) return waiting;
  // It ran and left no trace: it must not look as if it had never run.
  const message = 'The container could not be located when the pod was deleted.  The container used to be Running';
  const restarts = pod.metadata.deletionTimestamp === undefined ? 1 : 0;
  return {
    ...waiting,
    restartCount: waiting.restartCount + restarts,
    lastState: { terminated: { ...unknownExit, message } },
  };
}

/** As the pod asks for them. A mount that cannot be made so is not made at all: the container's state says why. */
function volumeMountsOf(
  { volumeMounts = [] }: AnyContainer,
  supportsRecursiveReadOnly: boolean,
): Pick<ContainerStatus, 'volumeMounts'> {
  if (volumeMounts.length === 0) return {};
  return {
    volumeMounts: volumeMounts.map((mount) => {
      const { name, mountPath, readOnly = false } = mount;
      if (!readOnly) return { name, mountPath };
      let isRecursive = false;
      try {
        isRecursive = isRecursivelyReadOnly(mount, supportsRecursiveReadOnly);
      } catch (error) {
        if (!(error instanceof ContainerConfigError)) throw error;
      }
      return { name, mountPath, readOnly, recursiveReadOnly: isRecursive ? 'Enabled' : 'Disabled' };
    }),
  };
}

/** Whether this is an init container of a pod whose containers were made, so that it must have done its work. */
function isInitialized({ spec }: Pod, runtimePod: RuntimePod | undefined, container: AnyContainer): boolean {
  const { initContainers = [], containers } = spec;
  const isInit = initContainers.some((one) => one === container) && !isSidecar(container);
  return isInit && containers.some(({ name }) => newestInSandbox(runtimePod, name) !== undefined);
}

/** Of a container whose record is gone: it was collected, or went when all containers of the pod started over. */
function lastStateBefore(
  { pod, runtimeName }: ContainersInput,
  latest: RuntimeContainer,
  before: ContainerStatus | undefined,
): ContainerStatus['lastState'] {
  if (before === undefined || before.containerID === `${runtimeName}://${latest.id}`) return before?.lastState;
  if (before.state?.terminated !== undefined) return before.state;
  if (before.state?.running === undefined || !canRestartAll(pod)) return before.lastState;
  const message = 'The container is removed because RestartAllContainers in place';
  return { terminated: { exitCode: unknownExit.exitCode, reason: 'RestartingAllContainers', message } };
}

function stateOfContainer(
  { id, state }: RuntimeContainer,
  runtimeName: string,
  message: string | undefined,
): NonNullable<ContainerStatus['state']> {
  switch (state.kind) {
    case 'created':
    case 'unknown':
      return { waiting: {} };
    case 'running':
      return { running: { startedAt: timestamp(state.startedAtMs) } };
    case 'exited': {
      const text = [state.message, message ?? ''].filter((part) => part !== '').join(': ');
      return {
        terminated: {
          exitCode: state.exitCode,
          reason: state.reason,
          ...(text === '' ? {} : { message: text }),
          startedAt: timestamp(state.startedAtMs),
          finishedAt: timestamp(state.finishedAtMs),
          containerID: `${runtimeName}://${id}`,
        },
      };
    }
  }
}

/** A container that should run and does not is waiting. Its last start error says why. */
function withStartError(
  status: ContainerStatus,
  { pod, runtimePod, startError }: ContainersInput,
  container: AnyContainer,
  kind: ContainerKind,
): ContainerStatus {
  const latest = newest(runtimePod, container.name);
  if (kind === 'ephemeral' && latest !== undefined) return status;
  const hasSucceeded = latest?.state.kind === 'exited' && latest.state.exitCode === 0;
  if (kind === 'init' && !isSidecar(container) && hasSucceeded) return status;
  if (!shouldStart(container, pod, latest)) return status;
  const error = startError(container.name);
  if (error === undefined) return status;
  const { terminated } = status.state ?? {};
  return {
    ...status,
    state: { waiting: { reason: error.reason, message: error.message } },
    ...(terminated === undefined ? {} : { lastState: { terminated } }),
  };
}

const fileBytesMax = 4096;
const logBytesMax = 2048;
const logLinesMax = 80;

/** What containers reported at their end: the file they wrote, or the end of their log if the pod asks for that. */
export class TerminationMessages {
  readonly #files: ContainerFiles;
  /** By pod UID, then by container ID. Each message is read once. */
  readonly #read = new Map<string, Map<string, string>>();

  constructor(files: ContainerFiles) {
    this.#files = files;
  }

  async of(runtimePod: RuntimePod | undefined, signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    if (runtimePod === undefined) return new Map();
    const before = this.#read.get(runtimePod.uid);
    const messages = new Map<string, string>();
    for (const { id, state, annotations, logPath } of runtimePod.containers) {
      if (state.kind !== 'exited') continue;
      // One that never ran has left nothing in its log.
      const isFailed = state.exitCode !== 0 && state.reason !== 'ContainerCannotRun';
      messages.set(id, before?.get(id) ?? (await this.#message(annotations, isFailed, logPath, signal)));
    }
    this.#read.set(runtimePod.uid, messages);
    return messages;
  }

  forgetPod(uid: string): void {
    this.#read.delete(uid);
  }

  async #message(
    annotations: Readonly<Record<string, string>>,
    isFailed: boolean,
    logPath: string,
    signal: AbortSignal,
  ): Promise<string> {
    const file = annotations[messageFileAnnotation];
    try {
      const message = file === undefined ? '' : await this.#files.readMessageFile(file, fileBytesMax, signal);
      if (message !== '' || !isFailed || annotations[messagePolicyAnnotation] !== 'FallbackToLogsOnError')
        return message;
      return await this.#files.tailLog(logPath, logBytesMax, logLinesMax, signal);
    } catch (error) {
      signal.throwIfAborted();
      return `Error on reading termination log ${file ?? logPath}: ${messageOf(error)}`;
    }
  }
}
