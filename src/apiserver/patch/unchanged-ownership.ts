/**
 * The write that most writes are: a manager sets fields that are its own already. Then the books stay as they are but for the
 * time of its entry, and nothing of them has to be read and printed again. Whatever is not plainly that is left to others.
 */
import { fieldOf, isEqual, isList, isObject } from './json-value.ts';
import type { Json, JsonObject } from './json-value.ts';
import { layoutOf, shapeOfField } from './layout.ts';
import type { TypeShape } from './layout.ts';
import { managedFieldsOf, timestamp, withManagedFields } from './managed-fields.ts';
import { metadataOfServer } from './ownership.ts';
import { fieldElement } from './path-element.ts';
import type { Update } from './track-update.ts';

/** The object with its managed fields; undefined where more than a time might change. */
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
