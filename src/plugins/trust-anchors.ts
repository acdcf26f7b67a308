/** Certificates out of trust bundles, as one PEM file. Pure: it parses the envelope and never a certificate. */
import { createHash } from 'node:crypto';

/**
 * Every PEM block of all bundles, each once, as a bare CERTIFICATE: headers and the text between blocks are gone. The
 * order is that of the certificates' digests. It tells nothing about the order of the bundles, so nobody comes to rely
 * on it, and the same set gives the same bytes, so an unchanged set is never written again.
 */
export function trustAnchors(bundles: readonly string[]): Buffer {
  const certificates = new Map<string, string>();
  for (const bundle of bundles) {
    for (const body of pemBodies(bundle)) {
      certificates.set(createHash('sha256').update(Buffer.from(body, 'base64')).digest('hex'), body);
    }
  }
  const sorted = [...certificates].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Buffer.from(sorted.map(([, body]) => encode(body)).join(''), 'latin1');
}

/** The base64 of each well-formed block; what is malformed is skipped, as Go's decoder does. */
function* pemBodies(text: string): Iterable<string> {
  const blocks = /^-----BEGIN ([^\r\n]*)-----[ \t]*\r?\n((?:(?!-----)[\s\S])*?)^-----END \1-----[ \t]*\r?$/gm;
  for (const [, , inner = ''] of text.matchAll(blocks)) {
    const body = withoutHeaders(inner).replace(/\s/g, '');
    if (body.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(body)) yield body;
  }
}

/** `Proc-Type: 4,ENCRYPTED` and the like: lines with a colon, up to the first without one. */
function withoutHeaders(inner: string): string {
  const lines = inner.split('\n');
  const start = lines.findIndex((line) => !line.includes(':'));
  return start < 0 ? '' : lines.slice(start).join('\n');
}

function encode(body: string): string {
  const canonical = Buffer.from(body, 'base64').toString('base64');
  const lines = canonical.match(/.{1,64}/g) ?? [];
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
}
