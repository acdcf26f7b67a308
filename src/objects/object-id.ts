/** Which object is meant. Names of different namespaces never meet in one map: every map here is keyed by `objectKey`. */
export interface ObjectId {
  readonly namespace: string;
  readonly name: string;
}

export type ObjectKey = string & { readonly brand: 'ObjectKey' };

/** Unambiguous although a pod may write any name: a namespace has no slash, so the first one ends it. */
export function objectKey({ namespace, name }: ObjectId): ObjectKey {
  return `${namespace}/${name}` as ObjectKey;
}
