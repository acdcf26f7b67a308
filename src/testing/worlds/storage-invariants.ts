/**
 * What must hold of claims, volumes and pods: some of it at every moment, as a watch sees it, and the rest when everything has
 * come to rest. Written from the rules and not from the loops: nothing here asks them.
 */
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { StorageClass } from '../../kube/kinds/storage/storage-class.ts';
import { claimNamesOf, isTerminated } from '../../kube/references/claims.ts';
import { claimNameOf } from '../../kube/references/volume-spec.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { labelMatcher, requirementsOf } from '../../kube/values/labels.ts';
import { readQuantity } from '../../kube/values/quantity.ts';
import type { StorageWorld } from './storage-world.ts';

const bindCompleted = 'pv.kubernetes.io/bind-completed';
const localProvisioner = 'mountlet.dev/local-path';

/** Watches from now on; the list it returns grows with every moment that must not be. */
export function watchMoments(world: StorageWorld): readonly string[] {
  const problems: string[] = [];
  /** The revision at which a pod got its node, by UID. */
  const scheduledAt = new Map<string, number>();
  world.store.subscribe((changes) => {
    for (const { key, type, value, previous, revision } of changes) {
      const object = JSON.parse(value) as KubeObject;
      const before = previous === undefined ? undefined : (JSON.parse(previous) as KubeObject);
      const say = (what: string): number => problems.push(`${what} (revision ${revision})`);
      if (key.includes('/persistentvolumeclaims/') && type === 'delete') {
        const listedAt = world.podLists.get('pvc-protection-controller') ?? 0;
        const users = podsProtecting(world, object as PersistentVolumeClaim).filter(
          ({ metadata }) => (scheduledAt.get(metadata.uid ?? '') ?? 0) <= listedAt,
        );
        if (users.length > 0) say(`${object.metadata.name} went while ${users[0]?.metadata.name} used it`);
      } else if (key.includes('/persistentvolumeclaims/')) {
        for (const problem of momentOfClaim(world, object as PersistentVolumeClaim)) say(problem);
      } else if (key.includes('/persistentvolumes/')) {
        for (const problem of momentOfVolume(object as PersistentVolume, before as PersistentVolume, type))
          say(problem);
      } else if (key.includes('/core/pods/') && type === 'put') {
        const [pod, old] = [object as Pod, before as Pod | undefined];
        if ((pod.spec.nodeName ?? '') === '' || old?.spec.nodeName === pod.spec.nodeName) continue;
        scheduledAt.set(pod.metadata.uid ?? '', revision);
        for (const problem of momentOfBinding(world, pod)) say(problem);
      }
    }
  });
  return problems;
}

function momentOfClaim(world: StorageWorld, { metadata, spec, status }: PersistentVolumeClaim): string[] {
  const volume = world
    .all<PersistentVolume>('v1', 'PersistentVolume')
    .find((one) => one.metadata.name === spec.volumeName);
  const hasIt = volume !== undefined && volume.spec.claimRef?.uid === metadata.uid;
  return status?.phase === 'Lost' && hasIt ? [`${metadata.name} was lost and had its volume`] : [];
}

function momentOfVolume(volume: PersistentVolume, before: PersistentVolume | undefined, type: string): string[] {
  const { name } = volume.metadata;
  const wasBound = before?.status?.phase === 'Bound';
  if (type === 'delete') return wasBound ? [`${name} went while it was bound`] : [];
  const isFreed = before?.status?.phase === 'Released' && volume.status?.phase === 'Available';
  if (isFreed && (volume.spec.claimRef?.uid ?? '') !== '')
    return [`${name} was released and became available by itself`];
  const [one, other] = [before?.spec.claimRef?.uid ?? '', volume.spec.claimRef?.uid ?? ''];
  return one !== '' && other !== '' && one !== other ? [`${name} went from one claim to another`] : [];
}

function momentOfBinding(world: StorageWorld, pod: Pod): string[] {
  return claimsOfPod(world, pod).flatMap((claim) => {
    if (claim.spec.accessModes?.includes('ReadWriteOncePod') !== true) return [];
    const others = podsProtecting(world, claim).filter(
      (other) => other.metadata.uid !== pod.metadata.uid && !isTerminated(other),
    );
    return others.map(({ metadata }) => `${pod.metadata.name} and ${metadata.name} both have ${claim.metadata.name}`);
  });
}

/** What is wrong when everything has come to rest. */
export function problemsAtRest(world: StorageWorld): readonly string[] {
  const claims = world.all<PersistentVolumeClaim>('v1', 'PersistentVolumeClaim');
  const volumes = world.all<PersistentVolume>('v1', 'PersistentVolume');
  const classes = world.all<StorageClass>('storage.k8s.io/v1', 'StorageClass');
  return [
    ...claims.flatMap((claim) => problemsOfClaim(world, claim, volumes, classes)),
    ...volumes.flatMap((volume) => problemsOfVolume(volume, claims)),
    ...duplicates(claims.filter(isBound).map(({ spec }) => spec.volumeName ?? '')).map(
      (name) => `${name} has two claims`,
    ),
    ...world.all<Pod>('v1', 'Pod').flatMap((pod) => problemsOfPod(world, pod, volumes)),
    ...problemsOfDisk(world, claims, volumes),
  ];
}

function problemsOfClaim(
  world: StorageWorld,
  claim: PersistentVolumeClaim,
  volumes: readonly PersistentVolume[],
  classes: readonly StorageClass[],
): string[] {
  const { metadata, spec, status } = claim;
  const say = (what: string): string[] => [`claim ${metadata.name} (${metadata.uid}) ${what}`];
  const volume = volumes.find((one) => one.metadata.name === spec.volumeName);
  const isDeleting = metadata.deletionTimestamp !== undefined;
  if (isDeleting && podsProtecting(world, claim).length === 0) return say('is deleted, unused and still there');
  if (isDeleting && status?.phase !== 'Bound') return [];
  if (!(metadata.finalizers ?? []).includes('kubernetes.io/pvc-protection')) return say('is not protected');
  if (status?.phase === 'Bound') {
    if (volume === undefined) return say('is bound to nothing');
    if (volume.spec.claimRef?.uid !== metadata.uid) return say(`is bound to ${volume.metadata.name} of another`);
    if (metadata.annotations?.[bindCompleted] === undefined) return say('is bound without having been completed');
    if (status.capacity?.['storage'] !== volume.spec.capacity?.['storage']) return say('says another capacity');
    if (String(status.accessModes) !== String(volume.spec.accessModes)) return say('says other access modes');
    return volume.status?.phase === 'Bound' ? [] : say(`is bound to a volume that is ${volume.status?.phase}`);
  }
  if (status?.phase === 'Lost') {
    return metadata.annotations?.[bindCompleted] !== undefined && volume?.spec.claimRef?.uid !== metadata.uid
      ? []
      : say('is lost and has its volume');
  }
  if (status?.phase !== 'Pending') return say(`is ${status?.phase}`);
  if (Object.keys(status.capacity ?? {}).length > 0) return say('is pending and has a capacity');
  if ((spec.volumeName ?? '') !== '') {
    const isFree = volume !== undefined && volume.spec.claimRef === undefined && fits(volume, claim);
    const isReserved = volume !== undefined && isFor(volume, claim);
    return isFree || isReserved ? say(`waits for ${volume.metadata.name}, which it may have`) : [];
  }
  const reserved = volumes.find((one) => isFor(one, claim) && couldBe(one, claim));
  if (reserved !== undefined) return say(`waits, and ${reserved.metadata.name} is reserved for it`);
  if (classes.find((one) => one.metadata.name === spec.storageClassName)?.volumeBindingMode === 'WaitForFirstConsumer')
    return [];
  const free = volumes.find(
    (one) =>
      one.spec.claimRef === undefined && one.status?.phase === 'Available' && fits(one, claim) && selects(one, claim),
  );
  return free === undefined ? [] : say(`waits, and ${free.metadata.name} is free`);
}

function problemsOfVolume(volume: PersistentVolume, claims: readonly PersistentVolumeClaim[]): string[] {
  const { metadata, spec, status } = volume;
  const say = (what: string): string[] => [`volume ${metadata.name} ${what}`];
  const phase = status?.phase ?? '';
  if (metadata.deletionTimestamp !== undefined && phase !== 'Bound') return say(`is deleted, ${phase} and still there`);
  const uid = spec.claimRef?.uid ?? '';
  if (uid === '') return phase === 'Available' ? [] : say(`is free and ${phase}`);
  const claim = claims.find((one) => one.metadata.uid === uid);
  if (claim === undefined)
    return ['Released', 'Failed'].includes(phase) ? [] : say(`has lost its claim and is ${phase}`);
  if (claim.spec.volumeName === metadata.name) return phase === 'Bound' ? [] : say(`has its claim and is ${phase}`);
  if ((claim.spec.volumeName ?? '') !== '')
    return ['Released', 'Failed'].includes(phase) ? [] : say('is kept for a claim that has another');
  return couldBe(volume, claim) ? say('is reserved for a claim that does not take it') : [];
}

/** Of pods with one claim: with several, one may need a node that another forbids. */
function problemsOfPod(world: StorageWorld, pod: Pod, volumes: readonly PersistentVolume[]): string[] {
  if ((pod.spec.nodeName ?? '') !== '' || pod.metadata.deletionTimestamp !== undefined) return [];
  const say = (what: string): string[] => [`pod ${pod.metadata.name} ${what}`];
  const names = claimNamesOf(pod);
  const claims = claimsOfPod(world, pod);
  const isOwn = (pod.spec.volumes ?? []).every(
    (volume) =>
      volume.ephemeral === undefined ||
      claims.some(({ metadata }) => metadata.ownerReferences?.[0]?.uid === pod.metadata.uid),
  );
  if (names.length !== 1) return [];
  const [claim] = claims;
  if (claim === undefined) return pod.spec.volumes?.[0]?.ephemeral === undefined ? [] : say('has no claim made for it');
  if (!isOwn || claim.metadata.deletionTimestamp !== undefined || claim.status?.phase === 'Lost') return [];
  const isTaken =
    claim.spec.accessModes?.includes('ReadWriteOncePod') === true &&
    podsProtecting(world, claim).some((other) => !isTerminated(other));
  if (isTaken) return [];
  const ready = world
    .all<Node>('v1', 'Node')
    .filter(({ status }) => status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True'))
    .map(({ metadata }) => metadata.name);
  const volume = volumes.find(({ metadata }) => metadata.name === claim.spec.volumeName);
  if (claim.status?.phase === 'Bound' && volume !== undefined) {
    const [term] = volume.spec.nodeAffinity?.required?.nodeSelectorTerms ?? [];
    const places = term?.matchExpressions?.[0]?.values ?? ready;
    return places.some((place) => ready.includes(place)) ? say('has what it needs and no node') : [];
  }
  const isLocal = world
    .all<StorageClass>('storage.k8s.io/v1', 'StorageClass')
    .some((one) => one.metadata.name === claim.spec.storageClassName && one.provisioner === localProvisioner);
  const isProvisionable =
    isLocal &&
    (claim.spec.volumeName ?? '') === '' &&
    claim.spec.selector === undefined &&
    claim.spec.volumeMode !== 'Block';
  // The other node has no provisioner.
  const chosen = claim.metadata.annotations?.['volume.kubernetes.io/selected-node'] ?? 'here';
  return isProvisionable && chosen === 'here' && ready.includes('here')
    ? say(`waits, and ${claim.metadata.name} is not provisioned`)
    : [];
}

function problemsOfDisk(
  world: StorageWorld,
  claims: readonly PersistentVolumeClaim[],
  volumes: readonly PersistentVolume[],
): string[] {
  const { disk } = world;
  const pods = new Set(world.all<Pod>('v1', 'Pod').map(({ metadata }) => metadata.uid));
  const mounted = [...disk.mounts]
    .filter(([, { podUid }]) => !pods.has(podUid))
    .map(([id]) => `${id} is still mounted`);
  const orphans = disk.directoryNames.filter(
    (name) =>
      disk.linesOf(`/local/${name}`).length === 0 &&
      !volumes.some(({ metadata }) => metadata.name === name) &&
      !claims.some(({ metadata }) => `pvc-${metadata.uid}` === name),
  );
  const lost = claims.flatMap(({ metadata, spec }) => {
    const volume = volumes.find((one) => one.metadata.name === spec.volumeName);
    const lines = disk.linesOf(volume?.spec.local?.path ?? volume?.spec.hostPath?.path ?? '');
    const written = volume?.spec.claimRef?.uid === metadata.uid ? disk.writtenFor(metadata.uid ?? '') : [];
    return written.filter((line) => !lines.includes(line)).map((line) => `claim ${metadata.name} has lost "${line}"`);
  });
  return [...disk.violations, ...mounted, ...lost, ...orphans.map((name) => `the directory ${name} is nobody's`)];
}

function podsProtecting(world: StorageWorld, claim: PersistentVolumeClaim): readonly Pod[] {
  return world.all<Pod>('v1', 'Pod').filter(
    (pod) =>
      (pod.spec.nodeName ?? '') !== '' &&
      pod.metadata.namespace === claim.metadata.namespace &&
      (pod.spec.volumes ?? []).some((volume) => {
        if (claimNameOf(pod, volume) !== claim.metadata.name) return false;
        if (volume.ephemeral === undefined) return true;
        const isOwner = claim.metadata.ownerReferences?.[0]?.uid === pod.metadata.uid;
        return (
          isOwner && !(pod.metadata.deletionTimestamp !== undefined && pod.metadata.deletionGracePeriodSeconds === 0)
        );
      }),
  );
}

function claimsOfPod(world: StorageWorld, pod: Pod): readonly PersistentVolumeClaim[] {
  const names = claimNamesOf(pod);
  return world
    .all<PersistentVolumeClaim>('v1', 'PersistentVolumeClaim')
    .filter(({ metadata }) => metadata.namespace === pod.metadata.namespace && names.includes(metadata.name));
}

function isBound({ status }: PersistentVolumeClaim): boolean {
  return status?.phase === 'Bound';
}

function isFor({ spec: { claimRef } }: PersistentVolume, { metadata }: PersistentVolumeClaim): boolean {
  return (
    claimRef?.name === metadata.name &&
    claimRef.namespace === metadata.namespace &&
    ['', metadata.uid].includes(claimRef.uid ?? '')
  );
}

/** A volume that is reserved for a claim: its class and labels do not count. */
function couldBe({ metadata, spec }: PersistentVolume, claim: PersistentVolumeClaim): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    sizeOf(spec.capacity?.['storage']) >= sizeOf(claim.spec.resources?.requests?.['storage']) &&
    (spec.volumeMode ?? 'Filesystem') === (claim.spec.volumeMode ?? 'Filesystem') &&
    (claim.spec.accessModes ?? []).every((mode) => spec.accessModes?.includes(mode))
  );
}

function fits(volume: PersistentVolume, claim: PersistentVolumeClaim): boolean {
  return couldBe(volume, claim) && (volume.spec.storageClassName ?? '') === (claim.spec.storageClassName ?? '');
}

function selects({ metadata }: PersistentVolume, claim: PersistentVolumeClaim): boolean {
  return labelMatcher(requirementsOf(claim.spec.selector ?? {}))(metadata.labels ?? {});
}

function sizeOf(quantity: string | number | undefined): bigint {
  return readQuantity(quantity)?.value() ?? 0n;
}

function duplicates(names: readonly string[]): readonly string[] {
  return [...new Set(names.filter((name, at) => names.indexOf(name) !== at))];
}
