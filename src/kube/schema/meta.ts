/** What every Kubernetes object carries: its identity, labels and owners. */
import { type Of, any, atomic, boolean, integer, list, map, object, required, setOf, string } from './schema.ts';

export const ownerReference = object({
  apiVersion: required(string),
  kind: required(string),
  name: required(string),
  uid: required(string),
  controller: boolean,
  blockOwnerDeletion: boolean,
});
export interface OwnerReference extends Of<typeof ownerReference> {}

export const objectMeta = object({
  name: required(string),
  generateName: string,
  namespace: string,
  selfLink: string,
  uid: string,
  resourceVersion: string,
  generation: integer,
  creationTimestamp: string,
  deletionTimestamp: string,
  deletionGracePeriodSeconds: integer,
  labels: map(string),
  annotations: map(string),
  ownerReferences: list(atomic(ownerReference), 'uid'),
  finalizers: setOf(string),
  managedFields: list(any),
});
export interface ObjectMeta extends Of<typeof objectMeta> {}

/** The fields every object begins with; a kind's shape spreads them: `object({ ...objectFields, data: … })`. */
export const objectFields = { apiVersion: string, kind: string, metadata: required(objectMeta) };

export const labelSelector = atomic(
  object({
    matchLabels: map(string),
    matchExpressions: list(object({ key: required(string), operator: required(string), values: list(string) })),
  }),
);
export interface LabelSelector extends Of<typeof labelSelector> {}

/** A reference within the pod's namespace. */
export const localObjectReference = atomic(object({ name: required(string) }));

export const objectReference = atomic(
  object({
    kind: string,
    namespace: string,
    name: string,
    uid: string,
    apiVersion: string,
    resourceVersion: string,
    fieldPath: string,
  }),
);
export interface ObjectReference extends Of<typeof objectReference> {}

/** How the API answers when it has no object to answer with: an error, or the success of a deletion. */
export const listMeta = object({
  selfLink: string,
  resourceVersion: string,
  continue: string,
  remainingItemCount: integer,
});
export interface ListMeta extends Of<typeof listMeta> {}

export const status = object({
  apiVersion: string,
  kind: string,
  metadata: listMeta,
  status: string,
  message: string,
  reason: string,
  details: object({
    name: string,
    group: string,
    kind: string,
    uid: string,
    causes: list(object({ reason: string, message: string, field: string })),
    retryAfterSeconds: integer,
  }),
  code: integer,
});
export interface Status extends Of<typeof status> {}

/** What a client may say about a deletion: how soon, of which object exactly, and what becomes of its dependents. */
export const deleteOptions = object({
  apiVersion: string,
  kind: string,
  gracePeriodSeconds: integer,
  preconditions: object({ uid: string, resourceVersion: string }),
  orphanDependents: boolean,
  propagationPolicy: string,
  dryRun: list(string),
  ignoreStoreReadErrorWithClusterBreakingPotential: boolean,
});
export interface DeleteOptions extends Of<typeof deleteOptions> {}

/** Versions of one server's objects grow and may be compared as numbers; what is no number says nothing and counts as 0. */
export function isOlder(version: string | undefined, than: string | undefined): boolean {
  return numberOf(version) < numberOf(than);
}

function numberOf(version = ''): bigint {
  return /^\d+$/.test(version) ? BigInt(version) : 0n;
}
