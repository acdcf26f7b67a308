/**
 * Registry credentials from a pod's pull secrets, and which of them fit an image. All that fit are tried one after another,
 * so that passwords can be rotated. No error shows anything that was inside a secret.
 */
import { MountletError } from '../../base/errors.ts';
import { compareByteOrder } from '../values/go-text.ts';
import { parseImageReference } from '../values/image-reference.ts';

export interface PullSecret {
  readonly name?: string;
  readonly type?: string;
  /** Base64, as the API carries it. */
  readonly data?: Readonly<Record<string, string>>;
}

/** A name and a password for a registry. */
export interface Login {
  readonly username: string;
  readonly password: string;
}

export interface RegistryCredentials extends Login {
  /** `registry.example.com`, `*.example.com:5000/team`. */
  readonly registry: string;
}

/** Registries in the order in which they are tried, each with its credentials in the order of the secrets. */
export type Keyring = ReadonlyMap<string, readonly RegistryCredentials[]>;

export class PullSecretError extends MountletError {
  readonly reason = 'InvalidPullSecret';

  constructor({ name = '' }: PullSecret, problem: string) {
    super(`Cannot read pull secret "${name}": ${problem}`);
  }
}

/** Secrets of other types, and those without the key of their type, do not count. Throws `PullSecretError`. */
export function parsePullSecrets(secrets: readonly PullSecret[]): Keyring {
  return keyringOf(secrets.flatMap(entriesOf));
}

/** Of entries as in the files: `https://quay.io/v1/`. */
export function keyringOf(entries: Iterable<readonly [registry: string, login: Login]>): Keyring {
  const byRegistry = new Map<string, RegistryCredentials[]>();
  for (const [written, { username, password }] of entries) {
    const registry = registryKey(written);
    if (registry === undefined) continue;
    byRegistry.set(registry, [...(byRegistry.get(registry) ?? []), { registry, username, password }]);
  }
  // From the end of the alphabet, so that a longer path comes before the registry it is on.
  return new Map([...byRegistry].toSorted(([a], [b]) => compareByteOrder(b, a)));
}

/** As if the entries of all of them were one list. */
export function mergedKeyring(keyrings: readonly Keyring[]): Keyring {
  const all = keyrings.flatMap((keyring) => [...keyring.values()].flat());
  return keyringOf(all.map((credentials) => [credentials.registry, credentials]));
}

/** Throws `ImageReferenceError` for an image that is none. */
export function credentialsFor(keyring: Keyring, image: string): readonly RegistryCredentials[] {
  return credentialsForRepository(keyring, parseImageReference(image).repository);
}

const defaultRegistry = 'index.docker.io';

export function credentialsForRepository(keyring: Keyring, repository: string): readonly RegistryCredentials[] {
  const fitting = [...keyring].flatMap(([key, credentials]) => (registryMatches(key, repository) ? credentials : []));
  if (fitting.length > 0) return fitting;
  return isOnDefaultRegistry(repository) ? (keyring.get(defaultRegistry) ?? []) : [];
}

/** Ports and numbers of labels must be equal; a star stands for one label at most; paths match from their beginning. */
export function registryMatches(key: string, repository: string): boolean {
  const [pattern, given] = [parseUrl(`https://${key}`), parseUrl(`https://${repository}`)];
  if (pattern === undefined || given === undefined) return false;
  if (pattern.port !== given.port || pattern.labels.length !== given.labels.length) return false;
  if (!given.path.startsWith(pattern.path)) return false;
  return pattern.labels.every((label, index) => globMatches(label, given.labels[index] ?? ''));
}

/** Docker Hub, by the look of the name: nothing before the first slash could be a host. */
export function isOnDefaultRegistry(repository: string): boolean {
  const [first = '', ...rest] = repository.split('/');
  if (first === '') return false;
  return rest.length === 0 || first === 'docker.io' || first === defaultRegistry || !/[.:]/.test(first);
}

/** `https://quay.io/v1/` is `quay.io`; undefined for anything but a URL, which is left out. */
export function registryKey(written: string): string | undefined {
  const url = parseUrl(/^https?:\/\//.test(written) ? written : `https://${written}`);
  if (url === undefined) return undefined;
  const path = /^\/v[12]\//.test(url.path) ? url.path.slice(3) : url.path;
  return path === '/' ? url.host : url.host + path;
}

const formats: Readonly<Record<string, string>> = {
  'kubernetes.io/dockerconfigjson': '.dockerconfigjson',
  'kubernetes.io/dockercfg': '.dockercfg',
};

function entriesOf(secret: PullSecret): (readonly [registry: string, login: Login])[] {
  const { type = '', data = {} } = secret;
  const key = Object.hasOwn(formats, type) ? formats[type] : undefined;
  const encoded = key !== undefined && Object.hasOwn(data, key) ? (data[key] ?? '') : '';
  if (key === undefined || encoded === '') return [];
  const json = parseJson(secret, key, Buffer.from(encoded, 'base64').toString('utf8'));
  const fail = (problem: string): PullSecretError => new PullSecretError(secret, `${key} ${problem}`);
  const file = objectOf(json, () => fail('is not a JSON object'));
  const registries =
    key === '.dockercfg' ? file : objectOf(field(file, 'auths') ?? {}, () => fail('has "auths" that are no object'));
  return Object.entries(registries).map(([registry, entry], index) => {
    const invalid = (problem: string): PullSecretError => fail(`has an invalid entry ${index + 1}: ${problem}`);
    return [
      registry,
      loginOf(
        objectOf(entry ?? {}, () => invalid('it is no object')),
        invalid,
      ),
    ];
  });
}

/** `auth` decides where it is given; unknown fields are ignored. */
function loginOf(entry: JsonObject, invalid: (problem: string) => PullSecretError): Login {
  const text = (name: string): string => {
    const value = field(entry, name) ?? '';
    if (typeof value !== 'string') throw invalid(`"${name}" is not a string`);
    return value;
  };
  text('email');
  const [username, password, auth] = [text('username'), text('password'), text('auth')];
  if (auth === '') return { username, password };
  const decoded = decodeBase64(auth);
  if (decoded === undefined) throw invalid('"auth" is not base64');
  const colon = decoded.indexOf(':');
  if (colon < 0) throw invalid('unable to parse auth field, must be formatted as base64(username:password)');
  return { username: decoded.slice(0, colon), password: decoded.slice(colon + 1) };
}

type JsonObject = Readonly<Record<string, unknown>>;

function objectOf(json: unknown, error: () => Error): JsonObject {
  if (json === null) return {};
  if (typeof json !== 'object' || Array.isArray(json)) throw error();
  return json as JsonObject;
}

/** Go finds fields whatever their case, and takes the last of several. */
function field(object: JsonObject, name: string): unknown {
  return Object.entries(object).findLast(([key, value]) => key.toLowerCase() === name && value !== null)?.[1];
}

/** The parser's own message quotes what it read, so only the position is taken from it. */
function parseJson(secret: PullSecret, key: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const [, position] = /in JSON at position (\d+)(?: \(line \d+ column \d+\))?$/.exec(String(error)) ?? [];
    const where = position === undefined ? '' : ` (at character ${Number(position) + 1})`;
    // Without a cause, which would carry the secret along.
    throw new PullSecretError(secret, `${key} is not valid JSON${where}`);
  }
}

/** Standard alphabet, with or without padding but not with half of it; line breaks are ignored and nothing else. */
function decodeBase64(text: string): string | undefined {
  const packed = text.replace(/[\r\n]/g, '');
  const [, digits = '', padding = ''] = /^([A-Za-z0-9+/]*)(={0,2})$/.exec(packed) ?? [];
  const complete = padding === '' ? digits.length % 4 !== 1 : packed.length % 4 === 0;
  const understood = digits.length + padding.length === packed.length;
  return complete && understood ? Buffer.from(digits, 'base64').toString('utf8') : undefined;
}

interface RegistryUrl {
  readonly host: string;
  readonly labels: readonly string[];
  readonly port: string;
  readonly path: string;
}

/** As Go parses URLs, which takes globs for hosts where the WHATWG parser does not. Undefined for anything but a URL. */
function parseUrl(url: string): RegistryUrl | undefined {
  // eslint-disable-next-line no-control-regex
  if (/[\u0000-\u001F\u007F]/.test(url)) return undefined;
  const [, authority = '', encodedPath = ''] = /^https?:\/\/([^/?#]*)([^?#]*)/.exec(url) ?? [];
  const host = authority.slice(authority.lastIndexOf('@') + 1);
  const parts = /^(?:\[([^[\]]*)\]|((?!\[)[^:]*))(?::([0-9]*))?$/.exec(host);
  if (parts === null || /[ %\\^`{|}]/.test(host)) return undefined;
  const [, address, name = '', port = ''] = parts;
  try {
    const labels = address === undefined ? name.split('.') : [address];
    return { host, labels, port, path: decodeURIComponent(encodedPath) };
  } catch {
    return undefined;
  }
}

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
