/**
 * Which objects have to do with which node: those that a pod on the node names, behind its claims the volumes and
 * their secrets, and what is attached to the node. It gets every change of them and answers at once, from memory.
 *
 * An API server builds the same graph from watches, so that a pod that was bound a moment ago may still be refused its
 * Secrets. Here the graph gets a write before any client can see it, so there is no such gap.
 * Access ends when the pod object is gone, not when the pod has finished.
 */
import { isMirrorPod } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { VolumeAttachment } from '../../kube/kinds/storage/volume-attachment.ts';
import { type ReferencedKind, referencesOf } from '../../kube/references/pod-references.ts';
import { objectPrefix, parseStored, placeOfKey } from '../model/stored-objects.ts';
import type { Change, ListResult, Store } from '../store/store.ts';

export type RelatedKind =
  | 'secret'
  | 'configMap'
  | 'serviceAccount'
  | 'claim'
  | 'persistentVolume'
  | 'pod'
  | 'volumeAttachment';

/** All that authorisation wants to know. `namespace` is empty for objects that live in none. */
export interface NodeRelations {
  isRelated(node: string, kind: RelatedKind, namespace: string, name: string): boolean;
}

interface PodEntry {
  readonly node: string;
  readonly references: readonly string[];
}
interface VolumeEntry {
  readonly claim: string;
  readonly secrets: readonly string[];
}

export class NodeGraph implements NodeRelations {
  readonly #pods = new Map<string, PodEntry>();
  /** For each object how many pods of each node name it. */
  readonly #uses = new Map<string, Map<string, number>>();
  readonly #volumes = new Map<string, VolumeEntry>();
  readonly #volumesOfSecret = new Map<string, Set<string>>();
  /** Name to node. */
  readonly #attachments = new Map<string, string>();

  podChanged(pod: Pod): void {
    const { namespace = '', name } = pod.metadata;
    this.podDeleted(namespace, name);
    const node = pod.spec.nodeName ?? '';
    if (node === '') return;
    // A node creates mirror pods by itself. If they counted, it could give itself access to whatever it likes.
    const references = isMirrorPod(pod) ? [] : keysOf(pod);
    this.#pods.set(keyOf('pod', namespace, name), { node, references });
    for (const reference of references) this.#count(reference, node, 1);
  }

  podDeleted(namespace: string, name: string): void {
    const key = keyOf('pod', namespace, name);
    const entry = this.#pods.get(key);
    if (entry === undefined) return;
    this.#pods.delete(key);
    for (const reference of entry.references) this.#count(reference, entry.node, -1);
  }

  persistentVolumeChanged(volume: PersistentVolume): void {
    const { name } = volume.metadata;
    this.persistentVolumeDeleted(name);
    const { claimRef } = volume.spec;
    if (claimRef === undefined) return;
    const secrets = persistentVolumeSecrets(volume).map((secret) => keyOf('secret', secret.namespace, secret.name));
    this.#volumes.set(name, { claim: keyOf('claim', claimRef.namespace ?? '', claimRef.name ?? ''), secrets });
    for (const secret of secrets) {
      const volumes = this.#volumesOfSecret.get(secret) ?? new Set();
      this.#volumesOfSecret.set(secret, volumes.add(name));
    }
  }

  persistentVolumeDeleted(name: string): void {
    for (const secret of this.#volumes.get(name)?.secrets ?? []) {
      const volumes = this.#volumesOfSecret.get(secret);
      volumes?.delete(name);
      if (volumes?.size === 0) this.#volumesOfSecret.delete(secret);
    }
    this.#volumes.delete(name);
  }

  volumeAttachmentChanged({ metadata: { name }, spec: { nodeName } }: VolumeAttachment): void {
    this.#attachments.set(name, nodeName);
  }

  volumeAttachmentDeleted(name: string): void {
    this.#attachments.delete(name);
  }

  isRelated(node: string, kind: RelatedKind, namespace: string, name: string): boolean {
    if (kind === 'volumeAttachment') return this.#attachments.get(name) === node;
    const key = keyOf(kind, namespace, name);
    if (kind === 'pod') return this.#pods.get(key)?.node === node;
    if (kind === 'persistentVolume') return this.#usesVolume(node, name);
    if (this.#isUsed(key, node)) return true;
    if (kind !== 'secret') return false;
    return [...(this.#volumesOfSecret.get(key) ?? [])].some((volume) => this.#usesVolume(node, volume));
  }

  #usesVolume(node: string, name: string): boolean {
    const claim = this.#volumes.get(name)?.claim;
    return claim !== undefined && this.#isUsed(claim, node);
  }

  #isUsed(key: string, node: string): boolean {
    return this.#uses.get(key)?.has(node) ?? false;
  }

  #count(key: string, node: string, change: 1 | -1): void {
    const nodes = this.#uses.get(key) ?? new Map<string, number>();
    const count = (nodes.get(node) ?? 0) + change;
    if (count > 0) nodes.set(node, count);
    else nodes.delete(node);
    if (nodes.size > 0) this.#uses.set(key, nodes);
    else this.#uses.delete(key);
  }
}

/** What a pod's node may read because of it; the other references need no permission or cannot be given one. */
const relatedKinds: Partial<Record<ReferencedKind, RelatedKind>> = {
  Secret: 'secret',
  ConfigMap: 'configMap',
  PersistentVolumeClaim: 'claim',
  ServiceAccount: 'serviceAccount',
};

/** The account counts whether or not a token is mounted, and optional references count like others. */
function keysOf(pod: Pod): readonly string[] {
  const { namespace = '' } = pod.metadata;
  const keys = referencesOf(pod).flatMap(({ kind, name }) => {
    const related = relatedKinds[kind];
    return related === undefined || name === '' ? [] : [keyOf(related, namespace, name)];
  });
  return [...new Set(keys)];
}

/** No name contains a slash. */
function keyOf(kind: RelatedKind, namespace: string, name: string): string {
  return `${kind}/${namespace}/${name}`;
}

interface SecretName {
  readonly namespace: string;
  readonly name: string;
}

/** Secrets that the node needs to mount it. Those that only the controller of a CSI driver uses are not among them. */
function persistentVolumeSecrets({ spec }: PersistentVolume): readonly SecretName[] {
  const claimNamespace = spec.claimRef?.namespace ?? '';
  const { azureFile, csi } = spec;
  const references = [spec.cephfs, spec.flexVolume, spec.rbd, spec.scaleIO, spec.iscsi].map((source) =>
    referenceIn(source, claimNamespace),
  );
  const strictReferences = [spec.cinder, spec.storageos].map((source) => referenceIn(source, ''));
  const azure = {
    namespace: textIn(azureFile, 'secretNamespace') || claimNamespace,
    name: textIn(azureFile, 'secretName'),
  };
  const csiSecrets = [csi?.nodePublishSecretRef, csi?.nodeStageSecretRef, csi?.nodeExpandSecretRef].map(
    ({ namespace = '', name = '' } = {}) => ({ namespace, name }),
  );
  return [...references, ...strictReferences, azure, ...csiSecrets].filter(({ name }) => name !== '');
}

/** Sources that no plugin of ours reads have no shape, so what they hold may be anything. */
function textIn(source: unknown, key: string): string {
  const value = typeof source === 'object' && source !== null ? (source as Record<string, unknown>)[key] : undefined;
  return typeof value === 'string' ? value : '';
}

function referenceIn(source: unknown, defaultNamespace: string): SecretName {
  const reference =
    typeof source === 'object' && source !== null && 'secretRef' in source ? source.secretRef : undefined;
  return { namespace: textIn(reference, 'namespace') || defaultNamespace, name: textIn(reference, 'name') };
}

const podPrefix = objectPrefix({ group: '', plural: 'pods', namespaced: true });
const volumePrefix = objectPrefix({ group: '', plural: 'persistentvolumes', namespaced: false });
const attachmentPrefix = objectPrefix({ group: 'storage.k8s.io', plural: 'volumeattachments', namespaced: false });

export function followNodeGraph(store: Store): { readonly graph: NodeGraph; readonly unfollow: () => void } {
  const graph = new NodeGraph();
  const unfollow = store.subscribe((changes) => {
    for (const change of changes) apply(graph, change);
  });
  // A pod that cannot be read gives its node no rights.
  const read = (prefix: string): ListResult => store.list({ prefix, leavesOutDamaged: true });
  for (const { value } of read(podPrefix).items) graph.podChanged(parseStored(value) as Pod);
  for (const { value } of read(volumePrefix).items) {
    graph.persistentVolumeChanged(parseStored(value) as PersistentVolume);
  }
  for (const { value } of read(attachmentPrefix).items) {
    graph.volumeAttachmentChanged(parseStored(value) as VolumeAttachment);
  }
  return { graph, unfollow };
}

function apply(graph: NodeGraph, { type, key, value }: Change): void {
  if (key.startsWith(podPrefix)) {
    const { namespace, name } = placeOfKey(key);
    if (type === 'delete') graph.podDeleted(namespace, name);
    // A pod without a node gives no rights, and may be too large to parse for nothing.
    else if (value.includes('"nodeName":"')) graph.podChanged(parseStored(value) as Pod);
  } else if (key.startsWith(volumePrefix)) {
    if (type === 'delete') graph.persistentVolumeDeleted(placeOfKey(key).name);
    else graph.persistentVolumeChanged(parseStored(value) as PersistentVolume);
  } else if (key.startsWith(attachmentPrefix)) {
    if (type === 'delete') graph.volumeAttachmentDeleted(placeOfKey(key).name);
    else graph.volumeAttachmentChanged(parseStored(value) as VolumeAttachment);
  }
}
