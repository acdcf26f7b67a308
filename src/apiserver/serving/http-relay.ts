/**
 * Passes a request on to a server of a pod, and what that answers back, at the pace of the client. Of the client's credentials
 * nothing goes along. A pod's certificate is believed: nobody could have told this server which one to expect.
 */
import { type IncomingMessage, type OutgoingHttpHeaders, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { messageOf } from '../../base/errors.ts';
import { StatusError } from '../model/status.ts';
import { type ApiRequest, bodyBytesMax } from '../rest/api-request.ts';
import type { ProxyTarget } from '../rest/proxy.ts';
import { passBody } from './node-proxy.ts';

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
const notPassed = new Set([...perConnection, 'transfer-encoding', 'authorization', 'host', 'content-length']);
const withoutBody = 204;

export async function relay({ scheme, host, port, path }: ProxyTarget, request: ApiRequest): Promise<void> {
  const { exchange, signal } = request;
  const body = await exchange.readBody(bodyBytesMax);
  const headers: OutgoingHttpHeaders = {
    'x-forwarded-uri': exchange.target.split('?')[0],
    'x-forwarded-proto': 'https',
    ...(exchange.header('host') !== undefined && { 'x-forwarded-host': exchange.header('host') }),
    ...(body.length > 0 && { 'content-length': body.length }),
  };
  for (const name of exchange.headerNames()) {
    if (!notPassed.has(name) && !name.startsWith(':') && !name.startsWith('impersonate-')) {
      headers[name] = exchange.header(name);
    }
  }
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const fail = (problem: string): void => {
      const text = `error trying to reach service: ${problem}`;
      reject(signal.aborted ? signal.reason : new StatusError(503, 'ServiceUnavailable', text));
    };
    const options = { host, port, path, method: exchange.method, headers, agent: false, signal } as const;
    const sent = scheme === 'https' ? httpsRequest({ ...options, rejectUnauthorized: false }) : httpRequest(options);
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
    sent.on('error', (error) => fail(messageOf(error)));
    sent.end(body.length > 0 ? body : undefined);
  });
  const { statusCode = 502 } = response;
  const dropped = new Set([
    ...perConnection,
    'transfer-encoding',
    ...(statusCode === withoutBody ? ['content-length'] : []),
  ]);
  const kept = Object.entries(response.headers).flatMap(([name, value]) =>
    value === undefined || dropped.has(name) ? [] : [[name, value] as const],
  );
  await passBody(response, exchange, statusCode, Object.fromEntries(kept), signal);
}
