/** The files of pods and containers on this machine that are neither volumes nor the runtime's own; `agent/` has them. */
import type { Pod } from '../kube/kinds/pod/pod.ts';

export interface ContainerFiles {
  /** Below the node's root. */
  podDirectory(podUid: string): string;
  logDirectory(pod: Pod): string;
  /** The directories every pod has, with mode 0750. */
  makePodDirectories(pod: Pod, signal: AbortSignal): Promise<void>;
  /** An empty file that anybody may write, to be mounted as the container's termination message. Answers its path. */
  makeMessageFile(podUid: string, container: string, attempt: number, signal: AbortSignal): Promise<string>;
  /** Empty if there is none. Never follows a link, and reads no more than asked: the container wrote it. */
  readMessageFile(path: string, bytesMax: number, signal: AbortSignal): Promise<string>;
  /** The end of a log, without the runtime's own marks. */
  tailLog(path: string, bytesMax: number, linesMax: number, signal: AbortSignal): Promise<string>;
  removeLog(path: string, signal: AbortSignal): Promise<void>;
}
