/** The status of kinds that ask nothing more of it: everything but the spec may come with it, by the rules of metadata. */
import { validateObjectMetaUpdate } from '../../kube/schema/metadata-validation.ts';
import type { KubeObject, Subresource } from '../model/resource.ts';

export function plainStatus<T extends KubeObject & { readonly spec: unknown }>(): Subresource<T> {
  return {
    name: 'status',
    verbs: ['get', 'patch', 'update'],
    update: {
      prepare: (object, old) => ({ ...object, spec: old.spec }),
      validate: ({ metadata }, old) => validateObjectMetaUpdate(metadata, old.metadata),
    },
  };
}
