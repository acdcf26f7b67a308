/** How long a pod that has to go may take for it. */
import type { Pod } from '../../kube/kinds/pod/pod.ts';

interface GracePeriod {
  readonly seconds: number;
  /** Somebody is in a hurry now: whoever waits for the old grace is to stop waiting. */
  readonly shortened: boolean;
}

/**
 * `current` is undefined before there is one. It only shrinks. Zero is for a pod that was deleted without grace, which is
 * killed at once; without such a deletion a pod has a second at least.
 */
export function effectiveGrace(
  current: number | undefined,
  pod: Pod | undefined,
  overrideSeconds: number | undefined,
): GracePeriod {
  const wanted = [current, pod?.metadata.deletionGracePeriodSeconds, overrideSeconds].flatMap((one) => one ?? []);
  const seconds =
    wanted.length === 0 ? Math.max(pod?.spec.terminationGracePeriodSeconds ?? 0, 1) : Math.max(Math.min(...wanted), 0);
  return { seconds, shortened: current !== undefined && seconds !== current };
}
