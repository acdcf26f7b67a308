/**
 * Rules for events. One form came before the other: what core/v1 takes is older and loose, what comes through events.k8s.io/v1
 * must be complete and never changes but for its series.
 */
import type { Event } from '../objects/event.ts';
import { event as eventShape } from '../objects/event.ts';
import { invalidField, invalidFields, requiredField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import { dnsSubdomainProblems, pathSegmentProblems, qualifiedNameProblems } from '../values/names.ts';
import type { FieldPath } from '../objects/schema.ts';
import { means } from '../values/semantic-equality.ts';
import { immutableErrors, validateObjectMeta, validateObjectMetaUpdate } from './validate-metadata.ts';

const nameBytesMax = 128;
const noteBytesMax = 1024;

/** Of core/v1, on creation and on update. Any name will do that can stand in a path. */
export function validateEvent(event: Event): FieldError[] {
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
export function validateNewEventUpdate(event: Event, old: Event): FieldError[] {
  const fields = eventShape.fields ?? {};
  const seriesShape = fields['series'];
  const seriesChanged = seriesShape !== undefined && !means(seriesShape, event.series, old.series);
  const sameText = (
    field: 'reason' | 'message' | 'firstTimestamp' | 'lastTimestamp' | 'type' | 'action',
  ): FieldError[] => immutableErrors(event[field] ?? '', old[field] ?? '', [field]);
  const sameObject = (field: 'involvedObject' | 'source' | 'related'): FieldError[] => {
    const shape = fields[field];
    if (shape === undefined || means(shape, event[field], old[field])) return [];
    return [invalidField([field], event[field] ?? null, 'field is immutable')];
  };
  return [
    ...looseErrors(event, 'reportingController'),
    ...validateObjectMetaUpdate(event.metadata, old.metadata),
    ...(seriesChanged ? seriesErrors(event) : []),
    ...sameObject('involvedObject'),
    ...sameText('reason'),
    ...sameText('message'),
    ...sameObject('source'),
    ...sameText('firstTimestamp'),
    ...sameText('lastTimestamp'),
    ...immutableErrors(event.count ?? 0, old.count ?? 0, ['count']),
    ...sameText('type'),
    ...(microseconds(event.eventTime) === microseconds(old.eventTime)
      ? []
      : [invalidField(['eventTime'], event.eventTime ?? null, 'field is immutable')]),
    ...sameText('action'),
    ...sameObject('related'),
    ...immutableErrors(event.reportingComponent ?? '', old.reportingComponent ?? '', ['reportingController']),
    ...immutableErrors(event.reportingInstance ?? '', old.reportingInstance ?? '', ['reportingInstance']),
  ];
}

/** Some clients keep nanoseconds that others cut off. */
function microseconds(time: string | undefined): string {
  return (time ?? '').replace(/(\.[0-9]{6})[0-9]+/, '$1');
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
