import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { cronProblem, cronSchedule, timeZoneProblem, zonedTimestamp } from './cron-schedule.ts';

const refused = [
  ['', 'empty spec string'],
  ['* * * *', 'expected exactly 5 fields, found 4: [* * * *]'],
  ['0 0 0 0 0 0', 'expected exactly 5 fields, found 6: [0 0 0 0 0 0]'],
  ['60 * * * *', 'end of range (60) above maximum (59): 60'],
  ['* * 0 * *', 'beginning of range (0) below minimum (1): 0'],
  ['* * * * 7', 'end of range (7) above maximum (6): 7'],
  ['5-3 * * * *', 'beginning of range (5) beyond end of range (3): 5-3'],
  ['*/0 * * * *', 'step of range should be a positive number: */0'],
  ['1-2-3 * * * *', 'too many hyphens: 1-2-3'],
  ['1/2/3 * * * *', 'too many slashes: 1/2/3'],
  ['x * * * *', 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'],
  ['CRON_TZ=x * * * * *', 'provided bad location x: unknown time zone x'],
  ['@never', 'unrecognized descriptor: @never'],
  ['@every soon', 'failed to parse duration @every soon: time: invalid duration "soon"'],
] as const;
for (const [schedule, problem] of refused) {
  test(`the schedule "${schedule}" is refused in the server's words`, () =>
    assert.equal(cronProblem(schedule), problem));
}

const cases = [
  { schedule: '*/15 * * * *', after: '2026-03-01T00:00:00Z', next: '2026-03-01T00:15:00Z' },
  { schedule: '10/20 * * * *', after: '2026-03-01T00:35:00Z', next: '2026-03-01T00:50:00Z' },
  { schedule: '0 12 * * MON-fri', after: '2026-02-27T12:00:00Z', next: '2026-03-02T12:00:00Z' },
  { schedule: '0 0 29 feb ?', after: '2026-03-01T00:00:00Z', next: '2028-02-29T00:00:00Z' },
  { it: 'either day', schedule: '0 0 13 * FRI', after: '2026-03-01T00:00:00Z', next: '2026-03-06T00:00:00Z' },
  { it: 'both days', schedule: '0 0 */2 * *', after: '2026-03-01T00:00:00Z', next: '2026-03-03T00:00:00Z' },
  { it: 'a date that never comes', schedule: '0 0 30 2 *', after: '2026-03-01T00:00:00Z', next: undefined },
  { schedule: '@monthly', after: '2026-03-01T00:00:00Z', next: '2026-04-01T00:00:00Z' },
  { schedule: '@every 1h30m', after: '2026-03-01T00:00:00.5Z', next: '2026-03-01T01:30:00Z' },
  {
    it: 'another zone',
    zone: 'Asia/Tokyo',
    schedule: '0 9 * * *',
    after: '2026-03-01T00:00:00Z',
    next: '2026-03-02T00:00:00Z',
  },
  {
    it: 'a zone in the schedule',
    schedule: 'TZ=Asia/Tokyo 0 9 * * *',
    after: '2026-03-01T01:00:00Z',
    next: '2026-03-02T00:00:00Z',
  },
  {
    it: 'a time that is skipped',
    zone: 'Europe/Berlin',
    schedule: '30 2 * * *',
    after: '2026-03-28T12:00:00Z',
    next: '2026-03-30T00:30:00Z',
  },
  {
    it: 'a time that comes twice',
    zone: 'Europe/Berlin',
    schedule: '30 2 * * *',
    after: '2026-10-25T00:30:00Z',
    next: '2026-10-25T01:30:00Z',
  },
];
for (const { it, schedule, zone = 'Etc/UTC', after, next } of cases) {
  test(`"${schedule}" is next due at ${next}${it === undefined ? '' : ` (${it})`}`, () => {
    const found = cronSchedule(schedule, zone).next(Date.parse(after));
    assert.equal(found, next === undefined ? undefined : Date.parse(next));
  });
}

test('the latest time up to now is the last of those that come one after the other', () => {
  const schedules = fc.constantFrom(
    '*/7 * * * *',
    '0 */5 * * *',
    '30 1,2 * * *',
    '0 0 1 * *',
    '0 3 * * SUN',
    '@every 95s',
  );
  const zones = fc.constantFrom('Etc/UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe');
  // Around both changes of the clock, and in between.
  const starts = fc.integer({ min: Date.parse('2026-03-01'), max: Date.parse('2026-11-30') });
  fc.assert(
    fc.property(schedules, zones, starts, fc.integer({ min: 0, max: 3 * 86_400_000 }), (text, zone, since, length) => {
      const schedule = cronSchedule(text, zone);
      const until = since + length;
      let last: number | undefined;
      for (let time = schedule.next(since); time !== undefined && time <= until; time = schedule.next(time))
        last = time;
      assert.equal(schedule.latest(since, until), last);
    }),
    { numRuns: 60 },
  );
});

test('names of time zones are those of the IANA', () => {
  for (const name of ['Europe/Berlin', 'Etc/UTC', 'Etc/GMT+3']) assert.equal(timeZoneProblem(name), undefined);
  for (const name of ['Mars/Base', '../etc/passwd', '+01:00', 'Europe//Berlin']) {
    assert.equal(timeZoneProblem(name), `unknown time zone ${name}`);
  }
  assert.match(timeZoneProblem('local') ?? '', /explicit time zone/);
  assert.equal(timeZoneProblem(''), 'timeZone must be nil or non-empty string');
});

test('a time is written as clocks of the zone show it', () => {
  const time = Date.parse('2026-01-01T12:00:00Z');
  const shown = ['Etc/UTC', 'Asia/Kolkata', 'America/New_York'].map((zone) => zonedTimestamp(time, zone));
  assert.deepEqual(shown, ['2026-01-01T12:00:00Z', '2026-01-01T17:30:00+05:30', '2026-01-01T07:00:00-05:00']);
});
