/** Finding one container of a pod, as it should be and as it is. */
import { ContainerNotRunningError, NoSuchContainerError } from '../../runtimes/runtime.ts';
import type { Runtime, RuntimeContainer, RuntimePod } from '../../runtimes/runtime.ts';

/** The newest of this name. */
export function newest(runtimePod: RuntimePod | undefined, name: string): RuntimeContainer | undefined {
  return runtimePod?.containers.find((container) => container.name === name);
}

/** The newest of this name that was made since the pod's shared part was: one from before, say, a reboot does not count. */
export function newestInSandbox(runtimePod: RuntimePod | undefined, name: string): RuntimeContainer | undefined {
  const container = newest(runtimePod, name);
  if (runtimePod === undefined || container === undefined) return undefined;
  return container.state.createdAtMs >= runtimePod.createdAtMs ? container : undefined;
}

/** Whether what a probe or a hook met is only that its container has ended meanwhile: then it has not failed. */
export async function hasEnded(
  runtime: Pick<Runtime, 'get'>,
  { podUid, containerId }: { readonly podUid: string; readonly containerId: string },
  problem: unknown,
  signal: AbortSignal,
): Promise<boolean> {
  if (problem instanceof ContainerNotRunningError || problem instanceof NoSuchContainerError) return true;
  try {
    const runtimePod = await runtime.get(podUid, signal);
    return runtimePod?.containers.find(({ id }) => id === containerId)?.state.kind !== 'running';
  } catch {
    return false; // not known: the problem is reported as it is
  }
}
