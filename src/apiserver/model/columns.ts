/** Columns that most tables have, and a short way to write the others. What a cell of one kind shows is with that kind. */
import type { Column, KubeObject } from './resource.ts';

export function text<T>(name: string, description: string, cell: (object: T, now: number) => string): Column<T> {
  return { name, type: 'string', description, priority: 0, cell };
}

/** Shown with `-o wide` alone. */
export function wide<T>(name: string, description: string, cell: (object: T, now: number) => string): Column<T> {
  return { name, type: 'string', description, priority: 1, cell };
}

export function yesNo<T>(name: string, description: string, cell: (object: T) => boolean): Column<T> {
  return { name, type: 'boolean', description, priority: 0, cell };
}

export const nameColumn: Column = {
  name: 'Name',
  type: 'string',
  format: 'name',
  description: 'The name of the object, unique among those of its kind in its namespace.',
  priority: 0,
  cell: ({ metadata }) => metadata.name,
};

export const ageColumn: Column = text<KubeObject>('Age', 'The time since the object was created.', (object, now) =>
  ageSince(object.metadata.creationTimestamp, now),
);

/** A cell must show something: `<none>` where a thing has not been given. */
export function orNone(value: string | undefined): string {
  return value === undefined || value === '' ? '<none>' : value;
}

export function orUnset(value: string | undefined): string {
  return value ?? '<unset>';
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
export function ageSince(timestamp: string | undefined, now: number): string {
  const time = Date.parse(timestamp ?? '');
  return Number.isNaN(time) ? '<unknown>' : age(now - time);
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit}${small}${smallUnit}`;
}
