/** The page size of a mounted hugetlbfs, as its mount table entry tells it. */
import type { MountEntry } from './mount-table.ts';

const units: Readonly<Record<string, bigint>> = { '': 1n, K: 1n << 10n, M: 1n << 20n, G: 1n << 30n, T: 1n << 40n };

/** In bytes; undefined if the entry tells none. `2M` and `2Mi` are the same here: the kernel counts in powers of two. */
export function hugePageSizeBytes({
  superOptions,
  options,
}: Pick<MountEntry, 'superOptions' | 'options'>): bigint | undefined {
  for (const option of [...superOptions, ...options]) {
    const [, number, unit] = /^pagesize=(\d+)([KMGT]?)i?$/.exec(option) ?? [];
    if (number !== undefined && unit !== undefined) return BigInt(number) * (units[unit] ?? 1n);
  }
  return undefined;
}
