/**
 * What is known of claims, volumes, classes and the pods that use claims, kept by watches and shared by the loops that need it.
 * Over HTTP it may lag behind: a write checks what is there at that moment.
 */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { StorageClass } from '../../kube/kinds/storage/storage-class.ts';
import { claimNamesOf } from '../../kube/references/claims.ts';
import { migrations } from '../../kube/references/csi-migrations.ts';
import { type Cluster, type Kind, type ObjectChange, coreKind, kindNamed } from '../cluster/cluster.ts';
import { VolumeIndex } from './volume-index.ts';

/** `namespace/name`. */
export type ClaimId = string;

export interface StorageFollower {
  volumeChanged?(name: string, volume: PersistentVolume | undefined, before: PersistentVolume | undefined): void;
  claimChanged?(id: ClaimId, claim: PersistentVolumeClaim | undefined, before: PersistentVolumeClaim | undefined): void;
  classChanged?(name: string): void;
  /** Also when it is new, or gone. */
  podChanged?(key: string, pod: Pod | undefined, before: Pod | undefined): void;
  /** All that there was has been reported. */
  started?(): void;
}

export class StorageView {
  readonly volumes = new VolumeIndex();
  readonly claims = new Map<ClaimId, PersistentVolumeClaim>();
  readonly classes = new Map<string, StorageClass>();
  readonly kinds: { readonly claim: Kind; readonly volume: Kind; readonly storageClass: Kind; readonly pod: Kind };
  readonly #cluster: Cluster;
  readonly #hasPods: boolean;
  readonly #followers = new Set<StorageFollower>();
  /** Pods that name claims, or disks of a CSI driver, by key. */
  readonly #pods = new Map<string, Pod>();
  readonly #podsOfClaim = new Map<ClaimId, Set<string>>();

  constructor(cluster: Cluster, hasPods: boolean) {
    this.#cluster = cluster;
    this.#hasPods = hasPods;
    this.kinds = {
      claim: coreKind(cluster, 'PersistentVolumeClaim'),
      volume: coreKind(cluster, 'PersistentVolume'),
      storageClass: kindNamed(cluster, 'storage.k8s.io/v1', 'StorageClass'),
      pod: coreKind(cluster, 'Pod'),
    };
  }

  /** Reports the claims and volumes that are known already, then each change. Returns how to stop. */
  follow(follower: StorageFollower): () => void {
    this.#followers.add(follower);
    for (const [id, claim] of this.claims) follower.claimChanged?.(id, claim, undefined);
    for (const volume of this.volumes.all()) follower.volumeChanged?.(volume.metadata.name, volume, undefined);
    return () => this.#followers.delete(follower);
  }

  /** All at once: a claim whose volume is not known yet would be taken for lost. Returns how to stop. */
  async start(): Promise<() => void> {
    const { claim, volume, storageClass, pod } = this.kinds;
    await this.#cluster.ready([storageClass, volume, claim, ...(this.#hasPods ? [pod] : [])]);
    const stops = [
      this.#cluster.watch(storageClass, ({ type, object }) => {
        const { name } = object.metadata;
        if (type === 'put') this.classes.set(name, object as StorageClass);
        else this.classes.delete(name);
        for (const follower of this.#followers) follower.classChanged?.(name);
      }),
      this.#cluster.watch(volume, ({ type, object }) => {
        this.#setVolume(object.metadata.name, type === 'put' ? (object as PersistentVolume) : undefined);
      }),
      this.#cluster.watch(claim, ({ type, object }) => {
        const id = claimId(object.metadata.namespace, object.metadata.name);
        this.#setClaim(id, type === 'put' ? (object as PersistentVolumeClaim) : undefined);
      }),
    ];
    if (this.#hasPods) stops.push(this.#cluster.watch(pod, (change) => this.#podChanged(change)));
    for (const follower of this.#followers) follower.started?.();
    return () => {
      for (const stop of stops) stop();
    };
  }

  pods(): Iterable<Pod> {
    return this.#pods.values();
  }

  /** Pods that name the claim, scheduled or not, in whatever phase. */
  podsUsing(id: ClaimId): readonly Pod[] {
    return [...(this.#podsOfClaim.get(id) ?? [])].flatMap((key) => this.#pods.get(key) ?? []);
  }

  /** Pods with such volumes that have this node. */
  podsOn(nodeName: string): readonly Pod[] {
    return [...this.#pods.values()].filter(({ spec }) => spec.nodeName === nodeName);
  }

  keyOfVolume(name: string): string {
    return this.#cluster.keyOf(this.kinds.volume, '', name);
  }

  keyOfClaim(id: ClaimId): string {
    const [namespace = '', name = ''] = id.split('/');
    return this.#cluster.keyOf(this.kinds.claim, namespace, name);
  }

  #podChanged(change: ObjectChange): void {
    // Most pods have no claims, and a large pod takes long to read.
    const isOurs = storageWords.some((word) => change.mentions(word));
    if (!isOurs && !this.#pods.has(change.key)) return;
    this.#setPod(change.key, change.type === 'put' && isOurs ? (change.object as Pod) : undefined);
  }

  #setVolume(name: string, volume: PersistentVolume | undefined): void {
    const before = this.volumes.get(name);
    this.volumes.set(name, volume);
    for (const follower of this.#followers) follower.volumeChanged?.(name, volume, before);
  }

  #setClaim(id: ClaimId, claim: PersistentVolumeClaim | undefined): void {
    const before = this.claims.get(id);
    if (claim === undefined) this.claims.delete(id);
    else this.claims.set(id, claim);
    for (const follower of this.#followers) follower.claimChanged?.(id, claim, before);
  }

  #setPod(key: string, pod: Pod | undefined): void {
    const before = this.#pods.get(key);
    for (const id of claimIdsOf(before)) {
      const keys = this.#podsOfClaim.get(id);
      keys?.delete(key);
      if (keys?.size === 0) this.#podsOfClaim.delete(id);
    }
    if (pod === undefined) this.#pods.delete(key);
    else this.#pods.set(key, pod);
    for (const id of claimIdsOf(pod)) {
      this.#podsOfClaim.set(id, (this.#podsOfClaim.get(id) ?? new Set()).add(key));
    }
    for (const follower of this.#followers) follower.podChanged?.(key, pod, before);
  }
}

const storageWords = ['claimName', 'volumeClaimTemplate', ...migrations.map(([source]) => source)];

export function claimId(namespace: string | undefined, name: string | undefined): ClaimId {
  return `${namespace ?? ''}/${name ?? ''}`;
}

export function claimIdsOf(pod: Pod | undefined): readonly ClaimId[] {
  return pod === undefined ? [] : claimNamesOf(pod).map((name) => claimId(pod.metadata.namespace, name));
}
