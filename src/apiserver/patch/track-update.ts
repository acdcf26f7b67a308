/**
 * Ownership after a write that is not a server-side apply (create, update, the other kinds of patches): the writer that
 * changes a field is its only owner from then on.
 */
import { timestamp } from '../../kube/values/times.ts';
import { FieldSet, fieldElement } from './field-set.ts';
import { type Json, type JsonObject, fieldOf, isEqual, isList, isObject } from './json-value.ts';
import { ItemIdentityError, type TypeShape, layoutOf, shapeOfField } from './layout.ts';
import {
  type Managed,
  type Owner,
  type Writer,
  afterChange,
  changesBetween,
  managedFieldsOf,
  metadataOfServer,
  ownerKey,
  readManaged,
  seconds,
  withManagedFields,
  withoutBookkeeping,
  writeManaged,
} from './managed-fields.ts';

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
  // Untracked fields stay so until the first apply.
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

/**
 * The common write: a manager sets fields that it owns already, so that nothing changes but the time of its entry, and no
 * entry has to be read and printed again. Undefined where more than a time might change.
 */
export function withUnchangedOwners(update: Update): JsonObject | undefined {
  const { live, object, nowMs } = update;
  const entries = live && managedFieldsOf(live);
  if (live === undefined || !isList(entries)) return undefined;
  // Only the last entry can get a later time and stay where it is.
  const own = entries.at(-1);
  if (!isObject(own) || !belongsTo(own, update)) return undefined;
  const sent = managedFieldsOf(object);
  if (sent !== undefined && !isEqual(sent, entries)) return undefined;
  const owners = { own: fieldsOf(own), others: entries.slice(0, -1).map(fieldsOf) };
  switch (compareFields({ before: live, after: object, shape: update.shape, ...owners }, update, 'top')) {
    case 'equal':
      return withManagedFields(object, entries);
    case 'own': {
      const time = timestamp(nowMs);
      const lastTime = fieldOf(own, 'time');
      if (typeof lastTime !== 'string' || lastTime > time) return undefined;
      return withManagedFields(object, [...entries.slice(0, -1), { ...own, time }]);
    }
    case 'unclear':
      return undefined;
  }
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

function fieldsOf(entry: Json): Json | undefined {
  return isObject(entry) ? fieldOf(entry, 'fieldsV1') : undefined;
}

type Finding = 'equal' | 'own' | 'unclear';
type Level = 'top' | 'metadata' | 'inside';

/** An object in two versions, and what its owners' entries say of it. */
interface Place {
  readonly before: JsonObject;
  readonly after: JsonObject;
  readonly shape: TypeShape;
  readonly own: Json | undefined;
  readonly others: readonly (Json | undefined)[];
}

/** `own`: nothing came, nothing went, and whatever has another value belongs to the last owner and to no other. */
function compareFields(place: Place, update: Update, level: Level): Finding {
  const { before, after } = place;
  let finding: Finding = 'equal';
  for (const name of Object.keys(after)) {
    const [old, now] = [fieldOf(before, name), after[name]];
    if (old === now || isNobodys(name, update, level)) continue;
    if (old === undefined || now === undefined) return 'unclear';
    const found = compareValues(place, name, old, now, update, level);
    if (found === 'unclear') return found;
    if (found === 'own') finding = found;
  }
  for (const name of Object.keys(before)) {
    const isGone = before[name] !== undefined && fieldOf(after, name) === undefined;
    if (isGone && !isNobodys(name, update, level)) return 'unclear';
  }
  return finding;
}

function compareValues(place: Place, name: string, old: Json, now: Json, update: Update, level: Level): Finding {
  const shape = shapeOfField(place.shape, name);
  const { kind } = layoutOf(shape, now);
  // Fields are looked into where there are some on both sides; all else but leaves is not looked into here.
  const areFields = kind === 'fields' && hasFields(old) && hasFields(now);
  if (kind !== layoutOf(shape, old).kind || (kind !== 'leaf' && !areFields))
    return isEqual(old, now) ? 'equal' : 'unclear';
  const element = fieldElement(name);
  const own = below(place.own, element);
  const others = place.others.map((other) => below(other, element));
  if (areFields) {
    const inner = level === 'top' && name === 'metadata' ? 'metadata' : 'inside';
    return compareFields({ before: old, after: now, shape, own, others }, update, inner);
  }
  if (isEqual(old, now)) return 'equal';
  return isOwned(own) && !others.some(isOwned) ? 'own' : 'unclear';
}

/** At the top what this endpoint never writes, below `metadata` what the server decides. */
function isNobodys(name: string, { ignoredFields = [] }: Update, level: Level): boolean {
  if (level === 'top') return ignoredFields.some((path) => path.length === 1 && path[0] === name);
  return level === 'metadata' && metadataOfServer.has(name);
}

function hasFields(value: Json): value is JsonObject {
  return isObject(value) && Object.keys(value).length > 0;
}

function below(place: Json | undefined, element: string): Json | undefined {
  return isObject(place) ? fieldOf(place, element) : undefined;
}

function isOwned(place: Json | undefined): boolean {
  return isObject(place) && (Object.hasOwn(place, '.') || Object.keys(place).length === 0);
}
