/**
 * Loaded into a measured program with `--import`: answers `memory` with what is left after a collection and `turn` with the
 * longest turn of the event loop since the last answer, and ends the program with the benchmark, however that ended.
 */
import { readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';

const delay = monitorEventLoopDelay({ resolution: 1 });
let [busyMs, lastMs] = [0, 0];
const processorMs = (): number =>
  Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;

function longestTurn(): object {
  // Begun by the first question: the timers would spoil the figures of an idle node.
  if (delay.enable()) {
    lastMs = processorMs();
    setInterval(() => {
      const nowMs = processorMs();
      busyMs = Math.max(busyMs, nowMs - lastMs);
      lastMs = nowMs;
    }, 1).unref();
  }
  const turn = { delayMs: delay.max / 1e6, busyMs };
  delay.reset();
  busyMs = 0;
  return turn;
}

function memory(): object {
  for (let pass = 0; pass < 3; pass += 1) globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heapKiB: (heapUsed + external) / 1024, residentKiB: rss / 1024 };
}

process.on('message', (question) => process.send?.(question === 'turn' ? longestTurn() : memory()));
process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
// Being asked must not keep the program from ending.
process.channel?.unref();
