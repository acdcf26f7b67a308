/** etcd, to compare with: started on a directory of its own and written to over gRPC, without a library for it. */
import { spawn, spawnSync } from 'node:child_process';
import { connect, type ClientHttp2Session } from 'node:http2';
import { createServer } from 'node:net';

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
  stop(): void;
}

/** Undefined where it is not installed. It syncs every commit, as it does by default. */
export async function startEtcd(directory: string): Promise<Etcd | undefined> {
  if (spawnSync('etcd', ['--version']).status !== 0) return undefined;
  const [client, peer] = [await freePort(), await freePort()];
  const urls = [`http://127.0.0.1:${client}`, `http://127.0.0.1:${peer}`] as const;
  const etcd = spawn(
    'etcd',
    ['--data-dir', directory, '--listen-client-urls', urls[0], '--advertise-client-urls', urls[0]].concat(
      [
        '--listen-peer-urls',
        urls[1],
        '--initial-advertise-peer-urls',
        urls[1],
        '--initial-cluster',
        `default=${urls[1]}`,
      ],
      ['--log-level', 'error'],
    ),
    { stdio: 'ignore' },
  );
  for (let tries = 0; tries < 100; tries += 1) {
    const session = connect(urls[0]).on('error', () => undefined);
    try {
      await etcdPut(session, '/ready', 'yes');
      return {
        session,
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
