/**
 * JSON text of a stranger: parsed with a bound on its depth, and looked through for keys that occur twice, which JSON.parse
 * passes over in silence.
 */
import { MountletError } from '../../base/errors.ts';

export interface JsonBody {
  readonly value: unknown;
  /** Paths of keys given twice, `metadata.labels.a`, in order. */
  readonly duplicates: readonly string[];
}

/** Its message names a place, never the text there: that may be a Secret's. */
export class JsonError extends MountletError {
  readonly reason = 'MalformedJson';
}

// No object of the API is nearly as deep; much deeper ones overflow the stack of whoever prints them.
const depthMax = 500;

export function parseJsonBody(text: string): JsonBody {
  const duplicates = new Scanner(text).scan();
  try {
    return { value: JSON.parse(text), duplicates };
  } catch (error) {
    throw new JsonError(describe(text, error));
  }
}

interface Level {
  readonly keys: Set<string> | undefined;
  /** The step from here to the level below. */
  step: string;
  index: number;
}

/** Walks the text once. It trusts that the text is JSON; whether that is so JSON.parse says. */
class Scanner {
  readonly #text: string;
  readonly #levels: Level[] = [];
  readonly #duplicates: string[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  scan(): readonly string[] {
    // Strings are skipped as a whole, so that brackets and commas inside of them do not count.
    const tokens = /"(?:[^"\\]|\\.)*"|[{}[\],]/gs;
    let expectsKey = false;
    for (let match = tokens.exec(this.#text); match !== null; match = tokens.exec(this.#text)) {
      const [token] = match;
      const level = this.#levels.at(-1);
      if (token === '{' || token === '[') {
        if (this.#levels.length >= depthMax) throw new JsonError('exceeded max depth');
        this.#levels.push({ keys: token === '{' ? new Set() : undefined, step: '', index: 0 });
        expectsKey = token === '{';
      } else if (token === '}' || token === ']') {
        this.#levels.pop();
        expectsKey = false;
      } else if (token === ',') {
        if (level !== undefined) level.index += 1;
        expectsKey = level?.keys !== undefined;
      } else if (expectsKey && level?.keys !== undefined) {
        this.#key(level, token);
        expectsKey = false;
      }
    }
    return this.#duplicates;
  }

  #key(level: Level, token: string): void {
    let key = token.slice(1, -1);
    if (key.includes('\\')) {
      try {
        key = String(JSON.parse(token));
      } catch {
        return;
      }
    }
    level.step = key;
    if (level.keys?.has(key)) this.#duplicates.push(this.#path());
    level.keys?.add(key);
  }

  #path(): string {
    let path = '';
    for (const { keys, step, index } of this.#levels) {
      if (keys === undefined) path += `[${index}]`;
      else path += path === '' ? step : `.${step}`;
    }
    return path;
  }
}

function describe(text: string, error: unknown): string {
  if (text.trim() === '') return 'unexpected end of JSON input';
  const position = /position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1];
  return position === undefined || Number(position) >= text.length
    ? 'unexpected end of JSON input'
    : `invalid character at position ${position}`;
}
