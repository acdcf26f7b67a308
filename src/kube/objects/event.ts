/**
 * An event, in the two forms the API has for it: core/v1, which is how it is stored, and events.k8s.io/v1, which is a view of
 * the same objects under other names.
 */
import { objectFields, objectReference } from './metadata.ts';
import { integer, object, required, string } from './schema.ts';
import type { Of } from './schema.ts';

const source = object({ component: string, host: string });

export const event = object({
  ...objectFields,
  involvedObject: required(objectReference),
  reason: string,
  message: string,
  source,
  firstTimestamp: string,
  lastTimestamp: string,
  count: integer,
  type: string,
  eventTime: string,
  series: object({ count: integer, lastObservedTime: string }),
  action: string,
  related: objectReference,
  reportingComponent: string,
  reportingInstance: string,
});
export interface Event extends Of<typeof event> {}

export const eventView = object({
  ...objectFields,
  eventTime: string,
  series: object({ count: required(integer), lastObservedTime: required(string) }),
  reportingController: string,
  reportingInstance: string,
  action: string,
  reason: string,
  regarding: objectReference,
  related: objectReference,
  note: string,
  type: string,
  deprecatedSource: source,
  deprecatedFirstTimestamp: string,
  deprecatedLastTimestamp: string,
  deprecatedCount: integer,
});
export interface EventView extends Of<typeof eventView> {}

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
      series: { count: series.count ?? 0, lastObservedTime: series.lastObservedTime ?? '' },
    }),
    ...(deprecatedSource !== undefined && { deprecatedSource }),
    ...(firstTimestamp !== undefined && { deprecatedFirstTimestamp: firstTimestamp }),
    ...(lastTimestamp !== undefined && { deprecatedLastTimestamp: lastTimestamp }),
    ...(count !== undefined && { deprecatedCount: count }),
  };
}
