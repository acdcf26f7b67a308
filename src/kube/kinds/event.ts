/**
 * An event, in the two forms the API has for it: core/v1, which is how it is stored, and events.k8s.io/v1, which is a view of
 * the same objects under other names.
 */
import { means } from '../schema/equality.ts';
import { type FieldError, invalidField, invalidFields, requiredField } from '../schema/field-errors.ts';
import { resourceKind } from '../schema/kind.ts';
import { objectFields, objectReference } from '../schema/meta.ts';
import { immutableErrors, validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import {
  type FieldPath,
  type Of,
  described,
  int32,
  object,
  required,
  string,
  time,
  microTime,
} from '../schema/schema.ts';
import { dnsSubdomainProblems, pathSegmentProblems, qualifiedNameProblems } from '../values/names.ts';
import type { Pod } from './pod/pod.ts';

const sourceShape = object({ component: string, host: string });

export const eventShape = described(
  {
    text: 'Something that happened to an object. Kept for an hour.',
    fields: {
      involvedObject: 'What it happened to.',
      reason: 'One word for what happened.',
      message: 'What happened, for people.',
      source: 'Who says so.',
      firstTimestamp: 'When it happened first.',
      lastTimestamp: 'When it happened last.',
      count: 'How often it happened.',
      type: 'Normal or Warning.',
      eventTime: 'When it was first seen.',
      series: 'The series it is part of.',
      action: 'What was done.',
      related: 'Another object that matters here.',
      reportingComponent: 'Who says so.',
      reportingInstance: 'Which one of them.',
    },
  },
  object({
    ...objectFields,
    involvedObject: required(objectReference),
    reason: string,
    message: string,
    source: sourceShape,
    firstTimestamp: time,
    lastTimestamp: time,
    count: int32,
    type: string,
    eventTime: microTime,
    series: object({ count: int32, lastObservedTime: microTime }),
    action: string,
    related: objectReference,
    reportingComponent: string,
    reportingInstance: string,
  }),
);
export interface Event extends Of<typeof eventShape> {}

export const eventKind = resourceKind<Event>({
  kind: 'Event',
  plural: 'events',
  shortNames: ['ev'],
  namespaced: true,
  shape: eventShape,
  validate: validateEvent,
  validateUpdate: validateEvent,
  wire: {
    Event: `
    1 metadata ObjectMeta, 2 involvedObject ObjectReference, 3 reason, 4 message, 5 source EventSource,
    6 firstTimestamp Time, 7 lastTimestamp Time, 8 count int, 9 type, 10 eventTime MicroTime, 11 series? EventSeries,
    12 action, 13 related? ObjectReference, 14 reportingComponent!, 15 reportingInstance!`,
    EventSource: '1 component, 2 host',
    EventSeries: '1 count int, 2 lastObservedTime MicroTime',
  },
});

const eventViewShape = described(
  {
    text: 'Something that happened to an object. Kept for an hour.',
    fields: {
      eventTime: 'When it was first seen.',
      series: 'The series it is part of.',
      reportingController: 'Who says so.',
      reportingInstance: 'Which one of them.',
      action: 'What was done.',
      reason: 'One word for what happened.',
      regarding: 'What it happened to.',
      related: 'Another object that matters here.',
      note: 'What happened, for people.',
      type: 'Normal or Warning.',
      deprecatedSource: 'Who says so, as clients of core events do.',
      deprecatedFirstTimestamp: 'When it happened first, as clients of core events say.',
      deprecatedLastTimestamp: 'When it happened last, as clients of core events say.',
      deprecatedCount: 'How often it happened, as clients of core events say.',
    },
  },
  object({
    ...objectFields,
    eventTime: microTime,
    series: object({ count: required(int32), lastObservedTime: microTime }),
    reportingController: string,
    reportingInstance: string,
    action: string,
    reason: string,
    regarding: objectReference,
    related: objectReference,
    note: string,
    type: string,
    deprecatedSource: sourceShape,
    deprecatedFirstTimestamp: time,
    deprecatedLastTimestamp: time,
    deprecatedCount: int32,
  }),
);
export interface EventView extends Of<typeof eventViewShape> {}

export const eventViewKind = resourceKind<EventView>({
  group: 'events.k8s.io',
  kind: 'Event',
  plural: 'events',
  shortNames: ['ev'],
  namespaced: true,
  shape: eventViewShape,
  validate: (view) => validateNewEvent(eventOfView(view)),
  validateUpdate: (view, old) => validateNewEventUpdate(eventOfView(view), eventOfView(old)),
  wire: {
    'events.Event': `
    1 metadata ObjectMeta, 2 eventTime MicroTime, 3 series? events.EventSeries, 4 reportingController,
    5 reportingInstance, 6 action, 7 reason, 8 regarding ObjectReference, 9 related? ObjectReference, 10 note,
    11 type, 12 deprecatedSource EventSource, 13 deprecatedFirstTimestamp Time, 14 deprecatedLastTimestamp Time,
    15 deprecatedCount int`,
    'events.EventSeries': '1 count! int, 2 lastObservedTime MicroTime',
  },
});

export function eventOfView(view: EventView): Event {
  const { regarding, note, reportingController, series, ...rest } = view;
  const { deprecatedSource, deprecatedFirstTimestamp, deprecatedLastTimestamp, deprecatedCount, ...same } = rest;
  return {
    ...same,
    apiVersion: 'v1',
    involvedObject: regarding ?? {},
    ...(note !== undefined && { message: note }),
    ...(reportingController !== undefined && { reportingComponent: reportingController }),
    ...(series !== undefined && { series }),
    ...(deprecatedSource !== undefined && { source: deprecatedSource }),
    ...(deprecatedFirstTimestamp !== undefined && { firstTimestamp: deprecatedFirstTimestamp }),
    ...(deprecatedLastTimestamp !== undefined && { lastTimestamp: deprecatedLastTimestamp }),
    ...(deprecatedCount !== undefined && { count: deprecatedCount }),
  };
}

export function viewOfEvent(stored: Event): EventView {
  const { involvedObject, message, reportingComponent, series, ...rest } = stored;
  const { source: deprecatedSource, firstTimestamp, lastTimestamp, count, ...same } = rest;
  return {
    ...same,
    apiVersion: 'events.k8s.io/v1',
    regarding: involvedObject,
    ...(message !== undefined && { note: message }),
    ...(reportingComponent !== undefined && { reportingController: reportingComponent }),
    ...(series !== undefined && {
      series: { ...series, count: series.count ?? 0 },
    }),
    ...(deprecatedSource !== undefined && { deprecatedSource }),
    ...(firstTimestamp !== undefined && { deprecatedFirstTimestamp: firstTimestamp }),
    ...(lastTimestamp !== undefined && { deprecatedLastTimestamp: lastTimestamp }),
    ...(count !== undefined && { deprecatedCount: count }),
  };
}

/**
 * Rules for events. One form came before the other: what core/v1 takes is older and loose, what comes through events.k8s.io/v1
 * must be complete and never changes but for its series.
 */
const nameBytesMax = 128;
const noteBytesMax = 1024;

/** Of core/v1, on creation and on update. Any name will do that can stand in a path. */
function validateEvent(event: Event): FieldError[] {
  return [
    ...looseErrors(event, 'reportingComponent'),
    ...validateObjectMeta(event.metadata, { name: pathSegmentProblems, scope: 'namespace' }),
  ];
}

/** Through events.k8s.io/v1. */
export function validateNewEvent(event: Event): FieldError[] {
  const errors = [
    ...looseErrors(event, 'reportingController'),
    ...validateObjectMeta(event.metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...seriesErrors(event),
  ];
  if ((event.eventTime ?? '') === '') errors.push(requiredField(['eventTime']));
  if (event.type !== 'Normal' && event.type !== 'Warning') {
    errors.push(invalidField(['type'], '', `has invalid value: ${event.type ?? ''}`));
  }
  const { firstTimestamp = '', lastTimestamp = '', count = 0, source } = event;
  const isSet = {
    firstTimestamp: firstTimestamp !== '',
    lastTimestamp: lastTimestamp !== '',
    count: count !== 0,
    source: (source?.component ?? '') !== '' || (source?.host ?? '') !== '',
  };
  for (const [field, set] of Object.entries(isSet)) {
    if (set) errors.push(invalidField([field], '', 'needs to be unset'));
  }
  return errors;
}

/** Through events.k8s.io/v1. */
export function validateNewEventUpdate(changed: Event, old: Event): FieldError[] {
  const fields = eventShape.fields ?? {};
  const seriesShape = fields['series'];
  const seriesChanged = seriesShape !== undefined && !means(seriesShape, changed.series, old.series);
  const sameText = (
    field: 'reason' | 'message' | 'firstTimestamp' | 'lastTimestamp' | 'type' | 'action',
  ): FieldError[] => immutableErrors(changed[field] ?? '', old[field] ?? '', [field]);
  const sameObject = (field: 'involvedObject' | 'source' | 'related'): FieldError[] => {
    const shape = fields[field];
    if (shape === undefined || means(shape, changed[field], old[field])) return [];
    return [invalidField([field], changed[field] ?? null, 'field is immutable')];
  };
  return [
    ...looseErrors(changed, 'reportingController'),
    ...validateObjectMetaUpdate(changed.metadata, old.metadata),
    ...(seriesChanged ? seriesErrors(changed) : []),
    ...sameObject('involvedObject'),
    ...sameText('reason'),
    ...sameText('message'),
    ...sameObject('source'),
    ...sameText('firstTimestamp'),
    ...sameText('lastTimestamp'),
    ...immutableErrors(changed.count ?? 0, old.count ?? 0, ['count']),
    ...sameText('type'),
    ...immutableErrors(changed.eventTime ?? null, old.eventTime ?? null, ['eventTime']),
    ...sameText('action'),
    ...sameObject('related'),
    ...immutableErrors(changed.reportingComponent ?? '', old.reportingComponent ?? '', ['reportingController']),
    ...immutableErrors(changed.reportingInstance ?? '', old.reportingInstance ?? '', ['reportingInstance']),
  ];
}

function seriesErrors({ series }: Event): FieldError[] {
  if (series === undefined) return [];
  const errors: FieldError[] = [];
  if ((series.count ?? 0) < 2) errors.push(invalidField(['series', 'count'], '', 'should be at least 2'));
  if ((series.lastObservedTime ?? '') === '') errors.push(requiredField(['series', 'lastObservedTime']));
  return errors;
}

function looseErrors(event: Event, componentField: string): FieldError[] {
  const { metadata, involvedObject, eventTime = '' } = event;
  const { namespace = '' } = metadata;
  const involved = involvedObject.namespace ?? '';
  const mismatch = invalidField(['involvedObject', 'namespace'], involved, 'does not match event.namespace');
  if (eventTime === '') {
    // What belongs to no namespace, a node, has its events in `default`.
    const agrees = involved === '' ? namespace === '' || namespace === 'default' : namespace === involved;
    return agrees ? [] : [mismatch];
  }
  const isHomeless = involved === '' && namespace !== 'default' && namespace !== 'kube-system';
  const component = event.reportingComponent ?? '';
  return [
    ...(isHomeless ? [mismatch] : []),
    ...(component === '' ? [requiredField([componentField])] : []),
    ...invalidFields([componentField], component, qualifiedNameProblems(component)),
    ...textErrors(event.reportingInstance ?? '', ['reportingInstance']),
    ...textErrors(event.action ?? '', ['action']),
    ...textErrors(event.reason ?? '', ['reason']),
    ...lengthErrors(event.message ?? '', noteBytesMax, ['message']),
  ];
}

function textErrors(text: string, path: FieldPath): FieldError[] {
  return text === '' ? [requiredField(path)] : lengthErrors(text, nameBytesMax, path);
}

function lengthErrors(text: string, bytesMax: number, path: FieldPath): FieldError[] {
  return Buffer.byteLength(text) > bytesMax ? [invalidField(path, '', `can have at most ${bytesMax} characters`)] : [];
}

/** Where Kubernetes Events go. Emitting one never blocks and never fails. */
export interface PodEvent {
  readonly pod: Pod;
  /** The name of the container that it is about; who writes the event finds out of which kind it is. */
  readonly container?: string | undefined;
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  /** Holds no value of a Secret and no output of a container's command. */
  readonly message: string;
  /** For programs that read it. */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

export interface EventSink {
  record(event: PodEvent): void;
}
