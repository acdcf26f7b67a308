/** The object with some fields as the old one has them, absent where they are absent there: what an update cannot change. */
export function keepFields<T extends object>(object: T, old: T, ...fields: readonly (keyof T & string)[]): T {
  const kept: T = { ...object };
  for (const field of fields) {
    if (old[field] === undefined) Reflect.deleteProperty(kept, field);
    else kept[field] = old[field];
  }
  return kept;
}
