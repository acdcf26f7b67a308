import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { type TLSSocket, connect, createServer } from 'node:tls';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { peerOf } from '../rest/api-request.ts';
import type { PeerIdentity } from './authentication.ts';
import { type KeyPair, issueClientCertificate, issueServerCertificate, makeAuthority } from './certificates.ts';

const validity = { now: Date.now(), days: 365 };
const authority = makeAuthority(validity);

function parsed(pem: { readonly certificatePem: string }): X509Certificate {
  return new X509Certificate(pem.certificatePem);
}

test('an authority signs itself and may sign others', () => {
  const certificate = parsed(authority);
  assert.ok(certificate.ca);
  assert.ok(certificate.verify(certificate.publicKey));
  assert.ok(certificate.checkIssued(certificate));
  assert.equal(certificate.subject, 'CN=mountlet-ca');
});

test('a server certificate is good for its names and addresses and for no others', () => {
  const hosts = ['localhost', 'api.example', '127.0.0.1', '::1', 'fd00:0:0:1::2'];
  const certificate = parsed(issueServerCertificate(authority, { ...validity, hosts }));
  assert.ok(certificate.verify(parsed(authority).publicKey));
  assert.ok(certificate.checkIssued(parsed(authority)));
  assert.ok(!certificate.ca);
  for (const host of ['localhost', 'api.example']) assert.equal(certificate.checkHost(host), host);
  for (const ip of ['127.0.0.1', '::1', 'fd00::1:0:0:0:2', '0:0:0:0:0:0:0:1']) assert.ok(certificate.checkIP(ip), ip);
  assert.equal(certificate.checkHost('other.example'), undefined);
  assert.equal(certificate.checkIP('127.0.0.2'), undefined);
  assert.deepEqual(certificate.keyUsage, ['1.3.6.1.5.5.7.3.1']);
});

test('an address with a zone is no address of a certificate', () => {
  const certificate = parsed(issueServerCertificate(authority, { ...validity, hosts: ['fe80::1%eth0'] }));
  assert.equal(certificate.subjectAltName, 'DNS:fe80::1%eth0');
  assert.equal(certificate.checkIP('fe80::1'), undefined);
});

test('a host that cannot stand in a certificate is refused', () => {
  for (const host of ['', 'bücher.example', 'a b', 'a\0.example']) {
    assert.throws(() => issueServerCertificate(authority, { ...validity, hosts: [host] }), { reason: 'InvalidHost' });
  }
});

test('every certificate has its own serial number, positive and of sixteen bytes', () => {
  const numbers = Array.from(
    { length: 20 },
    () => parsed(issueClientCertificate(authority, { ...validity, user: 'u', groups: [] })).serialNumber,
  );
  assert.equal(new Set(numbers).size, 20);
  for (const number of numbers) assert.match(number, /^[4-7][0-9A-F]{31}$/);
});

test('validity begins a little before now and may end after 2049', () => {
  const certificate = parsed(makeAuthority({ now: Date.UTC(2026, 0, 1), days: 365 * 30 }));
  assert.equal(Date.parse(certificate.validFrom), Date.UTC(2025, 11, 31));
  assert.equal(new Date(certificate.validTo).getUTCFullYear(), 2055);
});

/** One connection: what the server sees of the client. */
async function handshake(client: Partial<KeyPair>): Promise<PeerIdentity | undefined> {
  const hosts = ['localhost', '127.0.0.1'];
  const { certificatePem: cert, keyPem: key } = issueServerCertificate(authority, { ...validity, hosts });
  const ca = authority.certificatePem;
  const server = createServer({ cert, key, ca, requestCert: true, rejectUnauthorized: false });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const socket = connect({ port, host: '127.0.0.1', ca, cert: client.certificatePem, key: client.keyPem });
  try {
    const [[seen]] = (await Promise.all([once(server, 'secureConnection'), once(socket, 'secureConnect')])) as [
      [TLSSocket],
      unknown,
    ];
    const peer = peerOf(seen);
    return peer && { ...peer, subject: { ...peer.subject } };
  } finally {
    socket.destroy();
    server.close();
  }
}

test('over TLS the server knows its clients by user and groups', async () => {
  const groups = ['system:nodes', 'a,b=c'];
  const client = issueClientCertificate(authority, { ...validity, user: 'system:node:größe', groups });
  assert.deepEqual(await handshake(client), {
    verified: true,
    subject: { CN: 'system:node:größe', O: groups },
    keyUsages: ['1.3.6.1.5.5.7.3.2'],
  });
});

test('over TLS a client without a certificate has no identity', async () => {
  assert.equal(await handshake({}), undefined);
});

test('over TLS a certificate of a stranger, an expired one and a server certificate are not accepted from a client', async () => {
  const old = { now: Date.now() - 10 * 86_400_000, days: 1 };
  const admin = { user: 'admin', groups: ['system:masters'] };
  const wrong = [
    issueClientCertificate(makeAuthority(validity), { ...validity, ...admin }),
    issueClientCertificate(authority, { ...old, ...admin }),
    issueServerCertificate(authority, { ...validity, hosts: ['admin'] }),
  ];
  for (const client of wrong) assert.equal((await handshake(client))?.verified, false);
});

test('openssl reads what we write, and verifies it strictly', (t) => {
  if (spawnSync('openssl', ['version']).error !== undefined) {
    t.skip('needs openssl');
    return;
  }
  const server = issueServerCertificate(authority, { ...validity, hosts: ['localhost', '::1'] });
  const text = execFileSync('openssl', ['x509', '-noout', '-text'], { input: server.certificatePem, encoding: 'utf8' });
  assert.match(text, /Signature Algorithm: ecdsa-with-SHA256/);
  assert.match(text, /Issuer: CN ?= ?mountlet-ca/);
  assert.match(text, /DNS:localhost, IP Address:0:0:0:0:0:0:0:1/);
  assert.match(text, /TLS Web Server Authentication/);
  assert.match(text, /X509v3 Authority Key Identifier/);

  const authorityFile = join(temporaryDirectory(t), 'ca.crt');
  writeFileSync(authorityFile, authority.certificatePem);
  const verify = ['verify', '-x509_strict', '-purpose', 'sslserver', '-CAfile', authorityFile];
  assert.equal(execFileSync('openssl', verify, { input: server.certificatePem, encoding: 'utf8' }), 'stdin: OK\n');
});
