/** Times as the API writes them: UTC, whole seconds. */
export function timestamp(timeMs: number): string {
  return new Date(timeMs).toISOString().replace(/\.[0-9]+Z$/, 'Z');
}

/** For the few fields that keep microseconds: `2026-01-02T03:04:05.000000Z`. */
export function microTimestamp(timeMs: number): string {
  return new Date(timeMs).toISOString().replace(/Z$/, '000Z');
}

// Points in time to the nanosecond, as RFC 3339 writes them; a `Date` keeps milliseconds only.

const pattern = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)$/;

/** Nanoseconds since the epoch; undefined for anything but a time. */
export function instantOf(text: string): bigint | undefined {
  const match = pattern.exec(text);
  if (match === null) return undefined;
  const [, date = '', fraction = '', zone = ''] = match;
  const ms = Date.parse(`${date}${zone}`);
  return Number.isNaN(ms) ? undefined : BigInt(ms) * 1_000_000n + BigInt(fraction.padEnd(9, '0'));
}

// Durations as Go writes them, `1m30s`, `100ms`, which is how Kubernetes configuration spells time.

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};

/** In milliseconds; undefined when the text is not a duration. A bare number is none, but for 0. */
export function parseDurationMs(text: string): number | undefined {
  const [, sign = '', rest = ''] = /^([+-]?)(.*)$/s.exec(text) ?? [];
  if (rest === '0') return 0;
  if (!/^(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+$/.test(rest)) return undefined;
  let ms = 0;
  for (const [, count = '', unit = ''] of rest.matchAll(/(\d+\.?\d*|\.\d+)([a-zµ]+)/g)) {
    ms += Number(count) * (unitMs[unit] ?? 0);
  }
  return sign === '-' ? -ms : ms;
}

/** `2m40s`, `1.5s`, `100ms`, `0s`: as Go prints it. */
export function showDuration(ms: number): string {
  if (ms < 0) return `-${showDuration(-ms)}`;
  if (ms < 1_000) return ms === 0 ? '0s' : `${trim(ms)}ms`;
  const hours = Math.floor(ms / 3_600_000);
  const minutes = Math.floor((ms % 3_600_000) / 60_000);
  const seconds = (ms % 60_000) / 1_000;
  return `${hours > 0 ? `${hours}h` : ''}${hours > 0 || minutes > 0 ? `${minutes}m` : ''}${trim(seconds)}s`;
}

/** Floating point must not show: 0.1 + 0.2 seconds are 0.3. */
function trim(value: number): string {
  return String(Number(value.toFixed(9)));
}
