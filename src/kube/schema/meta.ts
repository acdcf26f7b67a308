/** What every Kubernetes object carries: its identity, labels and owners. */
import {
  type Of,
  any,
  atomic,
  boolean,
  integer,
  list,
  map,
  object,
  required,
  setOf,
  string,
  described,
  time,
} from './schema.ts';

const ownerReference = described(
  {
    name: 'io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference',
    text: 'An object that another one belongs to, in the same namespace or in none.',
    fields: {
      apiVersion: 'The version of the API that the owner is of.',
      kind: 'The kind of the owner.',
      name: 'The name of the owner.',
      uid: 'The uid of the owner.',
      controller: 'Whether this owner manages the object. At most one does.',
      blockOwnerDeletion: 'Whether an owner deleted in the foreground waits for this object.',
    },
  },
  object({
    apiVersion: required(string),
    kind: required(string),
    name: required(string),
    uid: required(string),
    controller: boolean,
    blockOwnerDeletion: boolean,
  }),
);
export interface OwnerReference extends Of<typeof ownerReference> {}

const managedFieldsEntry = object({
  manager: string,
  operation: string,
  apiVersion: string,
  time,
  fieldsType: string,
  fieldsV1: any,
  subresource: string,
});
/** An owner that manages the object, and that waits for its end when it is deleted in the foreground. */
export function controllerReference(
  apiVersion: string,
  kind: string,
  { name, uid = '' }: { readonly name: string; readonly uid?: string | undefined },
): OwnerReference {
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/** At most one of an object's owners manages it. */
export function controllerOf({
  ownerReferences = [],
}: Pick<ObjectMeta, 'ownerReferences'>): OwnerReference | undefined {
  return ownerReferences.find(({ controller }) => controller === true);
}

const metaTexts = {
  name: 'The name, unique among objects of the kind in the namespace. It cannot be changed.',
  generateName: 'The beginning of a name; the server completes it. Used when no name is given.',
  namespace: 'The namespace the name is unique in. Empty for kinds that belong to no namespace.',
  selfLink: 'No longer filled in.',
  uid: 'Tells the object from all others, also from a later one of the same name. The server makes it.',
  resourceVersion:
    'Changes with every change of the object. An update that carries an older one is refused; a watch continues from one.',
  generation: 'Counts the versions of what is wished for. The server sets it.',
  creationTimestamp: 'When the object was made. The server sets it.',
  deletionTimestamp: 'When the object will be, or was to be, gone. Set by the server when somebody deletes it.',
  deletionGracePeriodSeconds: 'How many seconds the object has to end, once deleted.',
  labels: 'Short keys and values that selectors choose objects by.',
  annotations: 'Keys and values for programs and people, which nothing selects by.',
  ownerReferences: 'Objects that this one belongs to. When all of them are gone, it goes too.',
  finalizers: 'While this list is not empty, a deleted object stays until whoever put a name here removes it.',
  managedFields: 'Which client set which field.',
};

const metaFields = {
  generateName: string,
  namespace: string,
  selfLink: string,
  uid: string,
  resourceVersion: string,
  generation: integer,
  creationTimestamp: time,
  deletionTimestamp: time,
  deletionGracePeriodSeconds: integer,
  labels: map(string),
  annotations: map(string),
  ownerReferences: list(atomic(ownerReference), 'uid'),
  finalizers: setOf(string),
  managedFields: list(managedFieldsEntry),
};

export const objectMeta = described(
  {
    name: 'io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta',
    text: 'What every object has: its name, its labels, who owns it and when it was made.',
    fields: metaTexts,
    optional: ['name'],
  },
  object({ name: required(string), ...metaFields }),
);
export interface ObjectMeta extends Of<typeof objectMeta> {}

/** Of a template: the objects made from it get names of their own. */
export const templateMeta = described(
  { text: 'Labels, annotations and the rest that the objects made from it get.', fields: metaTexts },
  object({ name: string, ...metaFields }),
);

/** The fields every object begins with; a kind's shape spreads them: `object({ ...objectFields, data: … })`. */
export const objectFields = { apiVersion: string, kind: string, metadata: required(objectMeta) };

export const labelSelector = described(
  {
    name: 'io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector',
    text: 'Chooses objects by their labels. All conditions must hold; without any, every object is chosen.',
    fields: {
      matchLabels: 'Labels that an object must have, with these values.',
      matchExpressions: 'Conditions on labels: In, NotIn, Exists, DoesNotExist.',
    },
  },
  atomic(
    object({
      matchLabels: map(string),
      matchExpressions: list(object({ key: required(string), operator: required(string), values: list(string) })),
    }),
  ),
);
export interface LabelSelector extends Of<typeof labelSelector> {}

/** A reference within the pod's namespace. */
export const localObjectReference = described(
  {
    name: 'io.k8s.api.core.v1.LocalObjectReference',
    text: 'An object of the same namespace, by name.',
    fields: { name: 'The name of the object.' },
  },
  atomic(object({ name: required(string) })),
);

export const objectReference = described(
  {
    name: 'io.k8s.api.core.v1.ObjectReference',
    text: 'An object, or a part of it.',
    fields: {
      kind: 'The kind of the object.',
      namespace: 'The namespace of the object.',
      name: 'The name of the object.',
      uid: 'The uid of the object.',
      apiVersion: 'The version of the API that the object is of.',
      resourceVersion: 'The version of the object that is meant.',
      fieldPath: 'The part that is meant: spec.containers{web}.',
    },
  },
  atomic(
    object({
      kind: string,
      namespace: string,
      name: string,
      uid: string,
      apiVersion: string,
      resourceVersion: string,
      fieldPath: string,
    }),
  ),
);
export interface ObjectReference extends Of<typeof objectReference> {}

/** How the API answers when it has no object to answer with: an error, or the success of a deletion. */
export const listMeta = described(
  {
    name: 'io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta',
    text: 'What every list has.',
    fields: {
      selfLink: 'No longer filled in.',
      resourceVersion: 'The version of the whole that the list shows. A watch continues from it.',
      continue: 'Asks for the rest of the list. Empty on the last page.',
      remainingItemCount: 'How many objects follow behind this page.',
    },
  },
  object({
    selfLink: string,
    resourceVersion: string,
    continue: string,
    remainingItemCount: integer,
  }),
);
export interface ListMeta extends Of<typeof listMeta> {}

export const status = described(
  {
    name: 'io.k8s.apimachinery.pkg.apis.meta.v1.Status',
    text: 'The answer where there is no object: an error, or the success of a deletion.',
    fields: {
      metadata: 'Of the list that the answer stands for.',
      status: 'Success or Failure.',
      message: 'What happened, for people.',
      reason: 'One word for what happened, for programs.',
      details: 'What it happened to, and why in detail.',
      code: 'The HTTP status.',
    },
  },
  object({
    apiVersion: string,
    kind: string,
    metadata: listMeta,
    status: string,
    message: string,
    reason: string,
    details: object({
      name: string,
      group: string,
      kind: string,
      uid: string,
      causes: list(object({ reason: string, message: string, field: string })),
      retryAfterSeconds: integer,
    }),
    code: integer,
  }),
);
export interface Status extends Of<typeof status> {}

/** What a client may say about a deletion: how soon, of which object exactly, and what becomes of its dependents. */
export const deleteOptions = described(
  {
    name: 'io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions',
    text: 'What a client may say about a deletion.',
    fields: {
      gracePeriodSeconds: 'How long the object may take to end. Zero means at once.',
      preconditions: 'What the object must be for the deletion to go on.',
      orphanDependents: 'Use propagationPolicy.',
      propagationPolicy: 'What becomes of dependents: Orphan, Background or Foreground.',
      dryRun: 'All: everything is checked and nothing is done.',
      ignoreStoreReadErrorWithClusterBreakingPotential: 'Has no effect here.',
    },
  },
  object({
    apiVersion: string,
    kind: string,
    gracePeriodSeconds: integer,
    preconditions: object({ uid: string, resourceVersion: string }),
    orphanDependents: boolean,
    propagationPolicy: string,
    dryRun: list(string),
    ignoreStoreReadErrorWithClusterBreakingPotential: boolean,
  }),
);
export interface DeleteOptions extends Of<typeof deleteOptions> {}

/** Versions of one server's objects grow and may be compared as numbers; anything but a number counts as 0. */
export function isOlder(version: string | undefined, than: string | undefined): boolean {
  return numberOf(version) < numberOf(than);
}

function numberOf(version = ''): bigint {
  return /^\d+$/.test(version) ? BigInt(version) : 0n;
}

/** Field numbers of these shapes in protobuf. */
export const metaWire: Readonly<Record<string, string>> = {
  ObjectMeta: `
    1 name, 2 generateName, 3 namespace, 4 selfLink, 5 uid, 6 resourceVersion, 7 generation int,
    8 creationTimestamp Time, 9 deletionTimestamp Time, 10 deletionGracePeriodSeconds? int, 11 labels {string},
    12 annotations {string}, 13 ownerReferences [OwnerReference], 14 finalizers [string],
    17 managedFields [ManagedFieldsEntry]`,
  OwnerReference: '5 apiVersion!, 1 kind!, 3 name!, 4 uid!, 6 controller? bool, 7 blockOwnerDeletion? bool',
  ManagedFieldsEntry: `
    1 manager, 2 operation, 3 apiVersion, 4 time Time, 6 fieldsType, 7 fieldsV1? RawJson, 8 subresource`,
  LocalObjectReference: '1 name',
  ObjectFieldSelector: '1 apiVersion, 2 fieldPath!',
  ResourceFieldSelector: '1 containerName, 2 resource!, 3 divisor Quantity',
  LabelSelector: '1 matchLabels {string}, 2 matchExpressions [LabelSelectorRequirement]',
  LabelSelectorRequirement: '1 key!, 2 operator!, 3 values [string]',
  TypedLocalObjectReference: '1 apiGroup?, 2 kind!, 3 name!',
  TypedObjectReference: '1 apiGroup?, 2 kind!, 3 name!, 4 namespace?',
  ObjectReference: '1 kind, 2 namespace, 3 name, 4 uid, 5 apiVersion, 6 resourceVersion, 7 fieldPath',
  Condition: '1 type!, 2 status!, 3 observedGeneration int, 4 lastTransitionTime Time, 5 reason!, 6 message!',
  SecretReference: '1 name, 2 namespace',
  FieldSelectorRequirement: '1 key!, 2 operator!, 3 values [string]',
  DeleteOptions: `
    1 gracePeriodSeconds? int, 2 preconditions? Preconditions, 3 orphanDependents? bool, 4 propagationPolicy?,
    5 dryRun [string], 6 ignoreStoreReadErrorWithClusterBreakingPotential? bool`,
  Preconditions: '1 uid?, 2 resourceVersion?',
};
