/**
 * Grows claims. Decisions are made in expansion.ts; here they are carried out, one write after the other. Who makes the storage
 * larger is given: this program's own loop leaves that to the node, for `local` volumes, and says of every other volume who is
 * waited for, as Kubernetes' expand controller does; a CSI driver is asked by a loop of its own (csi/controller/resizer.ts).
 */
import { messageOf } from '../../base/errors.ts';
import { Timers } from '../../base/timers.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import { preResizeCapacity, resizeStatusOf, storageOf } from '../../kube/references/claim-resize.ts';
import { annotated, classOf, hasAnnotation, isTerminated, provisionedBy } from '../../kube/references/claims.ts';
import { migratedKindOf } from '../../kube/references/csi-translation.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import type { Quantity } from '../../kube/values/quantity.ts';
import { type Cluster, type ControllerDeps, updateSame } from '../cluster/cluster.ts';
import { ControllerEvents } from '../cluster/events.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import type { News } from './binding.ts';
import {
  type Expander,
  begun,
  completed,
  decideExpansion,
  enlarged,
  handedToNode,
  isTooSmall,
  isUnderWay,
  refused,
  settled,
} from './expansion.ts';
import { provisioner as localPath } from './local-path.ts';
import { type ClaimId, type StorageView, claimId, claimIdsOf } from './storage-view.ts';

const storageResizer = 'volume.kubernetes.io/storage-resizer';
/** What was refused may be possible once a disk was cleared. As long as Kubernetes' external resizer waits at most. */
const retryMs = 5 * 60_000;

export interface Growth {
  /** At least what was asked for. */
  readonly size: Quantity;
  /** The node has nothing to do. */
  readonly isComplete: boolean;
}

/** Makes storage larger, or leaves it to the node. */
export interface Grower {
  /** The name that it writes and speaks under. */
  readonly component: string;
  readonly resizer: string;
  /** False where the node does everything. */
  readonly growsStorage: boolean;
  /** Undefined: it is this one's turn. `none`: it is nobody's that this one speaks of. */
  othersTurn(volume: PersistentVolume): OthersTurn | 'none' | undefined;
  grow(volume: PersistentVolume, size: Quantity): Promise<Growth>;
  /** Of what `grow` rejected with. */
  judge(error: unknown): Refusal;
}

/** `uncertain`: it may still grow. `inUse`: it can grow when no pod uses it. `infeasible`: never to this size. */
export type Refusal = 'uncertain' | 'inUse' | 'final' | 'infeasible';

/** The control plane makes nothing larger, so nothing of it can fail. */
const nodeAlone: Grower = {
  component: 'volume_expand',
  resizer: 'kubernetes.io/local-volume',
  growsStorage: false,
  othersTurn,
  grow: (_volume, size) => Promise.resolve({ size, isComplete: false }),
  judge: () => 'uncertain',
};

export async function runVolumeExpander(deps: ControllerDeps, view: StorageView, signal: AbortSignal): Promise<void> {
  const expander = new VolumeExpander(nodeAlone, deps, view, signal);
  view.follow(expander);
  await expander.run(signal);
}

export class VolumeExpander {
  readonly #grower: Grower;
  readonly #deps: ControllerDeps;
  readonly #view: StorageView;
  readonly #cluster: Cluster;
  readonly #events: ControllerEvents;
  readonly #queue: WorkQueue;
  readonly #timers: Timers;
  /** Claims whose size was refused, until it is tried again. */
  readonly #refused = new Map<ClaimId, 'waiting' | 'due'>();
  /** How the last call for a claim ended; by UID. */
  readonly #failures = new Map<string, Refusal>();

  constructor(grower: Grower, deps: ControllerDeps, view: StorageView, signal: AbortSignal) {
    this.#grower = grower;
    this.#deps = deps;
    this.#view = view;
    this.#cluster = deps.clusterFor(grower.component, signal);
    this.#events = new ControllerEvents(grower.component, deps, this.#cluster);
    this.#queue = new WorkQueue(grower.component, deps);
    this.#timers = new Timers(deps.clock);
  }

  claimChanged(id: ClaimId, claim: PersistentVolumeClaim | undefined, before: PersistentVolumeClaim | undefined): void {
    if (claim !== undefined && growthKeyOf(claim) !== growthKeyOf(before)) this.#queue.touch(id);
    if (claim === undefined) this.#failures.delete(before?.metadata.uid ?? '');
  }

  volumeChanged(_name: string, volume: PersistentVolume | undefined, before: PersistentVolume | undefined): void {
    const { claimRef } = volume?.spec ?? {};
    if (claimRef === undefined || sizeKeyOf(volume) === sizeKeyOf(before)) return;
    this.#queue.touch(claimId(claimRef.namespace, claimRef.name));
  }

  classChanged(name: string): void {
    for (const [id, claim] of this.#view.claims) {
      if (classOf(claim) === name && isTooSmall(claim)) this.#queue.touch(id);
    }
  }

  podChanged(_key: string, pod: Pod | undefined, before: Pod | undefined): void {
    for (const id of claimIdsOf(pod ?? before)) {
      const uid = this.#view.claims.get(id)?.metadata.uid ?? '';
      if (this.#failures.get(uid) === 'inUse') this.#queue.touch(id);
    }
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
    const others = this.#grower.othersTurn(volume);
    if (others === 'none') return;
    const step = decideExpansion(claim, volume, this.#expander(claim));
    if (step.kind === 'none') return;
    if (others !== undefined) return step.kind === 'grow' ? this.#leave(id, claim, others) : undefined;
    if (step.kind === 'settle') return updateSame(this.#cluster, volumeKey, volume, settled);
    if (!this.#mayGrow(claim)) return;
    if (step.isRetry && !isDue) return this.#retryLater(id);
    await this.#grow(id, claim, volume, step.size, step.isRetry);
  }

  #expander({ metadata }: PersistentVolumeClaim): Expander {
    const failure = this.#failures.get(metadata.uid ?? '');
    return { growsStorage: this.#grower.growsStorage, hasFailed: failure !== undefined && failure !== 'uncertain' };
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
        const again = decideExpansion(current, volume, this.#expander(claim));
        const isSame = again.kind === 'grow' && again.size.equals(size);
        return isSame ? begun(current, size, this.#grower.resizer, now) : current;
      });
    }
    if (await this.#isInUse(id, claim)) return;
    if (!isRetry || this.#grower.growsStorage) {
      await this.#record(claim, 'Resizing', `External resizer is resizing volume ${volume.metadata.name}`);
    }
    const current = (await this.#cluster.get(this.#view.keyOfClaim(id))) as PersistentVolumeClaim | undefined;
    if (current === undefined || !isUnderWay(current, size)) return this.#queue.touch(id);
    const growth = await this.#call(id, claim, volume, size);
    if (growth === undefined) return;
    const { isComplete } = growth;
    const volumeKey = this.#view.keyOfVolume(volume.metadata.name);
    await updateSame<PersistentVolume>(this.#cluster, volumeKey, volume, (object) =>
      enlarged(object, current, growth.size, isComplete),
    );
    await this.#updateClaim(id, claim, (object) =>
      isComplete ? completed(object, size, growth.size) : handedToNode(object, size, now, growth.size),
    );
    if (isComplete) return this.#record(claim, 'VolumeResizeSuccessful', 'Resize volume succeeded');
    await this.#record(claim, 'FileSystemResizeRequired', 'Require file system resize of volume on node');
  }

  /** Undefined: it is not to be repeated before something changes. */
  async #call(
    id: ClaimId,
    claim: PersistentVolumeClaim,
    volume: PersistentVolume,
    size: Quantity,
  ): Promise<Growth | undefined> {
    const { uid = '' } = claim.metadata;
    try {
      const growth = await this.#grower.grow(volume, size);
      this.#failures.delete(uid);
      return growth;
    } catch (error) {
      const failure = this.#grower.judge(error);
      this.#failures.set(uid, failure);
      if (failure === 'uncertain') throw await this.#failed(claim, volume, error);
      const isInfeasible = failure === 'infeasible';
      const now = this.#deps.clock.now();
      await this.#updateClaim(id, claim, (current) => refused(current, messageOf(error), isInfeasible, now));
      const reported = await this.#failed(claim, volume, error);
      // The change of the claim leads to another look, which waits.
      if (isInfeasible) return undefined;
      throw reported;
    }
  }

  async #failed(claim: PersistentVolumeClaim, volume: PersistentVolume, error: unknown): Promise<unknown> {
    const volumeName = goQuote(volume.metadata.name);
    const message = `resize volume ${volumeName} by resizer ${goQuote(this.#grower.resizer)} failed: ${messageOf(error)}`;
    await this.#record(claim, 'VolumeResizeFailed', message, 'Warning');
    return error;
  }

  /** The storage can only grow while no pod uses it; the end of a pod leads to another look. */
  async #isInUse(id: ClaimId, claim: PersistentVolumeClaim): Promise<boolean> {
    if (this.#failures.get(claim.metadata.uid ?? '') !== 'inUse') return false;
    if (this.#view.podsUsing(id).every(isTerminated)) return false;
    const driver = this.#grower.resizer;
    const why = `CSI driver ${driver} only supports offline expansion and volume is currently in-use`;
    await this.#record(claim, 'VolumeResizeFailed', `Unable to expand ${id} because ${why}`, 'Warning');
    return true;
  }

  async #leave(id: ClaimId, claim: PersistentVolumeClaim, { news, driver }: OthersTurn): Promise<void> {
    await this.#events.record(this.#view.kinds.claim, claim, news);
    if (driver === undefined) return;
    await this.#updateClaim(id, claim, (current) => annotated(current, [storageResizer], driver));
  }

  #record(claim: PersistentVolumeClaim, reason: string, message: string, type: News['type'] = 'Normal'): Promise<void> {
    return this.#events.record(this.#view.kinds.claim, claim, { type, reason, message });
  }

  #updateClaim(
    id: ClaimId,
    claim: PersistentVolumeClaim,
    change: (current: PersistentVolumeClaim) => PersistentVolumeClaim,
  ): Promise<void> {
    return updateSame(this.#cluster, this.#view.keyOfClaim(id), claim, change, 'status');
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

/** Who grows the volume, where it is not the node alone. */
function othersTurn({ metadata, spec }: PersistentVolume): OthersTurn | undefined {
  if (metadata.annotations?.[provisionedBy] === localPath) {
    const message = `Cannot expand volume "${metadata.name}": ${localPath} limits no volume, so its claim can use all that the node's disk has`;
    return { news: { type: 'Warning', reason: 'VolumeResizeFailed', message } };
  }
  if (spec.local !== undefined) return undefined;
  const known = migratedKindOf(spec);
  const message =
    known === undefined
      ? 'waiting for an external controller to expand this PVC'
      : `CSI migration enabled for ${known.plugin}; waiting for external resizer to expand the pvc`;
  return { news: { type: 'Normal', reason: 'ExternalExpanding', message }, ...(known && { driver: known.driver }) };
}
