/**
 * The sources of pods merged into one ordered stream of updates. Remembers what each source said last, and which sources
 * have said anything: before all of them did, nothing that seems unwanted may be removed.
 */
import type { Clock } from '../../base/clock.ts';
import type { EventSink } from '../../kube/kinds/pod/pod-event.ts';
import { type PodSource, describePod } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type KnownPod, type PodUpdate, mergePods } from './merge-pods.ts';

export class PodConfig {
  readonly #sources: readonly PodSource[];
  readonly #clock: Clock;
  readonly #events: EventSink;
  readonly #known = new Map<PodSource, ReadonlyMap<string, KnownPod>>();

  constructor(sources: readonly PodSource[], clock: Clock, events: EventSink) {
    this.#sources = sources;
    this.#clock = clock;
    this.#events = events;
  }

  /** Takes the complete list of one source and answers what to do about it, in order. */
  replace(source: PodSource, pods: readonly Pod[]): readonly PodUpdate[] {
    const now = new Date(this.#clock.now()).toISOString();
    const { known, updates, duplicates } = mergePods(this.#known.get(source), pods, source, now);
    this.#known.set(source, known);
    for (const pod of duplicates) {
      const name = pod.metadata.name;
      const message = `Error validating pod ${describePod(pod)} from ${source} due to duplicate pod name "${name}", ignoring`;
      this.#events.record({ pod, type: 'Warning', reason: 'FailedValidation', message });
    }
    return updates;
  }

  /** Every source was read in full at least once. */
  isComplete(): boolean {
    return this.#sources.every((source) => this.#known.has(source));
  }
}
