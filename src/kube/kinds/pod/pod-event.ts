/** Where Kubernetes Events go. Whoever makes them never waits for them and never fails because of them. */
import type { Pod } from './pod.ts';

export interface PodEvent {
  readonly pod: Pod;
  /** The name of the container that it is about; who writes the event finds out of which kind it is. */
  readonly container?: string | undefined;
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  /** Holds no value of a Secret and no output of a container's command. */
  readonly message: string;
}

export interface EventSink {
  record(event: PodEvent): void;
}
