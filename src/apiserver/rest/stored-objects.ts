/** Single objects of the store for the server's own use, by kind and name. */
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Secret } from '../../kube/kinds/secret.ts';
import type { ServiceAccount } from '../../kube/kinds/service-account.ts';
import type { ObjectMeta } from '../../kube/schema/meta.ts';
import type { LiveObject, TokenSubjects } from '../identity/token-issuer.ts';
import { objectKey } from '../object-key.ts';
import type { Store } from '../store/store.ts';
import { parseStored } from '../stored-value.ts';

const core = { group: '' };
const pods = { ...core, plural: 'pods', namespaced: true };
const nodes = { ...core, plural: 'nodes', namespaced: false };
const secrets = { ...core, plural: 'secrets', namespaced: true };
const serviceAccounts = { ...core, plural: 'serviceaccounts', namespaced: true };

export class StoredObjects {
  readonly #store: Pick<Store, 'get'>;

  constructor(store: Pick<Store, 'get'>) {
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

  #read(key: string): unknown {
    const stored = this.#store.get(key);
    return stored === undefined ? undefined : parseStored(stored.value);
  }
}

/** What a token's verification asks of the objects it is bound to. */
export function liveSubjects(objects: StoredObjects): TokenSubjects {
  return {
    serviceAccount: (namespace, name) => alive(objects.serviceAccount(namespace, name)),
    pod: (namespace, name) => alive(objects.pod(namespace, name)),
    secret: (namespace, name) => alive(objects.secret(namespace, name)),
    node: (name) => alive(objects.node(name)),
  };
}

function alive(object: { readonly metadata: ObjectMeta } | undefined): LiveObject | undefined {
  if (object === undefined) return undefined;
  const { uid = '', deletionTimestamp } = object.metadata;
  return { uid, ...(deletionTimestamp !== undefined && { deletionTimestamp }) };
}
