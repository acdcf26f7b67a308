/** What the node's server asks about pods, and how it finds the log of a container. */
import { errorCode } from '../base/errors.ts';
import { bareContainerId } from '../kube/kinds/pod/pod-identity.ts';
import { type PodLogOptions, parsePodLogOptions, podLogOptionErrors } from '../kube/kinds/pod/pod-requests.ts';
import { allContainers } from '../kube/kinds/pod/pod-spec.ts';
import type { ContainerStatus } from '../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { goQuote } from '../kube/values/go-text.ts';
import type { LogSource } from './read-log.ts';
import { RequestRefused } from './streams/protocols.ts';

export interface NodePods {
  /** By name, with its newest status. */
  find(namespace: string, name: string): NodePod | undefined;
  /** All pods that should run here. */
  list(): readonly Pod[];
  /** All that the runtime has, whatever wants them. */
  running(signal: AbortSignal): Promise<readonly Pod[]>;
}

export interface NodePod {
  readonly pod: Pod;
  /** The ID under which the runtime knows a container that runs now. */
  runningContainer(name: string): string | undefined;
  /** The log of the container's present or last run. */
  log(containerId: string): LogSource | undefined;
}

/** Which log a reader gets, or the words in which a node says that there is none. */
export function logOptions(query: URLSearchParams): PodLogOptions {
  const tail = query.get('tail') ?? '';
  const asked = new URLSearchParams(query);
  // An old name, whose `all` is the same as not to ask.
  if (tail !== '' && tail !== 'all') asked.set('tailLines', tail);
  const options = parsePodLogOptions(asked);
  if (typeof options === 'string') throw new RequestRefused(400, '{"message": "Unable to decode query."}');
  if (podLogOptionErrors(options).length > 0) throw new RequestRefused(422, '{"message": "Invalid request."}');
  return options;
}

export function chooseLog(nodePod: NodePod, container: string, previous: boolean): LogSource {
  const { pod } = nodePod;
  if (!allContainers(pod.spec).some(({ name }) => name === container)) {
    throw new RequestRefused(
      404,
      `container ${goQuote(container)} not found in pod ${goQuote(pod.metadata.name ?? '')}`,
    );
  }
  const id = loggedContainer(pod, container, previous);
  const source = nodePod.log(id);
  if (source === undefined) throw new RequestRefused(400, `unable to retrieve container logs for ${id}`);
  return source;
}

/** The ID as the runtime has it: a status writes `process://abc`. */
export function loggedContainer(pod: Pod, container: string, previous: boolean): string {
  const subject = `container ${goQuote(container)} in pod ${goQuote(pod.metadata.name ?? '')}`;
  const refuse = (text: string): never => {
    throw new RequestRefused(400, text);
  };
  const status = statusOf(pod, container);
  if (status === undefined) return refuse(`${subject} is not available`);
  const { state, lastState } = status;
  const last = lastState?.terminated?.containerID ?? '';
  if (previous) return last === '' ? refuse(`previous terminated ${subject} not found`) : bareContainerId(last);
  if (state?.running !== undefined) return bareContainerId(status.containerID ?? '');
  if (state?.terminated !== undefined) {
    // Of a container whose next run never began, the last one that ran.
    const id = state.terminated.containerID ?? '';
    if (id === '' && last === '') return refuse(`${subject} is terminated`);
    return bareContainerId(id === '' ? last : id);
  }
  if (lastState?.terminated !== undefined)
    return last === '' ? refuse(`${subject} is terminated`) : bareContainerId(last);
  if (state?.waiting === undefined) return refuse(`${subject} is waiting to start - no logs yet`);
  const reason = state.waiting.reason ?? '';
  return refuse(`${subject} is waiting to start: ${waitingTexts[reason] ?? reason}`);
}

const waitingTexts: Readonly<Record<string, string>> = {
  ErrImagePull: "image can't be pulled",
  ImagePullBackOff: 'trying and failing to pull image',
};

function statusOf({ status }: Pod, container: string): ContainerStatus | undefined {
  const lists = [status?.containerStatuses, status?.initContainerStatuses, status?.ephemeralContainerStatuses];
  return lists.flatMap((list) => list ?? []).find(({ name }) => name === container);
}

export function logOpenRefusal(path: string, error: unknown): unknown {
  if (errorCode(error) !== 'ENOENT') return error;
  return new RequestRefused(400, `failed to open log file ${goQuote(path)}: open ${path}: no such file or directory`);
}
