/** Field numbers of what objects have in common: metadata, references, selectors, options of a delete. The notation is explained in `message-notation.ts`. */
export const metadataMessages: Readonly<Record<string, string>> = {
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
