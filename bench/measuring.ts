/** What benchmarks measure with: medians of rounds, and writes by clients that each wait for their answer. */
export type Write = (client: number, count: number) => Promise<unknown>;

export async function writesPerSecond(clients: number, roundMs: number, write: Write): Promise<number> {
  const start = performance.now();
  let total = 0;
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      for (let count = 0; performance.now() - start < roundMs; count += 1) {
        await write(client, count);
        total += 1;
      }
    }),
  );
  return (total * 1_000) / (performance.now() - start);
}

export async function timedMs(work: () => unknown): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}
