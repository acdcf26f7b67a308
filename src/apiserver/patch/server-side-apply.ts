/**
 * Server-side apply: a client sends all it has an opinion about and the server works out the rest.
 *
 *   set       each field of the configuration; the applier owns it, together with others who want the same value
 *   removed   each field the applier owned before and does not send any more, unless another manager owns it too
 *   conflict  a field that another manager owns would change: nothing is done, unless forced; then the others lose it
 */
import { compareByteOrder, goQuote } from '../../kube/values/go-text.ts';
import { timestamp } from '../../kube/values/times.ts';
import { fieldsAgreedBefore, nameText, readApplied, refreshLastApplied } from './applied-configuration.ts';
import { FieldSet, pathText } from './field-set.ts';
import { type Json, type JsonObject, PatchError, isEqual } from './json-value.ts';
import { ItemIdentityError, extractFieldSet, withNamedAncestors } from './layout.ts';
import {
  type Managed,
  type Operation,
  type Owner,
  type Writer,
  afterChange,
  changesBetween,
  fieldsTakenFrom,
  managedFieldsOf,
  ownerKey,
  readManaged,
  withManagedFields,
  withoutBookkeeping,
  withoutIgnored,
  writeManaged,
} from './managed-fields.ts';
import { mergeApplied, removeFields } from './merge-applied.ts';
import { ownershipAfter } from './track-update.ts';

export interface Apply extends Writer {
  /** Undefined where the object does not exist yet and is created. */
  readonly live: JsonObject | undefined;
  /** The configuration as the client sent it. */
  readonly applied: Json;
  readonly kind: string;
  readonly force: boolean;
}

interface Applied {
  readonly kind: 'applied';
  /** With its new managed fields. Nulls that were applied are still in it: decoding makes them what they mean. */
  readonly object: JsonObject;
}

export function apply(request: Apply): Applied | Conflicts {
  const applied = readApplied(request.applied, request);
  try {
    return applyChecked(request, applied);
  } catch (error) {
    // The configuration was checked, so this is about the live object.
    if (!(error instanceof ItemIdentityError)) throw error;
    throw new PatchError('invalid', `failed to create typed live object (${nameText(applied)}): ${error.message}`);
  }
}

function applyChecked({ live, force, ...writer }: Apply, applied: JsonObject): Applied | Conflicts {
  const before = withManagedFields(live ?? {}, undefined);
  const outcome = applyOver(before, applied, managedBefore(live, writer), writer);
  const disputed = force ? [] : outcome.taken.filter(({ fields }) => !fields.isEmpty);
  if (disputed.length > 0) {
    const agreed = fieldsAgreedBefore(writer, before);
    const rest = disputed.map(({ owner, fields }) => ({ owner, fields: fields.difference(agreed) }));
    const conflicts = rest.filter(({ fields }) => !fields.isEmpty);
    if (conflicts.length > 0) return conflictsWith(conflicts);
  }
  const object = writer.manager === 'kubectl' ? refreshLastApplied(outcome.object, applied) : outcome.object;
  return { kind: 'applied', object: withManagedFields(object, writeManaged(outcome.managed)) };
}

interface Outcome {
  readonly object: JsonObject;
  readonly managed: Managed;
  /** What each other owner would lose. */
  readonly taken: readonly { readonly owner: Owner; readonly fields: FieldSet }[];
}

function applyOver(live: JsonObject, applied: JsonObject, managed: Managed, writer: Writer): Outcome {
  const { shape, manager, apiVersion, subresource = '', nowMs } = writer;
  const self = { manager: manager || 'unknown', operation: 'Apply', apiVersion, subresource } as const;
  const key = ownerKey(self);
  const last = managed.get(key);
  const fields = withoutIgnored(extractFieldSet(applied, shape), writer);
  const others = new Map(managed).set(key, { ...self, time: last?.time, fields });

  const merged = mergeApplied(live, applied, shape);
  const kept = last === undefined ? merged : prune(merged, last.fields, ownedByAnybody(others), writer);
  // An empty map that was asked for stays, also where pruning has just emptied and so removed it.
  const object = mergeApplied(kept, applied, shape);

  const changes = changesBetween(live, object, writer);
  const taken = [...managed]
    .filter(([other]) => other !== key)
    .map(([, owner]) => ({ owner, fields: fieldsTakenFrom(owner, changes) }));
  const after = new Map(afterChange(others, changes, key));
  const own = withoutBookkeeping(fields);
  // An apply that changes nothing keeps its time, so that it does not make a new version of the object either.
  const time = isEqual(live, object) ? last?.time : timestamp(nowMs);
  if (own.isEmpty) after.delete(key);
  else after.set(key, { ...self, time, fields: own });
  return { object, managed: after, taken };
}

/** Removes what the applier owned and has no owner now. */
function prune(merged: JsonObject, last: FieldSet, owned: FieldSet, { shape }: Writer): JsonObject {
  const named = (fields: FieldSet): FieldSet => withNamedAncestors(fields, shape);
  const all = named(extractFieldSet(merged, shape));
  const bare = removeFields(merged, named(last), shape);
  const kept = named(extractFieldSet(bare, shape)).union(named(owned));
  const pruned = removeFields(merged, all.difference(kept), shape);
  // Only what was the applier's may go: an item of its own may hold fields without an owner, but a field beside it may not go.
  const gone = all.difference(named(extractFieldSet(pruned, shape)));
  return removeFields(merged, gone.intersection(named(last)), shape);
}

function ownedByAnybody(managed: Managed): FieldSet {
  return FieldSet.unionOf([...managed.values()].map(({ fields }) => fields));
}

/** Where nothing was tracked so far, all that is there belongs to one owner that stands for all earlier writers. */
function managedBefore(live: JsonObject | undefined, writer: Writer): Managed {
  const managed = live === undefined ? undefined : readManaged(managedFieldsOf(live));
  if (live === undefined || (managed !== undefined && managed.size > 0)) return managed ?? new Map<string, Owner>();
  const update = { ...writer, live: undefined, object: live, manager: 'before-first-apply' };
  return ownershipAfter(update, new Map<string, Owner>());
}

/** The fields of one other owner that would be changed. */
interface Conflict {
  readonly manager: string;
  readonly operation: Operation;
  readonly apiVersion: string;
  readonly subresource: string;
  readonly time: string | undefined;
  /** `.spec.containers[name="web"].image` */
  readonly fields: readonly string[];
}

/** As it stands in `details.causes` of the Status. */
interface ConflictCause {
  readonly reason: 'FieldManagerConflict';
  readonly message: string;
  readonly field: string;
}

interface Conflicts {
  readonly kind: 'conflict';
  readonly message: string;
  readonly causes: readonly ConflictCause[];
  readonly conflicts: readonly Conflict[];
}

function conflictsWith(owners: readonly { readonly owner: Owner; readonly fields: FieldSet }[]): Conflicts {
  const conflicts = owners
    .toSorted((a, b) => compareByteOrder(ownerKey(a.owner), ownerKey(b.owner)))
    .map(({ owner, fields }) => ({ ...owner, fields: [...fields.paths()].map(pathText) }));
  const causes = conflicts.flatMap((conflict) =>
    conflict.fields.map((field) => ({
      reason: 'FieldManagerConflict' as const,
      message: `conflict with ${ownerText(conflict)}`,
      field,
    })),
  );
  return { kind: 'conflict', message: messageOf(conflicts, causes), causes, conflicts };
}

function messageOf(conflicts: readonly Conflict[], causes: readonly ConflictCause[]): string {
  const [only] = causes;
  if (causes.length === 1 && only !== undefined) {
    return `Apply failed with 1 conflict: ${only.message}: ${only.field}`;
  }
  const lines = conflicts.flatMap((conflict) => [
    `conflicts with ${ownerText(conflict)}:`,
    ...conflict.fields.map((field) => `- ${field}`),
  ]);
  return `Apply failed with ${causes.length} conflicts: ${lines.join('\n')}`;
}

function ownerText({ manager, operation, apiVersion, subresource }: Conflict): string {
  const through = subresource === '' ? '' : ` with subresource ${goQuote(subresource)}`;
  return `${goQuote(manager)}${through}${operation === 'Update' ? ` using ${apiVersion}` : ''}`;
}
