/** The containers of a pod as the runtime has them: how to find one, and what its annotations say. */
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
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

/** The newest of this name in the pod's sandbox. One from before a reboot does not count. */
export function newestInSandbox(runtimePod: RuntimePod | undefined, name: string): RuntimeContainer | undefined {
  if (runtimePod === undefined) return undefined;
  const { sandboxId, createdAtMs, containers } = runtimePod;
  return containers.find((container) => {
    if (container.name !== name) return false;
    // Times tell less: a clock may be set back.
    return sandboxId === undefined ? container.state.createdAtMs >= createdAtMs : container.sandboxId === sandboxId;
  });
}

/** Those of the pod itself, or of the machine whose network it has. */
export function addressesOf({ ips, hostNetwork = false }: RuntimePod, hostIPs: readonly string[]): readonly string[] {
  return hostNetwork ? hostIPs : ips;
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

export const containerNameLabel = 'io.kubernetes.container.name';
// Annotations are what is known of a container after a restart of this program.
export const hashAnnotation = 'io.kubernetes.container.hash';
export const messagePolicyAnnotation = 'io.kubernetes.container.terminationMessagePolicy';
/** Where on this machine the container's termination message is. */
export const messageFileAnnotation = 'mountlet.dev/termination-message-file';
export const environmentObjectsAnnotation = 'mountlet.dev/environment-objects';

/**
 * What the kubelet notes on a container, so that either of us can take over the containers of the other: how often it was
 * restarted, whether it is still as its pod says, and how it is ended if its pod is gone.
 */
export function kubeletAnnotations(
  { metadata, spec }: Pod,
  container: AnyContainer,
  attempt: number,
): Readonly<Record<string, string>> {
  const { terminationMessagePath = '', terminationMessagePolicy = 'File', lifecycle, ports = [] } = container;
  const noted: Readonly<Record<string, string | number | undefined>> = {
    [hashAnnotation]: containerHash(container),
    'io.kubernetes.container.restartCount': attempt,
    'io.kubernetes.container.terminationMessagePath': terminationMessagePath,
    [messagePolicyAnnotation]: terminationMessagePolicy,
    'io.kubernetes.pod.terminationGracePeriod': spec.terminationGracePeriodSeconds,
    'io.kubernetes.pod.deletionGracePeriod': metadata.deletionGracePeriodSeconds,
    'io.kubernetes.container.preStopHandler': lifecycle?.preStop && goJson(lifecycle.preStop),
    'io.kubernetes.container.ports': ports.length === 0 ? undefined : goJson(ports),
  };
  return Object.fromEntries(
    Object.entries(noted).flatMap(([key, value]) => (value === undefined ? [] : [[key, String(value)]])),
  );
}

/**
 * A container is replaced when its hash changes. Of what may change in a pod, only the image requires that. The kubelet's: FNV-1a
 * of 32 bits over the bytes of name and image as JSON, which it prints as Go prints a list of bytes.
 */
export function containerHash({ name, image = '' }: AnyContainer): string {
  const printed = `([]uint8)[${[...Buffer.from(goJson({ image, name }))].join(' ')}]`;
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(printed)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash.toString(16);
}

/** Go writes these characters so that its JSON can stand in a page or a script. */
function goJson(value: unknown): string {
  return JSON.stringify(value).replaceAll(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  );
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

/** Other programs may write annotations: what is malformed is left out. */
export function readEnvironmentObjects(annotations: Readonly<Record<string, string>>): readonly EnvironmentObject[] {
  let entries: unknown;
  try {
    entries = JSON.parse(annotations[environmentObjectsAnnotation] ?? '[]');
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
