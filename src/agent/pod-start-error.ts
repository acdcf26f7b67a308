import { MountletError } from '../base/errors.ts';

/** Why a pod could not start: a sentence in the kubelet's words for each volume or container that is to blame. */
export class PodStartError extends MountletError {
  readonly reason = 'PodNotStarted';
  readonly messages: readonly string[];

  constructor(messages: readonly string[]) {
    super(messages.join('\n'));
    this.messages = messages;
  }
}
