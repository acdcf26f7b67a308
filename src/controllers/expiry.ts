/** Removes objects of kinds that are not kept for ever (events), after their time without an update. */
import { onAbort } from '../base/abort.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import { type Cluster, type ControllerDeps, type Kind, unlessRefused } from './cluster/cluster.ts';

const controller = 'expiry';
// Timers of Node overflow beyond 24 days.
const longestSleepMs = 2 ** 31 - 1;

export async function runExpiry(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const kinds = (await cluster.kinds()).filter(({ timeToLiveMs }) => timeToLiveMs !== undefined);
  await Promise.all(kinds.map((kind) => expire(deps, cluster, kind, signal)));
}

async function expire(deps: ControllerDeps, cluster: Cluster, kind: Kind, signal: AbortSignal): Promise<void> {
  const { clock } = deps;
  const { timeToLiveMs = 0 } = kind;
  // All live equally long and an update puts one at the end: the first is the next to go.
  let ends = new Map<string, number>();
  let isSorted = true;
  let wake = (): void => {};
  const stop = cluster.watch(kind, (change) => {
    const { key, type, isInitial } = change;
    const isFirst = ends.size === 0;
    ends.delete(key);
    if (type === 'put') ends.set(key, (isInitial ? lastSign(change.object, clock.now()) : clock.now()) + timeToLiveMs);
    if (isInitial) isSorted = false;
    // What comes later ends later: only where there was nothing, or an old one is found, does the pause become shorter.
    if (isInitial || isFirst) wake();
  });
  try {
    while (!signal.aborted) {
      if (!isSorted) ends = new Map([...ends].sort(([, a], [, b]) => a - b));
      isSorted = true;
      const [next] = ends;
      const waitMs = next === undefined ? longestSleepMs : next[1] - clock.now();
      if (next !== undefined && waitMs <= 0) {
        ends.delete(next[0]);
        await remove(deps, cluster, next[0]);
        continue;
      }
      const pause = new AbortController();
      wake = () => pause.abort();
      const stopListening = onAbort(signal, wake);
      await clock.sleep(Math.min(waitMs, longestSleepMs), pause.signal).catch(() => {});
      stopListening();
    }
  } finally {
    stop();
  }
}

/** When an object that was found at the start was last updated; a time in the future is taken for now. */
function lastSign(object: KubeObject, now: number): number {
  const { lastTimestamp, eventTime, series } = object as KubeObject & {
    readonly lastTimestamp?: string;
    readonly eventTime?: string;
    readonly series?: { readonly lastObservedTime?: string };
  };
  const times = [lastTimestamp, eventTime, series?.lastObservedTime, object.metadata.creationTimestamp]
    .map((text) => Date.parse(text ?? ''))
    .filter((time) => time <= now);
  return times.length === 0 ? now : Math.max(...times);
}

async function remove({ notify }: ControllerDeps, cluster: Cluster, key: string): Promise<void> {
  try {
    const { resourceVersion } = (await cluster.get(key))?.metadata ?? {};
    // Gone already, or updated a moment ago: then it has been given a new time.
    if (resourceVersion !== undefined) await unlessRefused(cluster.delete(key, { resourceVersion }), 403, 404, 409);
  } catch (error) {
    notify({ kind: 'ControllerFailed', controller, object: key, error });
  }
}
