/**
 * The contract of an object manager: it has the ConfigMaps (or the Secrets) that the registered pods name. How it comes by
 * them is its strategy: see get-objects.ts, ttl-objects.ts and watched-objects.ts.
 */
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { ObjectNotFoundError } from './object-errors.ts';
import type { ObjectId } from './object-id.ts';

export interface ObjectManager<T> {
  /** Rejects with ObjectNotFoundError when there is no such object, and with another error when that is not known. */
  get(namespace: string, name: string, signal: AbortSignal): Promise<T>;
  /** Never waits for the network. A pod that is registered already is updated. */
  registerPod(pod: Pod): void;
  /** Never waits for the network. Releases what the pod was registered with, whatever the argument names now. */
  unregisterPod(pod: Pod): void;
  /**
   * Objects that are different from what get() answered before, or that can be had now after get() failed. Each is told
   * once however often it changes before it is taken. Listening starts with the call and ends with the signal.
   */
  changes(signal: AbortSignal): AsyncIterable<ObjectId>;
  /** How long ago what get() would answer was known to be current; undefined if nothing is known. */
  ageOf(namespace: string, name: string): number | undefined;
  /** The background work. Resolves some time after the signal aborts, when nothing of it is left. */
  run(signal: AbortSignal): Promise<void>;
}

interface ObjectReader<T> {
  get(namespace: string, name: string, signal: AbortSignal): Promise<T | undefined>;
}

/** For those to whom an object that does not exist is an answer, not an error. */
export function readerOf<T>(manager: Pick<ObjectManager<T>, 'get'>): ObjectReader<T> {
  return {
    async get(namespace, name, signal) {
      try {
        return await manager.get(namespace, name, signal);
      } catch (error) {
        if (error instanceof ObjectNotFoundError) return undefined;
        throw error;
      }
    },
  };
}
