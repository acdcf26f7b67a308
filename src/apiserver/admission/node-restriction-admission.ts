/** Holds nodes to their own objects. The rules are those of `identity/node-restriction.ts`. */
import { nodeRestriction } from '../identity/node-restriction.ts';
import { StoredObjects } from '../rest/stored-objects.ts';
import { notFound } from '../status.ts';
import type { Store } from '../store/store.ts';
import type { AdmissionStep } from './admission.ts';
import { refuse } from './admission.ts';

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
