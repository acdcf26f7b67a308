/** How this node reaches ports of pods, for probes and hooks. */
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { onAbort } from '../../base/on-abort.ts';
import type { PodNetwork } from '../../pods/pod-network.ts';
import type { Runtime } from '../../runtimes/runtime.ts';

export function podNetwork(runtime: Pick<Runtime, 'connect'>): PodNetwork {
  return {
    connect: ({ podUid, host, port }, signal) =>
      host === undefined ? runtime.connect(podUid, port, signal) : dial(host, port, signal),
  };
}

function dial(host: string, port: number, signal: AbortSignal): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const socket = connect({ host, port });
    const stopListening = onAbort(signal, () => void socket.destroy(signal.reason as Error));
    const settle = (act: () => void): void => {
      stopListening();
      act();
    };
    socket.once('connect', () => settle(() => resolve(socket)));
    socket.on('error', (error) => settle(() => reject(error)));
  });
}
