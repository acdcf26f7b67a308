/**
 * What should be attached where: the volumes of pods that have a node and have not ended. A volume that cannot be resolved any more
 * stays as it was for its pod: what a pod uses must not be taken from it because an object is missing for a moment.
 */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Volume } from '../../kube/kinds/pod/volume.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { VolumeAttachment } from '../../kube/kinds/storage/volume-attachment.ts';
import { isTerminated } from '../../kube/references/claims.ts';
import { type CsiVolume, csiVolumeName, isForOneNode } from '../../kube/references/csi-volumes.ts';
import { migratedKindOf } from '../../kube/references/csi-translation.ts';
import {
  type VolumeSpec,
  claimNameOf,
  inlineSpec,
  isMadeFor,
  persistentSpec,
  translatedSpec,
} from '../../kube/references/volume-spec.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { type StorageView, claimId } from '../storage/storage-view.ts';

export interface DesiredVolume {
  readonly volume: string;
  readonly csi: CsiVolume;
  readonly specName: string;
  readonly source: VolumeAttachment['spec']['source'];
  readonly isForOneNode: boolean;
}

/** `unknown` while an object is missing or not bound; undefined for a volume that is not attached. */
type Unresolved = 'unknown' | undefined;

interface DesiredPod {
  readonly uid: string | undefined;
  readonly node: string;
  /** Enough of the pod for an Event about it. */
  readonly about: KubeObject;
  /** By the name that the pod gives it. */
  readonly volumes: ReadonlyMap<string, DesiredVolume>;
}

type StorageObjects = Pick<StorageView, 'claims' | 'volumes'>;

export class DesiredAttachments {
  readonly #objects: StorageObjects;
  readonly #touched: (volume: string) => void;
  readonly #pods = new Map<string, DesiredPod>();
  /** Keys of pods by volume. */
  readonly #users = new Map<string, Set<string>>();
  /** Drivers whose volumes are mounted without being attached. */
  readonly #withoutAttach = new Set<string>();
  /** By node: the kinds of volumes that it hands to their drivers, though they are written without one. */
  readonly #migrated = new Map<string, string>();

  constructor(objects: StorageObjects, touched: (volume: string) => void) {
    this.#objects = objects;
    this.#touched = touched;
  }

  /** Whether that is news: then pods have to be set again. */
  setDriver(name: string, attachRequired: boolean): boolean {
    if (this.#withoutAttach.has(name) !== attachRequired) return false;
    if (attachRequired) this.#withoutAttach.delete(name);
    else this.#withoutAttach.add(name);
    return true;
  }

  /** The same for a node; `plugins` as its CSINode has them. */
  setMigrated(node: string, plugins: string): boolean {
    const isNews = (this.#migrated.get(node) ?? '') !== plugins;
    if (plugins === '') this.#migrated.delete(node);
    else this.#migrated.set(node, plugins);
    return isNews;
  }

  /** Undefined: it is gone. */
  setPod(key: string, pod: Pod | undefined): void {
    const before = this.#pods.get(key);
    const after = pod && this.#desiredPod(pod, before);
    if (after === undefined) this.#pods.delete(key);
    else this.#pods.set(key, after);
    const [left, joined] = [placesOf(before), placesOf(after)];
    const used = new Set(joined.values());
    for (const volume of used) this.#users.set(volume, (this.#users.get(volume) ?? new Set()).add(key));
    for (const volume of left.values()) {
      const users = this.#users.get(volume);
      if (!used.has(volume)) users?.delete(key);
      if (users?.size === 0) this.#users.delete(volume);
    }
    for (const [place, volume] of [...left, ...joined])
      if (left.has(place) !== joined.has(place)) this.#touched(volume);
  }

  volumes(): Iterable<string> {
    return this.#users.keys();
  }

  /** How the volume is attached, by a pod that uses it. */
  get(volume: string): DesiredVolume | undefined {
    for (const { volumes } of this.#podsOf(volume)) {
      for (const each of volumes.values()) if (each.volume === volume) return each;
    }
    return undefined;
  }

  /** In the order in which its pods came. */
  nodesOf(volume: string): ReadonlySet<string> {
    return new Set(this.#podsOf(volume).map(({ node }) => node));
  }

  podsOn(volume: string, nodes: readonly string[]): readonly KubeObject[] {
    return this.#podsOf(volume).flatMap(({ node, about }) => (nodes.includes(node) ? [about] : []));
  }

  #podsOf(volume: string): readonly DesiredPod[] {
    return [...(this.#users.get(volume) ?? [])].flatMap((key) => this.#pods.get(key) ?? []);
  }

  #desiredPod(pod: Pod, before: DesiredPod | undefined): DesiredPod | undefined {
    const { name, namespace = '', uid } = pod.metadata;
    const { nodeName = '' } = pod.spec;
    if (nodeName === '' || isTerminated(pod)) return undefined;
    const volumes = new Map<string, DesiredVolume>();
    for (const volume of pod.spec.volumes ?? []) {
      const resolved = this.#resolve(pod, volume);
      const desired = resolved === 'unknown' ? before?.uid === uid && before?.volumes.get(volume.name) : resolved;
      if (desired && !this.#withoutAttach.has(desired.csi.driver)) volumes.set(volume.name, desired);
    }
    if (volumes.size === 0) return undefined;
    return {
      uid,
      node: nodeName,
      about: { metadata: { name, namespace, ...(uid !== undefined && { uid }) } },
      volumes,
    };
  }

  #resolve(pod: Pod, volume: Volume): DesiredVolume | Unresolved {
    const claimName = claimNameOf(pod, volume);
    if (claimName === undefined) return this.#translated(pod, inlineSpec(volume), volume);
    const claim = this.#objects.claims.get(claimId(pod.metadata.namespace, claimName));
    if (claim === undefined || claim.status?.phase !== 'Bound') return 'unknown';
    if (volume.ephemeral !== undefined && !isMadeFor(pod, claim)) return 'unknown';
    const found = this.#objects.volumes.get(claim.spec.volumeName ?? '');
    if (found === undefined || found.spec.claimRef?.uid !== claim.metadata.uid) return 'unknown';
    return this.#translated(pod, persistentSpec(found, false), found.spec);
  }

  #translated(pod: Pod, spec: VolumeSpec, source: Parameters<typeof migratedKindOf>[0]): DesiredVolume | Unresolved {
    const { nodeName = '' } = pod.spec;
    const kind = migratedKindOf(source);
    if (kind !== undefined && this.#migrated.get(nodeName)?.split(',').includes(kind.plugin) !== true) return 'unknown';
    return desiredVolume(spec, pod.metadata.namespace);
  }
}

/** What a VolumeAttachment attaches; undefined where that is unknown. */
export function csiVolumeIn(
  { spec: { source } }: VolumeAttachment,
  volumes: StorageObjects['volumes'],
): CsiVolume | undefined {
  const { csi } = (source.inlineVolumeSpec ?? {}) as Partial<PersistentVolume['spec']>;
  const found = volumes.get(source.persistentVolumeName ?? '');
  const volume = found && desiredVolume(persistentSpec(found, false));
  return csi ?? (volume === 'unknown' ? undefined : volume?.csi);
}

function desiredVolume(given: VolumeSpec, namespace = ''): DesiredVolume | Unresolved {
  let spec: VolumeSpec;
  try {
    spec = translatedSpec(given, namespace);
  } catch {
    // A volume of an old kind that its driver cannot have. The pod says so, by its node.
    return 'unknown';
  }
  const { persistentVolume } = spec;
  const csi = persistentVolume?.spec.csi;
  if (persistentVolume === undefined || csi === undefined) return undefined;
  const { name } = persistentVolume.metadata;
  return {
    volume: csiVolumeName(csi),
    csi,
    specName: name,
    // The API has no object of one that is written in a pod: it is attached by all that is known of it.
    source: spec.isInline === true ? { inlineVolumeSpec: persistentVolume.spec } : { persistentVolumeName: name },
    isForOneNode: isForOneNode(persistentVolume),
  };
}

/** Volumes of a pod, by what would have to be attached where. */
function placesOf(pod: DesiredPod | undefined): ReadonlyMap<string, string> {
  if (pod === undefined) return new Map();
  return new Map([...pod.volumes.values()].map(({ volume }) => [`${pod.uid} ${pod.node} ${volume}`, volume]));
}
