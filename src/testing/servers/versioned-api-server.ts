/**
 * An API server that behaves to a node as Kubernetes of a certain version does, in front of our own: what older versions do not
 * know they refuse or leave out, each in its own way. Requests are those of the node that the credentials name.
 */
import type { IncomingMessage } from 'node:http';
import { request as sendRequest } from 'node:https';
import type { KeyPair } from '../../apiserver/identity/certificates.ts';
import { isRecord } from '../../kube/schema/equality.ts';
import { type RunningApiServer, nodeIdentity, runningApiServer } from './test-api-server.ts';
import { type ScriptedApiServer, type ScriptedRequest, aStatus, scriptedApiServer } from './scripted-api-server.ts';

export interface VersionedApiServer {
  /** What the node talks to. */
  readonly front: ScriptedApiServer;
  /** What is behind it, without the behaviour of the version. */
  readonly api: RunningApiServer;
  /** `GET /api/v1/nodes/here: 403`: what was refused, and not only missing or there already. */
  readonly refused: readonly string[];
  /** `PATCH /api/v1/nodes/here/status`, in their order. */
  readonly requests: readonly string[];
}

/** Fields of statuses that came with a version: a server before it leaves them out. */
const newFields: Readonly<Record<string, number>> = {
  hostIPs: 28,
  runtimeHandlers: 30,
  features: 31,
  observedGeneration: 33,
};

export async function versionedApiServer(
  test: { after(act: () => Promise<void>): void },
  minor: number,
  nodeName = 'here',
): Promise<VersionedApiServer> {
  const api = await runningApiServer(test);
  const front = await scriptedApiServer(test);
  const [refused, requests]: [string[], string[]] = [[], []];
  const relay = new Relay(minor, api, nodeIdentity(api, nodeName));
  const serve = async (): Promise<never> => {
    for (;;) {
      const request = await front.next();
      const what = `${request.method} ${request.path}`;
      requests.push(what);
      const note = (code: number): unknown =>
        code >= 400 && code !== 404 && code !== 409 && refused.push(`${what}: ${code}`);
      relay.answer(request, note).catch(() => request.reset());
    }
  };
  void serve();
  return { front, api, refused, requests };
}

class Relay {
  readonly #minor: number;
  readonly #api: RunningApiServer;
  readonly #identity: KeyPair;

  constructor(minor: number, api: RunningApiServer, identity: KeyPair) {
    this.#minor = minor;
    this.#api = api;
    this.#identity = identity;
  }

  async answer(request: ScriptedRequest, note: (code: number) => void): Promise<void> {
    const refuse = (code: number, reason: string, message: string): void => {
      // A list instead of a stream of initial events is how it goes on.
      if (request.query['sendInitialEvents'] === undefined) note(code);
      request.answer(code, aStatus(code, reason, message));
    };
    const streamed = this.#initialEventsRefusal(request);
    if (streamed !== undefined) return refuse(422, 'Invalid', streamed);
    const body = request.body === '' ? undefined : this.#known(JSON.parse(request.body));
    if (this.#takesDirectives(request) && isRecord(body)) {
      const current = JSON.parse(await textOf(await this.#send('GET', request.path.replace(/\/status$/, ''))));
      const field = directiveWithoutList(body, current);
      if (field !== undefined) return refuse(422, 'Invalid', `"here" is invalid: ${field}: Invalid value: ""`);
    }
    const query = new URLSearchParams(request.query).toString();
    const path = query === '' ? request.path : `${request.path}?${query}`;
    const answer = await this.#send(request.method, path, body, request.headers);
    note(answer.statusCode ?? 0);
    if (request.query['watch'] === undefined) return request.answer(answer.statusCode ?? 500, await textOf(answer));
    request.begin();
    void request.closed().then(() => answer.destroy());
    answer.on('data', (chunk: Buffer) => request.write(chunk)).on('end', () => request.end());
    answer.on('error', () => {});
  }

  /** The words of each generation for a watch that is to begin with all there is. */
  #initialEventsRefusal({ query }: ScriptedRequest): string | undefined {
    if (query['sendInitialEvents'] === undefined || this.#minor === 32 || this.#minor >= 34) return undefined;
    const problem =
      this.#minor < 27
        ? 'resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch'
        : 'sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled';
    return `ListOptions.meta.k8s.io "" is invalid: ${problem}`;
  }

  #takesDirectives({ method, headers }: ScriptedRequest): boolean {
    return (
      this.#minor < 28 && method === 'PATCH' && headers['content-type'] === 'application/strategic-merge-patch+json'
    );
  }

  #known(body: unknown): unknown {
    if (!isRecord(body) || !isRecord(body['status'])) return body;
    const fields = Object.entries(body['status']).filter(([name]) => (newFields[name] ?? 0) <= this.#minor);
    return { ...body, status: Object.fromEntries(fields) };
  }

  #send(
    method: string,
    path: string,
    body?: unknown,
    { accept, 'content-type': type }: ScriptedRequest['headers'] = {},
  ): Promise<IncomingMessage> {
    const { certificatePem: cert, keyPem: key } = this.#identity;
    const headers = { ...(accept !== undefined && { accept }), ...(type !== undefined && { 'content-type': type }) };
    return new Promise((resolve, reject) => {
      const sent = sendRequest(`${this.#api.url}${path}`, { method, cert, key, ca: this.#api.authorityPem, headers });
      sent.on('response', resolve).on('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

/** The first list that the object does not have and that the patch has directives for: before 1.28 they became its items. */
function directiveWithoutList(patch: unknown, object: unknown, path = ''): string | undefined {
  if (Array.isArray(patch)) {
    const isDirective = (item: unknown): boolean => isRecord(item) && '$patch' in item;
    return object === undefined && patch.some(isDirective) ? path : undefined;
  }
  if (!isRecord(patch)) return undefined;
  for (const [name, value] of Object.entries(patch)) {
    const field = directiveWithoutList(value, isRecord(object) ? object[name] : undefined, `${path}.${name}`);
    if (field !== undefined) return field;
  }
  return undefined;
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
