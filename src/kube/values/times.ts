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

/** A time in the two forms of the API. */
interface ParsedTime {
  /** The first second of year 1, which Go prints as null. */
  readonly isZero: boolean;
  readonly seconds: string;
  readonly microseconds: string;
}

/** Undefined for anything but RFC 3339: also for the 30th of February, and for years that take more than four digits in UTC. */
export function parseTime(text: string): ParsedTime | undefined {
  const [, date = '', fraction = '', zone = ''] = pattern.exec(text) ?? [];
  const [local, ms] = [Date.parse(`${date}Z`), Date.parse(`${date}${zone}`)];
  // A day that a month does not have would become one of the next month.
  if (Number.isNaN(local) || Number.isNaN(ms) || !new Date(local).toISOString().startsWith(date)) return undefined;
  const utc = new Date(ms).toISOString().replace(/\.000Z$/, '');
  if (utc.length !== date.length) return undefined;
  const micros = fraction.padEnd(6, '0').slice(0, 6);
  const isZero = utc === '0001-01-01T00:00:00' && Number(fraction) === 0;
  return { isZero, seconds: `${utc}Z`, microseconds: `${utc}.${micros}Z` };
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

/** A duration in the two or three digits that a table has room for: `95s`, `3m5s`, `45m`, `5h20m`, `30h`. */
export function age(durationMs: number): string {
  const seconds = Math.trunc(durationMs / 1000);
  // Clocks of two machines may differ a little: that is `now`, more is nonsense.
  if (seconds < -1) return '<invalid>';
  if (seconds < 0) return '0s';
  if (seconds < 2 * 60) return `${seconds}s`;
  const minutes = Math.trunc(seconds / 60);
  if (minutes < 10) return pair(minutes, 'm', seconds % 60, 's');
  if (minutes < 3 * 60) return `${minutes}m`;
  const hours = Math.trunc(minutes / 60);
  if (hours < 8) return pair(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return `${hours}h`;
  const days = Math.trunc(hours / 24);
  if (days < 8) return pair(days, 'd', hours % 24, 'h');
  if (days < 2 * 365) return `${days}d`;
  const years = Math.trunc(days / 365);
  return years < 8 ? pair(years, 'y', days % 365, 'd') : `${years}y`;
}

/** Since a time that an object carries. */
export function ageSince(since: string | undefined, now: number): string {
  const time = Date.parse(since ?? '');
  return Number.isNaN(time) ? '<unknown>' : age(now - time);
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit}${small}${smallUnit}`;
}
