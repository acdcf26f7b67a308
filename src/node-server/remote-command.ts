/** Runs or joins a command for a client: chooses the transport, gives the command its streams, tells how it ended. */
import type { Clock } from '../base/clock.ts';
import type { ExecResult, ProcessStreams } from '../runtimes/runtime.ts';
import { RequestRefused } from './request-refused.ts';
import { failed, exited, succeeded } from './streams/command-status.ts';
import type { CommandStatus } from './streams/command-status.ts';
import { spdyCommandProtocols, webSocketCommandProtocols } from './streams/protocols.ts';
import type { RemoteStreams, StreamChoice, StreamLimits } from './streams/remote-streams.ts';
import { spdyCommandStreams } from './streams/spdy-command-streams.ts';
import type { Upgrade } from './streams/spdy-upgrade.ts';
import { agreeOnSpdy, upgradeToSpdy } from './streams/spdy-upgrade.ts';
import { webSocketCommandStreams } from './streams/web-socket-command-streams.ts';
import { agreeOnWebSocket, isWebSocket, upgradeToWebSocket } from './streams/web-socket-upgrade.ts';

interface RemoteCommand {
  /** `error executing command in container`: begins the message when it cannot be run. */
  readonly failure: string;
  /** Answers nothing for a command that was only joined. */
  run(streams: ProcessStreams, signal: AbortSignal): Promise<ExecResult | undefined>;
}

interface RemoteCommandDeps {
  readonly clock: Clock;
  readonly limits: StreamLimits;
}

/** The names are the node's own; `1` is the only yes. */
export function streamChoice(query: URLSearchParams): StreamChoice {
  const isAsked = (name: string): boolean => query.get(name) === '1';
  const tty = isAsked('tty');
  // A terminal has one stream for both.
  const choice = { stdin: isAsked('input'), stdout: isAsked('output'), stderr: isAsked('error') && !tty, tty };
  if (choice.stdin || choice.stdout || choice.stderr) return choice;
  throw new RequestRefused(400, 'you must specify at least 1 of stdin, stdout, stderr');
}

/** Resolves when the client knows how it ended, or is gone. Rejects with RequestRefused before anything was upgraded. */
export async function serveRemoteCommand(
  deps: RemoteCommandDeps,
  upgrade: Upgrade,
  choice: StreamChoice,
  command: RemoteCommand,
  signal: AbortSignal,
): Promise<void> {
  const streams = await openStreams(deps, upgrade, choice);
  const over = AbortSignal.any([signal, streams.gone]);
  const { stdin, stdout, stderr, resizes } = streams;
  let status: CommandStatus;
  try {
    const result = await command.run({ stdin, stdout, stderr, tty: choice.tty, resizes }, over);
    status = result === undefined ? succeeded : exited(result);
  } catch (error) {
    status = failed(command.failure, error);
  }
  await streams.finish(status);
}

async function openStreams(deps: RemoteCommandDeps, upgrade: Upgrade, choice: StreamChoice): Promise<RemoteStreams> {
  if (isWebSocket(upgrade)) {
    const name = agreeOnWebSocket(upgrade, [...webSocketCommandProtocols.keys()]);
    return webSocketCommandStreams(
      await upgradeToWebSocket(upgrade, name),
      known(webSocketCommandProtocols, name),
      choice,
    );
  }
  const name = agreeOnSpdy(upgrade, [...spdyCommandProtocols.keys()]);
  return spdyCommandStreams(upgradeToSpdy(upgrade, name), known(spdyCommandProtocols, name), choice, deps);
}

function known<T>(protocols: ReadonlyMap<string, T>, name: string): T {
  const protocol = protocols.get(name);
  if (protocol === undefined) throw new RequestRefused(403, `the protocol ${JSON.stringify(name)} is not spoken here`);
  return protocol;
}
