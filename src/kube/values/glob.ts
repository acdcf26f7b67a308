/**
 * Go's `filepath.Match` for a text without slashes: `*`, `?`, `[a-z]`, `[^a-z]`, and `\` before a literal. A malformed
 * pattern matches nothing. The time is bounded by pattern × text, because patterns come from users.
 */
type Piece = '*' | ((character: string) => boolean);

export function globMatches(pattern: string, text: string): boolean {
  const pieces = piecesOf(pattern);
  if (pieces === undefined) return false;
  const characters = Array.from(text);
  let [piece, at] = [0, 0];
  // Where the last star stood and how far it has reached: the only place ever worth going back to.
  let star: { readonly piece: number; at: number } | undefined;
  while (at < characters.length) {
    const current = pieces[piece];
    const character = characters[at] ?? '';
    if (current === '*') {
      star = { piece, at };
      piece += 1;
    } else if (current?.(character) === true) {
      piece += 1;
      at += 1;
    } else if (star === undefined) return false;
    else {
      star.at += 1;
      piece = star.piece + 1;
      at = star.at;
    }
  }
  return pieces.slice(piece).every((rest) => rest === '*');
}

/** Undefined for a malformed pattern. */
function piecesOf(pattern: string): Piece[] | undefined {
  const characters = Array.from(pattern);
  const pieces: Piece[] = [];
  let at = 0;
  while (at < characters.length) {
    const character = characters[at] ?? '';
    at += 1;
    if (character === '*') pieces.push('*');
    else if (character === '?') pieces.push(() => true);
    else if (character === '[') {
      const set = characterSet(characters, at);
      if (set === undefined) return undefined;
      pieces.push(set.matches);
      at = set.end;
    } else {
      const literal = character === '\\' ? characters[at++] : character;
      if (literal === undefined) return undefined;
      pieces.push((candidate) => candidate === literal);
    }
  }
  return pieces;
}

interface CharacterSet {
  readonly matches: (character: string) => boolean;
  readonly end: number;
}

function characterSet(characters: readonly string[], start: number): CharacterSet | undefined {
  const negated = characters[start] === '^';
  const ranges: (readonly [low: number, high: number])[] = [];
  let at = negated ? start + 1 : start;
  while (characters[at] !== ']' || ranges.length === 0) {
    const low = member(characters, at);
    if (low === undefined) return undefined;
    at = low.end;
    let high = low;
    if (characters[at] === '-') {
      const upper = member(characters, at + 1);
      if (upper === undefined) return undefined;
      high = upper;
      at = upper.end;
    }
    ranges.push([low.point, high.point]);
  }
  const inside = (point: number): boolean => ranges.some(([low, high]) => low <= point && point <= high);
  return { matches: (character) => inside(character.codePointAt(0) ?? 0) !== negated, end: at + 1 };
}

/** One character of a set, perhaps escaped. A set must go on behind it. */
function member(characters: readonly string[], at: number): { point: number; end: number } | undefined {
  const first = characters[at];
  if (first === undefined || first === '-' || first === ']') return undefined;
  const index = first === '\\' ? at + 1 : at;
  const point = characters[index]?.codePointAt(0);
  return point === undefined || index + 1 >= characters.length ? undefined : { point, end: index + 1 };
}
