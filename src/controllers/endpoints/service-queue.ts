/**
 * Services whose addresses need a look, each by its key. A burst of changes, such as the pods of a rollout, is few looks: the
 * first is at once, and of those that follow there is one in a tenth of a second.
 */
import type { Clock } from '../../base/clock.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Service } from '../../kube/kinds/service.ts';
import type { ControllerDeps } from '../cluster/cluster.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import type { ObjectTable } from '../workloads/object-table.ts';
import { endpointFacts, isSelected, selects } from './endpoint-plan.ts';

const paceMs = 100;

export class ServiceQueue {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #queue: WorkQueue;
  readonly #services: ObjectTable<Service>;
  /** When each was looked at; of those that are there. */
  readonly #lookedMs = new Map<string, number>();

  constructor(controller: string, deps: ControllerDeps, services: ObjectTable<Service>) {
    this.#clock = deps.clock;
    this.#queue = new WorkQueue(controller, deps);
    this.#services = services;
    services.follow((key, now) => {
      if (now === undefined) this.#lookedMs.delete(key);
      this.touch(key);
    });
  }

  touch(key: string): void {
    const next = (this.#lookedMs.get(key) ?? -Infinity) + paceMs;
    if (next <= this.#clock.now()) this.#queue.touch(key);
    else this.#queue.touchAt(key, next);
  }

  touchNamed(namespace: string, name: string): void {
    this.touch(this.#services.keyAt(namespace, name));
  }

  touchAll(): void {
    for (const key of this.#lookedMs.keys()) this.touch(key);
  }

  /** Every change of a pod touches the Services that have it, or had it. */
  followPods(pods: ObjectTable<Pod>): void {
    pods.follow((_, now, before) => {
      if (now !== undefined && before !== undefined && endpointFacts(now) === endpointFacts(before)) return;
      for (const service of this.#services.inNamespace((now ?? before)?.metadata.namespace ?? '')) {
        if (!selects(service)) continue;
        const concerns = [now, before].some((pod) => pod !== undefined && isSelected(service, pod));
        if (concerns) this.touch(this.#services.keyOf(service));
      }
    });
  }

  async run(look: (key: string) => Promise<void>, signal: AbortSignal): Promise<void> {
    await this.#queue.run(async (key) => {
      if (this.#services.get(key) !== undefined) this.#lookedMs.set(key, this.#clock.now());
      await look(key);
    }, signal);
  }
}
