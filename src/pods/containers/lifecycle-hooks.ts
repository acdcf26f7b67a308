/**
 * The hooks that a container has after its start and before its end. Nothing that a hook prints or answers is passed on: it may
 * contain secrets.
 */
import type { Clock } from '../../base/clock.ts';
import { errorCode } from '../../base/errors.ts';
import type { Lifecycle } from '../../kube/kinds/pod/container.ts';
import type { EventSink } from '../../kube/kinds/pod/pod-event.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Runtime } from '../../runtimes/runtime.ts';
import { HandlerError, type PodNetwork, exchangeHttp, httpExchange } from '../probes/http-exchange.ts';

export type Hook = NonNullable<Lifecycle['postStart']>;

export interface HookDeps {
  readonly runtime: Pick<Runtime, 'exec'>;
  readonly network: PodNetwork;
  readonly clock: Clock;
  readonly events: EventSink;
}

interface HookRequest {
  readonly pod: Pod;
  readonly container: AnyContainer;
  readonly containerId: string;
  readonly podIp: string;
  readonly hook: Hook;
}

/** Rejects when the hook failed. */
export async function runHook(request: HookRequest, deps: HookDeps, signal: AbortSignal): Promise<void> {
  const { hook, containerId } = request;
  if (hook.exec !== undefined) {
    const { exitCode } = await deps.runtime.exec(containerId, { command: hook.exec.command ?? [], tty: false }, signal);
    if (exitCode !== 0) throw new HandlerError(`command exited with ${exitCode}`);
    return;
  }
  if (hook.httpGet !== undefined) return await runHttpHook(request, hook.httpGet, deps, signal);
  if (hook.sleep !== undefined) return await deps.clock.sleep(hook.sleep.seconds * 1000, signal);
  throw new HandlerError('cannot run handler: it has neither exec, httpGet nor sleep');
}

/** Any answer is a success, whatever its status. */
async function runHttpHook(
  request: HookRequest,
  httpGet: NonNullable<Hook['httpGet']>,
  { network, events }: HookDeps,
  signal: AbortSignal,
): Promise<void> {
  const { pod, container } = request;
  const exchange = httpExchange(request, httpGet);
  try {
    await exchangeHttp(exchange, network, userAgent, signal);
  } catch (error) {
    if (exchange.scheme !== 'https' || !notTls.has(errorCode(error) ?? '')) throw error;
    // Old kubelets used HTTP for HTTPS hooks, so there are pods whose servers only speak HTTP.
    await exchangeHttp({ ...exchange, scheme: 'http' }, network, userAgent, signal);
    const message = `request to HTTPS lifecycle hook ${exchange.authority}:${exchange.port} got HTTP response, retry with HTTP succeeded`;
    events.record({ pod, container: container.name, type: 'Warning', reason: 'LifecycleHTTPFallback', message });
  }
}

const userAgent = 'kube-lifecycle/1.33';
/** How OpenSSL reports an answer that is no TLS. */
const notTls: ReadonlySet<string> = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG']);
