/** What the volumes of a pod need on a node, how many volumes of a driver it can have, and what the driver can still make. Kept by watches. */
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { CsiDriver, CsiNode } from '../../kube/kinds/storage/csi.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { VolumeAttachment } from '../../kube/kinds/storage/volume-attachment.ts';
import { classOf, isOver, requestedBytes } from '../../kube/references/claims.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import type { LabelSelector } from '../../kube/schema/meta.ts';
import { requirementsMatch, requirementsOf } from '../../kube/values/labels.ts';
import { readQuantity } from '../../kube/values/quantity.ts';
import { type Cluster, type Kind, kindNamed } from '../cluster/cluster.ts';
import type { StorageView } from '../storage/storage-view.ts';
import {
  type Placement,
  type PodClaims,
  conflictOf,
  csiVolumeId,
  csiVolumesOf,
  placeClaims,
} from '../storage/volume-placement.ts';
import type { Room } from './node-rooms.ts';

/** Pods that have got a node, which the view does not show yet. */
export interface AboutToRun {
  readonly podsOn: (nodeName: string) => readonly Pod[];
  /** For the claim of another pod. */
  readonly isReserved: (volume: PersistentVolume) => boolean;
}

interface StorageCapacity extends KubeObject {
  readonly storageClassName?: string;
  readonly nodeTopology?: LabelSelector;
  readonly capacity?: string;
  readonly maximumVolumeSize?: string;
}

export class VolumeFit {
  readonly #storage: StorageView;
  readonly #nodes = new Map<string, KubeObject>();
  readonly #drivers = new Map<string, KubeObject>();
  readonly #attachments = new Map<string, KubeObject>();
  readonly #capacities = new Map<string, KubeObject>();

  constructor(storage: StorageView) {
    this.#storage = storage;
  }

  /** `changed` hears of what may make room, which one more attachment does not. Returns how to stop. */
  follow(cluster: Cluster, changed: () => void): () => void {
    const tables = [this.#nodes, this.#drivers, this.#attachments, this.#capacities];
    const stops = csiKinds(cluster).map((kind, index) =>
      cluster.watch(kind, ({ type, key, object }) => {
        const table = tables[index];
        const id = kind.namespaced ? key : object.metadata.name;
        if (type === 'put') table?.set(id, object);
        else table?.delete(id);
        if (type === 'delete' || table !== this.#attachments) changed();
      }),
    );
    return () => {
      for (const stop of stops) stop();
    };
  }

  /** What has to be written before the pod can be bound to the node, or why it cannot. */
  place(pod: Pod, claims: PodClaims, { node }: Room, about: AboutToRun): Placement | string {
    const { name } = node.metadata;
    const wanted = csiVolumesOf([pod], this.#storage);
    const csiNode = wanted.size === 0 ? undefined : (this.#nodes.get(name) as CsiNode | undefined);
    const problem = conflictOf(pod, claims, this.#storage) ?? this.#limitOf(wanted, name, csiNode, about);
    if (problem !== undefined) return problem;
    return placeClaims(claims, node, csiNode, this.#storage, {
      isReserved: about.isReserved,
      hasCapacity: (claim) => this.#hasCapacity(claim, node),
    });
  }

  /** Where the driver says what it can still make for which nodes, one of these figures has to be enough. */
  #hasCapacity(claim: PersistentVolumeClaim, node: Node): boolean {
    const className = classOf(claim);
    const { provisioner = '' } = this.#storage.classes.get(className) ?? {};
    const driver = this.#drivers.get(provisioner) as CsiDriver | undefined;
    if (driver?.spec.storageCapacity !== true) return true;
    return [...this.#capacities.values()].some((object) => {
      const { storageClassName, nodeTopology, capacity, maximumVolumeSize = capacity } = object as StorageCapacity;
      if (storageClassName !== className || nodeTopology === undefined) return false;
      const most = readQuantity(maximumVolumeSize)?.value() ?? -1n;
      return (
        most >= requestedBytes(claim) && requirementsMatch(requirementsOf(nodeTopology), node.metadata.labels ?? {})
      );
    });
  }

  /** Why the node cannot have the pod's CSI volumes besides those of its pods and those that are still attached. */
  #limitOf(
    wanted: ReadonlyMap<string, string>,
    name: string,
    csiNode: CsiNode | undefined,
    about: AboutToRun,
  ): string | undefined {
    const { drivers = [] } = csiNode?.spec ?? {};
    for (const driver of new Set(wanted.values())) {
      const { spec } = (this.#drivers.get(driver) as CsiDriver | undefined) ?? {};
      const isMissing = spec?.preventPodSchedulingIfMissing === true && !drivers.some((one) => one.name === driver);
      if (isMissing) return `${driver} CSI driver is not installed on the node`;
    }
    const limits = drivers.flatMap(({ name: driver, allocatable }) =>
      allocatable?.count === undefined ? [] : [[driver, allocatable.count] as const],
    );
    if (limits.length === 0) return undefined;
    const others = this.#storage.podsOn(name).filter((other) => !isOver(other));
    const present = csiVolumesOf([...others, ...about.podsOn(name)], this.#storage);
    const added = [...wanted].filter(([volume]) => !present.has(volume));
    for (const [volume, driver] of this.#attachedTo(name)) present.set(volume, driver);
    const countOf = (volumes: Iterable<readonly [string, string]>, driver: string): number =>
      [...volumes].filter(([, one]) => one === driver).length;
    const isFull = limits.some(([driver, most]) => {
      const count = countOf(added, driver);
      return count > 0 && countOf(present, driver) + count > most;
    });
    return isFull ? 'node(s) exceed max volume count' : undefined;
  }

  #attachedTo(node: string): readonly (readonly [volume: string, driver: string])[] {
    return [...this.#attachments.values()].flatMap((object) => {
      const { nodeName, attacher, source } = (object as VolumeAttachment).spec;
      const { csi } = this.#storage.volumes.get(source.persistentVolumeName ?? '')?.spec ?? {};
      if (nodeName !== node || csi === undefined) return [];
      return [[csiVolumeId(attacher, csi.volumeHandle), attacher] as const];
    });
  }
}

/** What drivers, and the volumes on nodes, say of how many more there can be. */
export function csiKinds(cluster: Cluster): readonly Kind[] {
  return ['CSINode', 'CSIDriver', 'VolumeAttachment', 'CSIStorageCapacity'].map((name) =>
    kindNamed(cluster, 'storage.k8s.io/v1', name),
  );
}
