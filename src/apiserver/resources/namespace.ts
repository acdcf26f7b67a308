/**
 * Namespaces. Deleting one only begins its end: the phase says so, and it stays until its own finalizer is taken away through
 * `finalize`, by whoever has removed everything in it.
 */
import {
  type Namespace,
  namespaceKind,
  validateNamespaceFinalizeUpdate,
  validateNamespaceStatusUpdate,
} from '../../kube/kinds/namespace.ts';
import { ageColumn, nameColumn, text } from '../model/columns.ts';
import { keepFields, resource } from '../model/resource.ts';

const nameLabel = 'kubernetes.io/metadata.name';
const ownFinalizer = 'kubernetes';
const keptForever = new Set(['default', 'kube-system', 'kube-public']);

export const namespaces = resource(namespaceKind, {
  verbs: ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'],
  subresources: [
    {
      name: 'status',
      verbs: ['get', 'patch', 'update'],
      update: {
        prepare: (object, old) => labelled(keepFields(object, old, 'spec')),
        validate: validateNamespaceStatusUpdate,
      },
    },
    {
      name: 'finalize',
      verbs: ['update'],
      update: {
        // Nothing but these: everything else stays as it is.
        prepare: ({ spec }, old) => ({ ...old, spec: { ...old.spec, finalizers: spec?.finalizers ?? [] } }),
        validate: validateNamespaceFinalizeUpdate,
      },
    },
  ],
  prepareForCreate: (object) =>
    labelled({
      ...object,
      spec: { ...object.spec, finalizers: [...new Set([...(object.spec?.finalizers ?? []), ownFinalizer])] },
      status: { phase: 'Active' },
    }),
  prepareForUpdate: (object, old) => labelled(keepFields(object, old, 'spec', 'status')),
  deletion: {
    isHeld: ({ spec }) => (spec?.finalizers ?? []).length > 0,
    begin: (object) => ({ ...object, status: { ...object.status, phase: 'Terminating' } }),
    refusal: ({ metadata: { name } }) => (keptForever.has(name) ? 'this namespace may not be deleted' : undefined),
  },
  fields: { 'status.phase': ({ status }) => status?.phase ?? '' },
  columns: [
    nameColumn,
    text('Status', 'Whether the namespace is in use or about to end.', ({ status }) => status?.phase ?? ''),
    ageColumn,
  ],
  deleteAnswers: 'object',
});

/** So that a selector of labels can name namespaces. */
function labelled(object: Namespace): Namespace {
  const { metadata } = object;
  return { ...object, metadata: { ...metadata, labels: { ...metadata.labels, [nameLabel]: metadata.name } } };
}
