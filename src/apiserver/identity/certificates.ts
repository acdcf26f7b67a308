/**
 * X.509 certificates for the embedded server: an authority, the server's own certificate, and one for each client that is
 * to be known by name. Elliptic keys (P-256): a pair costs under a millisecond. Nothing here touches a file.
 */
import { createHash, createPrivateKey, generateKeyPairSync, randomBytes, sign, X509Certificate } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { isIP, isIPv4 } from 'node:net';
import { MountletError } from '../../base/errors.ts';
import { children, der } from './der.ts';

export interface KeyPair {
  readonly certificatePem: string;
  readonly keyPem: string;
}
/** A certificate that signs others, with its key. */
export type Authority = KeyPair;

export interface Validity {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly days: number;
}

export class CertificateHostError extends MountletError {
  readonly reason = 'InvalidHost';
  constructor(host: string) {
    super(`Cannot issue a certificate for "${host}": give a host name in ASCII or an IP address`);
  }
}

const objectIds = {
  commonName: '2.5.4.3',
  organization: '2.5.4.10',
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  subjectKeyId: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  authorityKeyId: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
  serverAuth: '1.3.6.1.5.5.7.3.1',
  clientAuth: '1.3.6.1.5.5.7.3.2',
};

const dayMs = 86_400_000;
/** Clocks of clients may be behind, and this machine's may be set back by hours; a certificate from the future is refused. */
const clockSkewMs = dayMs;

export function makeAuthority({ now, days, name = 'mountlet-ca' }: Validity & { readonly name?: string }): Authority {
  const keys = newKeys();
  const subject = nameOf([], name);
  const extensions = [
    extension(objectIds.basicConstraints, true, der.sequence(der.true)),
    // digitalSignature, keyCertSign, cRLSign: bits 0, 5 and 6.
    extension(objectIds.keyUsage, true, der.bits(Buffer.from([0b1000_0110]), 1)),
    extension(objectIds.subjectKeyId, false, der.octets(keyIdOf(keys.spki))),
  ];
  return issue({ now, days, keys, subject, issuer: subject, signer: keys.privateKey, extensions });
}

interface ServerNames {
  /** Names and addresses under which clients reach the server. */
  readonly hosts: readonly string[];
  /** Whose certificate it is; clients look at the hosts alone. */
  readonly user?: string;
  readonly groups?: readonly string[];
}

export function issueServerCertificate(
  authority: Authority,
  { hosts, user = 'mountlet-apiserver', groups = [], ...validity }: Validity & ServerNames,
): KeyPair {
  const names = extension(objectIds.subjectAltName, false, der.sequence(...hosts.map(alternativeName)));
  return issueLeaf(authority, validity, nameOf(groups, user), objectIds.serverAuth, [names]);
}

/** The user is the common name, each group an organization: that is where API servers look. */
export function issueClientCertificate(
  authority: Authority,
  { user, groups, ...validity }: Validity & { readonly user: string; readonly groups: readonly string[] },
): KeyPair {
  return issueLeaf(authority, validity, nameOf(groups, user), objectIds.clientAuth, []);
}

function issueLeaf(authority: Authority, validity: Validity, subject: Buffer, usage: string, more: Buffer[]): KeyPair {
  const signed = new X509Certificate(authority.certificatePem);
  const keys = newKeys();
  const authorityKeyId = keyIdOf(signed.publicKey.export({ type: 'spki', format: 'der' }));
  const extensions = [
    extension(objectIds.basicConstraints, true, der.sequence()),
    extension(objectIds.keyUsage, true, der.bits(Buffer.from([0b1000_0000]), 7)), // digitalSignature
    extension(objectIds.extendedKeyUsage, false, der.sequence(der.objectId(usage))),
    extension(objectIds.subjectKeyId, false, der.octets(keyIdOf(keys.spki))),
    extension(objectIds.authorityKeyId, false, der.sequence(der.tagged(0, false, authorityKeyId))),
    ...more,
  ];
  const signer = createPrivateKey(authority.keyPem);
  return issue({ ...validity, keys, subject, issuer: subjectOf(signed), signer, extensions });
}

interface Keys {
  readonly privateKey: KeyObject;
  readonly spki: Buffer;
}

interface Issue extends Validity {
  readonly keys: Keys;
  readonly subject: Buffer;
  readonly issuer: Buffer;
  readonly signer: KeyObject;
  readonly extensions: readonly Buffer[];
}

function issue({ now, days, keys, subject, issuer, signer, extensions }: Issue): KeyPair {
  const algorithm = der.sequence(der.objectId(objectIds.ecdsaWithSha256));
  const toSign = der.sequence(
    der.tagged(0, true, der.integer(Uint8Array.of(2))), // version 3
    der.integer(serialNumber()),
    algorithm,
    issuer,
    der.sequence(der.time(now - clockSkewMs), der.time(now + days * dayMs)),
    subject,
    keys.spki,
    der.tagged(3, true, der.sequence(...extensions)),
  );
  const certificate = der.sequence(toSign, algorithm, der.bits(sign('sha256', toSign, signer)));
  return {
    certificatePem: pem('CERTIFICATE', certificate),
    keyPem: keys.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

function newKeys(): Keys {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return { privateKey, spki: publicKey.export({ type: 'spki', format: 'der' }) };
}

/** Sixteen random bytes, positive and not short: two certificates of one authority must never share a number. */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes;
}

function nameOf(organizations: readonly string[], commonName: string): Buffer {
  const part = (type: string, value: string): Buffer => der.set(der.sequence(der.objectId(type), der.utf8(value)));
  return der.sequence(
    ...organizations.map((name) => part(objectIds.organization, name)),
    part(objectIds.commonName, commonName),
  );
}

function extension(id: string, isCritical: boolean, value: Uint8Array): Buffer {
  return der.sequence(der.objectId(id), ...(isCritical ? [der.true] : []), der.octets(value));
}

/** The hash of the key's own bits, without the algorithm around them, as everyone computes it. */
function keyIdOf(spki: Uint8Array): Buffer {
  const [, bits = Buffer.alloc(0)] = children(spki);
  const unusedBitsByte = 1;
  return createHash('sha1')
    .update(bits.subarray(2 + unusedBitsByte))
    .digest();
}

/** The bytes as they stand in the certificate: an issuer must match its authority's subject exactly. */
function subjectOf(certificate: X509Certificate): Buffer {
  const [toSign = Buffer.alloc(0)] = children(certificate.raw);
  const subject = children(toSign)[5]; // version, serial number, algorithm, issuer, validity, subject
  return subject ?? Buffer.alloc(0);
}

function alternativeName(host: string): Buffer {
  if (isIP(host) !== 0) return der.tagged(7, false, addressBytes(host));
  if (!/^[\x21-\x7e]+$/.test(host)) throw new CertificateHostError(host);
  return der.tagged(2, false, Buffer.from(host));
}

function addressBytes(address: string): Buffer {
  if (isIPv4(address)) return Buffer.from(address.split('.').map(Number));
  const canonical = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const [head = '', tail] = canonical.split('::');
  const groups = (text: string): number[] =>
    text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));
  const before = groups(head);
  const after = groups(tail ?? '');
  const all = [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after];
  return Buffer.from(all.flatMap((group) => [group >> 8, group & 255]));
}

function pem(label: string, bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}
