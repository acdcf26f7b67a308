/**
 * etcd, to compare with: started on a directory of its own and written to over gRPC, without a library for it. With TLS, or
 * as plain text, which nothing but a test should use.
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { connect, type ClientHttp2Session } from 'node:http2';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { KeyPair } from '../src/apiserver/identity/certificates.ts';
import {
  issueClientCertificate,
  issueServerCertificate,
  makeAuthority,
} from '../src/apiserver/identity/certificates.ts';

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}

/** One field of a protocol buffer message, of type bytes. */
function field(number: number, bytes: Buffer): Buffer {
  const length: number[] = [];
  for (let rest = bytes.length; ; rest >>= 7) {
    length.push(rest > 127 ? (rest & 127) | 128 : rest);
    if (rest <= 127) break;
  }
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), bytes]);
}

/** A gRPC call without a library: five bytes of frame, then the message. */
export function etcdPut(session: ClientHttp2Session, key: string, value: string): Promise<void> {
  const message = Buffer.concat([field(1, Buffer.from(key)), field(2, Buffer.from(value))]);
  const frame = Buffer.alloc(5);
  frame.writeUInt32BE(message.length, 1);
  return new Promise((resolve, reject) => {
    const headers = {
      ':method': 'POST',
      ':path': '/etcdserverpb.KV/Put',
      'content-type': 'application/grpc',
      te: 'trailers',
    };
    const call = session.request(headers);
    let status: unknown;
    call.on('response', (got) => (status ??= got['grpc-status']));
    call.on('trailers', (got) => (status = got['grpc-status']));
    call.on('error', reject);
    call.on('close', () =>
      status === '0' ? resolve() : reject(new Error(`etcd answered with status ${String(status)}`)),
    );
    call.resume();
    call.end(Buffer.concat([frame, message]));
  });
}

export interface Etcd {
  readonly session: ClientHttp2Session;
  readonly pid: number;
  stop(): void;
}

/** Undefined where it is not installed. It syncs every commit, as it does by default. */
export async function startEtcd(directory: string, transport: 'tls' | 'plain'): Promise<Etcd | undefined> {
  if (spawnSync('etcd', ['--version']).status !== 0) return undefined;
  mkdirSync(directory, { mode: 0o700, recursive: true });
  const tls = transport === 'tls' ? tlsOf(directory) : undefined;
  const scheme = tls === undefined ? 'http' : 'https';
  const [client, peer] = [`${scheme}://127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`] as const;
  const settings = {
    'data-dir': join(directory, 'data'),
    'listen-client-urls': client,
    'advertise-client-urls': client,
    'listen-peer-urls': peer,
    'initial-advertise-peer-urls': peer,
    'initial-cluster': `default=${peer}`,
    'log-level': 'error',
    ...tls?.settings,
  };
  const flags = Object.entries(settings).map(([name, value]) => `--${name}=${value}`);
  const etcd = spawn('etcd', flags, { stdio: 'ignore' });
  for (let tries = 0; tries < 100; tries += 1) {
    const session = connect(client, tls?.client).on('error', () => undefined);
    try {
      await etcdPut(session, '/ready', 'yes');
      return {
        session,
        pid: etcd.pid ?? 0,
        stop() {
          session.destroy();
          etcd.kill();
        },
      };
    } catch {
      session.destroy();
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  etcd.kill();
  return undefined;
}

interface EtcdTls {
  readonly settings: Readonly<Record<string, string>>;
  readonly client: { readonly ca: string; readonly cert: string; readonly key: string };
}

/** Client certificates, signed by the same kind of keys as those of our API server. */
function tlsOf(directory: string): EtcdTls {
  const [now, days] = [Date.now(), 1];
  const authority = makeAuthority({ now, days });
  const server = issueServerCertificate(authority, { hosts: ['127.0.0.1'], now, days });
  const { certificatePem, keyPem }: KeyPair = issueClientCertificate(authority, {
    user: 'bench',
    groups: [],
    now,
    days,
  });
  const file = (name: string, content: string): string => {
    writeFileSync(join(directory, name), content, { mode: 0o600 });
    return join(directory, name);
  };
  return {
    settings: {
      'cert-file': file('server.pem', server.certificatePem),
      'key-file': file('server.key', server.keyPem),
      'trusted-ca-file': file('authority.pem', authority.certificatePem),
      'client-cert-auth': 'true',
    },
    client: { ca: authority.certificatePem, cert: certificatePem, key: keyPem },
  };
}
