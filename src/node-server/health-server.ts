/** A port that says `ok`, without TLS and to everyone it listens for: kubeadm waits for it after it has started a node. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { messageOf, OperatingError } from '../base/errors.ts';

/** Who asks for health asks once in a while; more would take descriptors from the node. */
const connectionsMax = 32;
const requestMsMax = 10_000;

/** Resolves with how to close it. */
export async function startHealthServer(host: string, port: number): Promise<() => Promise<void>> {
  const server = createServer({ requestTimeout: requestMsMax, headersTimeout: requestMsMax }, (request, response) => {
    const [code, text] = request.url === '/healthz' ? [200, 'ok'] : [404, '404 page not found\n'];
    response.writeHead(code, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' }).end(text);
  });
  server.maxConnections = connectionsMax;
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const text = `Cannot listen on ${host}:${port} for /healthz: ${messageOf(error)}: choose another healthzPort, or 0 for none`;
    throw new OperatingError('CannotListen', text, { cause: error });
  }
  server.on('error', () => {}); // no descriptors are left for a while
  return async () => {
    const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  };
}
