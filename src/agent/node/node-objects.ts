/** ConfigMaps, Secrets and tokens for the pods of a node: from an API server, from a folder of manifests, or from both. */
import { ApiObjectSource, type ObjectManagers, objectManagers } from '../../objects/api-objects.ts';
import {
  type ManagedObject,
  managedConfigMaps,
  managedSecrets,
  objectKey,
  type ObjectChange,
  type ObjectId,
  type ObjectKey,
  type ObjectManager,
  type ObjectNotice,
  type Reference,
  ReferencedObjects,
} from '../../objects/object-manager.ts';
import type { Pausing } from '../../base/clock.ts';
import { CoalescingTopic } from '../../base/coalescing-queue.ts';
import { type TaskDeps, runTask } from '../../base/run-task.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import { NotFoundError } from '../../client/api/api-errors.ts';
import { runtimeClasses, services, withShape } from '../../client/api/resource-reference.ts';
import { ObjectCache } from '../../client/object-cache.ts';
import type { ReflectorNotice } from '../../client/reflector.ts';
import { type ConfigMap, configMapKind } from '../../kube/kinds/config-map.ts';
import type { Node } from '../../kube/kinds/node.ts';
import { isStaticPod } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type RuntimeClass, runtimeClassShape } from '../../kube/kinds/runtime-class.ts';
import { type Secret, secretKind } from '../../kube/kinds/secret.ts';
import type { ReferencedKind } from '../../kube/references/pod-references.ts';
import { type Service } from '../../kube/kinds/service.ts';
import { serviceShape } from '../../kube/kinds/service.ts';
import type { FolderContent } from '../../pods/sources/manifests-folder.ts';
import { ApiTokenRequester, TokenManager } from '../../objects/tokens.ts';
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

type ObjectSettings = Pick<AgentSettings, 'strategy' | 'syncMs' | 'manifestsDirectory'>;

const serviceTarget = { resource: withShape(services, serviceShape) };
const runtimeClassTarget = { resource: withShape(runtimeClasses, runtimeClassShape) };

export class NodeObjects {
  readonly configMaps: ObjectManager<ConfigMap>;
  readonly secrets: ObjectManager<Secret>;
  readonly tokens: TokenManager;
  readonly #deps: NodeObjectsDeps;
  readonly #services = new ObjectCache<Service>();
  readonly #runtimeClasses = new ObjectCache<RuntimeClass>();
  /** Undefined: there is no folder of manifests, and everything comes from the API server. */
  readonly #folder:
    | { readonly configMaps: FolderObjects<ConfigMap>; readonly secrets: FolderObjects<Secret> }
    | undefined;

  constructor(deps: NodeObjectsDeps, settings: ObjectSettings) {
    this.#deps = deps;
    const { client } = deps;
    const managers = client === undefined ? undefined : managersOf({ ...deps, client }, settings);
    if (managers === undefined || settings.manifestsDirectory !== undefined) {
      const configMaps = new FolderObjects('ConfigMap', managers?.configMaps);
      const secrets = new FolderObjects('Secret', managers?.secrets);
      [this.configMaps, this.secrets, this.#folder] = [configMaps, secrets, { configMaps, secrets }];
    } else {
      [this.configMaps, this.secrets] = [managers.configMaps, managers.secrets];
    }
    this.tokens = new TokenManager({
      ...deps,
      requester: client === undefined ? undefined : new ApiTokenRequester(client),
    });
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

  /** The handler of a RuntimeClass that is known; asks nobody, so that a container restarts without the API server too. */
  knownHandler(runtimeClass: string): string | undefined {
    return this.#runtimeClasses.get(runtimeClass)?.handler;
  }

  /** Of one that is not known, which may have been created a moment ago. Undefined: there is none. */
  async runtimeHandler(name: string, signal: AbortSignal): Promise<string | undefined> {
    const known = this.knownHandler(name);
    if (known !== undefined) return known;
    try {
      return (await this.#deps.client?.get(runtimeClassTarget.resource, { name }, signal))?.handler;
    } catch (thrown) {
      if (thrown instanceof NotFoundError) return undefined;
      throw thrown;
    }
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
        'the RuntimeClasses': (ended: AbortSignal) =>
          this.#runtimeClasses.follow({ ...this.#deps, client }, runtimeClassTarget, ended),
      }),
    };
    await Promise.all(Object.entries(parts).map(([task, part]) => runTask(task, part, this.#deps, signal)));
  }
}

function managersOf(
  deps: NodeObjectsDeps & { readonly client: ApiClient },
  { strategy, syncMs }: ObjectSettings,
): ObjectManagers {
  return objectManagers(
    {
      ...deps,
      configMaps: new ApiObjectSource(managedConfigMaps.resource, deps),
      secrets: new ApiObjectSource(managedSecrets.resource, deps),
    },
    { strategy, syncFrequencyMs: syncMs },
  );
}

/**
 * Objects of the folder of manifests go before those of the API server: what lies beside a static pod is meant for it. For the
 * other pods, objects that the folder does not have come from the API server. It is not asked for the sake of static pods: to an
 * API server they refer to nothing, so it refuses a node all that they name.
 */
export class FolderObjects<T extends ManagedObject> implements ObjectManager<T> {
  readonly #base: ObjectManager<T> | undefined;
  readonly #ofStaticPods: NamedObjects;
  readonly #ofOthers: NamedObjects;
  readonly #changes = new CoalescingTopic<ObjectChange>(objectKey);
  #objects: ReadonlyMap<string, T> = new Map();

  constructor(kind: ReferencedKind, base: ObjectManager<T> | undefined) {
    this.#base = base;
    this.#ofStaticPods = new NamedObjects(kind);
    this.#ofOthers = new NamedObjects(kind);
  }

  /** Adds objects. Those that the folder no longer has stay until `replace`: pods that are still running may need them. */
  add(objects: readonly T[]): void {
    const added = new Set(objects.map((object) => objectKey(idOf(object))));
    this.replace([...[...this.#objects.values()].filter((object) => !added.has(objectKey(idOf(object)))), ...objects]);
  }

  /** What the folder has now. */
  replace(objects: readonly T[]): void {
    const before = this.#objects;
    this.#objects = new Map(objects.map((object) => [objectKey(idOf(object)), object]));
    for (const [key, object] of [...before, ...this.#objects]) {
      const resourceVersion = versionOf(this.#objects.get(key));
      if (versionOf(before.get(key)) !== resourceVersion) this.#changes.publish({ ...idOf(object), resourceVersion });
    }
  }

  async get(namespace: string, name: string, signal: AbortSignal): Promise<T | undefined> {
    const own = this.#objects.get(objectKey({ namespace, name }));
    return own ?? (await this.#elsewhere({ namespace, name }, signal));
  }

  registerPod(pod: Pod): void {
    if (isStaticPod(pod)) return this.#ofStaticPods.registerPod(pod);
    this.#ofOthers.registerPod(pod);
    this.#base?.registerPod(pod);
  }

  unregisterPod(pod: Pod): void {
    if (isStaticPod(pod)) return this.#ofStaticPods.unregisterPod(pod);
    this.#ofOthers.unregisterPod(pod);
    this.#base?.unregisterPod(pod);
  }

  async #elsewhere(id: ObjectId, signal: AbortSignal): Promise<T | undefined> {
    if (this.#ofStaticPods.has(id) && !this.#ofOthers.has(id)) return undefined;
    return await this.#base?.get(id.namespace, id.name, signal);
  }

  async *changes(signal: AbortSignal): AsyncIterable<ObjectChange> {
    const merged = new CoalescingTopic<ObjectChange>(objectKey);
    const changes = merged.follow(signal);
    const forwarding = [this.#ownChanges(merged, signal), this.#baseChanges(merged, signal)];
    yield* changes;
    await Promise.all(forwarding);
  }

  async #ownChanges(merged: CoalescingTopic<ObjectChange>, signal: AbortSignal): Promise<void> {
    for await (const change of this.#changes.follow(signal)) {
      const { resourceVersion } = change;
      // What goes from the folder may be had from the API server instead. If that cannot say, readers find out by themselves.
      const isGone = resourceVersion === undefined;
      const other = isGone ? await this.#elsewhere(change, signal).catch(() => undefined) : undefined;
      merged.publish({ ...change, resourceVersion: resourceVersion ?? versionOf(other) });
    }
  }

  async #baseChanges(merged: CoalescingTopic<ObjectChange>, signal: AbortSignal): Promise<void> {
    if (this.#base === undefined) return;
    for await (const change of this.#base.changes(signal)) {
      if (!this.#objects.has(objectKey(change))) merged.publish(change);
    }
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.#base?.run(signal);
  }
}

/** Whether pods that are registered name an object. */
class NamedObjects extends ReferencedObjects {
  readonly #counts = new Map<ObjectKey, number>();

  has(id: ObjectId): boolean {
    return (this.#counts.get(objectKey(id)) ?? 0) > 0;
  }

  override addReference(reference: Reference): void {
    this.#count(objectKey(reference), 1);
  }

  override releaseReference(reference: Reference): void {
    this.#count(objectKey(reference), -1);
  }

  #count(key: ObjectKey, more: number): void {
    const count = (this.#counts.get(key) ?? 0) + more;
    if (count === 0) this.#counts.delete(key);
    else this.#counts.set(key, count);
  }
}

function idOf({ metadata: { namespace = '', name } }: ManagedObject): ObjectId {
  return { namespace, name };
}

function versionOf(object: ManagedObject | undefined): string | undefined {
  return object?.metadata.resourceVersion;
}

/** Passes on changed objects to the volumes that show them and the pods that have read them. */
export async function followChanges(
  kind: 'ConfigMap' | 'Secret',
  objects: Pick<ObjectManager<ManagedObject>, 'changes'>,
  [volumes, pods]: readonly [Pick<VolumeManager, 'objectChanged'>, Pick<PodLoop, 'objectChanged'>],
  deps: TaskDeps,
  signal: AbortSignal,
): Promise<void> {
  const follow = async (over: AbortSignal): Promise<void> => {
    for await (const { namespace, name, resourceVersion } of objects.changes(over)) {
      volumes.objectChanged({ kind, namespace, name }, resourceVersion);
      pods.objectChanged(kind, namespace, name, resourceVersion);
    }
  };
  await runTask(`changes of ${kind}s`, follow, deps, signal);
}
