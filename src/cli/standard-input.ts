import { addAbortSignal } from 'node:stream';

/** Standard input as bytes, until it ends or the signal aborts. Whether they are text is decided by who reads them. */
export function openStandardInput(signal: AbortSignal): AsyncIterable<Uint8Array> {
  return addAbortSignal(signal, process.stdin) as AsyncIterable<Uint8Array>;
}
