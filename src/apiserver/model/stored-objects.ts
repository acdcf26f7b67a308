/**
 * Objects in the store: their keys (`/registry/<group or "core">/<plural>/<namespace>/<name>`, without namespace for cluster
 * objects), their text, which is what clients get, and single ones for the server's own use.
 */
import { goJson } from '../../kube/values/go-text.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Secret } from '../../kube/kinds/secret.ts';
import type { ServiceAccount } from '../../kube/kinds/service-account.ts';
import type { CsiDriver } from '../../kube/kinds/storage/csi.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { KubeObject, Resource } from './resource.ts';

type Kind = Pick<Resource, 'group' | 'plural' | 'namespaced'>;

interface ObjectPlace {
  readonly group: string;
  readonly plural: string;
  readonly namespace: string;
  readonly name: string;
}

export function objectKey(resource: Kind, namespace: string, name: string): string {
  return `${objectPrefix(resource, namespace)}${name}`;
}

/** Of all objects of a kind, or of those in one namespace. Ends with a slash. */
export function objectPrefix({ group, plural, namespaced }: Kind, namespace = ''): string {
  const all = `/registry/${group === '' ? 'core' : group}/${plural}/`;
  return namespaced && namespace !== '' ? `${all}${namespace}/` : all;
}

export function placeOfKey(key: string): ObjectPlace {
  const [, , group = '', plural = '', ...rest] = key.split('/');
  const name = rest.pop() ?? '';
  return { group: group === 'core' ? '' : group, plural, namespace: rest.join('/'), name };
}

/** Smaller ones are parsed faster than they are found. */
const largeLength = 64 * 1024;
const rememberedMax = 4;
/** The newest last. A large object is read by several parts of the server at each write, and takes 10 ms for each MB to parse. */
const remembered: { readonly value: string; readonly object: KubeObject }[] = [];

/** The same object for the same large text: nothing may change it. */
export function parseStored(value: string): KubeObject {
  if (value.length < largeLength) return JSON.parse(value) as KubeObject;
  const known = remembered.find((one) => one.value === value);
  if (known !== undefined) return known.object;
  return remember(value, JSON.parse(value) as KubeObject);
}

export function storedText(object: KubeObject, revision: number): string {
  const stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
  // kube-controller-manager compares the data of a revision, byte by byte, with what it would write itself.
  const value = object.kind === 'ControllerRevision' ? goJson(stored) : JSON.stringify(stored);
  if (value.length >= largeLength) remember(value, stored);
  return value;
}

function remember(value: string, object: KubeObject): KubeObject {
  remembered.push({ value, object });
  if (remembered.length > rememberedMax) remembered.shift();
  return object;
}

const core = { group: '' };
const pods = { ...core, plural: 'pods', namespaced: true };
const nodes = { ...core, plural: 'nodes', namespaced: false };
const secrets = { ...core, plural: 'secrets', namespaced: true };
const serviceAccounts = { ...core, plural: 'serviceaccounts', namespaced: true };
const claims = { ...core, plural: 'persistentvolumeclaims', namespaced: true };
const volumes = { ...core, plural: 'persistentvolumes', namespaced: false };
const csiDrivers = { group: 'storage.k8s.io', plural: 'csidrivers', namespaced: false };

interface ObjectStore {
  get(key: string): { readonly value: string } | undefined;
}

export class StoredObjects {
  readonly #store: ObjectStore;

  constructor(store: ObjectStore) {
    this.#store = store;
  }

  pod(namespace: string, name: string): Pod | undefined {
    return this.#read(objectKey(pods, namespace, name)) as Pod | undefined;
  }

  node(name: string): Node | undefined {
    return this.#read(objectKey(nodes, '', name)) as Node | undefined;
  }

  secret(namespace: string, name: string): Secret | undefined {
    return this.#read(objectKey(secrets, namespace, name)) as Secret | undefined;
  }

  serviceAccount(namespace: string, name: string): ServiceAccount | undefined {
    return this.#read(objectKey(serviceAccounts, namespace, name)) as ServiceAccount | undefined;
  }

  claim(namespace: string, name: string): PersistentVolumeClaim | undefined {
    return this.#read(objectKey(claims, namespace, name)) as PersistentVolumeClaim | undefined;
  }

  persistentVolume(name: string): PersistentVolume | undefined {
    return this.#read(objectKey(volumes, '', name)) as PersistentVolume | undefined;
  }

  csiDriver(name: string): CsiDriver | undefined {
    return this.#read(objectKey(csiDrivers, '', name)) as CsiDriver | undefined;
  }

  #read(key: string): unknown {
    const stored = this.#store.get(key);
    return stored === undefined ? undefined : parseStored(stored.value);
  }
}
