/** Removes objects of kinds that are not kept for ever (events), after their time without an update. */
import type { KubeObject, Resource } from '../apiserver/model/resource.ts';
import { StatusError } from '../apiserver/model/status.ts';
import { objectPrefix, placeOfKey } from '../apiserver/model/stored-objects.ts';
import { deleteObject } from '../apiserver/rest/delete.ts';
import { onAbort } from '../base/abort.ts';
import { type ControllerDeps, controllerUser, followObjects, readObjectAt, storedResources } from './cluster.ts';

const controller = 'expiry';
// Timers of Node overflow beyond 24 days.
const longestSleepMs = 2 ** 31 - 1;

export async function runExpiry(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const kinds = storedResources(deps.resources).filter(({ timeToLiveMs }) => timeToLiveMs !== undefined);
  await Promise.all(kinds.map((resource) => expire(deps, resource, signal)));
}

async function expire(deps: ControllerDeps, resource: Resource, signal: AbortSignal): Promise<void> {
  const { store, clock } = deps;
  const { timeToLiveMs = 0 } = resource;
  // All live equally long and an update puts one at the end: the first is the next to go.
  const ends = new Map<string, number>();
  let wake = (): void => {};
  let isLive = false;
  const stop = followObjects(store, objectPrefix(resource), ({ key, type, object }) => {
    ends.delete(key);
    if (type === 'put') ends.set(key, (isLive ? clock.now() : lastSign(object, clock.now())) + timeToLiveMs);
    wake();
  });
  isLive = true;
  sortByValue(ends);
  try {
    while (!signal.aborted) {
      const [next] = ends;
      const waitMs = next === undefined ? longestSleepMs : next[1] - clock.now();
      if (next !== undefined && waitMs <= 0) {
        ends.delete(next[0]);
        await remove(deps, resource, next[0]);
        continue;
      }
      const pause = new AbortController();
      const abort = (): void => pause.abort();
      // Whatever comes later ends later: only where there was nothing can a change make the pause shorter.
      wake = next === undefined ? abort : () => {};
      const stopListening = onAbort(signal, abort);
      await clock.sleep(Math.min(waitMs, longestSleepMs), pause.signal).catch(() => {});
      stopListening();
    }
  } finally {
    stop();
  }
}

/** When an object that was found at the start was last heard of; what lies in the future is taken for now. */
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

function sortByValue(ends: Map<string, number>): void {
  const sorted = [...ends].sort(([, a], [, b]) => a - b);
  ends.clear();
  for (const [key, end] of sorted) ends.set(key, end);
}

async function remove(deps: ControllerDeps, resource: Resource, key: string): Promise<void> {
  const { resourceVersion } = readObjectAt(deps.store, key)?.metadata ?? {};
  if (resourceVersion === undefined) return;
  const { namespace, name } = placeOfKey(key);
  const context = { user: controllerUser(controller), dryRun: false };
  const options = { preconditions: { resourceVersion } };
  try {
    await deleteObject(deps, { resource, namespace, name, options, context });
  } catch (error) {
    // Gone already, or updated a moment ago: then it has been given a new time.
    if (error instanceof StatusError) return;
    deps.notify({ kind: 'ControllerFailed', controller, object: key, error });
  }
}
