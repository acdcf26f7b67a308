/** The streams of a remote command over SPDY: the client opens one for each, named by its header `streamType`. */
import { finished } from 'node:stream/promises';
import type { Duplex, Writable } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import { MountletError } from '../../base/errors.ts';
import { SpdyConnection } from '../spdy/spdy-connection.ts';
import type { SpdyStream } from '../spdy/spdy-stream.ts';
import { statusBytes } from './command-status.ts';
import type { RemoteProtocol } from './protocols.ts';
import type { RemoteStreams, StreamChoice, StreamLimits } from './remote-streams.ts';
import { TerminalSizes } from './terminal-sizes.ts';

class StreamsMissing extends MountletError {
  readonly reason = 'StreamsMissing';
}

type StreamName = 'error' | 'stdin' | 'stdout' | 'stderr' | 'resize';

/** Resolves when the client has opened every stream it announced. */
export async function spdyCommandStreams(
  transport: Duplex,
  protocol: RemoteProtocol,
  choice: StreamChoice,
  { clock, limits }: { readonly clock: Clock; readonly limits: StreamLimits },
): Promise<RemoteStreams> {
  const wanted = new Set<StreamName>(['error']);
  for (const name of ['stdin', 'stdout', 'stderr'] as const) if (choice[name]) wanted.add(name);
  if (choice.tty && protocol.hasResize) wanted.add('resize');

  const opened = new Map<StreamName, SpdyStream>();
  let complete = (): void => {};
  const completed = new Promise<'complete'>((resolve) => (complete = () => resolve('complete')));
  const connection = new SpdyConnection(transport, (stream) => {
    const name = stream.headers.get('streamtype') as StreamName;
    if (!wanted.has(name) || opened.has(name)) return false;
    opened.set(name, stream);
    if (opened.size === wanted.size) complete();
    return true;
  });
  const gone = new AbortController();
  const closed = connection.run().finally(() => gone.abort(new StreamsMissing('the client has left')));
  const waiting = new AbortController();
  const late = clock.sleep(limits.creationMs, waiting.signal).then(
    () => 'late' as const,
    () => 'late' as const,
  );
  const outcome = await Promise.race([completed, late, closed.then(() => 'closed' as const)]);
  waiting.abort();
  if (outcome !== 'complete') {
    connection.destroy();
    await closed;
    throw new StreamsMissing(
      outcome === 'late' ? 'timed out waiting for client to create streams' : 'the client has left',
    );
  }

  const sizes = new TerminalSizes();
  const resize = opened.get('resize');
  resize?.on('data', (bytes: Buffer) => sizes.add(bytes));
  resize?.on('close', () => sizes.end());
  if (resize === undefined) sizes.end();
  const error = opened.get('error');
  for (const name of ['error', 'stdout', 'stderr'] as const) opened.get(name)?.resume();

  return {
    stdin: opened.get('stdin'),
    stdout: opened.get('stdout'),
    stderr: opened.get('stderr'),
    resizes: sizes,
    gone: gone.signal,
    async finish(status) {
      await Promise.all([opened.get('stdout'), opened.get('stderr')].map(flushed));
      error?.end(statusBytes(status, protocol.hasStructuredStatus));
      await flushed(error);
      for (const stream of opened.values()) stream.destroy();
      connection.goAway();
      // Closing at once could throw away what the client has not read yet: it closes when it has.
      const patience = clock.sleep(limits.closingMs, gone.signal).catch(() => {});
      await Promise.race([closed, patience]);
      connection.destroy();
      await closed;
    },
  };
}

/** Resolves when everything was sent, or nothing more can be. */
export async function flushed(stream: Writable | undefined): Promise<void> {
  if (stream === undefined || stream.destroyed) return;
  if (!stream.writableEnded) stream.end();
  await finished(stream, { readable: false }).catch(() => {});
}
