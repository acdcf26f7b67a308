/**
 * The write that most writes are: a manager sets fields that are its own already. Then the books stay as they are but for the
 * time of its entry, and nothing of them has to be read and printed again. Whatever is not plainly that is left to others.
 */
import type { FieldSet } from './field-set.ts';
import { fieldOf, isEqual, isList, isObject } from './json-value.ts';
import type { Json, JsonObject } from './json-value.ts';
import { managedFieldsOf, timestamp, withManagedFields } from './managed-fields.ts';
import { changesBetween, withoutBookkeeping } from './ownership.ts';
import type { Update } from './track-update.ts';

/** The object with its managed fields; undefined where more than a time might change. */
export function withUnchangedOwners(update: Update): JsonObject | undefined {
  const { live, object, nowMs } = update;
  if (live === undefined) return undefined;
  const entries = managedFieldsOf(live);
  if (!isList(entries)) return undefined;
  // Only the last entry can get a later time and stay where it is.
  const own = entries.at(-1);
  if (own === undefined || !isObject(own) || !belongsTo(own, update)) return undefined;
  const sent = managedFieldsOf(object);
  if (sent !== undefined && !isEqual(sent, entries)) return undefined;
  // With the very same list on both sides it takes no part in the comparison.
  const { added, modified, removed } = changesBetween(live, withManagedFields(object, entries), update);
  if (!added.isEmpty || !removed.isEmpty) return undefined;
  const others = entries.slice(0, -1);
  if (others.some((entry) => !isObject(entry) || ownsAny(fieldOf(entry, 'fieldsV1'), modified))) return undefined;
  const taken = withoutBookkeeping(modified);
  if (taken.isEmpty) return withManagedFields(object, entries);
  const time = timestamp(nowMs);
  const lastTime = fieldOf(own, 'time');
  if (!ownsAll(fieldOf(own, 'fieldsV1'), taken) || typeof lastTime !== 'string' || lastTime > time) return undefined;
  return withManagedFields(object, [...others, { ...own, time }]);
}

function belongsTo(entry: JsonObject, { manager, apiVersion, subresource = '' }: Update): boolean {
  return (
    fieldOf(entry, 'manager') === (manager || 'unknown') &&
    fieldOf(entry, 'operation') === 'Update' &&
    fieldOf(entry, 'apiVersion') === apiVersion &&
    (fieldOf(entry, 'subresource') ?? '') === subresource &&
    fieldOf(entry, 'fieldsType') === 'FieldsV1'
  );
}

function ownsAll(place: Json | undefined, fields: FieldSet): boolean {
  return fields.steps().every(({ element, isMember, below }) => {
    const inner = isObject(place) ? fieldOf(place, element) : undefined;
    return (!isMember || isOwned(inner)) && (below.isEmpty || ownsAll(inner, below));
  });
}

function ownsAny(place: Json | undefined, fields: FieldSet): boolean {
  return fields.steps().some(({ element, isMember, below }) => {
    const inner = isObject(place) ? fieldOf(place, element) : undefined;
    return (isMember && isOwned(inner)) || (!below.isEmpty && ownsAny(inner, below));
  });
}

function isOwned(place: Json | undefined): boolean {
  return isObject(place) && (Object.hasOwn(place, '.') || Object.keys(place).length === 0);
}
