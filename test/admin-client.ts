/** Speaks to an API server over HTTP/2 as the admin of its kubeconfig, without any client library. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';

/** A server that stands still accepts connections and says nothing. */
const connectMsMax = 120_000;

export interface Answer {
  readonly code: number;
  readonly text: string;
}

/** One connection as the admin of a kubeconfig. */
export class AdminClient {
  readonly session: ClientHttp2Session;

  private constructor(session: ClientHttp2Session) {
    this.session = session;
  }

  static async connect({ kubeconfig }: { readonly kubeconfig: string }): Promise<AdminClient> {
    const { url, ...credentials } = accessOf(kubeconfig);
    const session = connect(url, credentials).on('error', () => undefined);
    try {
      await once(session, 'connect', { signal: AbortSignal.timeout(connectMsMax) });
    } catch (error) {
      session.destroy();
      throw error;
    }
    return new AdminClient(session);
  }

  request(method: string, path: string, body?: object, contentType = 'application/json'): Promise<Answer> {
    const headers = { ':method': method, ':path': path, ...(body !== undefined && { 'content-type': contentType }) };
    const stream = this.session.request(headers, { endStream: body === undefined });
    return new Promise((resolve, reject) => {
      let code = 0;
      const pieces: Buffer[] = [];
      stream.on('response', (got) => (code = Number(got[':status'])));
      stream.on('data', (piece: Buffer) => pieces.push(piece));
      stream.on('error', reject);
      // An answer that was cut off has ended too, but was never complete; one that had not begun has no code.
      stream.on('end', () => void (code !== 0 && resolve({ code, text: Buffer.concat(pieces).toString() })));
      stream.on('close', () => reject(new Error(`the connection was lost (${stream.rstCode})`)));
      if (body !== undefined) stream.end(JSON.stringify(body));
    });
  }

  /** Rejects unless the answer is one of success. */
  async ask<T>(method: string, path: string, body?: object): Promise<T> {
    const { code, text } = await this.request(method, path, body);
    assert.ok(code < 300, `${method} ${path}: ${code} ${text}`);
    return JSON.parse(text) as T;
  }

  /** Resolves when the watch is open: what is written from now on comes to it. */
  async watch(path: string): Promise<ClientHttp2Stream> {
    const stream = this.session.request({ ':path': path }).on('error', () => undefined);
    const closed = once(stream, 'close').then(() => assert.fail('the connection was lost'));
    await Promise.race([once(stream, 'response'), closed]);
    return stream;
  }

  close(): void {
    this.session.destroy();
  }
}

/** Our kubeconfig files are JSON, which is YAML too. */
function accessOf(kubeconfig: string): { url: string; ca: Buffer; cert: Buffer; key: Buffer } {
  const { clusters, users } = JSON.parse(readFileSync(kubeconfig, 'utf8')) as {
    clusters: [{ cluster: { server: string } & Record<string, string> }];
    users: [{ user: Record<string, string> }];
  };
  const bytes = (text: string | undefined): Buffer => Buffer.from(text ?? '', 'base64');
  const { cluster } = clusters[0];
  const { user } = users[0];
  return {
    url: cluster.server,
    ca: bytes(cluster['certificate-authority-data']),
    cert: bytes(user['client-certificate-data']),
    key: bytes(user['client-key-data']),
  };
}
