/** Whether two values print the same JSON, whatever the order of keys; what is undefined is not there. */
import { isRecord } from '../../kube/values/semantic-equality.ts';

export function isSameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => isSameJson(item, b[index]));
  }
  if (!isRecord(a) || !isRecord(b)) return false;
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  for (const key of keys) {
    const [left, right] = [own(a, key), own(b, key)];
    if (!isSameJson(left, right)) return false;
  }
  return true;
}

function own(record: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}
