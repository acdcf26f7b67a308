/**
 * Label selectors: the object form (`matchLabels`, `matchExpressions`), what it matches, and its text form.
 */
import { MountletError } from '../../base/errors.ts';
import { compareByteOrder, goQuote } from './go-text.ts';
import { labelValueProblems, qualifiedNameProblems } from './names.ts';

export type Labels = Readonly<Record<string, string>>;

export interface LabelSelector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly LabelExpression[];
}

export interface LabelExpression {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

export type LabelOperator = 'in' | 'notin' | '=' | '==' | '!=' | 'gt' | 'lt' | 'exists' | '!';

/** One condition of a selector; all of them must hold. */
export interface LabelRequirement {
  readonly key: string;
  readonly operator: LabelOperator;
  readonly values: readonly string[];
}

export class LabelSelectorError extends MountletError {
  readonly reason = 'InvalidLabelSelector';
}

const operators: Readonly<Record<string, LabelOperator>> = {
  In: 'in',
  NotIn: 'notin',
  Exists: 'exists',
  DoesNotExist: '!',
};

/** Throws `LabelSelectorError` for a selector that means nothing. An empty one has no requirements and selects everything. */
export function requirementsOf(selector: LabelSelector): readonly LabelRequirement[] {
  const fromLabels = Object.entries(selector.matchLabels ?? {}).map(([key, value]) => requirement(key, '=', [value]));
  const fromExpressions = (selector.matchExpressions ?? []).map(({ key, operator: name, values = [] }) => {
    const operator = Object.hasOwn(operators, name) ? operators[name] : undefined;
    if (operator === undefined) throw new LabelSelectorError(`${goQuote(name)} is not a valid label selector operator`);
    return requirement(key, operator, values);
  });
  return sortedByKey([...fromLabels, ...fromExpressions]);
}

export function requirementsMatch(requirements: readonly LabelRequirement[], labels: Labels): boolean {
  return labelMatcher(requirements)(labels);
}

/** For many objects: a selector may have thousands of values, which are not walked through for each of them. */
export function labelMatcher(requirements: readonly LabelRequirement[]): (labels: Labels) => boolean {
  const sets = requirements.map((one) => ({ ...one, all: new Set(one.values) }));
  return (labels) => sets.every((one) => requirementMatches(one, labels));
}

function requirementMatches(
  { key, operator, values, all }: LabelRequirement & { readonly all: ReadonlySet<string> },
  labels: Labels,
): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case 'in':
    case '=':
    case '==':
      return value !== undefined && all.has(value);
    case 'notin':
    case '!=':
      return value === undefined || !all.has(value);
    case 'exists':
      return value !== undefined;
    case '!':
      return value === undefined;
    case 'gt':
    case 'lt': {
      const [actual, bound] = [integer(value), integer(values[0])];
      if (actual === undefined || bound === undefined) return false;
      return operator === 'gt' ? actual > bound : actual < bound;
    }
  }
}

/** `a=b,c in (x,y),!d` */
export function formatRequirements(requirements: readonly LabelRequirement[]): string {
  return requirements.map(formatRequirement).join(',');
}

function formatRequirement({ key, operator, values }: LabelRequirement): string {
  const list = values.toSorted(compareByteOrder).join(',');
  switch (operator) {
    case 'exists':
      return key;
    case '!':
      return `!${key}`;
    case 'in':
    case 'notin':
      return `${key} ${operator} (${list})`;
    case 'gt':
      return `${key}>${list}`;
    case 'lt':
      return `${key}<${list}`;
    default:
      return `${key}${operator}${list}`;
  }
}

/** A checked requirement. Its errors name fields as the API server does: `values[0][app]: Invalid value: …`. */
export function requirement(key: string, operator: LabelOperator, values: readonly string[]): LabelRequirement {
  const problems: string[] = [];
  const invalid = (field: string, shown: string, detail: string): void => {
    problems.push(`${field}: Invalid value: ${shown}: ${detail}`);
  };
  const keyProblems = qualifiedNameProblems(key);
  if (keyProblems.length > 0) invalid('key', goQuote(key), keyProblems.join('; '));
  const countProblem = valueCountProblem(operator, values.length);
  // Go prints a list that was never made as null.
  if (countProblem !== undefined)
    invalid('values', values.length === 0 ? 'null' : JSON.stringify(values), countProblem);
  for (const [index, value] of values.entries()) {
    const notANumber = (operator === 'gt' || operator === 'lt') && integer(value) === undefined;
    if (notANumber) {
      invalid(`values[${index}]`, goQuote(value), "for 'Gt', 'Lt' operators, the value must be an integer");
    }
  }
  for (const [index, value] of values.entries()) {
    const valueProblems = labelValueProblems(value);
    if (valueProblems.length > 0) invalid(`values[${index}][${key}]`, goQuote(value), valueProblems.join('; '));
  }
  const distinct = [...new Set(problems)];
  if (distinct.length > 0)
    throw new LabelSelectorError(distinct.length === 1 ? distinct.join() : `[${distinct.join(', ')}]`);
  return { key, operator, values };
}

/** In the order of their keys, so that equal selectors have equal texts. */
function sortedByKey(requirements: readonly LabelRequirement[]): readonly LabelRequirement[] {
  return requirements.toSorted((a, b) => compareByteOrder(a.key, b.key));
}

function valueCountProblem(operator: LabelOperator, count: number): string | undefined {
  switch (operator) {
    case 'in':
    case 'notin':
      return count === 0 ? "for 'in', 'notin' operators, values set can't be empty" : undefined;
    case 'exists':
    case '!':
      return count > 0 ? 'values set must be empty for exists and does not exist' : undefined;
    case 'gt':
    case 'lt':
      return count === 1 ? undefined : "for 'Gt', 'Lt' operators, exactly one value is required";
    default:
      return count === 1 ? undefined : 'exact-match compatibility requires one single value';
  }
}

/** A 64-bit number in decimal, as Go reads one; anything else compares with nothing. */
function integer(text: string | undefined): bigint | undefined {
  if (text === undefined || text.length > 40 || !/^[+-]?[0-9]+$/.test(text)) return undefined;
  const value = BigInt(text.replace('+', ''));
  return BigInt.asIntN(64, value) === value ? value : undefined;
}

/**
 * Parses the text form of label selectors, `a=b,c in (x,y),!d`, with the API server's errors. `in` and `notin` are words
 * of the language only where an operator is expected: `in=notin` selects the label `in`.
 */
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
