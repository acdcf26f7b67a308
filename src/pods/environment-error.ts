import { ContainerConfigError } from './container-config-error.ts';

/** A container's environment cannot be made. The message is the kubelet's own text. */
export class EnvironmentError extends ContainerConfigError {}
