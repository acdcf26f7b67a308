/** Reads a request's body into memory, never more of it than allowed. */
import type { Readable } from 'node:stream';
import { MountletError } from '../../base/errors.ts';
import { badRequest, entityTooLarge } from '../status.ts';

/** The client went away: nobody is left to be answered. */
export class ConnectionLost extends MountletError {
  readonly reason = 'ConnectionLost';
}

/** Of one request; it is read at most once. */
export class BodyReader {
  #stopped: Error | undefined;
  #fail: ((makeError: () => Error) => void) | undefined;

  read(source: Readable, declaredLength: string | undefined, bytesMax: number): Promise<Buffer> {
    const tooLarge = (): Error => entityTooLarge(`limit is ${bytesMax}`);
    if (Number(declaredLength ?? 0) > bytesMax) return Promise.reject(tooLarge());
    return new Promise((resolve, reject) => {
      let chunks: Buffer[] = [];
      let length = 0;
      // Listeners stay where they are: to take them off costs more than to let them find that all is over.
      let isOver = false;
      const fail = (makeError: () => Error): void => {
        if (isOver) return;
        isOver = true;
        chunks = [];
        reject(makeError());
      };
      const onData = (chunk: Buffer): void => {
        if (isOver) return;
        length += chunk.length;
        chunks.push(chunk);
        if (length > bytesMax) fail(tooLarge);
      };
      const onEnd = (): void => {
        if (isOver) return;
        isOver = true;
        const [only] = chunks;
        resolve(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks));
      };
      const onClose = (): void => fail(lost);
      const stopped = this.#stopped;
      if (stopped !== undefined) return fail(() => stopped);
      if (source.readableEnded) return onEnd();
      if (source.destroyed) return onClose();
      this.#fail = fail;
      source.on('data', onData).on('end', onEnd).on('close', onClose);
      source.on('error', () => fail(() => badRequest('the body of the request could not be read')));
    });
  }

  /** A read that waits for more rejects with this, and so does one that is still to come. */
  stop(reason: Error): void {
    this.#stopped = reason;
    this.#fail?.(() => reason);
  }
}

function lost(): Error {
  return new ConnectionLost('the client closed the connection');
}
