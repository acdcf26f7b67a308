/**
 * Ownership after a write that is not a server-side apply (create, update, the other kinds of patches): who changes a field owns
 * it from then on, and nobody else does.
 */
import { FieldSet } from './field-set.ts';
import { isList, isObject } from './json-value.ts';
import type { Json, JsonObject } from './json-value.ts';
import { ItemIdentityError } from './layout.ts';
import {
  managedFieldsOf,
  ownerKey,
  readManaged,
  seconds,
  timestamp,
  withManagedFields,
  writeManaged,
} from './managed-fields.ts';
import type { Managed, Owner } from './managed-fields.ts';
import { afterChange, changesBetween, withoutBookkeeping } from './ownership.ts';
import type { Writer } from './ownership.ts';
import { withUnchangedOwners } from './unchanged-ownership.ts';

export interface Update extends Writer {
  /** Undefined where the write creates the object. */
  readonly live: JsonObject | undefined;
  /** As it will be stored, defaults included. What it says of managed fields is used only to reset or restore them. */
  readonly object: JsonObject;
}

/** More updaters than this and the oldest are put together, as entries would pile up with every new client version. */
const updatersMax = 10;

/** The object with its new managed fields. */
export function trackUpdate(update: Update): JsonObject {
  try {
    return withUnchangedOwners(update) ?? withNewOwners(update);
  } catch (error) {
    // Items that cannot be told apart must not stop a write that is otherwise valid: ownership stays what it was.
    if (!(error instanceof ItemIdentityError)) throw error;
    return withManagedFields(update.object, writeManaged(managedBefore(update)));
  }
}

function withNewOwners(update: Update): JsonObject {
  const { live, object } = update;
  const managed = managedBefore(update);
  // Fields that nobody tracks stay so, until somebody applies.
  if (managed.size === 0 && live !== undefined) return withManagedFields(object, undefined);
  return withManagedFields(object, writeManaged(capUpdaters(ownershipAfter(update, managed))));
}

export function ownershipAfter({ live = {}, object, ...writer }: Update, managed: Managed): Managed {
  const before = withManagedFields(live, undefined);
  const changes = changesBetween(before, withManagedFields(object, undefined), writer);
  const result = new Map(afterChange(managed, changes, ''));
  const taken = withoutBookkeeping(changes.modified.union(changes.added));
  if (taken.isEmpty) return result;
  const { manager, apiVersion, subresource = '', nowMs } = writer;
  const self = { manager: manager || 'unknown', operation: 'Update', apiVersion, subresource } as const;
  const fields = taken.union(result.get(ownerKey(self))?.fields ?? new FieldSet());
  return result.set(ownerKey(self), { ...self, time: timestamp(nowMs), fields });
}

/**
 * Clients that know nothing of managed fields send none or old ones, and those of the live object stay. An empty list, or a list
 * of one empty entry, resets them; any other list that can be read replaces them, except through a subresource.
 */
function managedBefore({ live, object, subresource = '' }: Update): Managed {
  const sent = managedFieldsOf(object);
  const isMain = subresource === '';
  if (isMain && isReset(sent)) return new Map();
  const own = isMain ? readManaged(sent) : undefined;
  if (own !== undefined && own.size > 0) return own;
  return (live === undefined ? undefined : readManaged(managedFieldsOf(live))) ?? new Map<string, Owner>();
}

function isReset(sent: Json | undefined): boolean {
  if (!isList(sent)) return false;
  const [first] = sent;
  return sent.length === 0 || (sent.length === 1 && isObject(first) && Object.keys(first).length === 0);
}

function capUpdaters(managed: Managed): Managed {
  const updaters = [...managed]
    .filter(([, { operation }]) => operation === 'Update')
    .sort(([keyA, a], [keyB, b]) => seconds(a) - seconds(b) || (keyA < keyB ? -1 : 1));
  let excess = updaters.length - updatersMax;
  const result = new Map(managed);
  const firstOf = new Map<string, string>();
  const merging = new Map<string, FieldSet[]>();
  for (const [key, owner] of updaters) {
    if (excess <= 0) break;
    const { apiVersion } = owner;
    const first = firstOf.get(apiVersion);
    if (first === undefined) {
      firstOf.set(apiVersion, key);
      continue;
    }
    const bucket = { manager: 'ancient-changes', operation: 'Update', apiVersion, subresource: '' } as const;
    const bucketKey = ownerKey(bucket);
    const merged = [...new Set([bucketKey, first, key])].filter((one) => result.has(one));
    const sets = merging.get(bucketKey) ?? [];
    for (const one of merged) sets.push(result.get(one)?.fields ?? new FieldSet());
    for (const one of merged) result.delete(one);
    // United at the end and at once: an object may come with ten thousand managers.
    merging.set(bucketKey, sets);
    result.set(bucketKey, { ...bucket, time: owner.time, fields: new FieldSet() });
    firstOf.set(apiVersion, bucketKey);
    excess -= merged.length - 1;
  }
  for (const [key, sets] of merging) {
    const bucket = result.get(key);
    if (bucket !== undefined) result.set(key, { ...bucket, fields: FieldSet.unionOf(sets) });
  }
  return result;
}
