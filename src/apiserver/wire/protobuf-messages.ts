/** Every message that a request may carry in protobuf, and which of them is which kind: collected from the kinds that are served. */
import { metaWire } from '../../kube/schema/meta.ts';
import type { ExchangedKind } from '../model/resource.ts';
import { resources } from '../resources/resources.ts';

const served: readonly ExchangedKind[] = resources.flatMap((resource) => [
  resource,
  ...resource.subresources.flatMap(({ kind }) => kind ?? []),
]);

/** Parsed at start, all together: 250 short texts take a fraction of a millisecond, and a typing error shows at once. */
export const messages: ReadonlyMap<string, Message> = parsed(
  [metaWire, ...served.map(({ wire = {} }) => wire)].flatMap((tables) => Object.entries(tables)),
);

/** Kinds share messages. Two that differ and have one name would be read as one of them. */
function parsed(tables: readonly (readonly [string, string])[]): ReadonlyMap<string, Message> {
  const texts = new Map<string, string>();
  for (const [name, text] of tables) {
    if ((texts.get(name) ?? text) !== text) throw new SyntaxError(`two messages are called ${name}`);
    texts.set(name, text);
  }
  return new Map([...texts].map(([name, text]) => [name, parseMessage(text)]));
}

const messageNames: ReadonlyMap<string, string> = new Map(
  served.flatMap(({ group, version, otherVersions = [], kind, wire = {} }) => {
    const [own] = Object.keys(wire);
    if (own === undefined) return [];
    const versions = [version, ...otherVersions];
    return versions.map((one) => [`${group === '' ? one : `${group}/${one}`}/${kind}`, own] as const);
  }),
);

/** The name of the message behind a kind. DeleteOptions come under the version of whatever is to be deleted. */
export function messageNameOf(apiVersion: string, kind: string): string | undefined {
  return kind === 'DeleteOptions' ? kind : messageNames.get(`${apiVersion}/${kind}`);
}

/**
 * The notation of `wire` in a kind: one text for each message, fields separated by commas.
 *
 *   2 image              field 2 is the string `image`; the empty string counts as unset
 *   16 stdin bool        of another type: bool, int, bytes, Time, MicroTime, Quantity, IntOrString, RawJson, Strings,
 *                        or the name of a message; zero, false and a message without content count as unset
 *   4 optional? bool     presence matters: what was sent is kept, even if it is false, 0, "" or {}
 *   1 name!              always there: unset means the zero value
 *   3 command [string]   repeated
 *   7 nodeSelector {string}   a map with string keys
 *   2 ...VolumeSource    a message whose fields belong to the one around it
 *
 * `?` and `!` are not in the wire format. They say which Go fields are pointers and which are printed although empty,
 * and without them `runAsUser: 0` and `emptyDir: {}` would be lost or `hostPort: 0` invented.
 */
export interface Field {
  readonly number: number;
  /** The key in JSON; undefined for fields of an inlined message. */
  readonly name: string | undefined;
  readonly type: string;
  readonly form: 'single' | 'list' | 'map' | 'inline';
  readonly presence: 'nonzero' | 'sent' | 'always';
}

export type Message = ReadonlyMap<number, Field>;

export const scalarTypes = new Set(
  'string bool int bytes Time MicroTime Quantity IntOrString RawJson Strings'.split(' '),
);

export function parseMessage(text: string): Message {
  const fields = text.split(',').map((part) => parseField(part.trim()));
  return new Map(fields.map((field) => [field.number, field]));
}

function parseField(text: string): Field {
  const inline = /^(\d+) \.\.\.([\w.]+)$/.exec(text);
  if (inline !== null) {
    const [, number, type = ''] = inline;
    return { number: Number(number), name: undefined, type, form: 'inline', presence: 'nonzero' };
  }
  const parts = /^(\d+) (\w+)([?!]?)(?: ([[{]?)([\w.]+)[\]}]?)?$/.exec(text);
  if (parts === null) throw new SyntaxError(`not a field: "${text}"`);
  const [, number, name, mark, bracket, type = 'string'] = parts;
  return {
    number: Number(number),
    name,
    type,
    form: bracket === '[' ? 'list' : bracket === '{' ? 'map' : 'single',
    presence: mark === '?' ? 'sent' : mark === '!' ? 'always' : 'nonzero',
  };
}
