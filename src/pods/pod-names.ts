/** How a pod is called: in keys, and in the texts that users see. */
import type { Pod } from '../kube/objects/pod.ts';

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
