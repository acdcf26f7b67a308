/**
 * `metadata.managedFields`: who owns which fields. One entry for each manager, operation and subresource, and for updates also
 * for each API version. This file reads and writes the list; how ownership changes is in `track-update.ts` and
 * `server-side-apply.ts`.
 */
import { compareByteOrder } from '../../kube/values/byte-order.ts';
import { goJson } from '../../kube/values/go-json.ts';
import { FieldSet } from './field-set.ts';
import { checkDepth, fieldOf, isList, isObject, objectIn, withField } from './json-value.ts';
import type { Json, JsonList, JsonObject } from './json-value.ts';
import { PatchError } from './patch-error.ts';

export type Operation = 'Apply' | 'Update';

export interface Owner {
  readonly manager: string;
  readonly operation: Operation;
  readonly apiVersion: string;
  /** Empty for the object itself. */
  readonly subresource: string;
  /** RFC 3339; absent where the owner never changed anything. */
  readonly time: string | undefined;
  readonly fields: FieldSet;
}

/** By `ownerKey`. */
export type Managed = ReadonlyMap<string, Owner>;

/** Appliers are the same whatever API version they use; updaters are not. */
export function ownerKey({ manager, operation, apiVersion, subresource }: Omit<Owner, 'time' | 'fields'>): string {
  return goJson({
    manager,
    operation,
    ...(operation === 'Apply' ? {} : { apiVersion }),
    ...(subresource === '' ? {} : { subresource }),
  });
}

/** Whole seconds, as all times of the API. */
export function timestamp(nowMs: number): string {
  return `${new Date(nowMs).toISOString().slice(0, -'.000Z'.length)}Z`;
}

/** Undefined for a list that is not one of managed fields. */
export function readManaged(json: Json | undefined): Managed | undefined {
  if (json === undefined || json === null) return new Map();
  if (!isList(json)) return undefined;
  const owners = json.map(readOwner);
  const known = owners.filter((owner) => owner !== undefined);
  return known.length < owners.length ? undefined : new Map(known.map((owner) => [ownerKey(owner), owner]));
}

function readOwner(entry: Json): Owner | undefined {
  if (!isObject(entry)) return undefined;
  const text = (name: string): string => {
    const value = fieldOf(entry, name);
    return typeof value === 'string' ? value : '';
  };
  const operation = text('operation');
  if (operation !== 'Apply' && operation !== 'Update') return undefined;
  if (text('apiVersion') === '' || text('fieldsType') !== 'FieldsV1') return undefined;
  const fields = readFields(fieldOf(entry, 'fieldsV1') ?? {});
  if (fields === undefined) return undefined;
  const common = { manager: text('manager'), apiVersion: text('apiVersion'), subresource: text('subresource') };
  return { ...common, operation, time: text('time') || undefined, fields };
}

function readFields(json: Json): FieldSet | undefined {
  try {
    checkDepth(json);
    return FieldSet.fromJson(json);
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof PatchError) return undefined;
    throw error;
  }
}

export function writeManaged(managed: Managed): readonly JsonObject[] {
  return [...managed.values()]
    .sort(compareOwners)
    .map(({ manager, operation, apiVersion, subresource, time, fields }) => ({
      manager,
      operation,
      apiVersion,
      ...(time === undefined ? {} : { time }),
      fieldsType: 'FieldsV1',
      fieldsV1: fields.toJson(),
      ...(subresource === '' ? {} : { subresource }),
    }));
}

function compareOwners(a: Owner, b: Owner): number {
  return (
    compareByteOrder(a.operation, b.operation) ||
    seconds(a) - seconds(b) ||
    compareByteOrder(a.manager, b.manager) ||
    compareByteOrder(a.apiVersion, b.apiVersion) ||
    compareByteOrder(a.subresource, b.subresource)
  );
}

export function seconds({ time }: Owner): number {
  return time === undefined ? 0 : Math.floor(Date.parse(time) / 1000) || 0;
}

export function managedFieldsOf(object: JsonObject): Json | undefined {
  return fieldOf(objectIn(object, 'metadata'), 'managedFields');
}

export function withManagedFields(object: JsonObject, managedFields: JsonList | undefined): JsonObject {
  const metadata = fieldOf(object, 'metadata');
  if (!isObject(metadata)) return object;
  const list = managedFields === undefined || managedFields.length === 0 ? undefined : managedFields;
  return withField(object, 'metadata', withField(metadata, 'managedFields', list));
}
