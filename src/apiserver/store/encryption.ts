/**
 * The file with the keys that Secrets are encrypted with on disk: one key a line, base64 of 32 random bytes. The first line
 * encrypts, every line decrypts. To change the key: `rotateEncryptionKeys`, open the store with all of them, `reseal` it,
 * `keepNewestEncryptionKey`. This file and the store together give the Secrets away; keep them apart in backups.
 */
import {
  type KeyObject,
  createCipheriv,
  createDecipheriv,
  createHash,
  createSecretKey,
  randomBytes,
} from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { MountletError, errorCode, messageOf } from '../../base/errors.ts';
import { syncPath } from './sync-path.ts';

export interface EncryptionKey {
  /** Derived from the key, so that it cannot name a wrong one. Says nothing about the key. */
  readonly id: string;
  readonly secret: KeyObject;
}

export class EncryptionKeyError extends MountletError {
  readonly reason = 'EncryptionKey';

  constructor(file: string, why: string, options?: ErrorOptions) {
    super(`Cannot use the encryption keys in "${file}": ${why}`, options);
  }
}

const keyLength = 32;
const fileBytesMax = 64 * 1024; // a thousand keys; more is some other file

export function encryptionKey(bytes: Uint8Array): EncryptionKey {
  const id = createHash('sha256').update('mountlet encryption key id\n').update(bytes).digest('hex').slice(0, 16);
  return { id, secret: createSecretKey(bytes) };
}

/** Reads the keys; makes the file with one new key when there is none. */
export function ensureEncryptionKeys(file: string): readonly EncryptionKey[] {
  try {
    return readEncryptionKeys(file);
  } catch (thrown) {
    if (errorCode(causeOf(thrown)) !== 'ENOENT') throw thrown;
  }
  const draft = writeDraft(file, [newKeyLine()]);
  try {
    // A link does not overwrite: of two that start at once, both use the key of the first.
    linkSync(draft, file);
    syncPath(dirname(file));
  } catch (thrown) {
    if (errorCode(thrown) !== 'EEXIST') throw new EncryptionKeyError(file, messageOf(thrown), { cause: thrown });
  } finally {
    unlinkSync(draft);
  }
  return readEncryptionKeys(file);
}

export function readEncryptionKeys(file: string): readonly EncryptionKey[] {
  return readLines(file).map((line) => encryptionKey(Buffer.from(line, 'base64')));
}

/** Puts a new key before the others. The store must be opened again to use it. */
export function rotateEncryptionKeys(file: string): readonly EncryptionKey[] {
  replace(file, [newKeyLine(), ...readLines(file)]);
  return readEncryptionKeys(file);
}

/** Removes all keys but the one that encrypts. What was written with the others, and not resealed, is lost. */
export function keepNewestEncryptionKey(file: string): readonly EncryptionKey[] {
  replace(file, readLines(file).slice(0, 1));
  return readEncryptionKeys(file);
}

function readLines(file: string): string[] {
  const lines = readKeyFile(file)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  if (lines.length === 0) throw new EncryptionKeyError(file, 'it has no key; remove it to get a new one');
  const wrong = lines.findIndex(
    (line) =>
      Buffer.from(line, 'base64').toString('base64') !== line || Buffer.from(line, 'base64').length !== keyLength,
  );
  if (wrong !== -1) throw new EncryptionKeyError(file, `line ${wrong + 1} is not base64 of ${keyLength} bytes`);
  return lines;
}

function readKeyFile(file: string): string {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const status = fstatSync(descriptor);
    if (!status.isFile() || status.size > fileBytesMax) throw new EncryptionKeyError(file, 'it is not a file of keys');
    if ((status.mode & 0o077) !== 0) {
      throw new EncryptionKeyError(file, `others can read or change it; set its mode to 0600: chmod 600 "${file}"`);
    }
    return readFileSync(descriptor, 'utf8');
  } catch (thrown) {
    if (thrown instanceof EncryptionKeyError) throw thrown;
    throw new EncryptionKeyError(file, messageOf(thrown), { cause: thrown });
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

function replace(file: string, lines: readonly string[]): void {
  const draft = writeDraft(file, lines);
  renameSync(draft, file);
  syncPath(dirname(file));
}

/** On disk before it gets its name: a crash leaves the old file or the new one, and a key in use is never lost. */
function writeDraft(file: string, lines: readonly string[]): string {
  const draft = `${file}.${randomBytes(6).toString('hex')}.new`;
  let descriptor: number | undefined;
  try {
    descriptor = openSync(draft, 'wx', 0o600);
    writeFileSync(descriptor, lines.map((line) => `${line}\n`).join(''));
    fsyncSync(descriptor);
  } catch (thrown) {
    throw new EncryptionKeyError(file, messageOf(thrown), { cause: thrown });
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
  return draft;
}

function newKeyLine(): string {
  return randomBytes(keyLength).toString('base64');
}

function causeOf(thrown: unknown): unknown {
  return thrown instanceof Error ? thrown.cause : undefined;
}

/**
 * How a value is written to disk: in clear, or encrypted where its key holds secrets.
 *
 *   mountlet:plain:v1:<text>
 *   mountlet:enc:aesgcm:v1:<key id>:<nonce, 12 bytes><tag, 16 bytes><ciphertext>
 *
 * What a value belongs to (its storage key, its revision, its part in the row) is authenticated with it, so that nobody who
 * can write the file can put one Secret in the place of another, or an old value in the place of a new one. The prefix names
 * the encryption key: the first key given encrypts, all of them decrypt, and so keys can be changed while the store is used.
 */
/** Where a value stands; bound to it by encryption. */
interface ValuePlace {
  readonly part: 'object' | 'deleted';
  readonly key: string;
  readonly revision: number;
}

type OpenedValue =
  | { readonly value: string; readonly isStale: boolean }
  /** It cannot be read, and why. */
  | { readonly damage: string };

const plainPrefix = Buffer.from('mountlet:plain:v1:');
const encryptedPrefix = 'mountlet:enc:aesgcm:v1:';
const nonceLength = 12;
const tagLength = 16;

export class ValueSeal {
  readonly #keys: readonly EncryptionKey[];
  readonly #isSecret: (key: string) => boolean;

  /** Without keys everything is written in clear. */
  constructor(keys: readonly EncryptionKey[], isSecret: (key: string) => boolean) {
    this.#keys = keys;
    this.#isSecret = isSecret;
  }

  seal(place: ValuePlace, value: string): Buffer {
    const first = this.#keys[0];
    if (first === undefined || !this.#isSecret(place.key)) return inClear(value);
    const nonce = randomBytes(nonceLength);
    const cipher = createCipheriv('aes-256-gcm', first.secret, nonce);
    cipher.setAAD(authenticatedWith(place));
    const text = cipher.update(value, 'utf8');
    cipher.final();
    return Buffer.concat([Buffer.from(`${encryptedPrefix}${first.id}:`), nonce, cipher.getAuthTag(), text]);
  }

  /** A stale value should be written again: in clear where it should not be, or with a key that is no longer the first. */
  open(place: ValuePlace, bytes: Buffer): OpenedValue {
    const wantsSecret = this.#keys.length > 0 && this.#isSecret(place.key);
    if (bytes.subarray(0, plainPrefix.length).equals(plainPrefix)) {
      return { value: bytes.toString('utf8', plainPrefix.length), isStale: wantsSecret };
    }
    if (bytes.toString('latin1', 0, encryptedPrefix.length) !== encryptedPrefix) {
      return { damage: 'it does not begin as a value of the store does' };
    }
    const end = bytes.indexOf(':', encryptedPrefix.length, 'latin1');
    const id = bytes.toString('latin1', encryptedPrefix.length, end === -1 ? encryptedPrefix.length : end);
    const key = this.#keys.find((other) => other.id === id);
    if (key === undefined) return { damage: `it is encrypted with the key "${id}", which was not given` };
    const value = decrypt(key, place, bytes.subarray(end + 1));
    if (value === undefined) return { damage: 'it is not what was encrypted there' };
    return { value, isStale: !wantsSecret || key !== this.#keys[0] };
  }
}

function inClear(value: string): Buffer {
  const bytes = Buffer.allocUnsafe(plainPrefix.length + Buffer.byteLength(value));
  plainPrefix.copy(bytes);
  bytes.write(value, plainPrefix.length);
  return bytes;
}

function decrypt(key: EncryptionKey, place: ValuePlace, bytes: Buffer): string | undefined {
  if (bytes.length < nonceLength + tagLength) return undefined;
  const decipher = createDecipheriv('aes-256-gcm', key.secret, bytes.subarray(0, nonceLength), {
    authTagLength: tagLength,
  });
  decipher.setAAD(authenticatedWith(place));
  decipher.setAuthTag(bytes.subarray(nonceLength, nonceLength + tagLength));
  try {
    const text = decipher.update(bytes.subarray(nonceLength + tagLength));
    decipher.final();
    return text.toString('utf8');
  } catch {
    return undefined;
  }
}

function authenticatedWith({ part, key, revision }: ValuePlace): Buffer {
  return Buffer.from(`${part}\n${revision}\n${key}`);
}
