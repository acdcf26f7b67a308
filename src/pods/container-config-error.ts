import { MountletError } from '../base/errors.ts';

/**
 * Why a container cannot be created from its pod: the message is what the kubelet shows in the container's status. No
 * message holds bytes of a Secret.
 */
export class ContainerConfigError extends MountletError {
  readonly reason = 'CreateContainerConfigError';
}
