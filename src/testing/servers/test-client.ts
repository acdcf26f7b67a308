/** A client that speaks either version of HTTP and sends whatever a test wants, as the administrator by default. */
import { type ClientHttp2Session, connect } from 'node:http2';
import { request as httpsRequest } from 'node:https';
import { type TestApiServer, adminToken } from './test-api-server.ts';

export interface TestResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: Buffer;
  readonly text: string;
  /** The body as JSON; loosely typed, because a test knows what it asked for. */
  readonly json: TestJson;
}

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of the API freely
export type TestJson = any;

export interface TestRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** An object is sent as JSON. */
  readonly body?: unknown;
  /** Absent: the administrator's. Empty: none. */
  readonly token?: string;
}

export interface TestClient {
  send(path: string, request?: TestRequest): Promise<TestResponse>;
  /** Opens a watch and reads its events. */
  watch(path: string, headers?: Readonly<Record<string, string>>): Promise<TestWatch>;
  close(): void;
}

export interface TestWatch {
  readonly status: number;
  /** The next event, or undefined at a clean end. Rejects when the stream breaks. */
  next(): Promise<TestJson>;
  close(): void;
}

export function http2Client({ url, authority }: Pick<TestApiServer, 'url' | 'authority'>): TestClient {
  const session = connect(url, { ca: authority.certificatePem });
  session.on('error', () => {});
  return {
    send: (path, request) => sendOver2(session, path, request ?? {}),
    watch: (path, headers = {}) => watchOver2(session, path, headers),
    close: () => session.close(),
  };
}

function sendOver2(session: ClientHttp2Session, path: string, request: TestRequest): Promise<TestResponse> {
  const { method = 'GET' } = request;
  const body = bodyOf(request);
  const stream = session.request(
    { ':method': method, ':path': path, ...headersOf(request) },
    { endStream: body === undefined },
  );
  if (body !== undefined) stream.end(body);
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let headers: Record<string, string | string[] | undefined> = {};
    let status = 0;
    stream.on('response', (given) => {
      status = given[':status'] ?? 0;
      headers = given;
    });
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('end', () => resolve(responseOf(status, headers, Buffer.concat(chunks))));
    stream.on('error', reject);
  });
}

async function watchOver2(
  session: ClientHttp2Session,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<TestWatch> {
  const stream = session.request({ ':path': path, ...headersOf({}), ...headers });
  const lines = new Lines();
  stream.setEncoding('utf8');
  stream.on('data', (text: string) => lines.add(text));
  stream.on('end', () => lines.end());
  stream.on('error', (error) => lines.fail(error));
  stream.on('aborted', () => lines.fail(new Error('the stream was broken off')));
  const status = await new Promise<number>((resolve, reject) => {
    stream.on('response', (given) => resolve(given[':status'] ?? 0));
    stream.on('error', reject);
  });
  return { status, next: () => lines.next(), close: () => stream.close() };
}

export function http1Client({ url, authority }: Pick<TestApiServer, 'url' | 'authority'>): TestClient {
  const options = { ca: authority.certificatePem, agent: false as const };
  return {
    send: (path, request = {}) =>
      new Promise((resolve, reject) => {
        const body = bodyOf(request);
        const sent = httpsRequest(
          new URL(url),
          { ...options, path, method: request.method ?? 'GET', headers: { ...headersOf(request), ...lengthOf(body) } },
          (response) => {
            const chunks: Buffer[] = [];
            response.on('data', (chunk: Buffer) => chunks.push(chunk));
            response.on('end', () =>
              resolve(responseOf(response.statusCode ?? 0, response.headers, Buffer.concat(chunks))),
            );
            response.on('error', reject);
          },
        );
        sent.on('error', reject);
        sent.end(body);
      }),
    watch: (path, headers = {}) =>
      new Promise((resolve, reject) => {
        const sent = httpsRequest(
          new URL(url),
          { ...options, path, headers: { ...headersOf({}), ...headers } },
          (response) => {
            const lines = new Lines();
            response.setEncoding('utf8');
            response.on('data', (text: string) => lines.add(text));
            response.on('end', () => lines.end());
            response.on('error', (error) => lines.fail(error));
            resolve({ status: response.statusCode ?? 0, next: () => lines.next(), close: () => response.destroy() });
          },
        );
        sent.on('error', reject);
        sent.end();
      }),
    close: () => {},
  };
}

function headersOf({ headers, body, token = adminToken }: TestRequest): Record<string, string> {
  const isJson = body !== undefined && typeof body !== 'string' && !Buffer.isBuffer(body);
  return {
    ...(token !== '' && { authorization: `Bearer ${token}` }),
    ...(isJson && { 'content-type': 'application/json' }),
    ...headers,
  };
}

/** Of itself Node gives a DELETE's body no length. */
function lengthOf(body: string | Buffer | undefined): Record<string, string> {
  return body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
}

function bodyOf({ body }: TestRequest): string | Buffer | undefined {
  if (body === undefined || typeof body === 'string' || Buffer.isBuffer(body)) return body;
  return JSON.stringify(body);
}

function responseOf(
  status: number,
  headers: Readonly<Record<string, string | string[] | undefined>>,
  bytes: Buffer,
): TestResponse {
  const text = bytes.toString('utf8');
  return {
    status,
    headers,
    bytes,
    text,
    get json() {
      return JSON.parse(text);
    },
  };
}

/** Turns chunks of text into lines of JSON, for one reader that asks for one after the other. */
class Lines {
  readonly #events: TestJson[] = [];
  #rest = '';
  #outcome: 'open' | 'ended' | Error = 'open';
  #wake: () => void = () => {};

  add(text: string): void {
    const parts = (this.#rest + text).split('\n');
    this.#rest = parts.pop() ?? '';
    for (const part of parts) this.#events.push(JSON.parse(part));
    this.#wake();
  }

  end(): void {
    if (this.#outcome === 'open') this.#outcome = 'ended';
    this.#wake();
  }

  fail(error: Error): void {
    this.#outcome = error;
    this.#wake();
  }

  async next(): Promise<TestJson> {
    for (;;) {
      const event = this.#events.shift();
      if (event !== undefined) return event;
      if (this.#outcome === 'ended') return undefined;
      if (this.#outcome !== 'open') throw this.#outcome;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
