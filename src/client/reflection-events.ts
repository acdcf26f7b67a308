/** What an event of a watch says about the objects somebody asked for. */
import { messageOf } from '../base/errors.ts';
import { isRecord } from '../kube/schema/equality.ts';
import { readObject } from './api-answer.ts';
import { type ApiObject, type ResourceReference, apiVersionOf } from './resource-reference.ts';
import type { WatchEvent } from './watch-stream.ts';

type ObjectEvent<T> =
  | { readonly kind: 'added' | 'modified' | 'deleted'; readonly object: T; readonly resourceVersion: string }
  /** Nothing changed up to this version. */
  | { readonly kind: 'bookmark'; readonly resourceVersion: string; readonly endsInitialEvents: boolean }
  /** A type that newer servers may send. */
  | { readonly kind: 'unknown'; readonly resourceVersion: string; readonly problem: string }
  /** Not one of our objects. */
  | { readonly kind: 'foreign'; readonly problem: string };

/** Of our objects, or at least about their versions. */
export type OurEvent<T> = Exclude<ObjectEvent<T>, { readonly kind: 'foreign' }>;

const kinds = new Map<string, 'added' | 'modified' | 'deleted'>([
  ['ADDED', 'added'],
  ['MODIFIED', 'modified'],
  ['DELETED', 'deleted'],
]);
const initialEventsEnd = 'k8s.io/initial-events-end';

export function readEvent<T extends ApiObject>(
  resource: ResourceReference<T>,
  { type, object }: WatchEvent,
): ObjectEvent<T> {
  const { apiVersion = apiVersionOf(resource), kind = resource.kind, metadata } = object;
  if (kind !== resource.kind || apiVersion !== apiVersionOf(resource))
    return { kind: 'foreign', problem: `an object of kind ${String(kind)} in ${String(apiVersion)}` };
  if (!isRecord(metadata)) return { kind: 'foreign', problem: 'an object without metadata' };
  const { resourceVersion, annotations } = metadata;
  if (typeof resourceVersion !== 'string') return { kind: 'foreign', problem: 'an object without a version' };
  if (type === 'BOOKMARK') {
    const endsInitialEvents = isRecord(annotations) && annotations[initialEventsEnd] === 'true';
    return { kind: 'bookmark', resourceVersion, endsInitialEvents };
  }
  const known = kinds.get(type);
  if (known === undefined) return { kind: 'unknown', resourceVersion, problem: `an event of type ${type}` };
  try {
    return { kind: known, object: readObject(resource, object, `watch ${resource.plural}`), resourceVersion };
  } catch (error) {
    return { kind: 'foreign', problem: messageOf(error) };
  }
}
