/**
 * Which objects have to do with which node: those that a pod on the node names, and behind its claims the volumes and
 * their secrets. Told of every change of a pod or PersistentVolume, it answers at once and from memory.
 *
 * An API server builds the same graph from watches, so that a pod that was bound a moment ago may still be refused its
 * Secrets. Here the one who writes a pod also tells the graph, before anybody can know of the write: there is no gap.
 * Access ends when the pod object is gone, not when the pod has finished.
 */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import { claimNames, configMapNames, isMirrorPod, persistentVolumeSecrets, secretNames } from './pod-references.ts';

export type RelatedKind = 'secret' | 'configMap' | 'serviceAccount' | 'claim' | 'persistentVolume' | 'pod';

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

  podChanged(pod: Pod): void {
    const { namespace = '', name } = pod.metadata;
    this.podDeleted(namespace, name);
    const node = pod.spec.nodeName ?? '';
    if (node === '') return;
    // A node creates mirror pods by itself. If they counted, it could give itself access to whatever it likes.
    const references = isMirrorPod(pod) ? [] : referencesOf(pod);
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

  isRelated(node: string, kind: RelatedKind, namespace: string, name: string): boolean {
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

/** The account counts whether or not a token is mounted, and optional references count like others. */
function referencesOf(pod: Pod): readonly string[] {
  const { namespace = '' } = pod.metadata;
  const account = pod.spec.serviceAccountName ?? '';
  return [
    ...secretNames(pod).map((name) => keyOf('secret', namespace, name)),
    ...configMapNames(pod).map((name) => keyOf('configMap', namespace, name)),
    ...claimNames(pod).map((name) => keyOf('claim', namespace, name)),
    ...(account === '' ? [] : [keyOf('serviceAccount', namespace, account)]),
  ];
}

/** No name contains a slash. */
function keyOf(kind: RelatedKind, namespace: string, name: string): string {
  return `${kind}/${namespace}/${name}`;
}
