/** The two kinds of objects that pods read, and what the managers must know of each. Everything else is the same for both. */
import { type ResourceReference, configMaps, secrets, withShape } from '../client/api/resource-reference.ts';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { Secret } from '../kube/kinds/secret.ts';
import type { ReferencedKind } from '../kube/pod-references.ts';
import type { ObjectMeta } from '../kube/schema/meta.ts';
import { boolean, bytes, map, object, required, string } from '../kube/schema/schema.ts';

export interface ManagedObject {
  readonly metadata: ObjectMeta;
  readonly immutable?: boolean;
}

export interface ManagedKind<T extends ManagedObject> {
  /** As the kubelet says it in messages: `configmap "x" not found`. */
  readonly singular: string;
  /** With the shape of what is kept of an object. */
  readonly resource: ResourceReference<T>;
  readonly kind: ReferencedKind;
}

/**
 * What nobody reads is not kept. Managed fields and annotations are often larger than the content, and one of them repeats it:
 * the last applied configuration.
 */
const keptFields = {
  apiVersion: string,
  kind: string,
  metadata: required(object({ name: required(string), namespace: string, uid: string, resourceVersion: string })),
  immutable: boolean,
};

export const managedConfigMaps: ManagedKind<ConfigMap> = {
  singular: 'configmap',
  resource: withShape(configMaps, object({ ...keptFields, data: map(string), binaryData: map(bytes) })),
  kind: 'ConfigMap',
};

export const managedSecrets: ManagedKind<Secret> = {
  singular: 'secret',
  resource: withShape(secrets, object({ ...keptFields, data: map(bytes), type: string })),
  kind: 'Secret',
};
