/** What the node's server asks of whoever knows its pods. */
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { LogSource } from './logs/read-log.ts';

export interface NodePods {
  /** By name, with its newest status. */
  find(namespace: string, name: string): NodePod | undefined;
  /** All pods that should run here. */
  list(): readonly Pod[];
  /** All that the runtime has, whoever wants them. */
  running(signal: AbortSignal): Promise<readonly Pod[]>;
}

export interface NodePod {
  readonly pod: Pod;
  /** The ID under which the runtime knows a container that runs now. */
  runningContainer(name: string): string | undefined;
  /** The log of the container's present or last run. */
  log(containerId: string): LogSource | undefined;
}
