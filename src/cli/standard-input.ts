import { buffer } from 'node:stream/consumers';

/** All bytes of standard input. Whether they are text is decided by who reads them. */
export function readStandardInput(): Promise<Uint8Array> {
  return buffer(process.stdin);
}
