/**
 * YAML and JSON text as kubectl reads it, with the position of every field. YAML is 1.1 (`yes` is a boolean, 0644 is
 * octal); what a scalar means is in yaml-tags.ts.
 */
import { isUtf8 } from 'node:buffer';
import {
  CST,
  Composer,
  type Document,
  Lexer,
  LineCounter,
  type Node as YamlNode,
  Parser,
  type ScalarTag,
  type Tags,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  visit,
} from 'yaml';
import type { FieldPath } from '../schema/schema.ts';

export interface Position {
  readonly line: number;
  readonly column: number;
}

interface YamlDocument {
  /** The document as plain data; undefined when it is empty or could not be read. Of keys that stand twice the last counts. */
  readonly value: unknown;
  readonly problems: readonly YamlProblem[];
  /** Where a field stands; for one that is absent, where the deepest part that exists stands. */
  locate(path: FieldPath): Position;
}

interface YamlProblem {
  readonly position: Position;
  readonly message: string;
  /** Of a key that stands twice, which kubectl reads all the same. Empty where the key may be a secret. */
  readonly repeatedKey?: string;
}

// How often one anchor may be used, also by way of others. A manifest that grows beyond this is an attack ("billion
// laughs"); a generated one with a hundred containers of the same environment is not.
const aliasesMax = 1000;
// Anchors and aliases together: the parser looks for the anchor of each alias among all that stand before it.
const namedMax = 5000;

// As deep as JSON is read. The second half of the parser calls itself for each level, and V8 ends the whole process, with no
// exception to catch, when it has to compile a regular expression at the end of the stack.
const depthMax = 500;

/** As long as any key of a Kubernetes object. */
const shownKeyMax = 253;

class TooDeepError extends Error {}

export function parseYamlDocuments(text: string): readonly YamlDocument[] {
  const lines = new LineCounter();
  const parser = new Parser(lines.addNewLine);
  const composer = new Composer({
    version: '1.1',
    uniqueKeys: false, // checked below: the parser compares every key of a map with every other
    merge: true,
    prettyErrors: false,
    customTags: kubectlTags,
    logLevel: 'error',
  });
  try {
    // Files that were joined bring the mark of each.
    const tokens = shallowTokens(parser, lines, text.replaceAll(/^\uFEFF/gm, ''));
    return Array.from(composer.compose(tokens), (document) => read(document, lines));
  } catch (error) {
    if (!(error instanceof TooDeepError)) throw error;
    const { line, col: column } = lines.linePos(parser.offset);
    const position = { line, column };
    const problems = [{ position, message: `Too deeply nested (more than ${depthMax} levels)` }];
    return [{ value: undefined, problems, locate: () => position }];
  }
}

function* shallowTokens(parser: Parser, lines: LineCounter, text: string): Generator<CST.Token, void> {
  const hasGoQuotes = text.includes(goQuote);
  const asGoReads = (token: CST.Token): CST.Token => (hasGoQuotes ? withGoQuotes(token) : token);
  lines.addNewLine(0);
  for (const lexeme of new Lexer().lex(text)) {
    for (const token of parser.next(lexeme)) yield asGoReads(token);
    if (parser.stack.length > depthMax) throw new TooDeepError();
  }
  for (const token of parser.end()) yield asGoReads(token);
}

/** Within double quotes YAML has no such escape; Go's parser reads it as a quote. */
const goQuote = "\\'";

function withGoQuotes(token: CST.Token): CST.Token {
  if (token.type !== 'document') return token;
  CST.visit(token, ({ key, value }) => {
    for (const scalar of [key, value]) {
      if (scalar?.type !== 'double-quoted-scalar') continue;
      scalar.source = scalar.source.replace(/\\([^])/g, (escape, char: string) => (char === "'" ? char : escape));
    }
  });
  return token;
}

function read(document: Document.Parsed, lines: LineCounter): YamlDocument {
  const position = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line, column: col };
  };
  const problems: YamlProblem[] = document.errors.map(({ pos, message }) => ({
    position: position(pos[0]),
    message: withoutSource(message),
  }));
  let value: unknown;
  if (problems.length === 0) {
    try {
      for (const { node, ...problem } of unreadableAsJson(document)) {
        problems.push({ position: position(startOf(node) ?? document.range[0]), ...problem });
      }
      if (problems.every(({ repeatedKey }) => repeatedKey !== undefined))
        value = document.toJS({ maxAliasCount: aliasesMax });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      problems.push({ position: position(document.range[0]), message: withoutSource(message) });
    }
  }
  return { value, problems, locate: (path) => position(offsetOf(document, path)) };
}

/** The parser quotes what it could not read; that may be a Secret's value, and the position says it too. */
function withoutSource(message: string): string {
  const [, instead] = quoting.find(([pattern]) => pattern.test(message)) ?? [];
  return instead ?? message.replace(/:\s.*$/s, '').replaceAll('\n', ' ');
}

const quoting: readonly (readonly [pattern: RegExp, instead: string])[] = [
  [/^Invalid escape sequence/, 'Invalid escape sequence (a backslash in double quotes is written twice)'],
  [/^The .* tag has no suffix$/s, 'A tag has no suffix (quote text that begins with an exclamation mark)'],
  [/^Verbatim tags/, 'Verbatim tags are not read (quote text that begins with an exclamation mark)'],
];

/** Between braces a key may be the value of a Secret that lacks its quotes. */
function repeated({ flow }: { readonly flow?: boolean }, text: string): Pick<YamlProblem, 'message' | 'repeatedKey'> {
  const message = 'Map keys must be unique';
  if (flow === true) return { message, repeatedKey: '' };
  const key = text.slice(0, shownKeyMax);
  return { message: `${message}: "${key}" stands twice`, repeatedKey: key };
}

interface Unreadable extends Omit<YamlProblem, 'position'> {
  readonly node: unknown;
}

/** What YAML can say and JSON cannot: keys that are not text or occur twice, and a value that contains itself. */
function unreadableAsJson(document: Document.Parsed): readonly Unreadable[] {
  const found: Unreadable[] = [];
  const anchored = new Map<string, YamlNode>();
  let named = 0;
  const note = (node: YamlNode & { readonly anchor?: string }): void => {
    if (node.anchor === undefined) return;
    anchored.set(node.anchor, node);
    named += 1;
  };
  visit(document, {
    Scalar: (_, node) => note(node),
    Seq: (_, node) => note(node),
    Map(_, map) {
      note(map);
      const seen = new Set<string>();
      for (const { key } of map.items) {
        // A merge key, which may stand twice, has no text but a symbol for its value.
        if (!isScalar(key) || typeof key.value === 'symbol') continue;
        // As text, which is what becomes of `yes` and "true".
        const text = String(key.value);
        if (seen.has(text)) found.push({ node: key, ...repeated(map, text) });
        seen.add(text);
      }
    },
    Pair(_, { key }) {
      if (isMap(key) || isSeq(key)) found.push({ node: key, message: 'A key must be text, not a list or a map' });
      else if (isScalar(key) && key.value === null) found.push({ node: key, message: 'A key must not be empty' });
    },
    Alias(_, alias, ancestors) {
      named += 1;
      // An anchor may stand twice: the last one before the alias counts.
      const target = anchored.get(alias.source);
      if (target === undefined) {
        found.push({ node: alias, message: 'Unresolved alias (the anchor must be set before the alias)' });
      } else if (ancestors.includes(target)) found.push({ node: alias, message: 'A value must not contain itself' });
      return named > namedMax ? visit.BREAK : undefined;
    },
  });
  if (named > namedMax) {
    found.push({ node: document.contents, message: `Too many anchors and aliases (at most ${namedMax})` });
  }
  return found;
}

/** A field stands where its key does, an item of a list where it begins. */
function offsetOf(document: Document.Parsed, path: FieldPath): number {
  let node: YamlNode | null = document.contents;
  let offset = node?.range?.[0] ?? document.range[0];
  for (const part of path) {
    if (isAlias(node)) node = node.resolve(document) ?? null;
    let next: unknown;
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => String(isScalar(key) ? key.value : key) === String(part));
      if (pair === undefined) return offset;
      offset = startOf(pair.key) ?? offset;
      next = pair.value;
    } else if (isSeq(node)) {
      next = node.items[Number(part)];
      offset = startOf(next) ?? offset;
    }
    if (next === null || next === undefined) return offset;
    node = next as YamlNode;
  }
  return offset;
}

function startOf(node: unknown): number | undefined {
  return (node as YamlNode | null | undefined)?.range?.[0];
}

/**
 * What a plain YAML scalar means: the reading of go-yaml, which kubectl uses, where it differs from the YAML parser's.
 * Go's own number syntax decides (`0o644` and `0644` are octal, `.` and `e3` are text), dates and base-60 numbers stay
 * text, and `!!binary` is the text it encodes: JSON, which is what becomes of a manifest, has no bytes.
 */
const prefix = 'tag:yaml.org,2002:';
const replaced = new Set(['int', 'float', 'binary', 'timestamp', 'omap', 'pairs', 'set'].map((name) => prefix + name));

const integer: ScalarTag = {
  tag: `${prefix}int`,
  default: true,
  test: /^[-+]?(?:0_*(?:[xX]_*[0-9a-fA-F][0-9a-fA-F_]*|[oO]_*[0-7][0-7_]*|[bB]_*[01][01_]*|[0-7_]*)|[1-9][0-9_]*)$/,
  resolve(text) {
    const [, sign = '', digits = ''] = /^([-+]?)(.*)$/.exec(text.replaceAll('_', '')) ?? [];
    const amount = BigInt(/^0[0-7]/.test(digits) ? `0o${digits.slice(1)}` : digits.toLowerCase());
    const value = sign === '-' ? -amount : amount;
    const number = Number(value);
    // A quantity may be larger than a JavaScript number is exact.
    return Number.isSafeInteger(number) ? number : value;
  },
};

const decimal: ScalarTag = {
  tag: `${prefix}float`,
  default: true,
  // Underscores are for what begins with a digit or a sign; `08` comes here because it is not an octal number.
  test: /^(?:\.[0-9]+|[-+]\.[0-9][0-9_]*|[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$/,
  resolve(text) {
    const value = Number(text.replaceAll('_', ''));
    return Number.isFinite(value) ? value : text;
  },
};

const notFinite: ScalarTag = {
  tag: `${prefix}float`,
  default: true,
  test: /^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/,
  resolve: (text) => (/nan/i.test(text) ? Number.NaN : Number(text.replace(/\.inf/i, 'Infinity'))),
};

const binary: ScalarTag = {
  tag: `${prefix}binary`,
  resolve(text, onError) {
    const bytes = Buffer.from(text, 'base64');
    if (!isUtf8(bytes)) onError('!!binary must be UTF-8 text here, use binaryData or data for other bytes');
    return bytes.toString('utf8');
  },
};

/** The parser's tags with ours in the place of those that read otherwise. */
function kubectlTags(tags: Tags): Tags {
  const kept = tags.filter((tag) => typeof tag === 'string' || !replaced.has(tag.tag));
  return [...kept, integer, decimal, notFinite, binary];
}

/** For writing: text that either reading would take for a number gets quotes. */
export function tagsOfBothReadings(tags: Tags): Tags {
  return [...tags, integer, decimal];
}
