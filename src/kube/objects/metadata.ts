/** What every Kubernetes object carries: its identity, labels and owners. */
import { any, atomic, boolean, integer, list, map, object, required, setOf, string } from './schema.ts';
import type { Of } from './schema.ts';

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
