/** Answers the commands of this machine's user about a running node, as JSON over HTTP on a unix socket. It changes nothing. */
import { once } from 'node:events';
import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { Socket } from 'node:net';
import { messageOf } from '../base/errors.ts';
import { controlDirectory, openAddress, volumesPath } from './control-socket.ts';
import type { VolumeQuery, VolumeView } from './volume-view.ts';

interface ControlHandlers {
  volumes(query: VolumeQuery, signal: AbortSignal): Promise<readonly VolumeView[]>;
}

interface ControlSettings {
  /** The node's root directory, which this process has locked: what stands there is of no other node that runs. */
  readonly root: string;
  /** The user of this process. */
  readonly uid: number;
  /** Of the socket with this descriptor. */
  readonly peerUid: (descriptor: number) => number;
}

/** A person asks, or a script: more at once would take descriptors from the node. */
const connectionsMax = 16;
const headerBytesMax = 8 * 1024;
const requestMsMax = 5_000;
/** Longer than the figures of volumes are waited for. */
const answerMsMax = 30_000;

/** Resolves with how to close it, when it listens. */
export async function startControlServer(
  { root, uid, peerUid }: ControlSettings,
  handlers: ControlHandlers,
): Promise<() => Promise<void>> {
  const directory = controlDirectory(root);
  // A socket is born with the rights that the umask leaves: the directory keeps others out before they are taken away.
  mkdirSync(directory, { recursive: true });
  chmodSync(directory, 0o700);
  const address = openAddress(root);
  const ending = new AbortController();
  const limits = { requestTimeout: requestMsMax, headersTimeout: requestMsMax, maxHeaderSize: headerBytesMax };
  const server = createServer(limits, (request, response) => void answer(request, response, handlers, ending.signal));
  server.maxConnections = connectionsMax;
  server.setTimeout(answerMsMax);
  server.on('connection', (socket: Socket) => {
    if (!isOfUser(socket, uid, peerUid)) socket.destroy();
  });
  const close = async (): Promise<void> => {
    ending.abort();
    const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
    address.close();
  };
  try {
    rmSync(address.path, { force: true }); // of a process that was killed
    server.listen(address.path);
    await once(server, 'listening');
    chmodSync(address.path, 0o600);
    server.on('error', () => {}); // no descriptors are left for a while
    return close;
  } catch (error) {
    await close();
    throw error;
  }
}

/** Its own user, and root, who may do everything anyway. */
function isOfUser(socket: Socket, uid: number, peerUid: (descriptor: number) => number): boolean {
  // Node has no public name for the descriptor of a socket.
  const { _handle: handle } = socket as { readonly _handle?: { readonly fd?: number } | null };
  const peer = handle?.fd === undefined ? undefined : peerUid(handle.fd);
  return peer === uid || peer === 0;
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  handlers: ControlHandlers,
  ending: AbortSignal,
): Promise<void> {
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  request.resume();
  const send = (code: number, body: object): void => {
    const text = JSON.stringify(body);
    response.writeHead(code, { 'content-type': 'application/json', connection: 'close' }).end(text);
  };
  const fail = (code: number, message: string): void =>
    send(code, { apiVersion: 'v1', kind: 'Status', status: 'Failure', message, code });
  try {
    const [path = '', query = ''] = (request.url ?? '').split('?', 2);
    if (path !== volumesPath) return fail(404, `no such path: ${volumesPath} is what there is`);
    if (request.method !== 'GET') return fail(405, 'only GET is served');
    const namespace = new URLSearchParams(query).get('namespace') ?? undefined;
    const signal = AbortSignal.any([ending, gone.signal, AbortSignal.timeout(answerMsMax)]);
    const items = await handlers.volumes({ namespace }, signal);
    send(200, { apiVersion: 'v1', kind: 'List', metadata: {}, items });
  } catch (error) {
    if (!response.headersSent) fail(500, messageOf(error));
  }
}
