/**
 * Loaded into a measured program with `--import`: answers each message with the memory that is left after a collection, and
 * ends the program with the benchmark, however that ended.
 */
process.on('message', () => {
  for (let pass = 0; pass < 3; pass += 1) globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  process.send?.({ heapKiB: (heapUsed + external) / 1024, residentKiB: rss / 1024 });
});
process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
// Being asked must not keep the program from ending.
process.channel?.unref();
