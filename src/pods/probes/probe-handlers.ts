/** Runs one probe once and reports the result in the kubelet's words. */
import { Writable } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import type { Probe } from '../../kube/kinds/pod/container.ts';
import { podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { showDuration } from '../../kube/values/times.ts';
import type { Runtime } from '../../runtimes/runtime.ts';
import { checkGrpcHealth } from './grpc-health.ts';
import {
  HandlerError,
  type HttpExchange,
  type PodAddress,
  type PodNetwork,
  containerPort,
  exchangeHttp,
  httpExchange,
} from './http-exchange.ts';

export interface ProbeOutcome {
  /** A warning counts as a success. */
  readonly result: 'success' | 'warning' | 'failure';
  readonly output: string;
}

export interface ProbeTarget {
  readonly pod: Pod;
  readonly container: AnyContainer;
  readonly containerId: string;
  readonly podIp: string;
  readonly probe: Probe;
}

interface ProbeHandlerDeps {
  readonly runtime: Pick<Runtime, 'exec'>;
  readonly network: PodNetwork;
  readonly clock: Clock;
}

const userAgent = 'kube-probe/1.33';
const outputBytesMax = 10 * 1024;
const redirectsMax = 10;

/** Rejects when the probe could not be run, which says nothing about the container. */
export async function runProbe(
  target: ProbeTarget,
  deps: ProbeHandlerDeps,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  const timeoutMs = (target.probe.timeoutSeconds ?? 1) * 1000;
  const stop = new AbortController();
  const ended = AbortSignal.any([signal, stop.signal]);
  const timeout = deps.clock.sleep(timeoutMs, ended).then(
    () => 'timeout' as const,
    () => 'ended' as const,
  );
  const running = handle(target, deps, ended);
  running.catch(() => {});
  try {
    const first = await Promise.race([running, timeout]);
    signal.throwIfAborted();
    if (typeof first === 'object') return first;
    return { result: 'failure', output: timedOut(target, timeoutMs) };
  } finally {
    stop.abort();
  }
}

async function handle(target: ProbeTarget, deps: ProbeHandlerDeps, signal: AbortSignal): Promise<ProbeOutcome> {
  const { exec, httpGet, tcpSocket, grpc } = target.probe;
  if (exec !== undefined) return await probeCommand(target, exec.command ?? [], deps, signal);
  if (httpGet !== undefined) return await probeHttp(target, deps, signal);
  if (tcpSocket !== undefined) return await probeTcp(target, deps, signal);
  if (grpc !== undefined) return await probeGrpc(target, deps, signal);
  throw new HandlerError(`missing probe handler for ${target.container.name}`);
}

async function probeCommand(
  { containerId }: ProbeTarget,
  command: readonly string[],
  { runtime }: ProbeHandlerDeps,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  const chunks: Buffer[] = [];
  let size = 0;
  const sink = (): Writable =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        if (size < outputBytesMax) chunks.push(chunk.subarray(0, outputBytesMax - size));
        size += chunk.length;
        done();
      },
    });
  const { exitCode } = await runtime.exec(containerId, { command, tty: false, stdout: sink(), stderr: sink() }, signal);
  const output = Buffer.concat(chunks).toString('utf8');
  return { result: exitCode === 0 ? 'success' : 'failure', output };
}

async function probeHttp(
  target: ProbeTarget,
  { network }: ProbeHandlerDeps,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  let exchange = httpExchange(target, target.probe.httpGet ?? {});
  for (let redirects = 0; ; redirects += 1) {
    let answer;
    try {
      answer = await exchangeHttp(exchange, network, userAgent, signal);
    } catch (error) {
      signal.throwIfAborted();
      return { result: 'failure', output: `Get ${goQuote(urlOf(exchange))}: ${messageOf(error)}` };
    }
    const { statusCode, location, body } = answer;
    if (statusCode < 200 || statusCode >= 400) {
      return { result: 'failure', output: `HTTP probe failed with statuscode: ${statusCode}` };
    }
    if (statusCode < 300 || location === undefined) return { result: 'success', output: body };
    const next = redirected(exchange, location);
    // Another host is not this container: its answer would say nothing about the container.
    if (next === undefined) return { result: 'warning', output: `Probe terminated redirects, Response body: ${body}` };
    if (redirects >= redirectsMax) return { result: 'failure', output: 'stopped after 10 redirects' };
    exchange = next;
  }
}

function urlOf({ scheme, authority, port, path }: HttpExchange): string {
  const host = authority.includes(':') ? `[${authority}]` : authority;
  return `${scheme}://${host}:${port}${path}`;
}

function redirected(exchange: HttpExchange, location: string): HttpExchange | undefined {
  const base = urlOf(exchange);
  if (!URL.canParse(location, base)) return undefined;
  const [url, from] = [new URL(location, base), new URL(base)];
  if (url.hostname !== from.hostname || !/^https?:$/.test(url.protocol)) return undefined;
  const scheme = url.protocol === 'https:' ? 'https' : 'http';
  const port = url.port === '' ? (scheme === 'https' ? 443 : 80) : Number(url.port);
  return { ...exchange, scheme, port, path: `${url.pathname}${url.search}` };
}

async function probeTcp(
  { pod, container, podIp, probe: { tcpSocket } }: ProbeTarget,
  { network }: ProbeHandlerDeps,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  const { host = '', port: wanted = 0 } = tcpSocket ?? {};
  const port = containerPort(wanted, container);
  const address: PodAddress = { podUid: podUid(pod), host: host === '' ? undefined : host, port };
  try {
    const socket = await network.connect(address, signal);
    socket.destroy();
    return { result: 'success', output: '' };
  } catch (error) {
    signal.throwIfAborted();
    return { result: 'failure', output: `dial tcp ${host || podIp || 'localhost'}:${port}: ${messageOf(error)}` };
  }
}

async function probeGrpc(
  { pod, podIp, probe: { grpc } }: ProbeTarget,
  { network }: ProbeHandlerDeps,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  const { port = 0, service = '' } = grpc ?? {};
  const authority = `${podIp || 'localhost'}:${port}`;
  let status: string;
  try {
    const socket = await network.connect({ podUid: podUid(pod), host: undefined, port }, signal);
    status = await checkGrpcHealth(socket, service, authority, userAgent, signal);
  } catch (error) {
    signal.throwIfAborted();
    return { result: 'failure', output: grpcProblem(error, authority) };
  }
  if (status === 'SERVING') return { result: 'success', output: 'service healthy' };
  return { result: 'failure', output: `service unhealthy (responded with ${goQuote(status)})` };
}

/** The gRPC status of a method that a server does not have. */
const unimplemented = 12;

function grpcProblem(error: unknown, authority: string): string {
  if (!(error instanceof HandlerError) || error.grpcStatus === undefined)
    return `error: failed to connect service at ${goQuote(authority)}: ${messageOf(error)}`;
  if (error.grpcStatus !== unimplemented) return `error: health rpc probe failed: ${error.message}`;
  return `error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ${error.message}`;
}

function timedOut(target: ProbeTarget, timeoutMs: number): string {
  const { exec, httpGet, tcpSocket } = target.probe;
  const after = showDuration(timeoutMs);
  if (exec !== undefined)
    return `command timed out: ${goQuote((exec.command ?? []).join(' '))} timed out after ${after}`;
  if (httpGet !== undefined) {
    return `Get ${goQuote(urlOf(httpExchange(target, target.probe.httpGet ?? {})))}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)`;
  }
  if (tcpSocket !== undefined) return `dial tcp ${target.podIp || 'localhost'}: i/o timeout`;
  return `timeout: health rpc did not complete within ${after}`;
}
