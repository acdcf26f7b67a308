/** ConfigMaps, Secrets and tokens for the pods of a node: from an API server, from a folder of manifests, or from both. */
import { CoalescingTopic } from '../../base/coalescing-queue.ts';
import type { Pausing } from '../../base/clock.ts';
import { type TaskDeps, runTask } from '../../base/run-task.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import { ObjectCache } from '../../client/object-cache.ts';
import type { ReflectorNotice } from '../../client/reflector.ts';
import { services, withShape } from '../../client/api/resource-reference.ts';
import { type ConfigMap, configMapKind } from '../../kube/kinds/config-map.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type Secret, secretKind } from '../../kube/kinds/secret.ts';
import { type Service } from '../../kube/kinds/service.ts';
import { serviceShape } from '../../kube/kinds/service.ts';
import { ApiObjectSource } from '../../objects/api-object-source.ts';
import { ApiTokenRequester } from '../../objects/api-token-requester.ts';
import { type ManagedObject, managedConfigMaps, managedSecrets } from '../../objects/managed-kind.ts';
import { ObjectNotFoundError } from '../../objects/object-errors.ts';
import type { ObjectId } from '../../objects/object-id.ts';
import { type ObjectManager, readerOf } from '../../objects/object-manager.ts';
import { type ObjectManagers, objectManagers } from '../../objects/object-managers.ts';
import type { ObjectNotice } from '../../objects/object-notices.ts';
import { TokenManager } from '../../objects/token-manager.ts';
import type { FolderContent } from '../../pods/sources/manifests-folder.ts';
import type { PodLoop } from '../../pods/loop/pod-loop.ts';
import type { VolumeManager } from '../../volumes/volume-manager.ts';
import type { AgentSettings } from './agent-settings.ts';

interface NodeObjectsDeps extends Pausing {
  /** Undefined: there is no API server. */
  readonly client: ApiClient | undefined;
  readonly random: () => number;
  readonly ownNode: () => Node | undefined;
  readonly notify: (notice: ObjectNotice | ReflectorNotice) => void;
}

type ObjectSettings = Pick<AgentSettings, 'strategy' | 'watchScope' | 'syncMs' | 'manifestsDirectory'>;

const serviceTarget = { resource: withShape(services, serviceShape) };

export class NodeObjects {
  readonly configMaps: ObjectManager<ConfigMap>;
  readonly secrets: ObjectManager<Secret>;
  readonly tokens: TokenManager;
  readonly #deps: NodeObjectsDeps;
  readonly #services: ObjectCache<Service>;
  /** Undefined: there is no folder of manifests, and everything comes from the API server. */
  readonly #folder:
    | { readonly configMaps: FolderObjects<ConfigMap>; readonly secrets: FolderObjects<Secret> }
    | undefined;

  constructor(deps: NodeObjectsDeps, settings: ObjectSettings) {
    this.#deps = deps;
    const { client } = deps;
    const managers = client === undefined ? undefined : managersOf({ ...deps, client }, settings);
    if (managers === undefined || settings.manifestsDirectory !== undefined) {
      const configMaps = new FolderObjects(managedConfigMaps.singular, managers?.configMaps);
      const secrets = new FolderObjects(managedSecrets.singular, managers?.secrets);
      [this.configMaps, this.secrets, this.#folder] = [configMaps, secrets, { configMaps, secrets }];
    } else {
      [this.configMaps, this.secrets] = [managers.configMaps, managers.secrets];
    }
    this.tokens = new TokenManager({
      ...deps,
      requester: client === undefined ? undefined : new ApiTokenRequester(client),
    });
    this.#services = new ObjectCache();
  }

  registerPod(pod: Pod): void {
    this.configMaps.registerPod(pod);
    this.secrets.registerPod(pod);
  }

  unregisterPod(pod: Pod): void {
    this.configMaps.unregisterPod(pod);
    this.secrets.unregisterPod(pod);
    this.tokens.forgetPod(pod.metadata.uid ?? '');
  }

  /** Of all namespaces, for the variables of containers. */
  services(): readonly Service[] | 'unsynced' {
    if (this.#deps.client === undefined) return [];
    return this.#services.isSynced ? this.#services.list() : 'unsynced';
  }

  /** The pods of the folder. Its objects are known before the pods that use them, and stay until those are known to go. */
  async *podsOf(contents: AsyncIterable<FolderContent>): AsyncGenerator<readonly Pod[]> {
    for await (const { objects, pods } of contents) {
      this.#folder?.configMaps.add(objects.all(configMapKind));
      this.#folder?.secrets.add(objects.all(secretKind));
      yield pods;
      this.#folder?.configMaps.replace(objects.all(configMapKind));
      this.#folder?.secrets.replace(objects.all(secretKind));
    }
  }

  async run(signal: AbortSignal): Promise<void> {
    const { client } = this.#deps;
    const parts = {
      ConfigMaps: (ended: AbortSignal) => this.configMaps.run(ended),
      Secrets: (ended: AbortSignal) => this.secrets.run(ended),
      tokens: (ended: AbortSignal) => this.tokens.run(ended),
      ...(client !== undefined && {
        'the Services': (ended: AbortSignal) => this.#services.follow({ ...this.#deps, client }, serviceTarget, ended),
      }),
    };
    await Promise.all(Object.entries(parts).map(([task, part]) => runTask(task, part, this.#deps, signal)));
  }
}

function managersOf(
  deps: NodeObjectsDeps & { readonly client: ApiClient },
  { strategy, watchScope, syncMs }: ObjectSettings,
): ObjectManagers {
  return objectManagers(
    {
      ...deps,
      configMaps: new ApiObjectSource(managedConfigMaps.resource, deps),
      secrets: new ApiObjectSource(managedSecrets.resource, deps),
    },
    { strategy, scope: watchScope, syncFrequencyMs: syncMs },
  );
}

/**
 * Objects of the folder of manifests go before those of the API server: what lies beside a static pod is meant for it. Objects
 * that the folder does not have come from the API server, if there is one.
 */
export class FolderObjects<T extends ManagedObject> implements ObjectManager<T> {
  readonly #singular: string;
  readonly #base: ObjectManager<T> | undefined;
  readonly #changes = new CoalescingTopic<ObjectId>(keyOf);
  #objects: ReadonlyMap<string, T> = new Map();

  /** `singular` is the kind in messages: `configmap`. */
  constructor(singular: string, base: ObjectManager<T> | undefined) {
    this.#singular = singular;
    this.#base = base;
  }

  /** What the folder has besides: for as long as pods of before may still need what is no longer there. */
  add(objects: readonly T[]): void {
    const added = new Set(objects.map((object) => keyOf(idOf(object))));
    this.replace([...[...this.#objects.values()].filter((object) => !added.has(keyOf(idOf(object)))), ...objects]);
  }

  /** What the folder has now. */
  replace(objects: readonly T[]): void {
    const before = this.#objects;
    this.#objects = new Map(objects.map((object) => [keyOf(idOf(object)), object]));
    for (const [key, object] of [...before, ...this.#objects]) {
      if (versionOf(before.get(key)) !== versionOf(this.#objects.get(key))) this.#changes.publish(idOf(object));
    }
  }

  async get(namespace: string, name: string, signal: AbortSignal): Promise<T> {
    const own = this.#objects.get(keyOf({ namespace, name }));
    if (own !== undefined) return own;
    if (this.#base === undefined) throw new ObjectNotFoundError(`${this.#singular} "${name}" not found`);
    return await this.#base.get(namespace, name, signal);
  }

  registerPod(...[pod]: Parameters<ObjectManager<T>['registerPod']>): void {
    this.#base?.registerPod(pod);
  }

  unregisterPod(...[pod]: Parameters<ObjectManager<T>['unregisterPod']>): void {
    this.#base?.unregisterPod(pod);
  }

  async *changes(signal: AbortSignal): AsyncIterable<ObjectId> {
    const merged = new CoalescingTopic<ObjectId>(keyOf);
    const forward = async (feed: AsyncIterable<ObjectId>): Promise<void> => {
      for await (const id of feed) merged.publish(id);
    };
    const heard = merged.follow(signal);
    const forwarding = [this.#changes.follow(signal), this.#base?.changes(signal) ?? []].map((feed) =>
      forward(feed as AsyncIterable<ObjectId>),
    );
    yield* heard;
    await Promise.all(forwarding);
  }

  ageOf(namespace: string, name: string): number | undefined {
    return this.#objects.has(keyOf({ namespace, name })) ? 0 : this.#base?.ageOf(namespace, name);
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.#base?.run(signal);
  }
}

function idOf({ metadata: { namespace = '', name } }: ManagedObject): ObjectId {
  return { namespace, name };
}

function keyOf({ namespace, name }: ObjectId): string {
  return `${namespace}/${name}`;
}

function versionOf(object: ManagedObject | undefined): string | undefined {
  return object?.metadata.resourceVersion;
}

/** From "this object changed" to those who show it or have read it. */
type Kind = 'ConfigMap' | 'Secret';

export async function followChanges<T extends ManagedObject>(
  kind: Kind,
  objects: ObjectManager<T>,
  [volumes, pods]: readonly [Pick<VolumeManager, 'objectChanged'>, Pick<PodLoop, 'objectChanged'>],
  deps: TaskDeps,
  signal: AbortSignal,
): Promise<void> {
  const reader = readerOf(objects);
  const tell = async ({ namespace, name }: ObjectId): Promise<void> => {
    // From memory. Where it cannot be had, whoever shows it finds out by itself and says so.
    const object = await reader.get(namespace, name, signal).catch(() => 'unknown' as const);
    const version = object === 'unknown' ? undefined : object?.metadata.resourceVersion;
    volumes.objectChanged({ kind, namespace, name }, version);
    if (object !== 'unknown') pods.objectChanged(kind, namespace, name, version);
  };
  const telling = new Set<Promise<void>>();
  for await (const id of objects.changes(signal)) {
    const task = `the change of ${kind} ${id.namespace}/${id.name}`;
    const told = runTask(task, () => tell(id), deps, signal).finally(() => telling.delete(told));
    telling.add(told);
  }
  await Promise.all(telling);
}
