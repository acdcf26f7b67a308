/** Asks a running node of this machine, over its socket. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { OperatingError, errorCode, messageOf } from '../base/errors.ts';
import { list, decode } from '../kube/schema/schema.ts';
import { isRecord } from '../kube/schema/equality.ts';
import { openAddress, volumesPath } from './control-socket.ts';
import { type VolumeQuery, type VolumeView, volumeViewShape } from './volume-view.ts';

/** Far more than any node has volumes for. */
const answerBytesMax = 64 * 1024 * 1024;

/** Undefined where no node runs in this directory; throws where one cannot be asked. */
export async function readVolumes(
  root: string,
  { namespace }: VolumeQuery,
  signal: AbortSignal,
): Promise<readonly VolumeView[] | undefined> {
  const query = namespace === undefined ? '' : `?${new URLSearchParams({ namespace }).toString()}`;
  try {
    const answer = await ask(root, `${volumesPath}${query}`, signal);
    const items = isRecord(answer) ? answer['items'] : undefined;
    if (!Array.isArray(items))
      throw new Error(isRecord(answer) ? String(answer['message']) : 'it answers something else');
    // A node of another version may say more, which is left out.
    return decode(list(volumeViewShape), items).value;
  } catch (error) {
    signal.throwIfAborted();
    const code = errorCode(error) ?? '';
    if (['ENOENT', 'ENOTDIR', 'ECONNREFUSED'].includes(code)) return undefined;
    const why = code === 'EACCES' ? "it is another user's: run this as that user, or as root" : messageOf(error);
    throw new OperatingError('NodeUnreachable', `Cannot ask the node in "${root}": ${why}`, { cause: error });
  }
}

async function ask(root: string, path: string, signal: AbortSignal): Promise<unknown> {
  const address = openAddress(root);
  try {
    const asked = request({ socketPath: address.path, path, signal, agent: false }).end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > answerBytesMax) throw new Error('its answer has no end');
      chunks.push(chunk);
    }
    return JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown;
  } finally {
    address.close();
  }
}
