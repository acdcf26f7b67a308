/** What claims, volumes and classes say to each other: annotations, finalizers, and which class is meant. Pure. */
import type { Pod } from '../kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../kinds/storage/persistent-volume.ts';
import type { StorageClass } from '../kinds/storage/storage-class.ts';
import type { KubeObject } from '../schema/kind.ts';
import { readQuantity } from '../values/quantity.ts';
import { claimNameOf } from './volume-spec.ts';

/** Of annotations that controllers set: their presence counts, not their value. */
export const bindCompleted = 'pv.kubernetes.io/bind-completed';
export const boundByController = 'pv.kubernetes.io/bound-by-controller';
export const selectedNode = 'volume.kubernetes.io/selected-node';
export const provisionedBy = 'pv.kubernetes.io/provisioned-by';
/** Both are written, always together. */
export const provisionerAnnotations = [
  'volume.beta.kubernetes.io/storage-provisioner',
  'volume.kubernetes.io/storage-provisioner',
] as const;

/** Names the CSI driver that serves a plugin which was part of Kubernetes once. */
export const migratedTo = 'pv.kubernetes.io/migrated-to';

export const claimProtection = 'kubernetes.io/pvc-protection';
export const volumeProtection = 'kubernetes.io/pv-protection';

const classAnnotation = 'volume.beta.kubernetes.io/storage-class';
const defaultAnnotations = [
  'storageclass.kubernetes.io/is-default-class',
  'storageclass.beta.kubernetes.io/is-default-class',
];

export function hasAnnotation({ metadata }: KubeObject, name: string): boolean {
  return Object.hasOwn(metadata.annotations ?? {}, name);
}

/** The class that is named, by the older annotation or by the field; undefined where none is, which is not the class "". */
function namedClass(object: PersistentVolumeClaim | PersistentVolume): string | undefined {
  return hasAnnotation(object, classAnnotation)
    ? (object.metadata.annotations?.[classAnnotation] ?? '')
    : object.spec.storageClassName;
}

export function classOf(object: PersistentVolumeClaim | PersistentVolume): string {
  return namedClass(object) ?? '';
}

/** A claim that names no class gets the default one; one that names the class "" does not. */
export function wantsDefaultClass(claim: PersistentVolumeClaim): boolean {
  return namedClass(claim) === undefined;
}

export function isDefaultClass({ metadata: { annotations = {} } }: StorageClass): boolean {
  return defaultAnnotations.some((name) => annotations[name] === 'true');
}

/** Of several the newest, and of equally old ones the first by name. */
export function defaultClassOf(classes: Iterable<StorageClass>): StorageClass | undefined {
  const createdAt = ({ metadata }: StorageClass): number => Date.parse(metadata.creationTimestamp ?? '') || 0;
  const [first] = [...classes]
    .filter(isDefaultClass)
    .sort((a, b) => createdAt(b) - createdAt(a) || (a.metadata.name < b.metadata.name ? -1 : 1));
  return first;
}

/** The name of the volume that is made for a claim: the same whenever it is tried again. */
export function volumeNameFor({ metadata }: KubeObject): string {
  return `pvc-${metadata.uid ?? ''}`;
}

/** What a claim asks for. */
export function requestedBytes({ spec }: PersistentVolumeClaim): bigint {
  return readQuantity(spec.resources?.requests?.['storage'])?.value() ?? 0n;
}

/** With these annotations; the same object where it has them. */
export function annotated<T extends KubeObject>(object: T, names: readonly string[], value: string): T {
  const { annotations = {} } = object.metadata;
  if (names.every((name) => annotations[name] === value)) return object;
  const added = Object.fromEntries(names.map((name) => [name, value]));
  return { ...object, metadata: { ...object.metadata, annotations: { ...annotations, ...added } } };
}

/** Without this annotation; the same object where it has none. */
export function withoutAnnotation<T extends KubeObject>(object: T, name: string): T {
  if (!hasAnnotation(object, name)) return object;
  const { [name]: _, ...annotations } = object.metadata.annotations ?? {};
  return { ...object, metadata: { ...object.metadata, annotations } };
}

/** With this finalizer; the same object where it has it. */
export function withFinalizer<T extends KubeObject>(object: T, finalizer: string): T {
  const { finalizers = [] } = object.metadata;
  if (finalizers.includes(finalizer)) return object;
  return { ...object, metadata: { ...object.metadata, finalizers: [...finalizers, finalizer] } };
}

/** Without this finalizer; the same object where it has none. */
export function withoutFinalizer<T extends KubeObject>(object: T, finalizer: string): T {
  const { finalizers = [], ...metadata } = object.metadata;
  if (!finalizers.includes(finalizer)) return object;
  const others = finalizers.filter((one) => one !== finalizer);
  return { ...object, metadata: { ...metadata, ...(others.length > 0 && { finalizers: others }) } };
}

/** Names of the claims that a pod's volumes stand for, those of its ephemeral volumes too. */
export function claimNamesOf(pod: Pod): readonly string[] {
  return (pod.spec.volumes ?? []).flatMap((volume) => claimNameOf(pod, volume) ?? []);
}

/** Its containers have ended for good. */
export function isOver({ status }: Pod): boolean {
  return status?.phase === 'Failed' || status?.phase === 'Succeeded';
}

/** Its containers have ended for good, or have all ended while it is being deleted. */
export function isTerminated(pod: Pod): boolean {
  const { metadata, status } = pod;
  if (isOver(pod)) return true;
  if (metadata.deletionTimestamp === undefined) return false;
  const { initContainerStatuses = [], containerStatuses = [], ephemeralContainerStatuses = [] } = status ?? {};
  const all = [...initContainerStatuses, ...containerStatuses, ...ephemeralContainerStatuses];
  return all.every(({ state }) => state?.terminated !== undefined || state?.waiting !== undefined);
}
