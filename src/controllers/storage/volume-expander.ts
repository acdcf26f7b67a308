/**
 * Grows claims whose volumes the node alone makes larger: `local` ones, files and block devices. Decisions are made in expansion.ts;
 * here they are carried out, one write after the other. For every other volume it says who is waited for, as Kubernetes' expand
 * controller does.
 */
import { Timers } from '../../base/timers.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import { preResizeCapacity, resizeStatusOf, storageOf } from '../../kube/references/claim-resize.ts';
import { annotated, classOf, hasAnnotation, provisionedBy } from '../../kube/references/claims.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import type { Quantity } from '../../kube/values/quantity.ts';
import { type Cluster, type ControllerDeps, unlessRefused } from '../cluster/cluster.ts';
import { ControllerEvents } from '../cluster/events.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import type { News } from './binding.ts';
import { type Expander, begun, decideExpansion, enlarged, handedToNode, isTooSmall, settled } from './expansion.ts';
import { provisioner as localPath } from './local-path.ts';
import { type ClaimId, type StorageView, claimId } from './storage-view.ts';

const controller = 'volume_expand';
const resizer = 'kubernetes.io/local-volume';
const storageResizer = 'volume.kubernetes.io/storage-resizer';
/** The control plane makes nothing larger, so nothing of it can fail. */
const nodeAlone: Expander = { growsStorage: false, hasFailed: false };
/** What was refused may be possible once a disk was cleared. As long as Kubernetes' external resizer waits at most. */
const retryMs = 5 * 60_000;

export async function runVolumeExpander(deps: ControllerDeps, view: StorageView, signal: AbortSignal): Promise<void> {
  await new VolumeExpander(deps, view, signal).run(signal);
}

class VolumeExpander {
  readonly #deps: ControllerDeps;
  readonly #view: StorageView;
  readonly #cluster: Cluster;
  readonly #events: ControllerEvents;
  readonly #queue: WorkQueue;
  readonly #timers: Timers;
  /** Claims whose size was refused, until it is tried again. */
  readonly #refused = new Map<ClaimId, 'waiting' | 'due'>();

  constructor(deps: ControllerDeps, view: StorageView, signal: AbortSignal) {
    this.#deps = deps;
    this.#view = view;
    this.#cluster = deps.clusterFor(controller, signal);
    this.#events = new ControllerEvents(controller, deps, this.#cluster);
    this.#queue = new WorkQueue(controller, deps);
    this.#timers = new Timers(deps.clock);
    view.follow({
      claimChanged: (id, claim, before) => {
        if (claim !== undefined && growthKeyOf(claim) !== growthKeyOf(before)) this.#queue.touch(id);
      },
      volumeChanged: (_name, volume, before) => {
        const { claimRef } = volume?.spec ?? {};
        if (claimRef === undefined || sizeKeyOf(volume) === sizeKeyOf(before)) return;
        this.#queue.touch(claimId(claimRef.namespace, claimRef.name));
      },
      classChanged: (name) => {
        for (const [id, claim] of view.claims) if (classOf(claim) === name && isTooSmall(claim)) this.#queue.touch(id);
      },
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#queue.run((id) => this.#look(id), signal), this.#timers.run(signal)]);
  }

  async #look(id: ClaimId): Promise<void> {
    const claim = (await this.#cluster.get(this.#view.keyOfClaim(id))) as PersistentVolumeClaim | undefined;
    const { volumeName = '' } = claim?.spec ?? {};
    const isDue = this.#refused.get(id) === 'due' && this.#refused.delete(id);
    if (claim === undefined || volumeName === '') return;
    const volumeKey = this.#view.keyOfVolume(volumeName);
    const volume = (await this.#cluster.get(volumeKey)) as PersistentVolume | undefined;
    if (volume === undefined) return;
    const step = decideExpansion(claim, volume, nodeAlone);
    if (step.kind === 'none') return;
    const others = othersTurn(volume);
    if (others !== undefined) return step.kind === 'grow' ? this.#leave(id, claim, others) : undefined;
    if (step.kind === 'settle') return this.#update(volumeKey, volume.metadata.uid, settled);
    if (!this.#mayGrow(claim)) return;
    if (step.isRetry && !isDue) return this.#retryLater(id);
    await this.#grow(id, claim, volume, step.size, step.isRetry);
  }

  /** A claim can ask for more than it has without having grown: it was bound to a smaller volume that was reserved for it. */
  #mayGrow(claim: PersistentVolumeClaim): boolean {
    const isAllowed = this.#view.classes.get(classOf(claim))?.allowVolumeExpansion === true;
    return isAllowed || resizeStatusOf(claim) !== '';
  }

  #retryLater(id: ClaimId): void {
    if (this.#refused.has(id)) return;
    this.#refused.set(id, 'waiting');
    this.#timers.after(retryMs, () => {
      this.#refused.set(id, 'due');
      this.#queue.touch(id);
    });
  }

  async #grow(
    id: ClaimId,
    claim: PersistentVolumeClaim,
    volume: PersistentVolume,
    size: Quantity,
    isRetry: boolean,
  ): Promise<void> {
    const now = this.#deps.clock.now();
    if (!isRetry) {
      // Decided again on what is there by then: the claim may ask for another size, or the node may have begun.
      await this.#updateClaim(id, claim, (current) => {
        const again = decideExpansion(current, volume, nodeAlone);
        const isSame = again.kind === 'grow' && again.size.equals(size);
        return isSame ? begun(current, size, resizer, now) : current;
      });
      await this.#record(claim, 'Resizing', `External resizer is resizing volume ${volume.metadata.name}`);
    }
    const current = (await this.#cluster.get(this.#view.keyOfClaim(id))) as PersistentVolumeClaim | undefined;
    if (current === undefined || handedToNode(current, size, now) === current) return this.#queue.touch(id);
    const { name, uid } = volume.metadata;
    await this.#update<PersistentVolume>(this.#view.keyOfVolume(name), uid, (object) =>
      enlarged(object, current, size),
    );
    await this.#updateClaim(id, claim, (object) => handedToNode(object, size, now));
    await this.#record(claim, 'FileSystemResizeRequired', 'Require file system resize of volume on node');
  }

  async #leave(id: ClaimId, claim: PersistentVolumeClaim, { news, driver }: OthersTurn): Promise<void> {
    await this.#events.record(this.#view.kinds.claim, claim, news);
    if (driver === undefined) return;
    await this.#updateClaim(id, claim, (current) => annotated(current, [storageResizer], driver));
  }

  #record(claim: PersistentVolumeClaim, reason: string, message: string): Promise<void> {
    return this.#events.record(this.#view.kinds.claim, claim, { type: 'Normal', reason, message });
  }

  #updateClaim(
    id: ClaimId,
    { metadata }: PersistentVolumeClaim,
    change: (current: PersistentVolumeClaim) => PersistentVolumeClaim,
  ): Promise<void> {
    return this.#update(this.#view.keyOfClaim(id), metadata.uid, change, 'status');
  }

  /** Of this very object: another one of the same name is left alone. */
  #update<T extends KubeObject>(
    key: string,
    uid: string | undefined,
    change: (current: T) => T,
    subresource?: string,
  ): Promise<void> {
    const guarded = (object: KubeObject): KubeObject => (object.metadata.uid === uid ? change(object as T) : object);
    return unlessRefused(this.#cluster.update(key, guarded, subresource), 404);
  }
}

/** All of a claim that matters here: most changes of claims are about something else. */
function growthKeyOf(claim: PersistentVolumeClaim | undefined): string {
  if (claim === undefined) return '';
  const { spec, status } = claim;
  const { phase, capacity, allocatedResources } = status ?? {};
  const sizes = [spec.resources?.requests, capacity, allocatedResources].map((amounts) => storageOf(amounts).value());
  return [claim.metadata.uid, spec.volumeName, phase, resizeStatusOf(claim), ...sizes].join('/');
}

function sizeKeyOf(volume: PersistentVolume | undefined): string {
  if (volume === undefined) return '';
  const { metadata, spec } = volume;
  return [metadata.uid, spec.claimRef?.uid, storageOf(spec.capacity), hasAnnotation(volume, preResizeCapacity)].join(
    '/',
  );
}

interface OthersTurn {
  readonly news: News;
  /** The CSI driver that has taken over from a kind of volume that Kubernetes once had in itself. */
  readonly driver?: string;
}

const migrated = [
  ['awsElasticBlockStore', 'kubernetes.io/aws-ebs', 'ebs.csi.aws.com'],
  ['gcePersistentDisk', 'kubernetes.io/gce-pd', 'pd.csi.storage.gke.io'],
  ['azureDisk', 'kubernetes.io/azure-disk', 'disk.csi.azure.com'],
  ['azureFile', 'kubernetes.io/azure-file', 'file.csi.azure.com'],
  ['cinder', 'kubernetes.io/cinder', 'cinder.csi.openstack.org'],
  ['vsphereVolume', 'kubernetes.io/vsphere-volume', 'csi.vsphere.vmware.com'],
  ['portworxVolume', 'kubernetes.io/portworx-volume', 'pxd.portworx.com'],
] as const;

/** Who grows the volume, where it is not us. */
function othersTurn({ metadata, spec }: PersistentVolume): OthersTurn | undefined {
  if (metadata.annotations?.[provisionedBy] === localPath) {
    const message = `Cannot expand volume "${metadata.name}": ${localPath} limits no volume, so its claim can use all that the node's disk has`;
    return { news: { type: 'Warning', reason: 'VolumeResizeFailed', message } };
  }
  if (spec.local !== undefined) return undefined;
  const known = migrated.find(([source]) => spec[source] !== undefined);
  const message =
    known === undefined
      ? 'waiting for an external controller to expand this PVC'
      : `CSI migration enabled for ${known[1]}; waiting for external resizer to expand the pvc`;
  return { news: { type: 'Normal', reason: 'ExternalExpanding', message }, ...(known && { driver: known[2] }) };
}
