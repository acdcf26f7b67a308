/**
 * Requests for certificates (PKCS#10) that others wrote: what they ask for, and whether whoever asks has the key. Of the subject only the
 * common name and the organizations count, because that is where Kubernetes looks for users and groups.
 */
import { type KeyObject, createPublicKey, verify } from 'node:crypto';
import { DerError, type Element, readElement, readElements, readObjectId, tags } from '../../base/der.ts';
import { MountletError } from '../../base/errors.ts';

export interface CertificateRequest {
  readonly commonName: string;
  readonly organizations: readonly string[];
  readonly names: AlternativeNames;
  /** SubjectPublicKeyInfo, in DER. */
  readonly publicKey: Buffer;
}

interface AlternativeNames {
  readonly dns: readonly string[];
  /** As `node:net` writes them. */
  readonly addresses: readonly string[];
  readonly emails: readonly string[];
  readonly uris: readonly string[];
}

/** The request cannot be read, or is not signed with the key that it is for. */
export class BadCertificateRequest extends MountletError {
  readonly reason = 'BadCertificateRequest';
}

/** Far more than the largest key and a hundred names take. */
const textLengthMax = 64 * 1024;
/** Larger ones take seconds to verify. */
const rsaBitsMax = 8192;
const curves = new Set(['prime256v1', 'secp384r1', 'secp521r1']);
/** More than any server has; each is compared with others. */
const namesMax = 256;

const extensionRequest = '1.2.840.113549.1.9.14';
const subjectAltName = '2.5.29.17';
const attributes: Readonly<Record<string, 'commonName' | 'organization'>> = {
  '2.5.4.3': 'commonName',
  '2.5.4.10': 'organization',
};

/** The hash of each algorithm that certificates are signed with; null where the key decides. */
const hashes: Readonly<Record<string, string | null>> = {
  '1.2.840.10045.4.3.2': 'sha256',
  '1.2.840.10045.4.3.3': 'sha384',
  '1.2.840.10045.4.3.4': 'sha512',
  '1.2.840.113549.1.1.11': 'sha256',
  '1.2.840.113549.1.1.12': 'sha384',
  '1.2.840.113549.1.1.13': 'sha512',
  '1.3.101.112': null,
};

/** Throws `BadCertificateRequest`. */
export function readCertificateRequest(pem: string): CertificateRequest {
  try {
    return parse(derOf(pem));
  } catch (error) {
    if (error instanceof DerError) throw new BadCertificateRequest(`asn1: ${error.message}`, { cause: error });
    throw error;
  }
}

function derOf(pem: string): Buffer {
  if (pem.length > textLengthMax) throw new BadCertificateRequest(`may not be more than ${textLengthMax} bytes`);
  const [, type, body = ''] =
    /^-----BEGIN ([^\r\n]*?)-----[ \t\r]*\n([^-]*?)^-----END \1-----[ \t\r]*$/m.exec(pem) ?? [];
  if (type !== 'CERTIFICATE REQUEST' || !/^[A-Za-z0-9+/=\s]*$/.test(body)) {
    throw new BadCertificateRequest('PEM block type must be CERTIFICATE REQUEST');
  }
  return Buffer.from(body, 'base64');
}

function parse(encoded: Buffer): CertificateRequest {
  const [info, algorithm, signature] = parts(readElement(encoded, tags.sequence));
  const [version, subject, key, ...more] = parts(expect(info, tags.sequence));
  expect(version, tags.integer);
  const publicKey = expect(key, tags.sequence).raw;
  const [algorithmId] = parts(expect(algorithm, tags.sequence));
  const signed = expect(info, tags.sequence).raw;
  const bits = expect(signature, tags.bitString).content;
  if (bits[0] !== 0) throw new DerError('structure error: a signature has whole bytes');
  checkSignature(publicKey, readObjectId(expect(algorithmId, tags.objectId).content), signed, bits.subarray(1));
  return { ...subjectOf(expect(subject, tags.sequence)), names: namesOf(more), publicKey };
}

function parts({ content }: Element): Element[] {
  return readElements(content);
}

function expect(element: Element | undefined, tag: number): Element {
  if (element?.tag !== tag) throw new DerError('structure error: tags do not match');
  return element;
}

function checkSignature(publicKey: Buffer, algorithm: string, signed: Buffer, signature: Buffer): void {
  const hash = Object.hasOwn(hashes, algorithm) ? hashes[algorithm] : undefined;
  if (hash === undefined) {
    throw new BadCertificateRequest('x509: cannot verify signature: algorithm unimplemented');
  }
  const key = keyOf(publicKey);
  const { modulusLength = 0, namedCurve } = key.asymmetricKeyDetails ?? {};
  if (modulusLength > rsaBitsMax)
    throw new BadCertificateRequest(`x509: RSA keys may not have more than ${rsaBitsMax} bits`);
  if (key.asymmetricKeyType === 'ec' && !curves.has(namedCurve ?? '')) {
    throw new BadCertificateRequest('x509: unsupported elliptic curve');
  }
  if (!isSignedBy(key, hash, signed, signature))
    throw new BadCertificateRequest('x509: signature verification failure');
}

function keyOf(publicKey: Buffer): KeyObject {
  try {
    return createPublicKey({ key: publicKey, format: 'der', type: 'spki' });
  } catch (error) {
    throw new BadCertificateRequest('x509: unknown or broken public key', { cause: error });
  }
}

function isSignedBy(key: KeyObject, hash: string | null, signed: Buffer, signature: Buffer): boolean {
  try {
    return verify(hash, signed, key, signature);
  } catch {
    // The algorithm is not one of the key.
    return false;
  }
}

function subjectOf(subject: Element): Pick<CertificateRequest, 'commonName' | 'organizations'> {
  let commonName = '';
  const organizations: string[] = [];
  const values = parts(subject).flatMap((set) => parts(expect(set, tags.set)));
  if (values.length > namesMax) throw new BadCertificateRequest(`may not have more than ${namesMax} names`);
  for (const value of values) {
    const [type, text] = parts(expect(value, tags.sequence));
    const attribute = attributes[readObjectId(expect(type, tags.objectId).content)];
    if (attribute === 'commonName') commonName = textOf(text);
    else if (attribute === 'organization') organizations.push(textOf(text));
  }
  return { commonName, organizations };
}

function textOf(element: Element | undefined): string {
  const { utf8, printableString, ia5String } = tags;
  if (element === undefined || ![utf8, printableString, ia5String].includes(element.tag)) {
    throw new BadCertificateRequest('x509: names of the subject must be UTF-8 or printable text');
  }
  const text = element.content.toString('utf8');
  if (!Buffer.from(text).equals(element.content)) throw new BadCertificateRequest('x509: invalid UTF-8 string');
  return text;
}

function namesOf(optional: readonly Element[]): AlternativeNames {
  const given = { dns: [] as string[], addresses: [] as string[], emails: [] as string[], uris: [] as string[] };
  for (const name of alternativeNames(optional)) {
    const text = name.content.toString('latin1');
    if (name.tag !== 0x87 && !/^[\x21-\x7e]*$/.test(text)) {
      throw new BadCertificateRequest('x509: names of the certificate must be ASCII');
    }
    if (name.tag === 0x81) given.emails.push(text);
    else if (name.tag === 0x82) given.dns.push(text);
    else if (name.tag === 0x86) given.uris.push(text);
    else if (name.tag === 0x87) given.addresses.push(addressOf(name.content));
  }
  return given;
}

function alternativeNames(optional: readonly Element[]): readonly Element[] {
  const requested = optional
    .filter(({ tag }) => tag === 0xa0)
    .flatMap(parts)
    .map((attribute) => parts(expect(attribute, tags.sequence)))
    .filter(([type]) => readObjectId(expect(type, tags.objectId).content) === extensionRequest)
    .flatMap(([, values]) => parts(expect(values, tags.set)))
    .flatMap((extensions) => parts(expect(extensions, tags.sequence)))
    .map((extension) => parts(expect(extension, tags.sequence)))
    .filter(([type]) => readObjectId(expect(type, tags.objectId).content) === subjectAltName);
  const [found, ...more] = requested;
  if (more.length > 0) throw new BadCertificateRequest('x509: certificate request contains duplicate extensions');
  if (found === undefined) return [];
  const names = parts(readElement(expect(found.at(-1), tags.octetString).content, tags.sequence));
  if (names.length > namesMax) throw new BadCertificateRequest(`may not have more than ${namesMax} names`);
  return names;
}

function addressOf(bytes: Buffer): string {
  if (bytes.length === 4) return bytes.join('.');
  if (bytes.length !== 16) throw new BadCertificateRequest('x509: cannot parse IP address of the certificate request');
  const groups = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(index * 2).toString(16));
  return new URL(`http://[${groups.join(':')}]/`).hostname.slice(1, -1);
}
