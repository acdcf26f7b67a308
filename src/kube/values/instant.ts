/** Points in time to the nanosecond, as RFC 3339 writes them; a `Date` keeps milliseconds only. */

const pattern = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)$/;

/** Nanoseconds since the epoch; undefined for anything that is no time. */
export function instantOf(text: string): bigint | undefined {
  const match = pattern.exec(text);
  if (match === null) return undefined;
  const [, date = '', fraction = '', zone = ''] = match;
  const ms = Date.parse(`${date}${zone}`);
  return Number.isNaN(ms) ? undefined : BigInt(ms) * 1_000_000n + BigInt(fraction.padEnd(9, '0'));
}
