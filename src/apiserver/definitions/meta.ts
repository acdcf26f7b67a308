import {
  deleteOptions,
  labelSelector,
  listMeta,
  localObjectReference,
  objectMeta,
  objectReference,
  ownerReference,
  status,
} from '../../kube/schema/meta.ts';
import type { Definition } from './definition.ts';

const meta = 'io.k8s.apimachinery.pkg.apis.meta.v1';
const core = 'io.k8s.api.core.v1';

export const metaDefinitions: readonly Definition[] = [
  {
    shape: objectMeta,
    name: `${meta}.ObjectMeta`,
    text: 'What every object has: its name, its labels, who owns it and when it was made.',
    optional: ['name'],
    fields: {
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
    },
  },
  {
    shape: ownerReference,
    name: `${meta}.OwnerReference`,
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
  {
    shape: labelSelector,
    name: `${meta}.LabelSelector`,
    text: 'Chooses objects by their labels. All conditions must hold; without any, every object is chosen.',
    fields: {
      matchLabels: 'Labels that an object must have, with these values.',
      matchExpressions: 'Conditions on labels: In, NotIn, Exists, DoesNotExist.',
    },
  },
  {
    shape: localObjectReference,
    name: `${core}.LocalObjectReference`,
    text: 'An object of the same namespace, by name.',
    fields: { name: 'The name of the object.' },
  },
  {
    shape: objectReference,
    name: `${core}.ObjectReference`,
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
  {
    shape: listMeta,
    name: `${meta}.ListMeta`,
    text: 'What every list has.',
    fields: {
      selfLink: 'No longer filled in.',
      resourceVersion: 'The version of the whole that the list shows. A watch continues from it.',
      continue: 'Asks for the rest of the list. Empty on the last page.',
      remainingItemCount: 'How many objects follow behind this page.',
    },
  },
  {
    shape: status,
    name: `${meta}.Status`,
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
  {
    shape: deleteOptions,
    name: `${meta}.DeleteOptions`,
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
];
