/** Reads a request's body into memory, never more of it than allowed. */
import type { Readable } from 'node:stream';
import { MountletError } from '../../base/errors.ts';
import { badRequest, entityTooLarge } from '../status.ts';

/** The client went away: nobody is left to be answered. */
export class ConnectionLost extends MountletError {
  readonly reason = 'ConnectionLost';
}

export function readBody(
  source: Readable,
  declaredLength: string | undefined,
  bytesMax: number,
  signal: AbortSignal,
): Promise<Buffer> {
  const tooLarge = (): Error => entityTooLarge(`limit is ${bytesMax}`);
  if (Number(declaredLength ?? 0) > bytesMax) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const settle = (act: () => void): void => {
      source.off('data', onData).off('end', onEnd).off('error', onError).off('close', onClose);
      signal.removeEventListener('abort', onAbort);
      act();
    };
    const onData = (chunk: Buffer): void => {
      length += chunk.length;
      chunks.push(chunk);
      if (length > bytesMax) settle(() => reject(tooLarge()));
    };
    const onEnd = (): void => settle(() => resolve(Buffer.concat(chunks)));
    const onError = (): void => settle(() => reject(badRequest('the body of the request could not be read')));
    const onClose = (): void => settle(() => reject(new ConnectionLost('the client closed the connection')));
    const onAbort = (): void => settle(() => reject(signal.reason as Error));
    if (signal.aborted) return onAbort();
    if (source.readableEnded) return onEnd();
    if (source.destroyed) return onClose();
    signal.addEventListener('abort', onAbort, { once: true });
    source.on('data', onData).on('end', onEnd).on('error', onError).on('close', onClose);
  });
}
