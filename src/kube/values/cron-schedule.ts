/**
 * When a CronJob is due: five fields, minute hour day-of-month month day-of-week, or `@hourly` and its like, or `@every 90s`. Times
 * are those of a clock on the wall of some time zone: one that a leap forward skips does not come that day, and one that comes
 * twice counts twice.
 */
import { parseDurationMs, timestamp } from './times.ts';

export interface CronSchedule {
  /** The first time after this one; undefined when there is none within five years. */
  next(afterMs: number): number | undefined;
  /** The last time after `sinceMs` and not after `untilMs`. */
  latest(sinceMs: number, untilMs: number): number | undefined;
}

interface Field {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** Three letters each, from `min` on. */
  readonly words?: string;
}

const minutes: Field = { name: 'minute', min: 0, max: 59 };
const hours: Field = { name: 'hour', min: 0, max: 23 };
const monthDays: Field = { name: 'day of month', min: 1, max: 31 };
const months: Field = { name: 'month', min: 1, max: 12, words: 'janfebmaraprmayjunjulaugsepoctnovdec' };
const weekDays: Field = { name: 'day of week', min: 0, max: 6, words: 'sunmontuewedthufrisat' };

const named: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};
const every = '@every ';

/** What is wrong with a schedule, in the words of the API server; undefined when it can be read. */
export function cronProblem(text: string): string | undefined {
  try {
    cronSchedule(text);
    return undefined;
  } catch (error) {
    if (error instanceof ScheduleError) return error.message;
    throw error;
  }
}

class ScheduleError extends Error {}

/** In the machine's own time zone where none is given. Throws for what `cronProblem` refuses. */
export function cronSchedule(text: string, timeZone?: string): CronSchedule {
  // Servers of long ago let the schedule name its zone.
  const [prefix = '', zone = timeZone] = /^(?:CRON_)?TZ=(\S*)\s*/.exec(text) ?? [];
  const zoneProblem = prefix === '' ? undefined : timeZoneProblem(zone ?? '');
  if (zoneProblem !== undefined) throw new ScheduleError(`provided bad location ${zone}: ${zoneProblem}`);
  const spec = text.slice(prefix.length).trim();
  if (spec === '') throw new ScheduleError('empty spec string');
  if (spec.startsWith(every)) {
    const ms = parseDurationMs(spec.slice(every.length));
    if (ms === undefined) {
      const duration = spec.slice(every.length);
      throw new ScheduleError(`failed to parse duration ${spec}: time: invalid duration "${duration}"`);
    }
    return new Interval(Math.max(1_000, Math.floor(ms / 1_000) * 1_000));
  }
  const fields = (spec.startsWith('@') ? (named[spec] ?? '') : spec).split(/\s+/);
  if (spec.startsWith('@') && named[spec] === undefined) throw new ScheduleError(`unrecognized descriptor: ${spec}`);
  if (fields.length !== 5) {
    throw new ScheduleError(`expected exactly 5 fields, found ${fields.length}: [${fields.join(' ')}]`);
  }
  const [minute = '', hour = '', monthDay = '', month = '', weekDay = ''] = fields;
  return new Calendar(
    {
      minutes: parseField(minute, minutes).values,
      hours: parseField(hour, hours).values,
      monthDays: parseField(monthDay, monthDays),
      months: parseField(month, months).values,
      weekDays: parseField(weekDay, weekDays),
    },
    new WallClock(zone),
  );
}

interface ParsedField {
  readonly values: ReadonlySet<number>;
  /** `*`, which says nothing. `*` with a step says something. */
  readonly isAny: boolean;
}

function parseField(text: string, field: Field): ParsedField {
  const values = new Set<number>();
  let isAny = false;
  for (const part of text.split(',').filter((one) => one !== '')) {
    const { from, to, step, any } = parseRange(part, field);
    for (let value = from; value <= to; value += step) values.add(value);
    isAny ||= any;
  }
  return { values, isAny };
}

function parseRange(
  text: string,
  field: Field,
): { readonly from: number; readonly to: number; readonly step: number; readonly any: boolean } {
  const [range = '', stepText, ...slashes] = text.split('/');
  const [low = '', high, ...hyphens] = range.split('-');
  if (hyphens.length > 0) throw new ScheduleError(`too many hyphens: ${text}`);
  if (slashes.length > 0) throw new ScheduleError(`too many slashes: ${text}`);
  const isStar = low === '*' || low === '?';
  const from = isStar ? field.min : parseNumber(low, field);
  const step = stepText === undefined ? 1 : parseNumber(stepText);
  const single = stepText === undefined ? from : field.max;
  const to = isStar ? field.max : high === undefined ? single : parseNumber(high, field);
  if (from < field.min) {
    throw new ScheduleError(`beginning of range (${from}) below minimum (${field.min}): ${text}`);
  }
  if (to > field.max) throw new ScheduleError(`end of range (${to}) above maximum (${field.max}): ${text}`);
  if (from > to) throw new ScheduleError(`beginning of range (${from}) beyond end of range (${to}): ${text}`);
  if (step === 0) throw new ScheduleError(`step of range should be a positive number: ${text}`);
  return { from, to, step, any: isStar && step === 1 };
}

function parseNumber(text: string, field?: Field): number {
  const word = /^[a-z]{3}$/i.test(text) ? (field?.words ?? '').indexOf(text.toLowerCase()) : -1;
  if (field !== undefined && word >= 0 && word % 3 === 0) return field.min + word / 3;
  if (/^-\d+$/.test(text)) throw new ScheduleError(`negative number (${Number(text)}) not allowed: ${text}`);
  if (!/^\d{1,9}$/.test(text)) {
    throw new ScheduleError(`failed to parse int from ${text}: strconv.Atoi: parsing "${text}": invalid syntax`);
  }
  return Number(text);
}

/** `@every`: counted from whatever time it is asked about. */
class Interval implements CronSchedule {
  readonly #ms: number;

  constructor(ms: number) {
    this.#ms = ms;
  }

  next(afterMs: number): number {
    return Math.floor(afterMs / 1_000) * 1_000 + this.#ms;
  }

  latest(sinceMs: number, untilMs: number): number | undefined {
    const first = this.next(sinceMs);
    return first > untilMs ? undefined : first + Math.floor((untilMs - first) / this.#ms) * this.#ms;
  }
}

interface CalendarFields {
  readonly minutes: ReadonlySet<number>;
  readonly hours: ReadonlySet<number>;
  readonly monthDays: ParsedField;
  readonly months: ReadonlySet<number>;
  readonly weekDays: ParsedField;
}

const dayMs = 24 * 60 * 60_000;
const searchedDaysMax = 5 * 366;

class Calendar implements CronSchedule {
  readonly #fields: CalendarFields;
  readonly #clock: WallClock;

  constructor(fields: CalendarFields, clock: WallClock) {
    this.#fields = fields;
    this.#clock = clock;
  }

  next(afterMs: number): number | undefined {
    const first = this.#clock.dayOf(afterMs) - 1;
    for (let day = first; day <= first + searchedDaysMax; day += 1) {
      const found = this.#timesOn(day).find((time) => time > afterMs);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  latest(sinceMs: number, untilMs: number): number | undefined {
    const last = this.#clock.dayOf(untilMs) + 1;
    const first = Math.max(this.#clock.dayOf(sinceMs) - 1, last - searchedDaysMax);
    for (let day = last; day >= first; day -= 1) {
      const found = this.#timesOn(day).findLast((time) => time <= untilMs);
      if (found !== undefined) return found > sinceMs ? found : undefined;
    }
    return undefined;
  }

  /** In order. */
  #timesOn(day: number): readonly number[] {
    if (!this.#isOn(day)) return [];
    const walls = [...this.#fields.hours].flatMap((hour) =>
      [...this.#fields.minutes].map((minute) => day * dayMs + (hour * 60 + minute) * 60_000),
    );
    return this.#clock.instantsOf(day, walls).toSorted((a, b) => a - b);
  }

  #isOn(day: number): boolean {
    const date = new Date(day * dayMs);
    const { months: inMonths, monthDays: onDates, weekDays: onWeekDays } = this.#fields;
    if (!inMonths.has(date.getUTCMonth() + 1)) return false;
    const isDate = onDates.values.has(date.getUTCDate());
    const isWeekDay = onWeekDays.values.has(date.getUTCDay());
    return onDates.isAny || onWeekDays.isAny ? isDate && isWeekDay : isDate || isWeekDay;
  }
}

/** What clocks on the wall show in a time zone. A time on the wall is written as the milliseconds it would be in UTC. */
class WallClock {
  readonly #format: Intl.DateTimeFormat;

  constructor(timeZone: string | undefined) {
    this.#format = new Intl.DateTimeFormat('en-US', {
      ...(timeZone !== undefined && { timeZone }),
      calendar: 'gregory',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  }

  dayOf(timeMs: number): number {
    return Math.floor((timeMs + this.#offset(timeMs)) / dayMs);
  }

  /** The times at which clocks show these, on a day: none for a time that is skipped, two for one that comes twice. */
  instantsOf(day: number, walls: readonly number[]): readonly number[] {
    const before = this.#offset((day - 1) * dayMs);
    const after = this.#offset((day + 2) * dayMs);
    if (before === after) return walls.map((wall) => wall - before);
    return walls.flatMap((wall) =>
      [before, after]
        .map((offset) => [wall - offset, offset] as const)
        .flatMap(([time, offset]) => (this.#offset(time) === offset ? [time] : [])),
    );
  }

  /** `2026-01-02T03:04:05+01:00` */
  timestamp(timeMs: number): string {
    const minutesAhead = Math.trunc(this.#offset(timeMs) / 60_000);
    const wall = timestamp(timeMs + minutesAhead * 60_000);
    if (minutesAhead === 0) return wall;
    const twoDigits = (part: number): string => String(Math.trunc(part)).padStart(2, '0');
    const size = Math.abs(minutesAhead);
    return `${wall.slice(0, -1)}${minutesAhead < 0 ? '-' : '+'}${twoDigits(size / 60)}:${twoDigits(size % 60)}`;
  }

  /** How far the wall is ahead of UTC. */
  #offset(timeMs: number): number {
    const whole = Math.floor(timeMs / 1_000) * 1_000;
    const parts = Object.fromEntries(this.#format.formatToParts(whole).map(({ type, value }) => [type, Number(value)]));
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
    return Date.UTC(year, month - 1, day, hour, minute, second) - whole;
  }
}

/** The time as clocks of the zone show it. */
export function zonedTimestamp(timeMs: number, timeZone: string | undefined): string {
  return new WallClock(timeZone).timestamp(timeMs);
}

/** What is wrong with the name of a time zone; undefined when it is one. */
export function timeZoneProblem(name: string): string | undefined {
  if (name === '') return 'timeZone must be nil or non-empty string';
  const unknown = `unknown time zone ${name}`;
  const isWellFormed = name.split('/').every((part) => /^[A-Za-z_.0-9][A-Za-z._\-0-9+]{0,13}$/.test(part));
  if (!isWellFormed) return unknown;
  if (name.toLowerCase() === 'local') {
    return 'timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones';
  }
  try {
    return Intl.DateTimeFormat('en-US', { timeZone: name }) && undefined;
  } catch {
    return unknown;
  }
}
