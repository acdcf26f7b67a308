/** The streams of a remote command over a WebSocket: 0 stdin, 1 stdout, 2 stderr, 3 status, 4 terminal sizes. */
import type { WebSocket } from 'ws';
import { ChannelSocket } from './channel-socket.ts';
import { statusBytes } from './command-status.ts';
import type { RemoteProtocol } from './protocols.ts';
import type { RemoteStreams, StreamChoice } from './remote-streams.ts';
import { flushed } from './spdy-command-streams.ts';
import { TerminalSizes } from './terminal-sizes.ts';

const channels = { stdin: 0, stdout: 1, stderr: 2, status: 3, resize: 4 } as const;

export async function webSocketCommandStreams(
  socket: WebSocket,
  protocol: RemoteProtocol,
  choice: StreamChoice,
): Promise<RemoteStreams> {
  const channelSocket = new ChannelSocket(socket, protocol);
  const sizes = new TerminalSizes();
  const resize = channelSocket.input(channels.resize);
  resize.on('data', (bytes: Buffer) => sizes.add(bytes));
  resize.on('close', () => sizes.end());
  const stdin = choice.stdin ? channelSocket.input(channels.stdin) : undefined;
  const stdout = choice.stdout ? channelSocket.output(channels.stdout) : undefined;
  const stderr = choice.stderr ? channelSocket.output(channels.stderr) : undefined;
  for (const stream of [stdin, stdout, stderr]) stream?.on('error', () => {});
  // An empty message on the lowest channel that it will write to: clients wait for it.
  await channelSocket.send(
    choice.stdout ? channels.stdout : choice.stderr ? channels.stderr : channels.status,
    Buffer.alloc(0),
  );
  return {
    stdin,
    stdout,
    stderr,
    resizes: sizes,
    gone: channelSocket.gone,
    async finish(status) {
      await Promise.all([stdout, stderr].map(flushed));
      const bytes = statusBytes(status, protocol.hasStructuredStatus);
      if (bytes.length > 0) await channelSocket.send(channels.status, bytes);
      await channelSocket.close();
    },
  };
}
