/** Who set which field: what writes need of the bookkeeping in `metadata.managedFields`. */
import type { KubeObject, Resource } from '../resource.ts';

export interface Manager {
  readonly name: string;
  readonly subresource: string;
  readonly nowMs: number;
}

export interface FieldTracking {
  /** The object, with `metadata.managedFields` that credit its changes against `old` to the manager. */
  track(resource: Resource, old: KubeObject | undefined, object: KubeObject, manager: Manager): KubeObject;
}

/** Keeps no books. */
export const noFieldTracking: FieldTracking = {
  track: (_resource, _old, object) => {
    const { managedFields: _dropped, ...metadata } = object.metadata;
    return { ...object, metadata };
  },
};
