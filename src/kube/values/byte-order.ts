/**
 * The order in which Go sorts strings: by UTF-8 bytes. JavaScript compares UTF-16 units, which disagrees for characters
 * above U+FFFF, and a different order would mean different file content for the same object.
 */
export function compareByteOrder(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i += 1) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

/** Surrogates stand for characters above U+FFFF, so they rank above every other unit. */
function rank(unit: number): number {
  if (unit >= 0xe000) return unit - 0x800;
  return unit >= 0xd800 ? unit + 0x2000 : unit;
}
