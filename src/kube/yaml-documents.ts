/**
 * YAML and JSON text as kubectl reads it, with the position of every field. YAML is 1.1 (`yes` is a boolean, 0644 is
 * octal), but dates and base-60 numbers stay text: the API has neither.
 */
import { LineCounter, isAlias, isMap, isScalar, isSeq, parseAllDocuments } from 'yaml';
import type { Document, Node as YamlNode, Tags } from 'yaml';
import type { FieldPath } from './schema.ts';

export interface Position {
  readonly line: number;
  readonly column: number;
}

export interface YamlDocument {
  /** The document as plain data; undefined when it is empty or could not be read. */
  readonly value: unknown;
  readonly problems: readonly YamlProblem[];
  /** Where a field stands; for one that is absent, where the deepest part that exists stands. */
  locate(path: FieldPath): Position;
}

export interface YamlProblem {
  readonly position: Position;
  readonly message: string;
}

// A manifest that grows beyond this through aliases is an attack ("billion laughs"), not a configuration.
const aliasesMax = 100;

export function parseYamlDocuments(text: string): readonly YamlDocument[] {
  const lines = new LineCounter();
  const parsed = parseAllDocuments(text.replace(/^\uFEFF/, ''), {
    version: '1.1',
    uniqueKeys: true,
    merge: true,
    prettyErrors: false,
    lineCounter: lines,
    customTags: withoutDatesAndSexagesimals,
  });
  const documents = Array.isArray(parsed) ? parsed : [];
  return documents.map((document) => read(document as Document.Parsed, lines));
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
      value = document.toJS({ maxAliasCount: aliasesMax });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      problems.push({ position: position(document.range[0]), message: withoutSource(message) });
    }
  }
  return { value, problems, locate: (path) => position(offsetOf(document, path)) };
}

/** The parser quotes what it could not read behind a colon; that may be a Secret's value, and the position says it too. */
function withoutSource(message: string): string {
  return message.replace(/:\s.*$/s, '').replaceAll('\n', ' ');
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

const unwanted = new Set(['timestamp', 'omap', 'pairs', 'set']);

function withoutDatesAndSexagesimals(tags: Tags): Tags {
  return tags.filter((tag) => {
    if (typeof tag === 'string') return !unwanted.has(tag) && tag !== 'intTime' && tag !== 'floatTime';
    return !unwanted.has(tag.tag.replace('tag:yaml.org,2002:', '')) && !('format' in tag && tag.format === 'TIME');
  });
}
