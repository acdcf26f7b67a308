/** What containers said at their end: the file they wrote, or the end of their log where the pod asks for that. */
import type { RuntimePod } from '../../runtimes/runtime.ts';
import { messageFileLabel, messagePolicyLabel } from '../containers/container-labels.ts';
import type { ContainerFiles } from '../container-files.ts';

const fileBytesMax = 4096;
const logBytesMax = 2048;
const logLinesMax = 80;

export class TerminationMessages {
  readonly #files: ContainerFiles;
  /** By pod UID, then by container ID: an end is read once. */
  readonly #read = new Map<string, Map<string, string>>();

  constructor(files: ContainerFiles) {
    this.#files = files;
  }

  async of(runtimePod: RuntimePod | undefined, signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    if (runtimePod === undefined) return new Map();
    const before = this.#read.get(runtimePod.uid);
    const messages = new Map<string, string>();
    for (const { id, state, labels, logPath } of runtimePod.containers) {
      if (state.kind !== 'exited') continue;
      const isFailed = state.exitCode !== 0;
      messages.set(id, before?.get(id) ?? (await this.#message(labels, isFailed, logPath, signal)));
    }
    this.#read.set(runtimePod.uid, messages);
    return messages;
  }

  forgetPod(uid: string): void {
    this.#read.delete(uid);
  }

  /** A message that cannot be read is no reason to know nothing of the pod. */
  async #message(
    labels: Readonly<Record<string, string>>,
    isFailed: boolean,
    logPath: string,
    signal: AbortSignal,
  ): Promise<string> {
    try {
      const file = labels[messageFileLabel];
      const message = file === undefined ? '' : await this.#files.readMessageFile(file, fileBytesMax, signal);
      if (message !== '' || !isFailed || labels[messagePolicyLabel] !== 'FallbackToLogsOnError') return message;
      return await this.#files.tailLog(logPath, logBytesMax, logLinesMax, signal);
    } catch {
      signal.throwIfAborted();
      return '';
    }
  }
}
