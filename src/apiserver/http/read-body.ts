/** Reads a request's body into memory, never more of it than allowed. */
import type { Readable } from 'node:stream';
import { MountletError } from '../../base/errors.ts';
import { badRequest, entityTooLarge } from '../status.ts';

/** The client went away: nobody is left to be answered. */
export class ConnectionLost extends MountletError {
  readonly reason = 'ConnectionLost';
}

/** Of one request. Who reads it again gets the same. */
export class BodyReader {
  #read: Promise<Buffer> | undefined;
  #stopped: Error | undefined;
  #fail: ((error: Error) => void) | undefined;

  read(source: Readable, declaredLength: string | undefined, bytesMax: number): Promise<Buffer> {
    return (this.#read ??= this.#readAll(source, declaredLength, bytesMax));
  }

  #readAll(source: Readable, declaredLength: string | undefined, bytesMax: number): Promise<Buffer> {
    const tooLarge = (): Error => entityTooLarge(`limit is ${bytesMax}`);
    if (Number(declaredLength ?? 0) > bytesMax) return Promise.reject(tooLarge());
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      let length = 0;
      const release = (): void => {
        this.#fail = undefined;
        // Streams live on for a while: what hangs on them must not be the body.
        source.off('data', onData).off('end', onEnd).off('error', onError).off('close', onClose);
      };
      const fail = (error: Error): void => {
        release();
        reject(error);
      };
      const onData = (chunk: Buffer): void => {
        length += chunk.length;
        chunks.push(chunk);
        if (length > bytesMax) fail(tooLarge());
      };
      const onEnd = (): void => {
        release();
        const [only] = chunks;
        resolve(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks));
      };
      const onError = (): void => fail(badRequest('the body of the request could not be read'));
      const onClose = (): void => fail(new ConnectionLost('the client closed the connection'));
      if (this.#stopped !== undefined) return fail(this.#stopped);
      if (source.readableEnded) return onEnd();
      if (source.destroyed) return onClose();
      this.#fail = fail;
      source.on('data', onData).on('end', onEnd).on('error', onError).on('close', onClose);
    });
  }

  /** A read that waits for more rejects with this, and so does one that is still to come. */
  stop(reason: Error): void {
    this.#stopped = reason;
    this.#fail?.(reason);
  }
}
