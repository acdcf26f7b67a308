/**
 * A string as Go writes it in double quotes (`%q`). Kubernetes uses this form in downward API files and in messages, so it
 * is part of what users see. It differs from JSON: printable Unicode stays, the rest becomes `\x7f`, `\u00ad`, `\U000e0001`.
 */
const shortEscapes: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\u0007': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
};

export function goQuote(text: string): string {
  if (/^[ !#-[\]-~]*$/.test(text)) return `"${text}"`;
  let quoted = '"';
  for (const character of text) quoted += shortEscapes[character] ?? quoteCharacter(character);
  return `${quoted}"`;
}

function quoteCharacter(character: string): string {
  if (printable.test(character)) return character;
  const point = character.codePointAt(0) ?? 0;
  // Half of a pair has no UTF-8 form: Go's JSON decoder has already made it U+FFFD.
  if (point >= 0xd800 && point <= 0xdfff) return '\uFFFD';
  if (point < 0x20 || point === 0x7f) return `\\x${hex(point, 2)}`;
  return point < 0x10000 ? `\\u${hex(point, 4)}` : `\\U${hex(point, 8)}`;
}

/** Letters, marks, numbers, punctuation, symbols and the ASCII space; no other space, format or unassigned character. */
const printable = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u;

function hex(point: number, digits: number): string {
  return point.toString(16).padStart(digits, '0');
}

/**
 * JSON as Go's encoder writes it, because the API server's messages carry values in this form. Not for storing objects: there
 * any JSON will do. Go escapes the characters that could end a script element in a page.
 */
export function goJson(value: unknown): string {
  const json = JSON.stringify(value) ?? 'null';
  return json.replace(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** A map as Go prints it, whose keys have no order of their own. */
export function inKeyOrder<T>(map: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  return Object.fromEntries(Object.entries(map).toSorted(([a], [b]) => compareByteOrder(a, b)));
}

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
