/** The key that signs service account tokens: ES256 over P-256, and RS256 for keys that were made elsewhere. */
import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign, verify } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { OperatingError } from '../../base/errors.ts';

export interface VerificationKey {
  /** Names the key in a token's header: the hash of the public key, so that everyone computes the same. */
  readonly id: string;
  readonly algorithm: 'ES256' | 'RS256';
  readonly publicKey: KeyObject;
}
export interface SigningKey extends VerificationKey {
  readonly privateKey: KeyObject;
}

export function makeSigningKeyPem(): string {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' })
    .privateKey.export({ type: 'pkcs8', format: 'pem' })
    .toString();
}

export function loadSigningKey(pem: string): SigningKey {
  const privateKey = createPrivateKey(pem);
  return { ...verificationKey(createPublicKey(privateKey)), privateKey };
}

function verificationKey(publicKey: KeyObject): VerificationKey {
  const spki = publicKey.export({ type: 'spki', format: 'der' });
  return { id: createHash('sha256').update(spki).digest('base64url'), algorithm: algorithmOf(publicKey), publicKey };
}

function algorithmOf(key: KeyObject): VerificationKey['algorithm'] {
  if (key.asymmetricKeyType === 'rsa') return 'RS256';
  if (key.asymmetricKeyType === 'ec' && key.asymmetricKeyDetails?.namedCurve === 'prime256v1') return 'ES256';
  const kind = key.asymmetricKeyDetails?.namedCurve ?? key.asymmetricKeyType ?? 'unknown';
  const text = `Cannot sign tokens with a key of type "${kind}": use an RSA key or an elliptic key on P-256`;
  throw new OperatingError('UnsupportedKey', text);
}

export function signToken(key: SigningKey, claims: object): string {
  const header = { alg: key.algorithm, kid: key.id };
  const signed = `${encoded(header)}.${encoded(claims)}`;
  return `${signed}.${sign('sha256', Buffer.from(signed), keyInput(key.privateKey)).toString('base64url')}`;
}

/** The algorithm is the key's own and never the one that the token asks for. */
export function isSignedBy(key: VerificationKey, { signed, signature, algorithm }: ParsedToken): boolean {
  return algorithm === key.algorithm && verify('sha256', Buffer.from(signed), keyInput(key.publicKey), signature);
}

/** JWTs carry the two numbers of an elliptic signature side by side; for RSA the setting means nothing. */
function keyInput(key: KeyObject): { key: KeyObject; dsaEncoding: 'ieee-p1363' } {
  return { key, dsaEncoding: 'ieee-p1363' };
}

interface ParsedToken {
  readonly algorithm: string;
  /** Empty when the header has none. */
  readonly keyId: string;
  /** Unverified until `isSignedBy` said so. */
  readonly claims: Readonly<Record<string, unknown>>;
  readonly signed: string;
  readonly signature: Buffer;
}

/** Undefined for anything that is not three parts of base64url with objects in the first two. */
export function parseToken(token: string): ParsedToken | undefined {
  const parts = /^([\w-]+)\.([\w-]+)\.([\w-]+)$/.exec(token);
  if (parts === null) return undefined;
  const [, head = '', body = '', signature = ''] = parts;
  const header = decodedObject(head);
  const claims = decodedObject(body);
  if (header === undefined || claims === undefined) return undefined;
  return {
    algorithm: typeof header['alg'] === 'string' ? header['alg'] : '',
    keyId: typeof header['kid'] === 'string' ? header['kid'] : '',
    claims,
    signed: `${head}.${body}`,
    signature: Buffer.from(signature, 'base64url'),
  };
}

function encoded(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function decodedObject(part: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString());
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
