/**
 * X.509 certificates for the embedded server: an authority, the server's own certificate, and one for each client that is
 * to be known by name. Elliptic keys (P-256): a pair costs under a millisecond. Nothing here touches a file.
 */
import {
  type KeyObject,
  X509Certificate,
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  randomBytes,
  sign,
} from 'node:crypto';
import { isIP, isIPv4 } from 'node:net';
import { OperatingError } from '../../base/errors.ts';

export interface KeyPair {
  readonly certificatePem: string;
  readonly keyPem: string;
}
/** A certificate that signs others, with its key. */
export type Authority = KeyPair;

interface Validity {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly days: number;
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
  if (!/^[\x21-\x7e]+$/.test(host)) {
    const text = `Cannot issue a certificate for "${host}": give a host name in ASCII or an IP address`;
    throw new OperatingError('InvalidHost', text);
  }
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

/** For the server of a node; `hosts` are its addresses and names as its Node object has them. */
export function issueNodeServingCertificate(
  authority: Authority,
  { nodeName, hosts, ...validity }: Validity & { readonly nodeName: string; readonly hosts: readonly string[] },
): KeyPair {
  const user = `system:node:${nodeName}`;
  return issueServerCertificate(authority, { ...validity, hosts, user, groups: ['system:nodes'] });
}

/** Proves to a node that the request comes from its API server. */
export function issueNodeClientCertificate(authority: Authority, validity: Validity): KeyPair {
  return issueClientCertificate(authority, {
    ...validity,
    user: 'kube-apiserver-kubelet-client',
    groups: ['system:masters'],
  });
}

/** The few values of DER (the encoding of certificates) that we write, and the walk that finds one part of a certificate. */
const tags = {
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  objectId: 0x06,
  utf8: 0x0c,
  sequence: 0x30,
  set: 0x31,
};

export const der = {
  sequence: (...parts: readonly Uint8Array[]): Buffer => element(tags.sequence, ...parts),
  set: (...parts: readonly Uint8Array[]): Buffer => element(tags.set, ...parts),
  true: Buffer.from([0x01, 0x01, 0xff]),
  utf8: (text: string): Buffer => element(tags.utf8, Buffer.from(text)),
  octets: (...parts: readonly Uint8Array[]): Buffer => element(tags.octetString, ...parts),
  /** `unusedBits` counts from the end of the last byte. */
  bits: (bytes: Uint8Array, unusedBits = 0): Buffer => element(tags.bitString, Buffer.from([unusedBits]), bytes),
  objectId: (dotted: string): Buffer => element(tags.objectId, objectId(dotted)),
  /** A number that is not negative, from its bytes with the highest first. */
  integer: (bytes: Uint8Array): Buffer => element(tags.integer, positive(bytes)),
  time,
  /** A part with a number for a tag: `constructed` around whole values, otherwise in place of a value's own tag. */
  tagged: (number: number, constructed: boolean, ...parts: readonly Uint8Array[]): Buffer =>
    element(0x80 | (constructed ? 0x20 : 0) | number, ...parts),
};

function element(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag, ...lengthBytes(content.length)]), content]);
}

function lengthBytes(length: number): number[] {
  if (length < 0x80) return [length];
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return [0x80 | bytes.length, ...bytes];
}

function positive(bytes: Uint8Array): Buffer {
  const first = bytes.findIndex((byte) => byte !== 0);
  const significant = first === -1 ? Uint8Array.of(0) : bytes.subarray(first);
  const isNegative = ((significant[0] ?? 0) & 0x80) !== 0;
  return Buffer.concat([Buffer.alloc(isNegative ? 1 : 0), significant]);
}

function objectId(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  const groups = [first * 40 + second, ...rest].map((number) => {
    const bytes = [number & 0x7f];
    for (let high = number >>> 7; high > 0; high >>>= 7) bytes.unshift((high & 0x7f) | 0x80);
    return bytes;
  });
  return Buffer.from(groups.flat());
}

/** Two digits of the year until 2049, four from then on: the standard leaves no choice. */
function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, '');
  const isShort = Number(digits.slice(0, 4)) < 2050;
  return element(isShort ? 0x17 : 0x18, Buffer.from(isShort ? digits.slice(2) : digits));
}

/** The whole encodings of the values directly inside the outermost one. */
export function children(encoded: Uint8Array): Buffer[] {
  const { start, end } = extent(encoded, 0);
  const parts: Buffer[] = [];
  for (let at = start; at < end;) {
    const next = extent(encoded, at).end;
    parts.push(Buffer.from(encoded.subarray(at, next)));
    at = next;
  }
  return parts;
}

function extent(bytes: Uint8Array, at: number): { start: number; end: number } {
  const first = bytes[at + 1] ?? 0;
  if (first < 0x80) return { start: at + 2, end: at + 2 + first };
  const start = at + 2 + (first & 0x7f);
  const length = [...bytes.subarray(at + 2, start)].reduce((sum, byte) => sum * 256 + byte, 0);
  return { start, end: start + length };
}

interface KubeconfigSettings {
  /** The URL must be https: kubectl sends no credentials at all over plain http. */
  readonly server: string;
  readonly authorityPem: string;
  /** Of the cluster, and with the user's name of the context. */
  readonly cluster: string;
  readonly user: string;
  readonly credentials: KeyPair | { readonly token: string };
  readonly namespace?: string;
}

/** JSON is YAML, and needs no rules about what to quote. */
export function kubeconfig(settings: KubeconfigSettings): string {
  const { server, authorityPem, cluster, user, credentials, namespace = 'default' } = settings;
  const context = `${user}@${cluster}`;
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: cluster, cluster: { server, 'certificate-authority-data': base64(authorityPem) } }],
    users: [{ name: user, user: credentialsOf(credentials) }],
    contexts: [{ name: context, context: { cluster, user, namespace } }],
    'current-context': context,
    preferences: {},
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

function credentialsOf(credentials: KubeconfigSettings['credentials']): Record<string, string> {
  if ('token' in credentials) return { token: credentials.token };
  return {
    'client-certificate-data': base64(credentials.certificatePem),
    'client-key-data': base64(credentials.keyPem),
  };
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
