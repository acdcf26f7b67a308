/**
 * Whether two values say the same, as the API compares objects: an empty list or map says as much as none, and the order
 * of keys says nothing. Prototypes do not count either: maps of decoded objects have none, those of parsed JSON do.
 */
export function sameContent(a: unknown, b: unknown): boolean {
  if (isEmpty(a) && isEmpty(b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  if (Array.isArray(a) && Array.isArray(b) && a.length !== b.length) return false;
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every((key) => sameContent(valueOf(a, key), valueOf(b, key)));
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  return typeof value === 'object' && Object.values(value).every((item) => !Array.isArray(value) && isEmpty(item));
}

function valueOf(object: object, key: string): unknown {
  return Object.hasOwn(object, key) ? (object as Record<string, unknown>)[key] : undefined;
}
