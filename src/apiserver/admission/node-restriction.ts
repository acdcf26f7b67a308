/**
 * What a node may write depends on the object: a pod only if it mirrors one of its own, a Node only if it is itself and
 * keeps its taints. This is admission: authorisation already said that a node may make such a request at all.
 */
import { type Node, isReservedNodeLabel } from '../../kube/kinds/node.ts';
import { isMirrorPod, mirrorAnnotation } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { TokenRequest } from '../../kube/kinds/service-account.ts';
import type { CsiDriver } from '../../kube/kinds/storage/csi.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import { migratedKindOf } from '../../kube/references/csi-translation.ts';
import { namesOf, referenceWords, referencesOf } from '../../kube/references/pod-references.ts';
import { keysOf, valueAt } from '../../kube/schema/equality.ts';
import { compareByteOrder, goQuote } from '../../kube/values/go-text.ts';
import { type User, nodeNameOf } from '../identity/user.ts';
import { notFound } from '../model/status.ts';
import { StoredObjects } from '../model/stored-objects.ts';
import type { Store } from '../store/store.ts';
import { type AdmissionStep, refuse } from './admission.ts';

export interface Admission {
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE';
  readonly group: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  /** Of the URL; on a create the name of the object. */
  readonly name: string;
  /** What the request would write, complete; undefined on a delete. */
  readonly object?: unknown;
  /** What is there; undefined on a create. */
  readonly old?: unknown;
}

/** The live objects that some rules compare with. */
interface RestrictionLookup {
  pod(namespace: string, name: string): Pod | undefined;
  node(name: string): Node | undefined;
  claim(namespace: string, name: string): PersistentVolumeClaim | undefined;
  persistentVolume(name: string): PersistentVolume | undefined;
  csiDriver(name: string): CsiDriver | undefined;
}

type Restriction =
  /** 403, with this text behind `is forbidden: `. */
  | { readonly kind: 'forbidden'; readonly message: string }
  /** 404 for an object that the request depends on. */
  | { readonly kind: 'notFound'; readonly resource: 'pods' | 'nodes'; readonly name: string };

/** Undefined: allowed. Only nodes are restricted here. */
export function nodeRestriction(user: User, admission: Admission, lookup: RestrictionLookup): Restriction | undefined {
  const node = nodeNameOf(user);
  if (node === undefined) return undefined;
  if (node === '') return forbidden(`could not determine node from user ${goQuote(user.name)}`);
  switch (`${admission.resource}.${admission.group}`) {
    case 'pods.':
      return restrictPods(node, admission, lookup);
    case 'nodes.':
      return restrictNodes(node, admission);
    case 'persistentvolumeclaims.':
      return admission.subresource === 'status'
        ? restrictClaimStatus(node, admission)
        : forbidden('may only update PVC status');
    case 'serviceaccounts.':
      return admission.operation === 'CREATE' && admission.subresource === 'token'
        ? restrictNodeToken(user.name, node, admission, lookup)
        : undefined;
    case 'leases.coordination.k8s.io':
      if (admission.namespace !== 'kube-node-lease') {
        return forbidden('can only access leases in the "kube-node-lease" system namespace');
      }
      return ownName(node, admission, 'can only access node lease with the same name as the requesting node');
    case 'csinodes.storage.k8s.io':
      return ownName(node, admission, 'can only access CSINode with the same name as the requesting node');
    default:
      return undefined;
  }
}

function forbidden(message: string): Restriction {
  return { kind: 'forbidden', message };
}

function ownName(node: string, { name }: Admission, message: string): Restriction | undefined {
  return name === node ? undefined : forbidden(message);
}

function restrictPods(node: string, admission: Admission, lookup: RestrictionLookup): Restriction | undefined {
  const { operation, subresource } = admission;
  const quoted = goQuote(node);
  switch (subresource) {
    case '':
      if (operation === 'CREATE') return restrictMirrorPod(node, admission.object as Pod, lookup);
      if (operation === 'DELETE') {
        return ownPod(node, admission, lookup, `node ${quoted} can only delete pods with spec.nodeName set to itself`);
      }
      return forbidden(
        `unexpected operation ${goQuote(operation)}, node ${quoted} can only create and delete mirror pods`,
      );
    case 'status':
      if (operation !== 'UPDATE') return forbidden(`unexpected operation ${goQuote(operation)}`);
      return restrictPodStatus(node, admission.object as Pod, admission.old as Pod);
    case 'eviction':
      if (operation !== 'CREATE') return forbidden(`unexpected operation ${operation}`);
      return ownPod(node, admission, lookup, `node ${node} can only evict pods with spec.nodeName set to itself`);
    default:
      return forbidden(`unexpected pod subresource ${goQuote(subresource)}, only 'status' and 'eviction' are allowed`);
  }
}

function ownPod(
  node: string,
  { namespace, name }: Admission,
  lookup: RestrictionLookup,
  message: string,
): Restriction | undefined {
  const pod = lookup.pod(namespace, name);
  if (pod === undefined) return { kind: 'notFound', resource: 'pods', name };
  return pod.spec.nodeName === node ? undefined : forbidden(message);
}

function restrictMirrorPod(node: string, pod: Pod, lookup: RestrictionLookup): Restriction | undefined {
  const quoted = goQuote(node);
  const { ownerReferences = [] } = pod.metadata;
  if (!isMirrorPod(pod)) {
    return forbidden(
      `pod does not have ${goQuote(mirrorAnnotation)} annotation, node ${quoted} can only create mirror pods`,
    );
  }
  if (pod.spec.nodeName !== node) {
    return forbidden(`node ${quoted} can only create pods with spec.nodeName set to itself`);
  }
  if (ownerReferences.length > 1) {
    return forbidden(`node ${quoted} can only create pods with a single owner reference set to itself`);
  }
  const [owner] = ownerReferences;
  if (owner?.apiVersion !== 'v1' || owner.kind !== 'Node' || owner.name !== node) {
    return forbidden(`node ${quoted} can only create pods with an owner reference set to itself`);
  }
  if (owner.controller !== true) {
    return forbidden(`node ${quoted} can only create pods with a controller owner reference set to itself`);
  }
  if (owner.blockOwnerDeletion === true) {
    return forbidden(`node ${quoted} must not set blockOwnerDeletion on an owner reference`);
  }
  const live = lookup.node(node);
  if (live === undefined) return { kind: 'notFound', resource: 'nodes', name: node };
  const uid = live.metadata.uid ?? '';
  if (owner.uid !== uid) return forbidden(`node ${node} UID mismatch: expected ${owner.uid} got ${uid}`);
  const reference = forbiddenReference(pod);
  return reference === undefined
    ? undefined
    : forbidden(`node ${quoted} can not create pods that reference ${reference}`);
}

/**
 * What a mirror pod refers to although a node must not create pods that give it access to anything. An API server reports objects
 * that are named before those that a volume only has room for.
 */
function forbiddenReference(pod: Pod): string | undefined {
  const references = referencesOf(pod);
  for (const kind of ['ServiceAccount', 'Secret', 'ConfigMap'] as const) {
    if (namesOf(references, kind).size > 0) return referenceWords({ kind, via: 'environment' });
  }
  const [first] = references;
  return first && referenceWords(first);
}

function restrictPodStatus(node: string, pod: Pod, old: Pod): Restriction | undefined {
  const quoted = goQuote(node);
  if (old.spec.nodeName !== node) {
    return forbidden(`node ${quoted} can only update pod status for pods with spec.nodeName set to itself`);
  }
  if (!sameContent(pod.metadata.labels, old.metadata.labels)) {
    return forbidden(`node ${quoted} cannot update labels through pod status`);
  }
  if (!sameContent(pod.status?.resourceClaimStatuses, old.status?.resourceClaimStatuses)) {
    return forbidden(`node ${quoted} cannot update resource claim statues`);
  }
  return undefined;
}

function restrictNodes(node: string, { operation, name, object, old }: Admission): Restriction | undefined {
  const quoted = goQuote(node);
  if (name !== node) return forbidden(`node ${quoted} is not allowed to modify node ${goQuote(name)}`);
  const { metadata, spec } = (object ?? {}) as Partial<Node>;
  const labels = metadata?.labels ?? {};
  if (operation === 'CREATE') {
    if (spec?.configSource !== undefined) {
      return forbidden(`node ${quoted} is not allowed to create pods with a non-nil configSource`);
    }
    const names = forbiddenLabels(labels, {});
    if (names.length === 0) return undefined;
    return forbidden(`node ${quoted} is not allowed to set the following labels: ${listed(names)}`);
  }
  if (operation !== 'UPDATE') return undefined;
  const before = (old ?? {}) as Partial<Node>;
  if (spec?.configSource !== undefined && !sameContent(spec.configSource, before.spec?.configSource)) {
    return forbidden(`node ${quoted} is not allowed to update configSource to a new non-nil configSource`);
  }
  if (!sameContent(spec?.taints, before.spec?.taints)) {
    return forbidden(`node ${quoted} is not allowed to modify taints`);
  }
  if (!sameContent(metadata?.ownerReferences, before.metadata?.ownerReferences)) {
    return forbidden(`node ${quoted} is not allowed to modify ownerReferences`);
  }
  const names = forbiddenLabels(labels, before.metadata?.labels ?? {});
  return names.length === 0 ? undefined : forbidden(`is not allowed to modify labels: ${listed(names)}`);
}

function listed(names: readonly string[]): string {
  return names.toSorted(compareByteOrder).join(', ');
}

/** A node reports sizes and conditions of a claim and may change nothing else. */
function restrictClaimStatus(node: string, { operation, object, old }: Admission): Restriction | undefined {
  if (operation !== 'UPDATE') return forbidden(`unexpected operation ${goQuote(operation)}`);
  if (sameContent(unchangeable(object), unchangeable(old))) return undefined;
  return forbidden(
    `node ${goQuote(node)} is not allowed to update fields other than status.quantity and status.conditions`,
  );
}

function unchangeable(value: unknown): unknown {
  const { metadata, spec, status } = value as PersistentVolumeClaim;
  const {
    capacity: _capacity,
    conditions: _conditions,
    allocatedResources: _resources,
    allocatedResourceStatuses: _statuses,
    ...restOfStatus
  } = status ?? {};
  const { resourceVersion: _version, managedFields: _fields, ...restOfMetadata } = metadata;
  return { metadata: restOfMetadata, spec, status: restOfStatus };
}

type Labels = Readonly<Record<string, string>>;

/** Those that were added, removed or changed although they belong to the cluster. */
function forbiddenLabels(labels: Labels, before: Labels): readonly string[] {
  return keysOf(labels, before).filter(
    (key) => valueAt(labels, key) !== valueAt(before, key) && isReservedNodeLabel(key),
  );
}

/** A node may request tokens for pods that run on it, bound to them, and for audiences that they name. */
function restrictNodeToken(
  userName: string,
  node: string,
  { namespace, object }: Pick<Admission, 'namespace' | 'object'>,
  lookup: RestrictionLookup,
): Restriction | undefined {
  const { audiences = [], boundObjectRef: bound } = (object as Partial<TokenRequest>).spec ?? {};
  const { name = '', uid = '' } = bound ?? {};
  if (bound?.apiVersion !== 'v1' || bound.kind !== 'Pod' || name === '') {
    return forbidden('node requested token not bound to a pod');
  }
  if (uid === '') return forbidden('node requested token with a pod binding without a uid');
  const pod = lookup.pod(namespace, name);
  if (pod === undefined) return { kind: 'notFound', resource: 'pods', name };
  if (pod.metadata.uid !== uid) {
    return forbidden(
      `the UID in the bound object reference (${uid}) does not match the UID in record. The object might have been deleted and then recreated`,
    );
  }
  if (pod.spec.nodeName !== node) return forbidden('node requested token bound to a pod scheduled on a different node');
  if (audiences.length > 1) return forbidden('node may only request 0 or 1 audiences');
  const [audience = ''] = audiences;
  if (projectedAudiences(pod).includes(audience) || driverAudiences(pod, lookup).includes(audience)) return undefined;
  return forbidden(`${userName} is not authorized to request tokens for audience ${goQuote(audience)}`);
}

function projectedAudiences({ spec }: Pod): readonly string[] {
  return (spec.volumes ?? []).flatMap(({ projected }) =>
    (projected?.sources ?? []).flatMap(({ serviceAccountToken: token }) =>
      token === undefined ? [] : [token.audience ?? ''],
    ),
  );
}

/** Of the tokens that CSI drivers of the pod's volumes get for it, those of kinds that drivers have taken over among them. */
function driverAudiences(pod: Pod, lookup: RestrictionLookup): readonly string[] {
  const { namespace = '' } = pod.metadata;
  const named = referencesOf(pod).map(({ kind, name }) => {
    const claim = kind === 'PersistentVolumeClaim' ? lookup.claim(namespace, name) : undefined;
    const volume = claim && lookup.persistentVolume(claim.spec.volumeName ?? '');
    return kind === 'CSIDriver' ? name : volume && (volume.spec.csi?.driver ?? migratedKindOf(volume.spec)?.driver);
  });
  const drivers = [...named, ...(pod.spec.volumes ?? []).map((volume) => migratedKindOf(volume)?.driver)];
  return drivers.flatMap((driver) => {
    const { tokenRequests = [] } = (driver === undefined ? undefined : lookup.csiDriver(driver)?.spec) ?? {};
    return tokenRequests.map(({ audience }) => audience);
  });
}

/**
 * Whether two values say the same, as the API compares objects: an empty list or map says as much as none, and the order
 * of keys says nothing. Prototypes do not count either: maps of decoded objects have none, those of parsed JSON do.
 */
export function sameContent(a: unknown, b: unknown): boolean {
  if (isEmpty(a) && isEmpty(b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  if (Array.isArray(a) && Array.isArray(b) && a.length !== b.length) return false;
  return keysOf(a, b).every((key) => sameContent(valueOf(a, key), valueOf(b, key)));
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  return typeof value === 'object' && Object.values(value).every((item) => !Array.isArray(value) && isEmpty(item));
}

function valueOf(object: object, key: string): unknown {
  return Object.hasOwn(object, key) ? (object as Record<string, unknown>)[key] : undefined;
}

export function nodeRestrictionAdmission(store: Pick<Store, 'get'>): AdmissionStep {
  const objects = new StoredObjects(store);
  return {
    admit(request) {
      const { user, operation, resource, subresource, namespace, object, old } = request;
      const { group, plural } = resource;
      const name = request.name || (object?.metadata.name ?? '');
      const admission = { operation, group, resource: plural, subresource, namespace, name, object, old };
      const restriction = nodeRestriction(user, admission, objects);
      if (restriction === undefined) return undefined;
      if (restriction.kind === 'notFound') throw notFound({ group: '', name: restriction.resource }, restriction.name);
      throw refuse(request, restriction.message);
    },
  };
}
