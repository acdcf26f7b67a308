import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { makeCertificateRequest } from '../../apiserver/identity/certificates.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { BadCertificateRequest, readCertificateRequest } from './certificate-request.ts';

const hosts = ['node-1.example', '10.0.0.1', 'fd00::2'];
const { requestPem } = makeCertificateRequest({ user: 'system:node:a', groups: ['system:nodes'], hosts });

test('what a request asks for is read from it', () => {
  const { commonName, organizations, names } = readCertificateRequest(requestPem);
  assert.equal(commonName, 'system:node:a');
  assert.deepEqual(organizations, ['system:nodes']);
  assert.deepEqual(names, { dns: ['node-1.example'], addresses: ['10.0.0.1', 'fd00::2'], emails: [], uris: [] });
});

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

for (const [name, key] of [
  ['RSA', ['rsa:2048']],
  ['P-384', ['ec', '-pkeyopt', 'ec_paramgen_curve:secp384r1']],
  ['Ed25519', ['ed25519']],
] as const) {
  const options = { skip: hasOpenssl ? false : 'needs openssl on the PATH' };
  test(`a request of openssl with a key of ${name} is read`, options, (t) => {
    const subject = ['-subj', '/C=DE/O=dev/O=ops/CN=jane', '-addext', 'subjectAltName=email:a@b.c,URI:spiffe://x/y'];
    const out = ['-nodes', '-keyout', join(temporaryDirectory(t), 'key')];
    const pem = execFileSync('openssl', ['req', '-new', '-newkey', ...key, ...out, ...subject], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const { commonName, organizations, names } = readCertificateRequest(pem);
    assert.deepEqual([commonName, organizations], ['jane', ['dev', 'ops']]);
    assert.deepEqual(names, { dns: [], addresses: [], emails: ['a@b.c'], uris: ['spiffe://x/y'] });
  });
}

test('whatever is wrong with a request is said, and nothing else happens', () => {
  const encoded = Buffer.from(requestPem.replace(/-----.*?-----/g, ''), 'base64');
  const pemOf = (bytes: Buffer): string =>
    `-----BEGIN CERTIFICATE REQUEST-----\n${bytes.toString('base64')}\n-----END CERTIFICATE REQUEST-----\n`;
  assert.equal(readCertificateRequest(pemOf(encoded)).commonName, 'system:node:a');
  assert.throws(() => readCertificateRequest(''), /PEM block type must be CERTIFICATE REQUEST/);
  assert.throws(() => readCertificateRequest(pemOf(encoded.subarray(0, 100))), /asn1: /);
  assert.throws(() => readCertificateRequest(pemOf(Buffer.alloc(70_000))), /may not be more than 65536 bytes/);
  fc.assert(
    fc.property(fc.nat({ max: encoded.length - 1 }), fc.integer({ min: 1, max: 255 }), (at, change) => {
      const broken = Buffer.from(encoded);
      broken[at] = (broken[at] ?? 0) ^ change;
      // Every byte is signed, is the signature, or is needed to find either.
      assert.throws(() => readCertificateRequest(pemOf(broken)), BadCertificateRequest);
    }),
  );
});
