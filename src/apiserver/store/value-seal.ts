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
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { EncryptionKey } from './encryption-key.ts';

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
