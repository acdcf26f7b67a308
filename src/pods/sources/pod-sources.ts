/**
 * The sources of pods merged into one ordered stream of updates. Keeps the last list of each source. Until every source has sent
 * one, nothing that seems unwanted may be removed.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../base/clock.ts';
import type { EventSink } from '../../kube/kinds/event.ts';
import {
  type PodSource,
  describePod,
  firstSeenAnnotation,
  localAnnotations,
  podFullName,
  podUid,
  sourceAnnotation,
  withAnnotations,
} from '../../kube/kinds/pod/pod-identity.ts';
import { podSpec } from '../../kube/kinds/pod/pod-spec.ts';
import { podStatus } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { means } from '../../kube/schema/equality.ts';

export class PodSources {
  readonly #sources: readonly PodSource[];
  readonly #clock: Clock;
  readonly #events: EventSink;
  readonly #known = new Map<PodSource, ReadonlyMap<string, KnownPod>>();

  constructor(sources: readonly PodSource[], clock: Clock, events: EventSink) {
    this.#sources = sources;
    this.#clock = clock;
    this.#events = events;
  }

  /** Takes the complete list of one source and returns what has changed, in the order in which to handle it. */
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

export interface PodUpdate {
  readonly kind: 'remove' | 'add' | 'update' | 'delete' | 'reconcile';
  readonly source: PodSource;
  /** Empty only in the first `add` of a source that has no pods: the source was read. */
  readonly pods: readonly Pod[];
}

/** One pod of a source: as it was received, to see quickly that it is the same, and as the node keeps it. */
interface KnownPod {
  readonly received: Pod;
  readonly pod: Pod;
}

interface MergedPods {
  readonly known: ReadonlyMap<string, KnownPod>;
  /** In the order in which to handle them. */
  readonly updates: readonly PodUpdate[];
  /** Left out because an earlier pod of the list has the same name and namespace. */
  readonly duplicates: readonly Pod[];
}

/**
 * What changed between two complete lists of one source. The status and bookkeeping of the API server do not count as a change.
 * `known` is undefined before the first list.
 */
export function mergePods(
  known: ReadonlyMap<string, KnownPod> | undefined,
  incoming: readonly Pod[],
  source: PodSource,
  firstSeen: string,
): MergedPods {
  const merged = new Map<string, KnownPod>();
  const names = new Set<string>();
  const duplicates: Pod[] = [];
  const sorted = { add: [] as Pod[], update: [] as Pod[], delete: [] as Pod[], reconcile: [] as Pod[] };
  for (const received of incoming) {
    const name = podFullName(received);
    if (names.has(name)) {
      duplicates.push(received);
      continue;
    }
    names.add(name);
    const uid = podUid(received);
    const before = known?.get(uid);
    if (before?.received === received) {
      merged.set(uid, before);
      continue;
    }
    const { kind, pod } = classify(before?.pod, received, source, firstSeen);
    merged.set(uid, { received, pod });
    if (kind !== 'same') sorted[kind].push(pod);
  }
  const removed = [...(known ?? [])].filter(([uid]) => !merged.has(uid)).map(([, { pod }]) => pod);
  const isFirstAndSilent = known === undefined && sorted.add.length === 0;
  const updates: PodUpdate[] = [];
  const emit = (kind: PodUpdate['kind'], pods: readonly Pod[], evenEmpty = false): void => {
    if (pods.length > 0 || evenEmpty) updates.push({ kind, source, pods });
  };
  emit('remove', removed);
  emit('add', sorted.add, isFirstAndSilent);
  emit('update', sorted.update);
  emit('delete', sorted.delete);
  emit('reconcile', sorted.reconcile);
  return { known: merged, updates, duplicates };
}

function classify(
  before: Pod | undefined,
  received: Pod,
  source: PodSource,
  firstSeen: string,
): { readonly kind: 'add' | 'update' | 'delete' | 'reconcile' | 'same'; readonly pod: Pod } {
  if (before === undefined) {
    return {
      kind: 'add',
      pod: withAnnotations(received, { [sourceAnnotation]: source, [firstSeenAnnotation]: firstSeen }),
    };
  }
  const pod = withAnnotations(received, localOnes(before));
  if (!isSamePod(before, pod)) return { kind: received.metadata.deletionTimestamp ? 'delete' : 'update', pod };
  if (!means(podStatus, before.status, pod.status)) return { kind: 'reconcile', pod };
  return { kind: 'same', pod };
}

function localOnes({ metadata: { annotations = {} } }: Pod): Record<string, string> {
  return Object.fromEntries(Object.entries(annotations).filter(([name]) => localAnnotations.includes(name)));
}

function isSamePod(a: Pod, b: Pod): boolean {
  return (
    a.metadata.deletionTimestamp === b.metadata.deletionTimestamp &&
    a.metadata.deletionGracePeriodSeconds === b.metadata.deletionGracePeriodSeconds &&
    isDeepStrictEqual(a.metadata.labels ?? {}, b.metadata.labels ?? {}) &&
    isDeepStrictEqual(a.metadata.annotations ?? {}, b.metadata.annotations ?? {}) &&
    means(podSpec, a.spec, b.spec)
  );
}
