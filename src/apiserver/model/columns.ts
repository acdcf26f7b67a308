/** Columns that most tables have, and a short way to write the others. What a cell of one kind shows is with that kind. */
import { ageSince } from '../../kube/values/times.ts';
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

/** Of kinds that have no table of their own. */
export const createdAtColumn: Column = {
  name: 'Created At',
  type: 'date',
  description: 'When the object was created.',
  priority: 0,
  cell: ({ metadata }) => metadata.creationTimestamp ?? '<unknown>',
};

/** A cell must show something: `<none>` where a thing has not been given. */
export function orNone(value: string | undefined): string {
  return value === undefined || value === '' ? '<none>' : value;
}

export function orUnset(value: string | undefined): string {
  return value ?? '<unset>';
}
