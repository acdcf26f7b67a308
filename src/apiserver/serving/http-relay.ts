/**
 * Passes a request on to a server of a pod or of a node, and what that answers back, at the pace of the client. Of the client's
 * credentials nothing goes along. A pod's certificate is believed: nobody could have told this server which one to expect.
 */
import {
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as httpRequest,
} from 'node:http';
import { type RequestOptions, request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';
import { onAbort } from '../../base/abort.ts';
import { errorCode, messageOf } from '../../base/errors.ts';
import { StatusError } from '../model/status.ts';
import { type ApiRequest, type Exchange, type ResponseHeaders, bodyBytesMax } from '../rest/api-request.ts';
import type { ProxyTarget } from '../rest/proxy.ts';
import { ConnectionLost } from './http-exchange.ts';

const answerMs = 30_000;
/** Of one connection alone. */
const perConnection = [
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'upgrade',
];
const notPassed = new Set([...perConnection, 'transfer-encoding', 'authorization', 'expect', 'host', 'content-length']);
const withoutBody = 204;

/** `tls` says who this server is to a target that it knows. */
export async function relay(
  target: ProxyTarget,
  request: ApiRequest,
  tls: RequestOptions = { rejectUnauthorized: false },
): Promise<void> {
  const { scheme, host, port, path } = target;
  const { exchange, signal } = request;
  const body = await exchange.readBody(bodyBytesMax);
  const [uri = ''] = exchange.target.split('?');
  const ownHost = exchange.header('host') ?? exchange.header(':authority');
  const headers: OutgoingHttpHeaders = {};
  const ofConnection = namedBy(exchange.header('connection'));
  for (const name of exchange.headerNames()) {
    const isPassed = !notPassed.has(name) && !ofConnection.has(name);
    if (isPassed && !name.startsWith(':') && !name.startsWith('impersonate-')) headers[name] = exchange.header(name);
  }
  Object.assign(headers, {
    'x-forwarded-uri': uri,
    'x-forwarded-proto': 'https',
    'x-forwarded-for': [exchange.header('x-forwarded-for'), exchange.remoteAddress].filter(Boolean).join(', '),
    ...(ownHost !== undefined && { 'x-forwarded-host': ownHost }),
    ...(body.length > 0 && { 'content-length': body.length }),
  });
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const fail = (problem: string): void => {
      const text = `error trying to reach service: ${problem}`;
      reject(signal.aborted ? signal.reason : new StatusError(503, 'ServiceUnavailable', text));
    };
    const options = { host, port, path, method: exchange.method, headers, agent: false, signal } as const;
    const sent = scheme === 'https' ? httpsRequest({ ...options, ...tls }) : httpRequest(options);
    sent.setTimeout(answerMs, () => sent.destroy(new Error(`no answer within ${answerMs / 1000} s`)));
    sent.on('response', (answer) => {
      sent.setTimeout(0);
      const { statusCode = 0 } = answer;
      if (statusCode >= 200 && statusCode < 600) return resolve(answer);
      answer.destroy();
      fail(`it answered with the status ${statusCode}`);
    });
    // Nobody asked for it, and without a listener the request would never end.
    sent.on('upgrade', (_answer, socket) => {
      socket.destroy();
      fail('it changed the protocol');
    });
    sent.on('error', (error) => fail(dialProblem(error)));
    sent.end(body.length > 0 ? body : undefined);
  });
  const { statusCode = 502 } = response;
  const dropped = new Set([
    ...perConnection,
    'transfer-encoding',
    ...namedBy(response.headers.connection),
    ...(statusCode === withoutBody ? ['content-length'] : []),
  ]);
  const kept = Object.entries(response.headers).flatMap(([name, value]) =>
    value === undefined || dropped.has(name) ? [] : [[name, value] as const],
  );
  const location = behindProxy(response.headers, [hostText(target), ownHost], prefixOf(uri, path));
  await passBody(response, exchange, statusCode, { ...Object.fromEntries(kept), ...location }, signal);
}

/** Headers that concern one connection alone because its other side says so. */
function namedBy(connection: string | undefined): ReadonlySet<string> {
  return new Set((connection ?? '').split(',').map((name) => name.trim().toLowerCase()));
}

/** What comes before the target's own path. */
function prefixOf(uri: string, path: string): string {
  const [own = ''] = path.split('?');
  return uri.endsWith(own) ? uri.slice(0, -own.length) : uri;
}

function hostText({ host, port }: ProxyTarget): string {
  return `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
}

/** Where a target sends the client to within itself is, for the client, behind the path of the proxy. */
function behindProxy(
  { location }: IncomingHttpHeaders,
  own: readonly (string | undefined)[],
  prefix: string,
): { readonly location?: string } {
  if (location === undefined) return {};
  const [, host, path = ''] = /^(?:https?:)?\/\/([^/?#]*)(.*)$/is.exec(location) ?? [undefined, undefined, location];
  const isElsewhere = host === undefined ? !path.startsWith('/') : !own.includes(host);
  if (isElsewhere || path.startsWith(`${prefix}/`)) return {};
  return { location: `${prefix}${path.startsWith('/') ? '' : '/'}${path}` };
}

/** As fast as the client takes it. */
export async function passBody(
  response: IncomingMessage,
  exchange: Exchange,
  code: number,
  headers: ResponseHeaders,
  signal: AbortSignal,
): Promise<void> {
  const stream = exchange.openStream(code, headers);
  let wake = (): void => {};
  stream.onDrain(() => wake());
  exchange.onClose(() => wake());
  const stopListening = onAbort(signal, () => wake());
  try {
    for await (const bytes of response as AsyncIterable<Buffer>) {
      if (signal.aborted) throw new ConnectionLost('the client closed the connection');
      if (!stream.write(bytes)) await new Promise<void>((resolve) => (wake = resolve));
    }
    stream.end();
  } catch {
    // The client must not take what it has for all there is.
    stream.destroy();
  } finally {
    stopListening();
    response.destroy();
  }
}

const unknownAuthority = new Set([
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
]);

export function dialProblem(error: Error): string {
  const code = errorCode(error) ?? '';
  if (code === 'CERT_HAS_EXPIRED') return 'tls: failed to verify certificate: x509: certificate has expired';
  if (!unknownAuthority.has(code)) return messageOf(error);
  return (
    'tls: failed to verify certificate: x509: certificate signed by unknown authority (is there a request of the node to approve, ' +
    'in "kubectl get csr"? With --kubelet-insecure this server believes any certificate)'
  );
}
