/** The containers of a pod as the runtime has them: how to find one, and what its labels say. */
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import { fnvHash } from '../../kube/schema/equality.ts';
import {
  ContainerNotRunningError,
  NoSuchContainerError,
  type Runtime,
  type RuntimeContainer,
  type RuntimePod,
} from '../../runtimes/runtime.ts';
import type { Variable, VariableSource } from '../view/variables.ts';

/** The newest of this name. */
export function newest(runtimePod: RuntimePod | undefined, name: string): RuntimeContainer | undefined {
  return runtimePod?.containers.find((container) => container.name === name);
}

/** The newest of this name that was created after the pod's sandbox. One from before a reboot does not count. */
export function newestInSandbox(runtimePod: RuntimePod | undefined, name: string): RuntimeContainer | undefined {
  const container = newest(runtimePod, name);
  if (runtimePod === undefined || container === undefined) return undefined;
  return container.state.createdAtMs >= runtimePod.createdAtMs ? container : undefined;
}

/** Whether a probe or a hook failed only because its container has ended meanwhile. */
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
    return false; // unknown: the problem is reported
  }
}

// Labels are what is known of a container after a restart of this program.
export const podNameLabel = 'io.kubernetes.pod.name';
export const podNamespaceLabel = 'io.kubernetes.pod.namespace';
export const podUidLabel = 'io.kubernetes.pod.uid';
export const containerNameLabel = 'io.kubernetes.container.name';
export const hashLabel = 'io.kubernetes.container.hash';
export const messagePolicyLabel = 'io.kubernetes.container.terminationMessagePolicy';
/** Where on this machine the container's termination message is. */
export const messageFileLabel = 'mountlet.dev/termination-message-file';
export const environmentObjectsLabel = 'mountlet.dev/environment-objects';

/** A container is replaced when its hash changes. Of what may change in a pod, only the image requires that. */
export function containerHash({ name, image = '' }: AnyContainer): string {
  return fnvHash(`${name}\0${image}`);
}

/** An object from which variables were taken, with its version at that time. */
export interface EnvironmentObject {
  readonly kind: 'ConfigMap' | 'Secret';
  readonly name: string;
  readonly resourceVersion: string;
}

export function environmentObjects(environment: readonly Variable[]): readonly EnvironmentObject[] {
  const objects = new Map<string, EnvironmentObject>();
  const collect = (source: VariableSource): void => {
    if (source.kind === 'value') source.expands.forEach(collect);
    if (source.kind !== 'ConfigMap' && source.kind !== 'Secret') return;
    const { kind, name, resourceVersion } = source;
    if (resourceVersion !== undefined) objects.set(`${kind}/${name}`, { kind, name, resourceVersion });
  };
  for (const { source } of environment) collect(source);
  return [...objects.values()];
}

export function writeEnvironmentObjects(objects: readonly EnvironmentObject[]): string {
  return JSON.stringify(objects.map(({ kind, name, resourceVersion }) => [kind, name, resourceVersion]));
}

/** Other programs may write labels: what is malformed is left out. */
export function readEnvironmentObjects(labels: Readonly<Record<string, string>>): readonly EnvironmentObject[] {
  let entries: unknown;
  try {
    entries = JSON.parse(labels[environmentObjectsLabel] ?? '[]');
  } catch {
    return [];
  }
  if (!Array.isArray(entries)) return [];
  return entries.flatMap((entry: unknown) => {
    const [kind, name, resourceVersion] = Array.isArray(entry) ? (entry as unknown[]) : [];
    if (kind !== 'ConfigMap' && kind !== 'Secret') return [];
    return typeof name === 'string' && typeof resourceVersion === 'string' ? [{ kind, name, resourceVersion }] : [];
  });
}
