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
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'upgrade',
];
const notPassed = new Set([...perConnection, 'transfer-encoding', 'authorization', 'host', 'content-length']);

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
    const options = { host, port, path, method: exchange.method, headers, agent: false, signal } as const;
    const sent = scheme === 'https' ? httpsRequest({ ...options, rejectUnauthorized: false }) : httpRequest(options);
    sent.setTimeout(answerMs, () => sent.destroy(new Error(`no answer within ${answerMs / 1000} s`)));
    sent.on('response', (answer) => {
      sent.setTimeout(0);
      resolve(answer);
    });
    sent.on('error', (error) => {
      const text = `error trying to reach service: ${messageOf(error)}`;
      reject(signal.aborted ? signal.reason : new StatusError(503, 'ServiceUnavailable', text));
    });
    sent.end(body.length > 0 ? body : undefined);
  });
  const kept = Object.entries(response.headers).flatMap(([name, value]) =>
    value === undefined || perConnection.includes(name) || name === 'transfer-encoding' ? [] : [[name, value] as const],
  );
  await passBody(response, exchange, response.statusCode ?? 502, Object.fromEntries(kept), signal);
}
