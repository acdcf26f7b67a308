/** ConfigMaps and Secrets of an API server: translates requests and events for the managers, and makes these by their strategy. */
import { OperatingError } from '../base/errors.ts';
import type { Pausing } from '../base/clock.ts';
import type { ApiClient } from '../client/api/api-client.ts';
import { NotFoundError } from '../client/api/api-errors.ts';
import type { ApiObject, ResourceReference } from '../client/api/resource-reference.ts';
import { InitialEventsSupport } from '../client/initial-list.ts';
import { type ReflectorNotice, reflect } from '../client/reflector.ts';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { Secret } from '../kube/kinds/secret.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { pathSegmentProblems } from '../kube/values/names.ts';
import { CachedObjects, type CachedObjectsDeps, uncachedObjects } from './cached-objects.ts';
import {
  type ManagedKind,
  type ManagedObject,
  type ObjectEvent,
  type ObjectId,
  type ObjectManager,
  type ObjectSource,
  type WatchOptions,
  managedConfigMaps,
  managedSecrets,
} from './object-manager.ts';
import { WatchedObjects, type WatchedObjectsDeps, type WatchedObjectsSettings } from './watched-objects.ts';

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

  async get(
    id: ObjectId,
    { mayBeCached }: { readonly mayBeCached: boolean },
    signal: AbortSignal,
  ): Promise<T | undefined> {
    const place = { ...pathOf(id), ...(mayBeCached && { resourceVersion: '0' }) };
    const object = await unlessMissing(this.#deps.client.get(this.#resource, place, signal));
    if (object !== undefined) requireAsked(id, object);
    return object;
  }

  async uidOf(id: ObjectId, signal: AbortSignal): Promise<string | undefined> {
    const place = { ...pathOf(id), resourceVersion: '0' };
    return (await unlessMissing(this.#deps.client.getMetadata(this.#resource, place, signal)))?.metadata.uid;
  }

  watch(
    { namespace, name }: ObjectId,
    { notBefore, interrupted }: WatchOptions,
    signal: AbortSignal,
  ): AsyncIterable<ObjectEvent<T>> {
    const notify = (notice: ReflectorNotice): void => {
      this.#deps.notify(notice);
      if (notice.kind === 'WatchFailed') interrupted(notice.error);
    };
    const fieldSelector = `metadata.name=${selectorValue(name)}`;
    const target = { resource: this.#resource, namespace, fieldSelector, notBefore, watchTimeoutSecondsMin };
    return reflect({ ...this.#deps, notify, initialEvents: this.#initialEvents }, target, signal);
  }
}

/** A pod may name anything, also what could lead a request elsewhere: the API server does not check these names. */
function pathOf({ namespace, name }: ObjectId): ObjectId {
  const problems = pathSegmentProblems(name);
  if (problems.length === 0) return { namespace, name };
  throw new OperatingError('InvalidObjectName', `invalid resource name ${goQuote(name)}: [${problems.join(' ')}]`);
}

/** A server that answers with another object than the one asked for must not make a pod read it. */
function requireAsked(asked: ObjectId, { metadata: { namespace, name } }: ApiObject): void {
  if (namespace === asked.namespace && name === asked.name) return;
  throw new OperatingError(
    'WrongObject',
    `Cannot use the API server's answer for "${asked.namespace}/${asked.name}": it is the object "${namespace ?? ''}/${name}"`,
  );
}

async function unlessMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

/** Escapes what separates the parts of a selector. */
function selectorValue(name: string): string {
  return name.replaceAll(/[\\,=]/g, (mark) => `\\${mark}`);
}

interface ObjectManagersSettings extends WatchedObjectsSettings {
  /** As the kubelet's configMapAndSecretChangeDetectionStrategy: `Get`, `Cache` or `Watch`. */
  readonly strategy: string;
}

interface ObjectManagersDeps
  extends Omit<CachedObjectsDeps<ManagedObject>, 'source'>, Omit<WatchedObjectsDeps<ManagedObject>, 'source'> {
  readonly configMaps: ObjectSource<ConfigMap>;
  readonly secrets: ObjectSource<Secret>;
}

export interface ObjectManagers {
  readonly configMaps: ObjectManager<ConfigMap>;
  readonly secrets: ObjectManager<Secret>;
}

export function objectManagers(
  { configMaps, secrets, ...deps }: ObjectManagersDeps,
  settings: ObjectManagersSettings,
): ObjectManagers {
  const managerOf = <T extends ManagedObject>(kind: ManagedKind<T>, source: ObjectSource<T>): ObjectManager<T> => {
    switch (settings.strategy) {
      case 'Get':
        return uncachedObjects(source);
      case 'Cache':
        return new CachedObjects(kind, { ...deps, source });
      case 'Watch':
        return new WatchedObjects(kind, { ...deps, source }, settings);
      default:
        throw new OperatingError('UnknownStrategy', `unknown configmap and secret manager mode: ${settings.strategy}`);
    }
  };
  return { configMaps: managerOf(managedConfigMaps, configMaps), secrets: managerOf(managedSecrets, secrets) };
}
