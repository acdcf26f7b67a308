/** The end of a container's log as the container wrote it, for its termination message. */
import type { Clock } from '../../base/clock.ts';
import type { PodLogOptions } from '../../kube/kinds/pod/pod-requests.ts';
import { openLog, readLog } from '../../node-server/logs/read-log.ts';
import type { ContainerFiles } from '../../pods/container-files.ts';

const wholeLog: PodLogOptions = {
  follow: false,
  previous: false,
  timestamps: false,
  stream: 'All',
  insecureSkipTLSVerifyBackend: false,
};

export function logTail(clock: Clock): ContainerFiles['tailLog'] {
  return async (path, bytesMax, linesMax, signal) => {
    const file = await openLog(path).catch(() => undefined);
    if (file === undefined) return '';
    const chunks: Buffer[] = [];
    const source = { path, isRunning: () => false };
    for await (const chunk of readLog(clock, file, source, { ...wholeLog, tailLines: linesMax }, signal)) {
      chunks.push(chunk);
    }
    const all = Buffer.concat(chunks);
    return all.subarray(Math.max(0, all.length - bytesMax)).toString('utf8');
  };
}
