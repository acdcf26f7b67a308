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
import { children, der } from '../../base/der.ts';
import { OperatingError } from '../../base/errors.ts';
import type { CertificateRequest } from '../../kube/values/certificate-request.ts';

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
  extensionRequest: '1.2.840.113549.1.9.14',
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
  const { privateKey, spki } = keys;
  const lifetime = { notBefore: now - clockSkewMs, notAfter: now + days * dayMs };
  const certificatePem = issue({ ...lifetime, spki, subject, issuer: subject, signer: privateKey, extensions });
  return { certificatePem, keyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
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
  const keys = newKeys();
  const usages = [
    extension(objectIds.keyUsage, true, der.bits(Buffer.from([0b1000_0000]), 7)), // digitalSignature
    extension(objectIds.extendedKeyUsage, false, der.sequence(der.objectId(usage))),
    ...more,
  ];
  const lifetime = { notBefore: validity.now - clockSkewMs, notAfter: validity.now + validity.days * dayMs };
  const certificatePem = issueWith(authority, { ...lifetime, spki: keys.spki, subject, extensions: usages });
  return { certificatePem, keyPem: keys.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
}

/** For a key that need not be ours, and no longer than the authority lives. */
function issueWith(authority: Authority, leaf: Omit<Issue, 'issuer' | 'signer'>): string {
  const signed = new X509Certificate(authority.certificatePem);
  const authorityKeyId = keyIdOf(signed.publicKey.export({ type: 'spki', format: 'der' }));
  const extensions = [
    extension(objectIds.basicConstraints, true, der.sequence()),
    extension(objectIds.subjectKeyId, false, der.octets(keyIdOf(leaf.spki))),
    extension(objectIds.authorityKeyId, false, der.sequence(der.tagged(0, false, authorityKeyId))),
    ...leaf.extensions,
  ];
  const notAfter = Math.min(leaf.notAfter, Date.parse(signed.validTo));
  return issue({
    ...leaf,
    notAfter,
    issuer: subjectOf(signed),
    signer: createPrivateKey(authority.keyPem),
    extensions,
  });
}

/** Bits of the key's usage, the first being the highest; those of no name here are extended usages. */
const keyUsageBits: Readonly<Record<string, number>> = { 'digital signature': 0, 'key encipherment': 2 };
const extendedUsages: Readonly<Record<string, string>> = {
  'server auth': objectIds.serverAuth,
  'client auth': objectIds.clientAuth,
};

// As kube-controller-manager: a clock may be a little behind, and that is not added to a life of hours.
const requestSkewMs = 300_000;
const shortLifeMs = 8 * 3_600_000;
const lifeMsMax = 365 * dayMs;

/** What somebody else asked for, with their key. Of the request only names and groups get into the certificate. */
export function signRequest(
  authority: Authority,
  { commonName, organizations, names, publicKey }: CertificateRequest,
  {
    usages,
    seconds,
    now,
  }: { readonly usages: readonly string[]; readonly seconds: number | undefined; readonly now: number },
): string {
  const lifeMs = Math.min(seconds === undefined ? lifeMsMax : seconds * 1000, lifeMsMax);
  const bits = usages.reduce((sum, usage) => sum | (0b1000_0000 >> (keyUsageBits[usage] ?? 8)), 0);
  const purposes = usages.flatMap((usage) => extendedUsages[usage] ?? []).map(der.objectId);
  const alternatives = [
    ...names.emails.map((name) => der.tagged(1, false, Buffer.from(name))),
    ...[...names.dns, ...names.addresses].map(alternativeName),
    ...names.uris.map((name) => der.tagged(6, false, Buffer.from(name))),
  ];
  return issueWith(authority, {
    notBefore: now - requestSkewMs,
    notAfter: now + lifeMs - (lifeMs < shortLifeMs ? 0 : requestSkewMs),
    subject: nameOf(organizations, commonName),
    spki: publicKey,
    extensions: [
      ...(bits === 0
        ? []
        : [extension(objectIds.keyUsage, true, der.bits(Buffer.from([bits]), (bits & 0x20) === 0 ? 7 : 5))]),
      extension(objectIds.extendedKeyUsage, false, der.sequence(...purposes)),
      ...(alternatives.length === 0 ? [] : [extension(objectIds.subjectAltName, false, der.sequence(...alternatives))]),
    ],
  });
}

/** A request for a certificate for these hosts, with a new key that signs it. */
export function makeCertificateRequest({
  user,
  groups,
  hosts,
}: {
  readonly user: string;
  readonly groups: readonly string[];
  readonly hosts: readonly string[];
}): { readonly requestPem: string; readonly keyPem: string } {
  const keys = newKeys();
  const names = extension(objectIds.subjectAltName, false, der.sequence(...hosts.map(alternativeName)));
  const attribute = der.sequence(der.objectId(objectIds.extensionRequest), der.set(der.sequence(names)));
  const info = der.sequence(
    der.integer(Uint8Array.of(0)),
    nameOf(groups, user),
    keys.spki,
    der.tagged(0, true, attribute),
  );
  const algorithm = der.sequence(der.objectId(objectIds.ecdsaWithSha256));
  const request = der.sequence(info, algorithm, der.bits(sign('sha256', info, keys.privateKey)));
  return {
    requestPem: pem('CERTIFICATE REQUEST', request),
    keyPem: keys.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

interface Keys {
  readonly privateKey: KeyObject;
  readonly spki: Buffer;
}

interface Issue {
  readonly notBefore: number;
  readonly notAfter: number;
  readonly spki: Buffer;
  readonly subject: Buffer;
  readonly issuer: Buffer;
  readonly signer: KeyObject;
  readonly extensions: readonly Buffer[];
}

function issue({ notBefore, notAfter, spki, subject, issuer, signer, extensions }: Issue): string {
  const algorithm = der.sequence(der.objectId(objectIds.ecdsaWithSha256));
  const toSign = der.sequence(
    der.tagged(0, true, der.integer(Uint8Array.of(2))), // version 3
    der.integer(serialNumber()),
    algorithm,
    issuer,
    der.sequence(der.time(notBefore), der.time(notAfter)),
    subject,
    spki,
    der.tagged(3, true, der.sequence(...extensions)),
  );
  return pem('CERTIFICATE', der.sequence(toSign, algorithm, der.bits(sign('sha256', toSign, signer))));
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
  // A certificate has no room for the zone of an address, which means something to one machine alone.
  if (isIP(host) !== 0 && !host.includes('%')) return der.tagged(7, false, addressBytes(host));
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
