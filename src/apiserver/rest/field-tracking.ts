/** Who set which field: keeps the books in `metadata.managedFields` for every write. */
import type { KubeObject, Resource } from '../resource.ts';
import type { JsonObject } from '../patch/json-value.ts';
import type { Writer } from '../patch/ownership.ts';
import { trackUpdate } from '../patch/track-update.ts';
import { apiVersionOf } from '../resources.ts';

interface Manager {
  readonly name: string;
  readonly subresource: string;
  readonly nowMs: number;
}

export interface FieldTracking {
  /** The object, with `metadata.managedFields` that credit its changes against `old` to the manager. */
  track(resource: Resource, old: KubeObject | undefined, object: KubeObject, manager: Manager): KubeObject;
}

export const managedFields: FieldTracking = {
  track: (resource, old, object, manager) =>
    asObject(trackUpdate({ ...writerOf(resource, manager), live: old && asJson(old), object: asJson(object) })),
};

export function writerOf(resource: Resource, { name, subresource, nowMs }: Manager): Writer {
  const hasStatus = resource.subresources.some((one) => one.name === 'status');
  const ignored = subresource === '' ? (hasStatus ? ['status'] : []) : subresource === 'status' ? ['spec'] : [];
  return {
    shape: resource.shape,
    manager: name,
    apiVersion: apiVersionOf(resource),
    ...(subresource !== '' && { subresource }),
    ignoredFields: ignored.map((field) => [field]),
    nowMs,
  };
}

/** An object of a decoded shape is JSON, apart from fields that are there but undefined. */
export function asJson(object: KubeObject): JsonObject {
  return object as unknown as JsonObject;
}

export function asObject(json: JsonObject): KubeObject {
  return json as unknown as KubeObject;
}
