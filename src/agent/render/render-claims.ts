/**
 * The claims of a rendering, bound to the volumes of the manifests by the rules of the cluster's own binder. A claim that no volume
 * is bound to is treated as by a cluster with a provisioner: it gets a volume, which is shown as an empty directory.
 */
import { type ClaimStep, claimed, planClaim, planVolume } from '../../controllers/storage/binding.ts';
import { VolumeIndex } from '../../controllers/storage/volume-index.ts';
import { isReachable } from '../../controllers/storage/volume-placement.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Volume } from '../../kube/kinds/pod/volume.ts';
import { type PersistentVolumeClaim, claimKind } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { type PersistentVolume, persistentVolumeKind } from '../../kube/kinds/storage/persistent-volume.ts';
import { type StorageClass, storageClassKind } from '../../kube/kinds/storage/storage-class.ts';
import type { Manifests } from '../../kube/manifests/manifests.ts';
import { ephemeralClaim } from '../../kube/references/claim-templates.ts';
import { classOf, wantsDefaultClass } from '../../kube/references/claims.ts';
import type { ClaimReader, VolumeSpec } from '../../kube/references/volume-spec.ts';
import type { Note } from './render-node.ts';

/** The claims as one pod finds them on its node. */
export interface PodClaims extends ClaimReader {
  /** What is put on disk for a volume of the pod: an empty directory in place of a volume that a cluster would provision. */
  shown(volume: Volume, spec: VolumeSpec): VolumeSpec;
}

export class RenderClaims {
  readonly #note: Note;
  readonly #classes: ReadonlyMap<string, StorageClass>;
  readonly #volumes = new VolumeIndex();
  /** By `namespace/name`. */
  readonly #claims = new Map<string, PersistentVolumeClaim>();
  /** Names of volumes that stand for what a cluster would provision. */
  readonly #provisioned = new Set<string>();
  /** Why a claim cannot have the volume that it names. */
  readonly #refusals = new Map<PersistentVolumeClaim, string>();

  constructor(manifests: Manifests, note: Note) {
    this.#note = note;
    this.#classes = new Map(manifests.all(storageClassKind).map((one) => [one.metadata.name, one]));
    for (const volume of manifests.all(persistentVolumeKind)) {
      const step = planVolume(volume, undefined);
      const status = step.kind === 'phase' ? { ...volume.status, phase: step.phase } : (volume.status ?? {});
      this.#volumes.set(volume.metadata.name, { ...volume, status });
    }
    // A claim that names its volume goes first, so that no other takes it.
    const isOpen = ({ spec }: PersistentVolumeClaim): number => ((spec.volumeName ?? '') === '' ? 1 : 0);
    for (const claim of manifests.all(claimKind).toSorted((a, b) => isOpen(a) - isOpen(b))) this.#bind(claim);
  }

  of(pod: Pod, node: Node): PodClaims {
    for (const volume of pod.spec.volumes ?? []) {
      const claim = ephemeralClaim(pod, volume);
      if (claim !== undefined && !this.#claims.has(idOf(claim))) this.#bind(claimKind.complete(claim));
    }
    return {
      claim: (namespace, name) => {
        const id = `${namespace}/${name}`;
        const claim = this.#claims.get(id);
        const refusal = claim && this.#refusals.get(claim);
        if (refusal !== undefined) this.#note(`PersistentVolumeClaim ${id}: ${refusal}`);
        else if (claim !== undefined && claim.status?.phase !== 'Bound') this.#bindOn(claim, node);
        return this.#claims.get(id);
      },
      persistentVolume: (name) => this.#volumes.get(name),
      shown: (volume, spec) => this.#shown(volume, spec),
    };
  }

  /** All but claims of classes that wait for the first pod. */
  #bind(claim: PersistentVolumeClaim): void {
    const step = planClaim(claim, { volumes: this.#volumes, classes: this.#classes, waitingPods: [] });
    const wanted = this.#volumes.get(claim.spec.volumeName ?? '');
    if (step.kind === 'bind') this.#setBound(claim, step.volume);
    else if (step.kind === 'assignClass')
      this.#bind({ ...claim, spec: { ...claim.spec, storageClassName: step.className } });
    else if (wanted === undefined && !isDelayed(step)) this.#provision(claim);
    else {
      const pending = { ...claim, status: { ...claim.status, phase: 'Pending' } };
      this.#claims.set(idOf(claim), pending);
      const news = 'news' in step ? step.news : undefined;
      if (wanted !== undefined && news !== undefined) this.#refusals.set(pending, news.message);
    }
  }

  /** What the scheduler does for the first pod of a claim. */
  #bindOn(claim: PersistentVolumeClaim, node: Node): void {
    const volume = this.#volumes.find(claim, { admits: (candidate) => isReachable(candidate, node) });
    if (volume === undefined) this.#provision(claim);
    else this.#setBound(claim, volume);
  }

  /** No other volume can be called like this. */
  #provision(claim: PersistentVolumeClaim): void {
    const name = `provisioned for ${idOf(claim)}`;
    const { volumeMode = 'Filesystem', accessModes = [] } = claim.spec;
    this.#provisioned.add(name);
    this.#setBound(claim, { metadata: { name }, spec: { volumeMode, accessModes } });
  }

  #setBound(claim: PersistentVolumeClaim, volume: PersistentVolume): void {
    const { name } = volume.metadata;
    this.#volumes.set(name, claimed(volume, claim));
    const spec = { ...claim.spec, volumeName: name };
    this.#claims.set(idOf(claim), { ...claim, spec, status: { ...claim.status, phase: 'Bound' } });
  }

  #shown(volume: Volume, spec: VolumeSpec): VolumeSpec {
    const { metadata, spec: fields } = spec.persistentVolume ?? {};
    if (metadata === undefined || !this.#provisioned.has(metadata.name)) return spec;
    const claim = this.#claims.get(`${fields?.claimRef?.namespace}/${fields?.claimRef?.name}`);
    if (claim === undefined) return spec;
    const why = 'no PersistentVolume of these manifests is bound to it; render shows an empty volume in its place';
    // Devices are not shown at all, and that is said of each.
    if (fields?.volumeMode !== 'Block')
      this.#note(`PersistentVolumeClaim ${idOf(claim)} (${describeClass(claim)}): ${why}`);
    return { volume: { name: volume.name, emptyDir: {} }, readOnly: spec.readOnly };
  }
}

function idOf({ metadata: { namespace = '', name } }: PersistentVolumeClaim): string {
  return `${namespace}/${name}`;
}

function isDelayed(step: ClaimStep): boolean {
  return step.kind === 'pending' && step.news?.reason === 'WaitForFirstConsumer';
}

function describeClass(claim: PersistentVolumeClaim): string {
  if (wantsDefaultClass(claim)) return 'default class';
  const name = classOf(claim);
  return name === '' ? 'no class, so a cluster needs a volume made for it' : `class ${name}`;
}
