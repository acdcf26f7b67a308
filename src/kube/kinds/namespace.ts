/** A namespace: the scope of names, and of what is deleted together. */
import { type FieldError, invalidField, invalidFields } from '../schema/field-errors.ts';
import { resourceKind } from '../schema/kind.ts';
import { objectFields } from '../schema/meta.ts';
import { finalizersOfKubernetes, validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import { type FieldPath, type Of, described, list, object, required, string, time } from '../schema/schema.ts';
import { dnsLabelProblems, qualifiedNameProblems } from '../values/names.ts';

const namespaceShape = described(
  {
    text: 'A scope of names. Everything in it goes with it.',
    fields: {
      spec: 'Who must agree before the namespace is gone.',
      status: 'Whether the namespace is in use or about to end.',
    },
  },
  object({
    ...objectFields,
    /** These are its own, besides those of its metadata: they go when everything in the namespace is gone. */
    spec: described(
      {
        text: 'Who must agree before a namespace is gone.',
        fields: { finalizers: 'While this list is not empty, a deleted namespace stays.' },
      },
      object({ finalizers: list(string) }),
    ),
    status: described(
      {
        text: 'Whether a namespace is in use or about to end.',
        fields: { phase: 'Active or Terminating.', conditions: 'What keeps it from ending.' },
      },
      object({
        phase: string,
        conditions: list(
          object({
            type: required(string),
            status: required(string),
            lastTransitionTime: time,
            reason: string,
            message: string,
          }),
          'type',
        ),
      }),
    ),
  }),
);
export interface Namespace extends Of<typeof namespaceShape> {}

export const namespaceKind = resourceKind<Namespace>({
  kind: 'Namespace',
  plural: 'namespaces',
  shortNames: ['ns'],
  namespaced: false,
  shape: namespaceShape,
  complete: labelled,
  validate: validateNamespace,
  validateUpdate: validateNamespaceUpdate,
  wire: {
    Namespace: '1 metadata ObjectMeta, 2 spec NamespaceSpec, 3 status NamespaceStatus',
    NamespaceSpec: '1 finalizers [string]',
    NamespaceStatus: '1 phase, 2 conditions [NamespaceCondition]',
    NamespaceCondition: '1 type!, 2 status!, 4 lastTransitionTime Time, 5 reason, 6 message',
  },
});

const nameLabel = 'kubernetes.io/metadata.name';

/** So that a selector of labels can name namespaces. */
function labelled(namespace: Namespace): Namespace {
  const { metadata } = namespace;
  return { ...namespace, metadata: { ...metadata, labels: { ...metadata.labels, [nameLabel]: metadata.name } } };
}

/** Rules for namespaces, on creation, on update, and for the two subresources that carry their end. */
function validateNamespace({ metadata, spec }: Namespace): FieldError[] {
  return [
    ...validateObjectMeta(metadata, { name: dnsLabelProblems, scope: 'cluster' }),
    ...(spec?.finalizers ?? []).flatMap((name) => finalizerErrors(name, ['spec', 'finalizers'])),
  ];
}

function validateNamespaceUpdate(namespace: Namespace, old: Namespace): FieldError[] {
  return [...validateNamespace(namespace), ...validateObjectMetaUpdate(namespace.metadata, old.metadata)];
}

export function validateNamespaceStatusUpdate(namespace: Namespace, old: Namespace): FieldError[] {
  const errors = validateObjectMetaUpdate(namespace.metadata, old.metadata);
  const isEnding = namespace.metadata.deletionTimestamp !== undefined;
  const phase = namespace.status?.phase ?? '';
  if (phase === (isEnding ? 'Terminating' : 'Active')) return errors;
  const detail = isEnding
    ? "may only be 'Terminating' if `deletionTimestamp` is not empty"
    : "may only be 'Active' if `deletionTimestamp` is empty";
  return [...errors, invalidField(['status', 'Phase'], phase, detail)];
}

export function validateNamespaceFinalizeUpdate(namespace: Namespace, old: Namespace): FieldError[] {
  return [
    ...validateObjectMetaUpdate(namespace.metadata, old.metadata),
    ...(namespace.spec?.finalizers ?? []).flatMap((name, index) =>
      finalizerErrors(name, ['spec', 'finalizers', index]),
    ),
  ];
}

function finalizerErrors(name: string, path: FieldPath): FieldError[] {
  const errors = invalidFields(path, name, qualifiedNameProblems(name));
  if (name.includes('/') || finalizersOfKubernetes.has(name)) return errors;
  const detail = 'name is neither a standard finalizer name nor is it fully qualified';
  return [...errors, invalidField(path, name, detail)];
}
