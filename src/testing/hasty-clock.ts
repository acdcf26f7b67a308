import type { Clock } from '../base/clock.ts';
import { systemClock } from '../base/clock.ts';

/** Real time, but faster: for tests with real connections, whose minutes of patience would take minutes. */
export function hastyClock(times: number): Clock {
  const start = systemClock.now();
  return {
    now: () => start + (systemClock.now() - start) * times,
    sleep: (ms, signal) => systemClock.sleep(ms / times, signal),
  };
}
