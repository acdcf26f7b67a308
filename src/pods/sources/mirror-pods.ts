/** Mirror pods, by which an API server shows the static pods of a node. Deleting one does not stop the static pod. */
import { OperatingError } from '../../base/errors.ts';
import {
  annotationOf,
  hashAnnotation,
  mirrorAnnotation,
  podNamespace,
  podUid,
  withAnnotations,
} from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { withoutReferences } from '../../kube/references/pod-references.ts';

/** Where mirrors are kept. */
export interface MirrorApi {
  /** Read from the server, not from a cache; undefined if there is none. */
  get(namespace: string, name: string, signal: AbortSignal): Promise<Pod | undefined>;
  /** False if there is a pod of this name already. */
  create(pod: Pod, signal: AbortSignal): Promise<boolean>;
  /** Without grace, and only the pod with this UID. Succeeds if it is gone or was replaced. */
  delete(namespace: string, name: string, uid: string, signal: AbortSignal): Promise<void>;
}

export interface MirrorOwner {
  readonly name: string;
  readonly uid: string;
}

export function mirrorPodOf(pod: Pod, node: MirrorOwner): Pod {
  const { uid: _uid, resourceVersion: _version, ...metadata } = pod.metadata;
  const owner = { apiVersion: 'v1', kind: 'Node', name: node.name, uid: node.uid, controller: true };
  const copy = { ...withoutReferences(pod), metadata: { ...metadata, ownerReferences: [owner] } };
  return withAnnotations(copy, { [mirrorAnnotation]: annotationOf(pod, hashAnnotation) ?? '' });
}

export function isMirrorOf(mirror: Pod, pod: Pod): boolean {
  const { deletionTimestamp } = mirror.metadata;
  return (
    deletionTimestamp === undefined && annotationOf(mirror, mirrorAnnotation) === annotationOf(pod, hashAnnotation)
  );
}

/** Makes the API server show `pod`. The node owns the mirror, so there is none before the API server knows the node. */
export async function reconcileMirror(
  api: MirrorApi,
  pod: Pod,
  mirror: Pod | undefined,
  node: MirrorOwner | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (mirror !== undefined && isMirrorOf(mirror, pod)) return;
  if (mirror !== undefined) await deleteMirror(api, mirror, signal);
  if (node === undefined) return;
  if (await api.create(mirrorPodOf(pod, node), signal)) return;
  const existing = await api.get(podNamespace(pod), pod.metadata.name, signal);
  if (existing !== undefined && isMirrorOf(existing, pod)) return;
  throw new OperatingError(
    'FailedCreateMirrorPod',
    `Cannot show static pod "${podNamespace(pod)}/${pod.metadata.name}" at the API server: another pod has its name; delete that one`,
  );
}

export async function deleteMirror(api: MirrorApi, mirror: Pod, signal: AbortSignal): Promise<void> {
  await api.delete(podNamespace(mirror), mirror.metadata.name, podUid(mirror), signal);
}
