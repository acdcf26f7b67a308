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
