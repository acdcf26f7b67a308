/**
 * Parses the text form of label selectors, `a=b,c in (x,y),!d`, with the API server's errors. `in` and `notin` are words
 * of the language only where an operator is expected: `in=notin` selects the label `in`.
 */
import { compareByteOrder } from './byte-order.ts';
import { goQuote } from './go-quote.ts';
import { type LabelOperator, type LabelRequirement, LabelSelectorError, requirement, sortedByKey } from './labels.ts';
import { qualifiedNameProblems } from './names.ts';

type TokenKind = 'end' | 'word' | ',' | '(' | ')' | '!' | '=' | '==' | '!=' | '>' | '<';
interface Token {
  readonly kind: TokenKind;
  readonly text: string;
}

/** Sorted by key. The empty text selects everything. Throws `LabelSelectorError`. */
export function parseLabelSelector(text: string): readonly LabelRequirement[] {
  return sortedByKey(new Parser(tokensOf(text)).parse());
}

const end: Token = { kind: 'end', text: '' };
const valueOperators: Readonly<Record<string, LabelOperator>> = {
  in: 'in',
  notin: 'notin',
  '=': '=',
  '==': '==',
  '!=': '!=',
  '>': 'gt',
  '<': 'lt',
};

function* tokensOf(text: string): Generator<Token, void> {
  // A NUL ends a word, and ends the whole selector where a word could begin.
  for (const [part] of text.matchAll(/[ \t\r\n]+|==|!=|[=!(),<>]|[^=!(),<> \t\r\n\0]+\0?|\0/g)) {
    if (part === '\0') return;
    if (/^[ \t\r\n]/.test(part)) continue;
    if (/^[=!(),<>]/.test(part)) yield { kind: part as TokenKind, text: part };
    else yield { kind: 'word', text: part.replace('\0', '') };
  }
}

class Parser {
  readonly #tokens: readonly Token[];
  #position = 0;

  constructor(tokens: Iterable<Token>) {
    this.#tokens = [...tokens];
  }

  parse(): LabelRequirement[] {
    const requirements: LabelRequirement[] = [];
    const first = this.#peek();
    if (first.kind === 'end') return requirements;
    if (!startsRequirement(first)) throw found(first, "!, identifier, or 'end of string'");
    for (;;) {
      requirements.push(this.#requirement());
      const separator = this.#take();
      if (separator.kind === 'end') return requirements;
      if (separator.kind !== ',') throw found(separator, "',' or 'end of string'");
      if (!startsRequirement(this.#peek())) throw found(this.#peek(), "identifier after ','");
    }
  }

  #requirement(): LabelRequirement {
    try {
      return this.#keyAndCondition();
    } catch (error) {
      if (!(error instanceof LabelSelectorError)) throw error;
      throw new LabelSelectorError(`unable to parse requirement: ${error.message}`);
    }
  }

  #keyAndCondition(): LabelRequirement {
    const absent = this.#peek().kind === '!';
    if (absent) this.#take();
    const key = this.#take();
    if (key.kind !== 'word') throw found(key, 'identifier');
    const problems = qualifiedNameProblems(key.text);
    if (problems.length > 0) {
      throw new LabelSelectorError(`<nil>: Invalid value: ${goQuote(key.text)}: ${problems.join('; ')}`);
    }
    if (absent) return requirement(key.text, '!', []);
    const next = this.#peek().kind;
    if (next === 'end' || next === ',') return requirement(key.text, 'exists', []);
    const operator = this.#operator();
    const values = operator === 'in' || operator === 'notin' ? this.#list() : [this.#value()];
    return requirement(key.text, operator, [...new Set(values)].sort(compareByteOrder));
  }

  #operator(): LabelOperator {
    const token = this.#take();
    const operator = Object.hasOwn(valueOperators, token.text) ? valueOperators[token.text] : undefined;
    if (operator === undefined) throw found(token, 'in, notin, =, ==, !=, gt, lt');
    return operator;
  }

  /** `key=` compares with the empty value. */
  #value(): string {
    const { kind } = this.#peek();
    if (kind === 'end' || kind === ',') return '';
    const token = this.#take();
    if (token.kind !== 'word') throw found(token, 'identifier');
    return token.text;
  }

  /** `()`, `(,a)` and `(a,,b)` all contain the empty value. */
  #list(): string[] {
    const open = this.#take();
    if (open.kind !== '(') throw new LabelSelectorError(`found '${open.text}' expected: '('`);
    const first = this.#peek();
    if (first.kind === ')') {
      this.#take();
      return [''];
    }
    if (first.kind !== 'word' && first.kind !== ',') throw found(first, "',', ')' or identifier");
    const values: string[] = [];
    for (;;) {
      const token = this.#take();
      const next = this.#peek();
      if (token.kind === 'word') {
        values.push(token.text);
        if (next.kind !== ',' && next.kind !== ')') throw found(next, "',' or ')'");
      } else if (token.kind === ',') {
        if (values.length === 0 || next.kind === ',' || next.kind === ')') values.push('');
      } else throw found(token, "',', or identifier");
      if (next.kind === ')') {
        this.#take();
        return values;
      }
    }
  }

  #peek(): Token {
    return this.#tokens[this.#position] ?? end;
  }

  #take(): Token {
    const token = this.#peek();
    this.#position += 1;
    return token;
  }
}

function startsRequirement({ kind }: Token): boolean {
  return kind === 'word' || kind === '!';
}

function found({ text }: Token, expected: string): LabelSelectorError {
  return new LabelSelectorError(`found '${text}', expected: ${expected}`);
}
