/**
 * Binds claims to volumes and keeps the phases of both, as Kubernetes' persistent volume controller does. Decisions are made in
 * binding.ts; here they are carried out, one write after the other, each on what is there at that moment.
 */
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import { preResizeCapacity } from '../../kube/references/claim-resize.ts';
import {
  annotated,
  bindCompleted,
  boundByController,
  classOf,
  hasAnnotation,
  isTerminated,
  provisionerAnnotations,
  wantsDefaultClass,
  withoutAnnotation,
} from '../../kube/references/claims.ts';
import { isDeepStrictEqual } from 'node:util';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { readQuantity } from '../../kube/values/quantity.ts';
import { LabelSelectorError } from '../../kube/values/labels.ts';
import { type Cluster, type ControllerDeps, type Kind, unlessRefused, updateSame } from '../cluster/cluster.ts';
import { ControllerEvents } from '../cluster/events.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import {
  type ClaimStep,
  type News,
  type VolumeStep,
  claimed,
  isDelayed,
  migratedClaim,
  migratedVolume,
  planClaim,
  planVolume,
} from './binding.ts';
import { type ClaimId, type StorageView, claimId, claimIdsOf } from './storage-view.ts';
import { couldTake, isReservedFor } from './volume-index.ts';

const controller = 'persistentvolume-controller';
/** What a missed change left undone is done then. */
const sweepMs = 60_000;

export async function runVolumeBinder(deps: ControllerDeps, view: StorageView, signal: AbortSignal): Promise<void> {
  const binder = new VolumeBinder(deps, view, signal);
  await Promise.all([binder.run(signal), binder.sweep(signal)]);
}

type Key = `claim:${ClaimId}` | `volume:${string}`;

class VolumeBinder {
  readonly #deps: ControllerDeps;
  readonly #view: StorageView;
  readonly #cluster: Cluster;
  readonly #events: ControllerEvents;
  readonly #queue: WorkQueue;
  /** Claims that wait for a volume, oldest first, and the free volume each was woken for and has not looked at yet. */
  readonly #waiting = new Map<ClaimId, string | undefined>();
  /** Claims by the volume they name, whether it exists or not. */
  readonly #naming = new Map<string, Set<ClaimId>>();

  constructor(deps: ControllerDeps, view: StorageView, signal: AbortSignal) {
    this.#deps = deps;
    this.#view = view;
    this.#cluster = deps.clusterFor(controller, signal);
    this.#events = new ControllerEvents(controller, deps, this.#cluster);
    this.#queue = new WorkQueue(controller, deps);
    view.follow({
      claimChanged: (id, claim, before) => {
        if (claim === undefined) this.#stopWaiting(id);
        this.#nameVolume(id, before?.spec.volumeName, claim?.spec.volumeName);
        this.#touch(`claim:${id}`);
        for (const each of [claim, before]) {
          const { volumeName = '' } = each?.spec ?? {};
          if (volumeName !== '') this.#touch(`volume:${volumeName}`);
        }
        const { namespace = '', name = '' } = (claim ?? before)?.metadata ?? {};
        for (const volume of view.volumes.pointingAt(namespace, name)) this.#touch(`volume:${volume}`);
      },
      volumeChanged: (name, volume, before) => {
        this.#touch(`volume:${name}`);
        for (const { spec } of [volume, before].filter((each) => each !== undefined)) {
          if (spec.claimRef !== undefined) this.#touch(`claim:${claimId(spec.claimRef.namespace, spec.claimRef.name)}`);
        }
        if (volume !== undefined) this.#offer(volume);
        for (const id of this.#naming.get(name) ?? []) this.#touch(`claim:${id}`);
      },
      classChanged: (name) => {
        for (const id of this.#waiting.keys()) {
          const claim = view.claims.get(id);
          if (claim !== undefined && (classOf(claim) === name || wantsDefaultClass(claim))) this.#touch(`claim:${id}`);
        }
      },
      podChanged: (_key, pod, before) => {
        // What counts is that it waits for a node.
        if (pod !== undefined && before !== undefined && pod.spec.nodeName === before.spec.nodeName) return;
        for (const id of claimIdsOf(pod ?? before)) if (this.#waiting.has(id)) this.#touch(`claim:${id}`);
      },
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.#queue.run((key) => this.#look(key as Key), signal);
  }

  async sweep(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#deps.clock.sleep(sweepMs, signal).catch(() => {});
      if (signal.aborted) return;
      for (const id of this.#view.claims.keys()) this.#touch(`claim:${id}`);
      for (const { metadata } of this.#view.volumes.all()) this.#touch(`volume:${metadata.name}`);
    }
  }

  #touch(key: Key): void {
    this.#queue.touch(key);
  }

  #nameVolume(id: ClaimId, before = '', now = ''): void {
    if (before === now) return;
    const others = this.#naming.get(before);
    others?.delete(id);
    if (others?.size === 0) this.#naming.delete(before);
    if (now !== '') this.#naming.set(now, (this.#naming.get(now) ?? new Set()).add(id));
  }

  /** A volume that the claim was woken for and did not take goes to the next in line. */
  #stopWaiting(id: ClaimId): void {
    const wokenFor = this.#waiting.get(id);
    this.#waiting.delete(id);
    this.#offerAgain(wokenFor);
  }

  #offerAgain(wokenFor: string | undefined): void {
    const left = wokenFor === undefined ? undefined : this.#view.volumes.get(wokenFor);
    if (left !== undefined) this.#offer(left);
  }

  /**
   * Wakes the claim that waited longest of those that could have this volume: it serves only one. A claim that was woken already
   * looks at all free volumes, this one too: where every claim that could have it was woken, nothing is left to do. A claim that
   * names a volume wants no other; a change of that one wakes it.
   */
  #offer(volume: PersistentVolume): void {
    if (volume.status?.phase !== 'Available' || volume.spec.claimRef !== undefined) return;
    for (const [id, wokenFor] of this.#waiting) {
      const claim = wokenFor === undefined ? this.#view.claims.get(id) : undefined;
      if (claim === undefined || (claim.spec.volumeName ?? '') !== '') continue;
      if (isDelayed(claim, this.#view.classes) || !this.#couldTake(claim, volume)) continue;
      this.#waiting.set(id, volume.metadata.name);
      return this.#touch(`claim:${id}`);
    }
  }

  #couldTake(claim: PersistentVolumeClaim, volume: PersistentVolume): boolean {
    try {
      return couldTake(claim, volume);
    } catch (error) {
      if (error instanceof LabelSelectorError) return false;
      throw error;
    }
  }

  async #look(key: Key): Promise<void> {
    const at = key.indexOf(':');
    const [kind, name] = [key.slice(0, at), key.slice(at + 1)];
    await (kind === 'claim' ? this.#lookAtClaim(name) : this.#lookAtVolume(name));
  }

  async #lookAtClaim(id: ClaimId): Promise<void> {
    const known = this.#view.claims.get(id);
    const its = known && this.#view.volumes.get(known.spec.volumeName ?? '');
    // Most looks are at what is bound already: nothing is read again for that.
    if (known !== undefined && its !== undefined && isSettled(known, its)) return this.#stopWaiting(id);
    const claim = (await this.#cluster.get(this.#view.keyOfClaim(id))) as PersistentVolumeClaim | undefined;
    if (claim === undefined) return this.#stopWaiting(id);
    const migrated = migratedClaim(claim);
    // The change leads to another look.
    if (migrated !== claim) return this.#updateClaim(id, claim, migratedClaim);
    let step = this.#planClaim(id, claim);
    // Nothing is called lost before the cluster itself was asked: what is known here may be older than the claim.
    if (step.kind === 'lost' && (claim.spec.volumeName ?? '') !== '') {
      await this.#refresh(claim.spec.volumeName ?? '');
      step = this.#planClaim(id, claim);
    }
    const wokenFor = this.#waiting.get(id);
    // Taken from here on, so that no other look chooses it too.
    const taken = step.kind === 'bind' && !isReservedFor(step.volume, claim) ? step.volume : undefined;
    if (taken !== undefined) this.#view.volumes.set(taken.metadata.name, claimed(taken, claim));
    if (step.kind === 'bind' || hasAnnotation(claim, bindCompleted)) this.#waiting.delete(id);
    else this.#waiting.set(id, undefined);
    try {
      await this.#carryOut(id, claim, step);
    } finally {
      // It took another volume, or none: what it was woken for is the next one's chance.
      this.#offerAgain(wokenFor);
      if (taken !== undefined) await this.#refresh(taken.metadata.name);
    }
  }

  #planClaim(id: ClaimId, claim: PersistentVolumeClaim): ClaimStep {
    const { volumes, classes } = this.#view;
    const waitingPods = this.#view
      .podsUsing(id)
      .filter((pod) => (pod.spec.nodeName ?? '') === '' && !isTerminated(pod))
      .map(({ metadata }) => metadata.name);
    try {
      return planClaim(claim, { volumes, classes, waitingPods });
    } catch (error) {
      // Validation accepted it once, with other rules: nothing will make it match.
      if (!(error instanceof LabelSelectorError)) throw error;
      const message = `error creating internal label selector for claim: ${id}: ${error.message}`;
      return { kind: 'pending', news: { type: 'Warning', reason: 'FailedBinding', message } };
    }
  }

  async #carryOut(id: ClaimId, claim: PersistentVolumeClaim, step: ClaimStep): Promise<void> {
    switch (step.kind) {
      case 'bind':
        return this.#bind(id, claim, step.volume);
      case 'assignClass':
        return this.#updateClaim(id, claim, (current) =>
          wantsDefaultClass(current)
            ? { ...current, spec: { ...current.spec, storageClassName: step.className } }
            : current,
        );
      case 'provision': {
        const change = (current: PersistentVolumeClaim): PersistentVolumeClaim =>
          annotated(current, provisionerAnnotations, step.provisioner);
        if (change(claim) !== claim) await this.#updateClaim(id, claim, change);
        return this.#record(claim, externalProvisioning(step.provisioner));
      }
      case 'leave':
        return this.#record(claim, step.news);
      case 'pending':
        if (step.news !== undefined) await this.#record(claim, step.news);
        return this.#setClaimPhase(id, claim, 'Pending');
      case 'lost':
        return this.#setClaimPhase(id, claim, 'Lost', undefined, step.news);
    }
  }

  async #bind(id: ClaimId, claim: PersistentVolumeClaim, volume: PersistentVolume): Promise<void> {
    if (isSettled(claim, volume)) return;
    const { name } = volume.metadata;
    const key = this.#view.keyOfVolume(name);
    let bound: PersistentVolume | undefined;
    await unlessRefused(
      this.#cluster.update(key, (object) => {
        const current = object as PersistentVolume;
        bound =
          current.spec.claimRef === undefined || isReservedFor(current, claim) ? claimed(current, claim) : undefined;
        return bound ?? current;
      }),
      404,
    );
    // Another claim was faster, or the volume has gone: the next look chooses another one.
    if (bound === undefined) return this.#touch(`claim:${id}`);
    await this.#setVolumePhase(bound, 'Bound');
    let complete = claim;
    await this.#updateClaim(id, claim, (current) => {
      complete = current;
      if ((current.spec.volumeName ?? '') !== '' && current.spec.volumeName !== name) return current;
      const isChosen = (current.spec.volumeName ?? '') === '';
      const named = isChosen ? annotated(current, [boundByController], 'yes') : current;
      complete = annotated(named, [bindCompleted], 'yes');
      if (complete.spec.volumeName !== name) complete = { ...complete, spec: { ...complete.spec, volumeName: name } };
      return complete;
    });
    await this.#setClaimPhase(id, complete, 'Bound', bound);
  }

  async #lookAtVolume(name: string): Promise<void> {
    if (this.#isAtRest(this.#view.volumes.get(name))) return;
    const volume = (await this.#cluster.get(this.#view.keyOfVolume(name))) as PersistentVolume | undefined;
    if (volume === undefined) return;
    if (migratedVolume(volume) !== volume) {
      const change = (object: KubeObject): KubeObject => migratedVolume(object as PersistentVolume);
      return unlessRefused(this.#cluster.update(this.#view.keyOfVolume(name), change), 404);
    }
    const { claimRef } = volume.spec;
    const id = claimId(claimRef?.namespace, claimRef?.name);
    const found =
      claimRef && ((await this.#cluster.get(this.#view.keyOfClaim(id))) as PersistentVolumeClaim | undefined);
    const claim = found?.metadata.uid === claimRef?.uid ? found : undefined;
    await this.#carryOutOn(volume, id, claim, planVolume(volume, claim));
  }

  #isAtRest(volume: PersistentVolume | undefined): boolean {
    if (volume === undefined || migratedVolume(volume) !== volume) return false;
    const { claimRef } = volume.spec;
    const claim = this.#view.claims.get(claimId(claimRef?.namespace, claimRef?.name));
    const step = planVolume(volume, claim?.metadata.uid === claimRef?.uid ? claim : undefined);
    return step.kind === 'phase' && step.phase === volume.status?.phase;
  }

  async #carryOutOn(
    volume: PersistentVolume,
    id: ClaimId,
    claim: PersistentVolumeClaim | undefined,
    step: VolumeStep,
  ): Promise<void> {
    const { name } = volume.metadata;
    switch (step.kind) {
      case 'phase':
        return this.#setVolumePhase(volume, step.phase);
      case 'wakeClaim':
        return this.#touch(`claim:${id}`);
      case 'mismatch':
        await this.#record(volume, step.onVolume, this.#view.kinds.volume);
        if (claim !== undefined) await this.#record(claim, step.onClaim);
        return;
      case 'release': {
        // A failure stays visible.
        if (volume.status?.phase !== 'Failed') await this.#setVolumePhase(volume, 'Released');
        const { reclaim } = step;
        if (reclaim.kind === 'fail') await this.#setVolumePhase(volume, 'Failed', reclaim.news);
        return;
      }
      case 'unbind':
        // The change leads to another look, which makes it available.
        return unlessRefused(
          this.#cluster.update(this.#view.keyOfVolume(name), (object) => unbound(object as PersistentVolume, volume)),
          404,
        );
    }
  }

  /** Unless it belongs to another claim by now: a volume that was given away again must not be reclaimed. */
  async #setVolumePhase({ metadata, spec, status }: PersistentVolume, phase: string, news?: News): Promise<void> {
    if (status?.phase === phase) return;
    const { name } = metadata;
    let changed: PersistentVolume | undefined;
    const change = (object: KubeObject): KubeObject => {
      const current = object as PersistentVolume;
      const message = news?.message;
      changed = undefined;
      if (current.status?.phase === phase || current.spec.claimRef?.uid !== spec.claimRef?.uid) return object;
      const { message: _before, ...kept } = current.status ?? {};
      changed = { ...current, status: { ...kept, phase, ...(message !== undefined && { message }) } };
      return changed;
    };
    await unlessRefused(this.#cluster.update(this.#view.keyOfVolume(name), change, 'status'), 404);
    if (changed !== undefined && news !== undefined) await this.#record(changed, news, this.#view.kinds.volume);
  }

  async #setClaimPhase(
    id: ClaimId,
    claim: PersistentVolumeClaim,
    phase: 'Pending' | 'Bound' | 'Lost',
    volume?: PersistentVolume,
    news?: News,
  ): Promise<void> {
    const change = (current: PersistentVolumeClaim): PersistentVolumeClaim => {
      // It was given another volume meanwhile, by its user: that one's look says what it has.
      if (volume !== undefined && current.spec.volumeName !== volume.metadata.name) return current;
      const next = withPhase(current, phase, volume);
      return isDeepStrictEqual(next.status, current.status) ? current : next;
    };
    if (change(claim) === claim) return;
    let isChanged = false;
    await this.#updateClaim(
      id,
      claim,
      (current) => {
        isChanged = current.status?.phase !== phase;
        return change(current);
      },
      'status',
    );
    if (isChanged && news !== undefined) await this.#record(claim, news);
  }

  #updateClaim(
    id: ClaimId,
    claim: PersistentVolumeClaim,
    change: (current: PersistentVolumeClaim) => PersistentVolumeClaim,
    subresource?: string,
  ): Promise<void> {
    return updateSame(this.#cluster, this.#view.keyOfClaim(id), claim, change, subresource);
  }

  async #refresh(name: string): Promise<void> {
    const volume = (await this.#cluster.get(this.#view.keyOfVolume(name))) as PersistentVolume | undefined;
    this.#view.volumes.set(name, volume);
  }

  #record(
    about: PersistentVolumeClaim | PersistentVolume,
    news: News,
    kind: Kind = this.#view.kinds.claim,
  ): Promise<void> {
    return this.#events.record(kind, about, news);
  }
}

function externalProvisioning(provisioner: string): News {
  const message =
    `Waiting for a volume to be created either by the external provisioner '${provisioner}' or manually by the system administrator. ` +
    'If volume creation is delayed, please verify that the provisioner is running and correctly registered.';
  return { type: 'Normal', reason: 'ExternalProvisioning', message };
}

/** All four writes of a binding have been made. */
function isSettled(claim: PersistentVolumeClaim, volume: PersistentVolume): boolean {
  return (
    claimed(volume, claim) === volume &&
    volume.status?.phase === 'Bound' &&
    claim.spec.volumeName === volume.metadata.name &&
    hasAnnotation(claim, bindCompleted) &&
    migratedClaim(claim) === claim &&
    isDeepStrictEqual(withPhase(claim, 'Bound', volume).status, claim.status)
  );
}

/** Free for others again; what a user reserved stays reserved. */
function unbound(current: PersistentVolume, seen: PersistentVolume): PersistentVolume {
  const { claimRef } = current.spec;
  if (claimRef === undefined || claimRef.uid !== seen.spec.claimRef?.uid) return current;
  if (!hasAnnotation(current, boundByController)) {
    const { uid: _, ...reserved } = claimRef;
    return { ...current, spec: { ...current.spec, claimRef: reserved } };
  }
  const { claimRef: _, ...spec } = current.spec;
  return { ...withoutAnnotation(current, boundByController), spec };
}

function withPhase(
  claim: PersistentVolumeClaim,
  phase: string,
  volume: PersistentVolume | undefined,
): PersistentVolumeClaim {
  const {
    accessModes: _modes,
    capacity: before,
    currentVolumeAttributesClassName: attributes,
    ...rest
  } = claim.status ?? {};
  if (volume === undefined) return { ...claim, status: { ...rest, phase } };
  // Growth is the business of others: what a bound claim has is not written again.
  const capacity = claim.status?.phase === phase ? before : capacityOf(volume);
  const isFirst = phase === 'Bound' && claim.status?.phase === 'Pending';
  const current = isFirst ? volume.spec.volumeAttributesClassName : attributes;
  return {
    ...claim,
    status: {
      ...rest,
      phase,
      ...(volume.spec.accessModes !== undefined && { accessModes: volume.spec.accessModes }),
      ...(capacity !== undefined && { capacity }),
      ...(current !== undefined && { currentVolumeAttributesClassName: current }),
    },
  };
}

function capacityOf({ metadata, spec }: PersistentVolume): PersistentVolume['spec']['capacity'] {
  const before = metadata.annotations?.[preResizeCapacity];
  const isKnown = before !== undefined && readQuantity(before) !== undefined;
  return isKnown ? { ...spec.capacity, storage: before } : spec.capacity;
}
