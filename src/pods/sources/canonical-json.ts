import { isRecord } from '../../kube/values/semantic-equality.ts';

/** The same text for the same content, in whatever order its fields were written. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) => {
    if (!isRecord(part)) return part;
    return Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });
}
