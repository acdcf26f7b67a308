/** Names of resources and the paths they have. Which fields an object has is the business of kube/. */
import { MountletError } from '../../base/errors.ts';
import type { Shape } from '../../kube/schema/schema.ts';

/** What can be said of any object. Everything else is as the server sent it. */
export interface ApiObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

export interface ResourceReference<T extends ApiObject = ApiObject> {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly isNamespaced: boolean;
  /** With it, objects are decoded and fields it does not know are left out; without it they are the server's JSON. */
  readonly shape?: Shape<T>;
}

/** Where an object or a collection is. */
export interface Place {
  /** Absent for cluster-wide kinds, and for a list over all namespaces. */
  readonly namespace?: string | undefined;
}

export interface ObjectPlace extends Place {
  readonly name: string;
  readonly subresource?: string;
}

export class InvalidPlaceError extends MountletError {
  readonly reason = 'InvalidPlace';
  constructor(what: string, value: string) {
    super(`Cannot make a path of ${what} ${JSON.stringify(value)}: give a name without "/" and "%"`);
  }
}

const core = (plural: string, kind: string, isNamespaced = true): ResourceReference => ({
  group: '',
  version: 'v1',
  plural,
  kind,
  isNamespaced,
});

export const configMaps = core('configmaps', 'ConfigMap');
export const secrets = core('secrets', 'Secret');
export const serviceAccounts = core('serviceaccounts', 'ServiceAccount');
export const pods = core('pods', 'Pod');
export const services = core('services', 'Service');
export const events = core('events', 'Event');
export const persistentVolumeClaims = core('persistentvolumeclaims', 'PersistentVolumeClaim');
export const persistentVolumes = core('persistentvolumes', 'PersistentVolume', false);
export const namespaces = core('namespaces', 'Namespace', false);
export const nodes = core('nodes', 'Node', false);
export const leases: ResourceReference = {
  ...core('leases', 'Lease'),
  group: 'coordination.k8s.io',
};
export const runtimeClasses: ResourceReference = {
  ...core('runtimeclasses', 'RuntimeClass', false),
  group: 'node.k8s.io',
};
export const csiDrivers: ResourceReference = { ...core('csidrivers', 'CSIDriver', false), group: 'storage.k8s.io' };
export const csiNodes: ResourceReference = { ...core('csinodes', 'CSINode', false), group: 'storage.k8s.io' };
export const storageClasses: ResourceReference = {
  ...core('storageclasses', 'StorageClass', false),
  group: 'storage.k8s.io',
};
export const clusterTrustBundles: ResourceReference = {
  ...core('clustertrustbundles', 'ClusterTrustBundle', false),
  group: 'certificates.k8s.io',
  version: 'v1beta1',
};

/** `withShape(configMaps, configMap)`: the same resource with typed objects. */
export function withShape<T extends ApiObject>(resource: ResourceReference, shape: Shape<T>): ResourceReference<T> {
  const { group, version, plural, kind, isNamespaced } = resource;
  return { group, version, plural, kind, isNamespaced, shape };
}

export function apiVersionOf({ group, version }: Pick<ResourceReference, 'group' | 'version'>): string {
  return group === '' ? version : `${group}/${version}`;
}

/** `configmaps` or `leases.coordination.k8s.io`: as messages name it. */
export function resourceName({ group, plural }: Pick<ResourceReference, 'group' | 'plural'>): string {
  return group === '' ? plural : `${plural}.${group}`;
}

export function collectionPath(resource: ResourceReference, { namespace }: Place): string {
  const root = resource.group === '' ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`;
  const scope =
    resource.isNamespaced && namespace !== undefined ? `/namespaces/${segment('the namespace', namespace)}` : '';
  return `${root}${scope}/${resource.plural}`;
}

export function objectPath(resource: ResourceReference, place: ObjectPlace): string {
  if (resource.isNamespaced && place.namespace === undefined) throw new InvalidPlaceError('the namespace', '');
  const subresource = place.subresource === undefined ? '' : `/${segment('the subresource', place.subresource)}`;
  return `${collectionPath(resource, place)}/${segment('the name', place.name)}${subresource}`;
}

/** The API's own rule for names in paths: whatever could lead elsewhere is refused, never escaped. */
function segment(what: string, value: string): string {
  if (value === '' || value === '.' || value === '..' || /[/%]/.test(value)) throw new InvalidPlaceError(what, value);
  return encodeURIComponent(value);
}

/** `namespace/name`, or only the name of a cluster-wide object. */
export function objectKey({ metadata: { namespace, name } }: ApiObject): string {
  return namespace === undefined || namespace === '' ? name : `${namespace}/${name}`;
}
