/**
 * `metadata.managedFields`: who owns which fields. One entry for each manager, operation and subresource, and for updates also
 * for each API version. Here the list is read and written, and the others lose what a writer changes; what the writer gains is
 * in `track-update.ts` and `server-side-apply.ts`.
 */
import type { Shape } from '../../kube/schema/schema.ts';
import { compareByteOrder, goJson } from '../../kube/values/go-text.ts';
import { FieldSet, fieldElement } from './field-set.ts';
import {
  type Json,
  type JsonList,
  type JsonObject,
  PatchError,
  checkDepth,
  fieldOf,
  isList,
  isObject,
  objectIn,
  withField,
} from './json-value.ts';
import { type Comparison, compareObjects } from './layout.ts';

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

/** A write, and who does it. */
export interface Writer {
  readonly shape: Shape<unknown>;
  readonly manager: string;
  readonly apiVersion: string;
  /** Through which the write came; absent for the object itself. */
  readonly subresource?: string;
  /**
   * Fields that this endpoint never writes, with all below them: `[['status']]` of the object itself where the status has an
   * endpoint of its own. Sending them owns nothing.
   */
  readonly ignoredFields?: readonly (readonly string[])[];
  readonly nowMs: number;
}

/** The fields of `metadata` that the server decides. They have no owner. */
export const metadataOfServer: ReadonlySet<string> = new Set(
  'name namespace creationTimestamp selfLink uid clusterName generation managedFields resourceVersion'.split(' '),
);

const bookkeeping = fieldSetOf([
  ['apiVersion'],
  ['kind'],
  ['metadata'],
  ...[...metadataOfServer].map((name) => ['metadata', name]),
]);

export function withoutBookkeeping(fields: FieldSet): FieldSet {
  return fields.difference(bookkeeping);
}

export function withoutIgnored(fields: FieldSet, { ignoredFields = [] }: Writer): FieldSet {
  return fields.without(fieldSetOf(ignoredFields));
}

export function changesBetween(before: JsonObject, after: JsonObject, writer: Writer): Comparison {
  const { added, modified, removed } = compareObjects(before, after, writer.shape);
  const relevant = (fields: FieldSet): FieldSet => withoutIgnored(fields, writer);
  return { added: relevant(added), modified: relevant(modified), removed: relevant(removed) };
}

/** The fields of an owner whose value another writer changed. */
export function fieldsTakenFrom({ fields }: Owner, { added, modified }: Comparison): FieldSet {
  // Walks through the owner's fields alone: there may be many owners, and many changes.
  return fields.intersection(modified).union(fields.intersection(added));
}

/** The others lose what was changed and what is gone; an owner without fields is dropped. */
export function afterChange(managed: Managed, changes: Comparison, writer: string): Managed {
  const result = new Map<string, Owner>();
  for (const [key, owner] of managed) {
    const isWriter = key === writer;
    const fields = isWriter
      ? owner.fields
      : owner.fields.difference(fieldsTakenFrom(owner, changes)).difference(changes.removed);
    if (!fields.isEmpty) result.set(key, { ...owner, fields });
  }
  return result;
}

function fieldSetOf(paths: readonly (readonly string[])[]): FieldSet {
  return FieldSet.of(...paths.map((path) => path.map(fieldElement)));
}
