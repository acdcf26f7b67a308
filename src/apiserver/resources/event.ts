/** Events of core/v1, as they are stored, and the events.k8s.io/v1 view of them. */
import {
  type Event,
  type EventView,
  eventKind,
  eventOfView,
  eventViewKind,
  viewOfEvent,
} from '../../kube/kinds/event.ts';
import { ageSince } from '../../kube/values/times.ts';
import { nameColumn, text, wide } from '../model/columns.ts';
import { type Column, type FieldReader, resource } from '../model/resource.ts';

const hourMs = 60 * 60 * 1000;

const referenceFields = ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath'] as const;

function involvedObjectFields(prefix: string): Readonly<Record<string, FieldReader<Event>>> {
  return Object.fromEntries(
    referenceFields.map((field) => [
      `${prefix}.${field}`,
      ({ involvedObject }: Event): string => involvedObject[field] ?? '',
    ]),
  );
}

const columns: readonly Column<Event>[] = [
  text('Last Seen', 'The time since it happened last.', (object, now) => lastSeen(object, now)),
  text('Type', 'Whether it is news or a warning.', ({ type = '' }) => type),
  text('Reason', 'One word for what happened.', ({ reason = '' }) => reason),
  text('Object', 'What it happened to.', ({ involvedObject: { kind = '', name = '' } }) =>
    name === '' ? kind.toLowerCase() : `${kind.toLowerCase()}/${name}`,
  ),
  wide('Subobject', 'The part of the object it happened to.', ({ involvedObject }) => involvedObject.fieldPath ?? ''),
  wide('Source', 'Who says so, and where.', sourceOf),
  text('Message', 'What happened, for people.', ({ message = '' }) => message.trim()),
  wide('First Seen', 'The time since it happened first.', (object, now) => firstSeen(object, now)),
  {
    name: 'Count',
    type: 'string',
    description: 'How often it happened.',
    priority: 1,
    cell: ({ series, count = 0 }) => (series ? (series.count ?? 0) : count || 1),
  },
  { ...nameColumn, priority: 1 },
];

const shared = { allowsCreateOnUpdate: true, timeToLiveMs: hourMs } as const;

export const events = resource(eventKind, {
  ...shared,
  fields: {
    ...involvedObjectFields('involvedObject'),
    reason: ({ reason = '' }) => reason,
    reportingComponent: ({ reportingComponent = '' }) => reportingComponent,
    source: ({ source, reportingComponent = '' }) => source?.component || reportingComponent,
    type: ({ type = '' }) => type,
  },
  columns,
});

/** Reads a field of the view from what is stored. */
function ofStored(read: FieldReader<Event>): FieldReader<EventView> {
  return (object) => read(eventOfView(object));
}

export const eventViews = resource(eventViewKind, {
  ...shared,
  viewOf: {
    resource: events,
    toStored: (object) => eventOfView(object),
    // Only core events are stored under this resource's key.
    fromStored: (stored) => viewOfEvent(stored as Event),
  },
  fields: {
    ...Object.fromEntries(
      Object.entries(involvedObjectFields('regarding')).map(([name, read]) => [name, ofStored(read)]),
    ),
    reason: ({ reason = '' }) => reason,
    reportingController: ({ reportingController = '' }) => reportingController,
    type: ({ type = '' }) => type,
  },
  columns: columns.map((column) => ({ ...column, cell: (object, now) => column.cell(eventOfView(object), now) })),
});

function firstSeen({ firstTimestamp, eventTime }: Event, now: number): string {
  return ageSince(firstTimestamp || eventTime, now);
}

function lastSeen(object: Event, now: number): string {
  if (object.series) return ageSince(object.series.lastObservedTime, now);
  return object.lastTimestamp ? ageSince(object.lastTimestamp, now) : firstSeen(object, now);
}

function sourceOf({ source, reportingComponent = '', reportingInstance = '' }: Event): string {
  const component = source?.component || reportingComponent;
  const host = source?.host || reportingInstance;
  return host === '' ? component : `${component}, ${host}`;
}
