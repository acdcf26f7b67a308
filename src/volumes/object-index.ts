/**
 * Who shows which object: from a ConfigMap or Secret to the mounts whose files come from it. A change of one object costs
 * as much as it has mounts, however many others the node has.
 */
import type { Volume } from '../kube/kinds/pod/volume.ts';
import { shownReferences } from '../kube/object-references.ts';
import type { MountId, PodUid, VolumeName } from './mount-id.ts';

export interface ObjectRef {
  readonly kind: 'ConfigMap' | 'Secret' | 'ClusterTrustBundle';
  /** Empty for kinds that have none. */
  readonly namespace: string;
  readonly name: string;
}

export class ObjectIndex {
  readonly #mounts = new Map<string, Map<VolumeName, Set<PodUid>>>();

  add(volume: Volume, namespace: string, { volume: name, podUid }: MountId): void {
    for (const key of keysOf(volume, namespace)) {
      const users = this.#mounts.get(key) ?? new Map<VolumeName, Set<PodUid>>();
      this.#mounts.set(key, users.set(name, (users.get(name) ?? new Set()).add(podUid)));
    }
  }

  /** With the very volume that was added, so that nothing of it stays behind. */
  remove(volume: Volume, namespace: string, { volume: name, podUid }: MountId): void {
    for (const key of keysOf(volume, namespace)) {
      const users = this.#mounts.get(key);
      const pods = users?.get(name);
      pods?.delete(podUid);
      if (pods?.size === 0) users?.delete(name);
      if (users?.size === 0) this.#mounts.delete(key);
    }
  }

  /** A list of its own: whoever goes through it may change what is wanted. */
  showing({ kind, namespace, name }: ObjectRef): readonly MountId[] {
    const users = this.#mounts.get(kind === 'ClusterTrustBundle' ? anyTrustBundle : keyOf(kind, namespace, name));
    return [...(users ?? [])].flatMap(([volume, pods]) => [...pods].map((podUid) => ({ volume, podUid })));
  }

  get size(): number {
    return this.#mounts.size;
  }
}

/** Bundles are chosen by name or by signer and labels: a change of any is a reason to look at every volume that has some. */
const anyTrustBundle = 'ClusterTrustBundle';

function keysOf(volume: Volume, namespace: string): readonly string[] {
  const { configMaps, secrets } = shownReferences(volume);
  const keys = [
    ...[...configMaps].map((name) => keyOf('ConfigMap', namespace, name)),
    ...[...secrets].map((name) => keyOf('Secret', namespace, name)),
  ];
  const showsBundles = volume.projected?.sources?.some(({ clusterTrustBundle }) => clusterTrustBundle !== undefined);
  return showsBundles === true ? [...keys, anyTrustBundle] : keys;
}

function keyOf(kind: string, namespace: string, name: string): string {
  return `${kind}/${namespace}/${name}`;
}
