/** Runs `mountlet apiserver` in a process of its own and speaks to it over HTTP/2 as its admin, without any client library. */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import { connect } from 'node:http2';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Authority } from '../src/apiserver/identity/certificates.ts';
import { nodeIdentity } from '../src/testing/servers/test-api-server.ts';
import { program } from './mountlet-program.ts';

export interface RunningApiServer {
  readonly process: ChildProcess;
  readonly url: string;
  readonly kubeconfig: string;
  /** The lines it has printed so far. */
  readonly stdout: readonly string[];
  readonly stderr: () => string;
  /** Asks it to stop and resolves to its exit code. */
  stop(): Promise<number | null>;
  /** kill -9; resolves when it is gone. */
  kill(): Promise<void>;
}

/** Resolves when it says that it is ready; rejects when it ends before. */
export async function startApiServerProgram(
  directory: string,
  {
    listen = '127.0.0.1:0',
    nodeArguments = [],
    args = [],
  }: { listen?: string; nodeArguments?: readonly string[]; args?: readonly string[] } = {},
): Promise<RunningApiServer> {
  const child = spawn(
    process.execPath,
    [...nodeArguments, program, 'apiserver', '--data', directory, '--listen', listen, ...args],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const exited = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const stdout: string[] = [];
  const lines = createInterface({ input: child.stdout }).on('line', (line) => stdout.push(line));
  const [line] = (await Promise.race([
    once(lines, 'line'),
    exited.then((code) => assert.fail(`the server ended with ${code} before it was ready: ${stderr}`)),
  ])) as [string];
  const [, url, kubeconfig] = /^API server is ready at (\S+); try: kubectl --kubeconfig (\S+) /.exec(line) ?? [];
  assert.ok(url !== undefined && kubeconfig !== undefined, line);
  const end = (signal: NodeJS.Signals): Promise<number | null> => {
    child.kill(signal);
    return exited;
  };
  return {
    process: child,
    url,
    kubeconfig,
    stdout,
    stderr: () => stderr,
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL').then(() => undefined),
  };
}

/** Of the server whose data are in the directory. */
export function readAuthority(directory: string): Authority {
  return JSON.parse(readFileSync(join(directory, 'pki', 'authority.json'), 'utf8')) as Authority;
}

/** The kubeconfig of a node, as the administrator of a cluster would make it. */
export function writeNodeKubeconfig(server: RunningApiServer, directory: string, node: string): string {
  const text = JSON.parse(readFileSync(server.kubeconfig, 'utf8')) as { users: { user: object }[] };
  const { certificatePem, keyPem } = nodeIdentity({ authority: readAuthority(directory) }, node);
  const base64 = (pem: string): string => Buffer.from(pem).toString('base64');
  const user = { 'client-certificate-data': base64(certificatePem), 'client-key-data': base64(keyPem) };
  const kubeconfig = join(dirname(directory), `${node}.kubeconfig`);
  writeFileSync(kubeconfig, JSON.stringify({ ...text, users: text.users.map((entry) => ({ ...entry, user })) }));
  return kubeconfig;
}

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

  static async connect({ url, kubeconfig }: Pick<RunningApiServer, 'url' | 'kubeconfig'>): Promise<AdminClient> {
    const session = connect(url, credentialsOf(kubeconfig)).on('error', () => undefined);
    await once(session, 'connect');
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
    await once(stream, 'response');
    return stream;
  }

  close(): void {
    this.session.destroy();
  }
}

/** Our kubeconfig files are JSON, which is YAML too. */
function credentialsOf(kubeconfig: string): { ca: Buffer; cert: Buffer; key: Buffer } {
  const { clusters, users } = JSON.parse(readFileSync(kubeconfig, 'utf8')) as {
    clusters: [{ cluster: Record<string, string> }];
    users: [{ user: Record<string, string> }];
  };
  const bytes = (text: string | undefined): Buffer => Buffer.from(text ?? '', 'base64');
  const { cluster } = clusters[0];
  const { user } = users[0];
  return {
    ca: bytes(cluster['certificate-authority-data']),
    cert: bytes(user['client-certificate-data']),
    key: bytes(user['client-key-data']),
  };
}
