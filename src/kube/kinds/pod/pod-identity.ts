/** What a pod is called, in keys and in texts that users see, and where it came from. */
import type { Pod } from './pod.ts';

export function podUid({ metadata }: Pick<Pod, 'metadata'>): string {
  return metadata.uid ?? '';
}

export function podNamespace({ metadata }: Pick<Pod, 'metadata'>): string {
  return metadata.namespace ?? 'default';
}

/** What a static pod and its mirror have in common; no name and no namespace has a `_`. */
export function podFullName(pod: Pick<Pod, 'metadata'>): string {
  return `${pod.metadata.name}_${podNamespace(pod)}`;
}

/** `web_shop(5f3a…)`, as the kubelet writes it in events and messages. */
export function describePod(pod: Pick<Pod, 'metadata'>): string {
  return `${podFullName(pod)}(${podUid(pod)})`;
}

/** What the runtime calls a container that a status names with the runtime before it: `containerd://5f3a…`. */
export function bareContainerId(containerId: string): string {
  return containerId.replace(/^[^:]*:\/\//, '');
}

export type PodSource = 'file' | 'api';

// Where a pod came from. A node keeps these annotations to itself: it never writes them to a pod of the API server.
export const sourceAnnotation = 'kubernetes.io/config.source';
export const firstSeenAnnotation = 'kubernetes.io/config.seen';
export const mirrorAnnotation = 'kubernetes.io/config.mirror';
/** Set only on static pods; unlike the others it counts when pods are compared. */
export const hashAnnotation = 'kubernetes.io/config.hash';

/** What a node adds to its own copy of a pod, carried over when the pod is updated. */
export const localAnnotations: readonly string[] = [sourceAnnotation, firstSeenAnnotation, mirrorAnnotation];

export function annotationOf({ metadata }: Pick<Pod, 'metadata'>, name: string): string | undefined {
  return metadata.annotations?.[name];
}

/** A pod that did not come from an API server. */
export function isStaticPod(pod: Pick<Pod, 'metadata'>): boolean {
  const source = annotationOf(pod, sourceAnnotation);
  return source !== undefined && source !== 'api';
}

/** A pod of an API server that only shows a static one, which its node runs from a file. */
export function isMirrorPod(pod: Pick<Pod, 'metadata'>): boolean {
  return annotationOf(pod, mirrorAnnotation) !== undefined;
}

/** Priorities of `system-cluster-critical` and above. */
const criticalPriority = 2_000_000_000;

/** A pod that the node itself depends on: it is taken and kept also when there is little room. */
export function isCriticalPod(pod: Pick<Pod, 'metadata' | 'spec'>): boolean {
  return isStaticPod(pod) || isMirrorPod(pod) || (pod.spec.priority ?? 0) >= criticalPriority;
}

export function withAnnotations(pod: Pod, annotations: Readonly<Record<string, string>>): Pod {
  return { ...pod, metadata: { ...pod.metadata, annotations: { ...pod.metadata.annotations, ...annotations } } };
}
