/**
 * What a projected volume should contain, as plain data, and the rules a path in it must obey. Nothing here touches a
 * disk: a payload that is refused here has left the volume exactly as it was.
 */
import { MountletError } from '../../base/errors.ts';

export interface PayloadFile {
  readonly data: Uint8Array;
  /** Permission bits; anything above 0777 is ignored, as the kubelet does. */
  readonly mode: number;
  /** The owner; left out, the file belongs to the user that runs the writer. */
  readonly uid?: number;
}

/** Files by their path relative to the volume. */
export type Payload = ReadonlyMap<string, PayloadFile>;

/** Where the files of a payload are, whatever is in them. */
export interface TreePaths {
  readonly files: ReadonlyMap<string, unknown>;
  /** Every directory above a file, parents before children. */
  readonly directories: readonly string[];
}

/** A payload whose paths are checked and cleaned, with what follows from them. */
export interface PayloadTree extends TreePaths {
  readonly files: Payload;
  /** The first element of every path, and the owner of its link: that of the first file below it. */
  readonly links: ReadonlyMap<string, number | undefined>;
}

const pathBytesMax = 4096; // PATH_MAX
const elementBytesMax = 255; // NAME_MAX

export class InvalidPayloadPathError extends MountletError {
  readonly reason = 'InvalidPayloadPath';
  readonly path: string;

  constructor(path: string, problem: string) {
    super(`invalid path: ${problem}`);
    this.path = path;
  }
}

/**
 * Checks every path before anything else happens; the first bad one refuses the whole payload. Two paths that clean to
 * the same one are the same file, and the later in the payload's order is kept.
 */
export function planTree(payload: Payload): PayloadTree {
  const files = new Map<string, PayloadFile>();
  requireMap(payload);
  for (const [path, file] of payload) {
    requireFile(path, file);
    files.set(cleanPath(path), file);
  }

  const directories = new Set<string>();
  const links = new Map<string, number | undefined>();
  for (const [path, { uid }] of files) {
    let slash = path.indexOf('/');
    const first = slash === -1 ? path : path.slice(0, slash);
    if (!links.has(first)) links.set(first, uid);
    for (; slash !== -1; slash = path.indexOf('/', slash + 1)) directories.add(path.slice(0, slash));
  }
  for (const directory of directories) {
    // The kubelet finds this out half-way through writing, and which of the two it names depends on map order.
    if (files.has(directory))
      throw new InvalidPayloadPathError(
        directory,
        `a file and not a directory, yet other paths are below it: ${directory}`,
      );
  }
  return { files, directories: [...directories], links };
}

function requireMap(payload: unknown): void {
  if (!(payload instanceof Map))
    throw new TypeError(`payload must be a Map of paths to files, and is ${shown(payload)}`);
}

/** The compiler checks this for programs in TypeScript; plain JavaScript would write bad files. */
function requireFile(path: unknown, file: Partial<PayloadFile> | undefined): void {
  if (typeof path !== 'string') throw new TypeError(`a path of a payload must be a string, and is ${shown(path)}`);
  const { data, mode, uid } = file ?? {};
  if (!(data instanceof Uint8Array))
    throw badFile(path, `data must be a Uint8Array, such as Buffer.from(text), and is ${shown(data)}`);
  if (!Number.isInteger(mode)) throw badFile(path, `mode must be a number, such as 0o644, and is ${shown(mode)}`);
  if (uid !== undefined && !Number.isInteger(uid)) throw badFile(path, `uid must be a number, and is ${shown(uid)}`);
}

function badFile(path: string, problem: string): TypeError {
  return new TypeError(`payload file ${JSON.stringify(path)}: ${problem}`);
}

/** Its type and no more: what was given may be a secret. */
function shown(value: unknown): string {
  return value === null
    ? 'null'
    : Array.isArray(value)
      ? 'an array'
      : typeof value === 'object'
        ? 'an object'
        : typeof value;
}

/** Nearly every path is a plain key; none of the rules below can refuse it or change it. */
const plainName = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}$/;

/** Returns the path without empty elements, `.` elements and a trailing slash, or throws. Same checks and order as the kubelet's. */
function cleanPath(path: string): string {
  if (plainName.test(path)) return path;
  if (path === '') throw new InvalidPayloadPathError(path, 'must not be empty: ""');
  if (path.startsWith('/')) throw new InvalidPayloadPathError(path, `must be relative path: ${path}`);
  if (Buffer.byteLength(path) > pathBytesMax)
    throw new InvalidPayloadPathError(path, `must be less than or equal to ${pathBytesMax} characters`);

  const elements = path.split('/');
  for (const element of elements) {
    if (element === '..') throw new InvalidPayloadPathError(path, `must not contain '..': ${path}`);
    if (Buffer.byteLength(element) > elementBytesMax)
      throw new InvalidPayloadPathError(path, `filenames must be less than or equal to ${elementBytesMax} characters`);
  }
  if (path.startsWith('..')) throw new InvalidPayloadPathError(path, `must not start with '..': ${path}`);
  // From here on the kubelet checks nothing; what it lets through fails later or does harm.
  if (path.includes('\0')) throw new InvalidPayloadPathError(path, 'must not contain a null byte');
  // Written as UTF-8, every lone surrogate becomes the same character: two paths would be one file.
  if (/\p{Surrogate}/u.test(path)) throw new InvalidPayloadPathError(path, 'must be valid Unicode');

  const clean = elements.filter((element) => element !== '' && element !== '.').join('/');
  if (clean === '') throw new InvalidPayloadPathError(path, `must name a file: ${path}`);
  // './..data' would take the writer's own link for a file of the payload.
  if (clean.startsWith('..')) throw new InvalidPayloadPathError(path, `must not start with '..': ${path}`);
  return clean;
}
