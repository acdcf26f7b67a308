/** The strategy `Get`: asks the API server at every read and keeps nothing, so nothing needs to be registered or told. */
import { CoalescingTopic } from '../base/coalescing-queue.ts';
import { untilAborted } from '../base/abort.ts';
import type { ManagedObject } from './managed-kind.ts';
import type { ObjectId } from './object-id.ts';
import type { ObjectManager } from './object-manager.ts';
import type { ObjectSource } from './object-source.ts';

export class GetObjects<T extends ManagedObject> implements ObjectManager<T> {
  readonly #source: Pick<ObjectSource<T>, 'get'>;

  constructor(source: Pick<ObjectSource<T>, 'get'>) {
    this.#source = source;
  }

  get(namespace: string, name: string, signal: AbortSignal): Promise<T> {
    return this.#source.get({ namespace, name }, { mayBeCached: false }, signal);
  }

  registerPod(): void {}

  unregisterPod(): void {}

  changes(signal: AbortSignal): AsyncIterable<ObjectId> {
    return new CoalescingTopic<ObjectId>().follow(signal);
  }

  ageOf(): undefined {}

  run(signal: AbortSignal): Promise<void> {
    return untilAborted(signal);
  }
}
