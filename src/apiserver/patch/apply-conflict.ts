/** What the applier of a configuration is told when it would change fields that belong to others. */
import { compareByteOrder } from '../../kube/values/byte-order.ts';
import { goQuote } from '../../kube/values/go-quote.ts';
import type { FieldSet } from './field-set.ts';
import type { Operation, Owner } from './managed-fields.ts';
import { ownerKey } from './managed-fields.ts';
import { pathText } from './path-element.ts';

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

export interface Conflicts {
  readonly kind: 'conflict';
  readonly message: string;
  readonly causes: readonly ConflictCause[];
  readonly conflicts: readonly Conflict[];
}

export function conflictsWith(owners: readonly { readonly owner: Owner; readonly fields: FieldSet }[]): Conflicts {
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
