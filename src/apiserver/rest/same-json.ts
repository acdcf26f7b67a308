/** Whether two values print the same JSON, whatever the order of keys; what is undefined is not there. */
import { isRecord } from '../../kube/schema/equality.ts';

export function isSameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => isSameJson(item, b[index]));
  }
  if (!isRecord(a) || !isRecord(b)) return false;
  for (const key of Object.keys(a)) if (!isSameJson(a[key], own(b, key))) return false;
  for (const key of Object.keys(b)) if (!Object.hasOwn(a, key) && b[key] !== undefined) return false;
  return true;
}

function own(record: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}
