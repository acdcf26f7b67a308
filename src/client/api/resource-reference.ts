/** Names of resources and the paths they have. Which fields an object has is the business of kube/. */
import { MountletError } from '../../base/errors.ts';
import { certificateSigningRequestKind } from '../../kube/kinds/certificate-signing-request.ts';
import { trustBundleKind } from '../../kube/kinds/cluster-trust-bundle.ts';
import { configMapKind } from '../../kube/kinds/config-map.ts';
import { endpointSliceKind } from '../../kube/kinds/endpoint-slice.ts';
import { eventKind } from '../../kube/kinds/event.ts';
import { leaseKind } from '../../kube/kinds/lease.ts';
import { namespaceKind } from '../../kube/kinds/namespace.ts';
import { nodeKind } from '../../kube/kinds/node.ts';
import { podKind } from '../../kube/kinds/pod/pod.ts';
import { runtimeClassKind } from '../../kube/kinds/runtime-class.ts';
import { secretKind } from '../../kube/kinds/secret.ts';
import { serviceAccountKind } from '../../kube/kinds/service-account.ts';
import { serviceKind } from '../../kube/kinds/service.ts';
import { csiDriverKind, csiNodeKind } from '../../kube/kinds/storage/csi.ts';
import { claimKind } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { persistentVolumeKind } from '../../kube/kinds/storage/persistent-volume.ts';
import { storageClassKind } from '../../kube/kinds/storage/storage-class.ts';
import { volumeAttachmentKind } from '../../kube/kinds/storage/volume-attachment.ts';
import type { ResourceKind } from '../../kube/schema/kind.ts';
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

function referenceTo(
  named: Pick<ResourceKind, 'group' | 'version' | 'plural' | 'kind' | 'namespaced'>,
): ResourceReference {
  const { group, version, plural, kind, namespaced: isNamespaced } = named;
  return { group, version, plural, kind, isNamespaced };
}

export const configMaps = referenceTo(configMapKind);
export const secrets = referenceTo(secretKind);
export const serviceAccounts = referenceTo(serviceAccountKind);
export const pods = referenceTo(podKind);
export const certificateSigningRequests = referenceTo(certificateSigningRequestKind);
export const services = referenceTo(serviceKind);
export const endpointSlices = referenceTo(endpointSliceKind);
export const events = referenceTo(eventKind);
export const persistentVolumeClaims = referenceTo(claimKind);
export const persistentVolumes = referenceTo(persistentVolumeKind);
export const namespaces = referenceTo(namespaceKind);
export const nodes = referenceTo(nodeKind);
export const leases = referenceTo(leaseKind);
export const runtimeClasses = referenceTo(runtimeClassKind);
export const csiDrivers = referenceTo(csiDriverKind);
export const csiNodes = referenceTo(csiNodeKind);
export const volumeAttachments = referenceTo(volumeAttachmentKind);
export const storageClasses = referenceTo(storageClassKind);
export const clusterTrustBundles = referenceTo(trustBundleKind);

/** `withShape(configMaps, configMapShape)`: the same resource with typed objects. */
export function withShape<T extends ApiObject>(resource: ResourceReference, shape: Shape<T>): ResourceReference<T> {
  const { group, version, plural, kind, isNamespaced } = resource;
  return { group, version, plural, kind, isNamespaced, shape };
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
