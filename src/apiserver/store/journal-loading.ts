/**
 * From rows to the content of a store. Whatever cannot be read is named and left out: an object as damaged, the change log
 * up to and including the damaged change as if it had been compacted, so that clients list again instead of missing something.
 */
import type { LoggedChange } from './change-log.ts';
import type { JournalContent } from './journal.ts';
import type { JournalTables } from './lmdb-tables.ts';
import {
  decodeChange,
  decodeObject,
  decodeState,
  revisionOfRowKey,
  stateRowKey,
  storeFormat,
  type ChangeRow,
  type StoreState,
} from './row-codec.ts';
import { StoreFormatError } from './store-errors.ts';
import type { DamagedValue, StoredObject } from './store.ts';
import type { ValueSeal } from './value-seal.ts';

/** Of a store that was never written to, the beginning. Throws for one that this version cannot read. */
export function readState(directory: string, { state, objects }: JournalTables): StoreState {
  const row = state.get(stateRowKey);
  if (row === undefined) {
    // Every commit writes the state, so only a store that was never written to has none.
    if (objects.getKeysCount({ limit: 1 }) > 0) throw new StoreFormatError(directory, 'its state is missing');
    return { format: storeFormat, revision: 0, compactedRevision: 0, sequence: 0 };
  }
  const decoded = decodeState(row);
  if ('damage' in decoded) throw new StoreFormatError(directory, `its state is damaged: ${decoded.damage}`);
  if (decoded.format !== storeFormat) {
    throw new StoreFormatError(directory, `it has format ${decoded.format}, and this version knows ${storeFormat}`);
  }
  return decoded;
}

export function loadJournal(directory: string, tables: JournalTables, seal: ValueSeal): JournalContent {
  const state = readState(directory, tables);
  const damaged: DamagedValue[] = [];
  const stale: { keys: string[]; revisions: number[] } = { keys: [], revisions: [] };
  const objects = readObjects(tables, seal, damaged, stale.keys);
  const changes = readChanges(tables, seal, state, objects, damaged, stale.revisions);
  return {
    revision: state.revision,
    compactedRevision: state.revision - changes.length,
    objects: [...objects.values()],
    changes,
    damaged,
    stale,
  };
}

function readObjects(
  { objects: table }: JournalTables,
  seal: ValueSeal,
  damaged: DamagedValue[],
  staleKeys: string[],
): Map<string, StoredObject> {
  const objects = new Map<string, StoredObject>();
  for (const { key: rowKey, value: row } of table.getRange()) {
    const key = rowKey.toString('utf8');
    const decoded = decodeObject(key, row, seal);
    if ('damage' in decoded) damaged.push({ key, reason: decoded.damage });
    else {
      objects.set(key, decoded.object);
      if (decoded.isStale) staleKeys.push(key);
    }
  }
  return objects;
}

/** Newest first, because a change's value is the previous one of the change after it. */
function readChanges(
  { changes: table }: JournalTables,
  seal: ValueSeal,
  { revision, compactedRevision }: StoreState,
  objects: ReadonlyMap<string, StoredObject>,
  damaged: DamagedValue[],
  staleRevisions: number[],
): LoggedChange[] {
  const changes: LoggedChange[] = [];
  const valuesAfter = new Map<string, string | undefined>();
  let expected = revision;
  for (const { key: rowKey, value: row } of table.getRange({ reverse: true })) {
    const at = revisionOfRowKey(rowKey);
    if (at > revision || at <= compactedRevision) continue;
    const decoded = at === expected ? decodeChange(at, row, seal) : { damage: 'changes between are missing' };
    const change = 'damage' in decoded ? decoded : completed(decoded, valuesAfter, objects);
    if ('damage' in change) {
      damaged.push({ key: `change ${expected}`, reason: `${change.damage}; changes up to it are not kept` });
      break;
    }
    valuesAfter.set(change.key, change.previous);
    if (!('damage' in decoded) && decoded.isStale) staleRevisions.push(at);
    changes.push(change);
    expected -= 1;
  }
  return changes.toReversed();
}

function completed(
  row: ChangeRow,
  valuesAfter: ReadonlyMap<string, string | undefined>,
  objects: ReadonlyMap<string, StoredObject>,
): LoggedChange | { readonly damage: string } {
  const { type, key, revision, time, previous, previousRevision } = row;
  const after = valuesAfter.has(key) ? valuesAfter.get(key) : objects.get(key)?.value;
  const value = type === 'delete' ? row.value : after;
  if (value === undefined) return { damage: `what "${key}" was after it is not known` };
  return { type, key, revision, time, value, previous, previousRevision };
}
