/** ConfigMaps and Secrets from an API server, as the managers want them: translates requests, events and refusals, and no more. */
import type { Pausing } from '../base/clock.ts';
import type { ApiClient } from '../client/api/api-client.ts';
import { ForbiddenError, NotFoundError } from '../client/api/api-errors.ts';
import type { ResourceReference } from '../client/api/resource-reference.ts';
import { InitialEventsSupport } from '../client/initial-list.ts';
import { type ReflectorNotice, reflect } from '../client/reflector.ts';
import { pathSegmentProblems } from '../kube/values/names.ts';
import type { ManagedObject } from './managed-kind.ts';
import { InvalidObjectNameError, ObjectNotFoundError, WatchRefusedError, WrongObjectError } from './object-errors.ts';
import type { ObjectId } from './object-id.ts';
import type { ObjectEvent, ObjectSource, WatchOptions, WatchScope } from './object-source.ts';

interface ApiObjectSourceDeps extends Pausing {
  readonly client: Pick<ApiClient, 'get' | 'getMetadata' | 'list' | 'watch'>;
  readonly random: () => number;
  readonly notify: (notice: ReflectorNotice) => void;
}

/** As the kubelet: watches of objects live six times as long as others, because there are so many. */
const watchTimeoutSecondsMin = 1_800;

export class ApiObjectSource<T extends ManagedObject> implements ObjectSource<T> {
  readonly #resource: ResourceReference<T>;
  readonly #deps: ApiObjectSourceDeps;
  readonly #initialEvents = new InitialEventsSupport();

  constructor(resource: ResourceReference<T>, deps: ApiObjectSourceDeps) {
    this.#resource = resource;
    this.#deps = deps;
  }

  async get(id: ObjectId, { mayBeCached }: { readonly mayBeCached: boolean }, signal: AbortSignal): Promise<T> {
    const place = { ...pathOf(id), ...(mayBeCached && { resourceVersion: '0' }) };
    return theOneAskedFor(id, await found(this.#deps.client.get(this.#resource, place, signal)));
  }

  async uidOf(id: ObjectId, signal: AbortSignal): Promise<string | undefined> {
    const place = { ...pathOf(id), resourceVersion: '0' };
    try {
      const { metadata } = await found(this.#deps.client.getMetadata(this.#resource, place, signal));
      return metadata.uid;
    } catch (error) {
      if (error instanceof ObjectNotFoundError) return undefined;
      throw error;
    }
  }

  watch(
    { namespace, name }: WatchScope,
    { notBefore, interrupted, contact }: WatchOptions,
    signal: AbortSignal,
  ): AsyncIterable<ObjectEvent<T>> {
    const { notify } = this.#deps;
    const heard = (notice: ReflectorNotice): void => {
      notify(notice);
      if (notice.kind === 'WatchFailed') interrupted(refusalOr(notice.error));
    };
    const fieldSelector = name === undefined ? undefined : `metadata.name=${selectorValue(name)}`;
    const target = { resource: this.#resource, namespace, fieldSelector, notBefore };
    const deps = { ...this.#deps, notify: heard, contact, initialEvents: this.#initialEvents };
    return reflect(deps, { ...target, watchTimeoutSecondsMin }, signal);
  }
}

/** A pod may name anything; of what would lead elsewhere no path is made. */
function pathOf({ namespace, name }: ObjectId): ObjectId {
  const problems = pathSegmentProblems(name);
  if (problems.length > 0) throw new InvalidObjectNameError(name, problems);
  return { namespace, name };
}

function theOneAskedFor<T extends ManagedObject>(id: ObjectId, object: T): T {
  const { namespace, name } = object.metadata;
  if (namespace !== id.namespace || name !== id.name) throw new WrongObjectError(id, { namespace, name });
  return object;
}

async function found<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof NotFoundError) throw new ObjectNotFoundError(error.message, { cause: error });
    throw error;
  }
}

function refusalOr(error: unknown): unknown {
  const refusal = error instanceof Error && error.cause instanceof ForbiddenError ? error.cause : error;
  return refusal instanceof ForbiddenError ? new WatchRefusedError(refusal.message, { cause: error }) : error;
}

/** What separates the parts of a selector, in a name, must not. */
function selectorValue(name: string): string {
  return name.replaceAll(/[\\,=]/g, (mark) => `\\${mark}`);
}
