/** How the node itself talks to a pod, for probes and hooks. */
import type { Duplex } from 'node:stream';

export interface PodAddress {
  readonly podUid: string;
  /** Undefined: the pod itself, reached as its own programs would reach each other. */
  readonly host: string | undefined;
  readonly port: number;
}

export interface PodNetwork {
  /** Rejects when nobody listens, with the system's words. */
  connect(address: PodAddress, signal: AbortSignal): Promise<Duplex>;
}
