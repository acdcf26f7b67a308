/** How long a pod that has to go may take for it. */
import type { Pod } from '../../kube/objects/pod.ts';

export interface GracePeriod {
  readonly seconds: number;
  /** Somebody is in a hurry now: whoever waits for the old grace is to stop waiting. */
  readonly shortened: boolean;
}

/** `current` is 0 before there is one. It may only shrink, and never below a second. */
export function effectiveGrace(
  current: number,
  pod: Pod | undefined,
  overrideSeconds: number | undefined,
): GracePeriod {
  let seconds = current;
  for (const wanted of [pod?.metadata.deletionGracePeriodSeconds, overrideSeconds]) {
    if (wanted !== undefined && (seconds === 0 || wanted < seconds)) seconds = wanted;
  }
  if (seconds === 0) seconds = pod?.spec.terminationGracePeriodSeconds ?? 0;
  seconds = Math.max(seconds, 1);
  return { seconds, shortened: current !== 0 && seconds !== current };
}
