/** Runs one probe once and reports the result in the kubelet's words. */
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import type { Probe } from '../../kube/kinds/pod/container.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { hasCode } from '../../grpc/grpc-error.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { showDuration } from '../../kube/values/times.ts';
import type { Runtime } from '../../runtimes/runtime.ts';
import { expandCommand } from '../view/container-view.ts';
import { GrpcConnectError, checkGrpcHealth } from './grpc-health.ts';
import {
  HandlerError,
  type HttpExchange,
  type PodAddress,
  type PodNetwork,
  containerPort,
  exchangeHttp,
  hostAndPort,
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
  readonly runtime: Pick<Runtime, 'run'>;
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
  const timeoutMs = timeoutOf(target);
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

function timeoutOf({ probe }: ProbeTarget): number {
  return (probe.timeoutSeconds ?? 1) * 1000;
}

async function handle(target: ProbeTarget, deps: ProbeHandlerDeps, signal: AbortSignal): Promise<ProbeOutcome> {
  const { exec, httpGet, tcpSocket, grpc } = target.probe;
  if (exec !== undefined) return await probeCommand(target, staticCommand(target, exec.command), deps, signal);
  if (httpGet !== undefined) return await probeHttp(target, deps, signal);
  if (tcpSocket !== undefined) return await probeTcp(target, deps, signal);
  if (grpc !== undefined) return await probeGrpc(target, signal);
  throw new HandlerError(`missing probe handler for ${target.container.name}`);
}

/** A variable that is not written in the pod itself counts as empty here, as in the kubelet. */
function staticCommand({ container }: ProbeTarget, command: readonly string[] = []): readonly string[] {
  const { name: containerName, env = [] } = container;
  const source = { kind: 'value', expands: [] } as const;
  const environment = env.map(({ name, value = '' }) => ({ name, value, source, secret: false }));
  return expandCommand({ name: containerName, command }, environment).command.map(({ value }) => value);
}

async function probeCommand(
  target: ProbeTarget,
  command: readonly string[],
  { runtime }: ProbeHandlerDeps,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  const timeoutMs = timeoutOf(target);
  const result = await runtime.run(target.containerId, { command, timeoutMs, bytesMax: outputBytesMax }, signal);
  if (result === 'timedOut') return { result: 'failure', output: timedOut(target, timeoutMs) };
  return { result: result.exitCode === 0 ? 'success' : 'failure', output: result.output.toString('utf8') };
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

function urlOf({ scheme, path, ...address }: HttpExchange): string {
  return `${scheme}://${hostAndPort(address)}${path}`;
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
  target: ProbeTarget,
  { network }: ProbeHandlerDeps,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  const address = tcpAddress(target);
  try {
    const socket = await network.connect(address, signal);
    socket.destroy();
    return { result: 'success', output: '' };
  } catch (error) {
    signal.throwIfAborted();
    return { result: 'failure', output: `dial tcp ${hostAndPort(address)}: ${messageOf(error)}` };
  }
}

function tcpAddress({ container, podIp, probe: { tcpSocket } }: ProbeTarget): PodAddress {
  const { host = '', port = 0 } = tcpSocket ?? {};
  return { host: host || podIp || 'localhost', port: containerPort(port, container) };
}

async function probeGrpc(target: ProbeTarget, signal: AbortSignal): Promise<ProbeOutcome> {
  const host = target.podIp || 'localhost';
  const { port = 0, service = '' } = target.probe.grpc ?? {};
  const authority = `${host}:${port}`;
  try {
    const status = await checkGrpcHealth({ host, port, service, authority, userAgent }, timeoutOf(target), signal);
    if (status === 'SERVING') return { result: 'success', output: 'service healthy' };
    return { result: 'failure', output: `service unhealthy (responded with ${goQuote(status)})` };
  } catch (error) {
    signal.throwIfAborted();
    return { result: 'failure', output: grpcProblem(error, authority, target) };
  }
}

function grpcProblem(error: unknown, authority: string, target: ProbeTarget): string {
  if (error instanceof GrpcConnectError)
    return `error: failed to connect service at ${goQuote(authority)}: ${error.message}`;
  if (hasCode(error, 'UNIMPLEMENTED'))
    return `error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ${messageOf(error)}`;
  if (hasCode(error, 'DEADLINE_EXCEEDED')) return timedOut(target, timeoutOf(target));
  return `error: health rpc probe failed: ${messageOf(error)}`;
}

function timedOut(target: ProbeTarget, timeoutMs: number): string {
  const { exec, httpGet, tcpSocket } = target.probe;
  const after = showDuration(timeoutMs);
  if (exec !== undefined)
    return `command timed out: ${goQuote((exec.command ?? []).join(' '))} timed out after ${after}`;
  if (httpGet !== undefined) {
    return `Get ${goQuote(urlOf(httpExchange(target, target.probe.httpGet ?? {})))}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)`;
  }
  if (tcpSocket !== undefined) return `dial tcp ${hostAndPort(tcpAddress(target))}: i/o timeout`;
  return `timeout: health rpc did not complete within ${after}`;
}
