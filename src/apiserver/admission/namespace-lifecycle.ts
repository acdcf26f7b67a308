/** Nothing is created in a namespace that does not exist or is about to end. */
import type { Namespace } from '../../kube/kinds/namespace.ts';
import { objectKey } from '../object-key.ts';
import { notFound } from '../status.ts';
import type { Store } from '../store/store.ts';
import { type AdmissionStep, refuse } from './admission.ts';

const namespaces = { group: '', plural: 'namespaces', namespaced: false };

export function namespaceLifecycle(store: Pick<Store, 'get'>): AdmissionStep {
  return {
    admit(request) {
      const { operation, resource, namespace, subresource } = request;
      // What is asked of an object that exists (a token, an eviction) makes nothing new.
      if (operation !== 'CREATE' || !resource.namespaced || subresource !== '') return undefined;
      const stored = store.get(objectKey(namespaces, '', namespace));
      if (stored === undefined) throw notFound({ group: '', name: 'namespaces' }, namespace);
      const { metadata, status } = JSON.parse(stored.value) as Namespace;
      if (metadata.deletionTimestamp === undefined && status?.phase !== 'Terminating') return undefined;
      const text = `unable to create new content in namespace ${namespace} because it is being terminated`;
      const message = `namespace ${namespace} is being terminated`;
      throw refuse(request, text, [{ reason: 'NamespaceTerminating', message, field: 'metadata.namespace' }]);
    },
  };
}
