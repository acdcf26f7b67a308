/** What a change of an object does to those who own its fields. Shared by updates and server-side apply. */
import type { Shape } from '../../kube/objects/schema.ts';
import { compareObjects } from './compare-objects.ts';
import type { Comparison } from './compare-objects.ts';
import { FieldSet } from './field-set.ts';
import type { JsonObject } from './json-value.ts';
import type { Managed, Owner } from './managed-fields.ts';
import { fieldElement } from './path-element.ts';

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

/** What of `metadata` the server itself decides. Nobody owns it. */
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

/** The fields of an owner whose value was changed by somebody else. */
export function fieldsTakenFrom({ fields }: Owner, { added, modified }: Comparison): FieldSet {
  // Walks through the owner's fields alone: there may be many owners, and many changes.
  return fields.intersection(modified).union(fields.intersection(added));
}

/** The others lose what was changed and what is gone; who is left with nothing is gone too. */
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
