/**
 * Variables are read when a container starts and never again. This remembers which versions of objects the containers
 * that run were started with, and which versions there are now, and says where they differ. No value is looked at.
 */
import type { EventSink } from '../../kube/kinds/pod/pod-event.ts';
import { podNamespace, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { environmentCondition } from '../../kube/references/environment.ts';
import type { RuntimePod } from '../../runtimes/runtime.ts';
import { type EnvironmentObject, readEnvironmentObjects } from '../containers/runtime-containers.ts';
import type { PodCondition } from './pod-conditions.ts';

export type EnvironmentKind = EnvironmentObject['kind'];

interface Use {
  readonly container: string;
  readonly containerId: string;
  readonly object: EnvironmentObject;
}

/** Stands for an object that there is none of any more: it has no version. */
const deleted = '';

export class StaleEnvironment {
  readonly #events: EventSink;
  readonly #versions = new Map<string, string>();
  readonly #users = new Map<string, Set<string>>();
  readonly #keys = new Map<string, ReadonlySet<string>>();
  readonly #told = new Map<string, Set<string>>();

  constructor(events: EventSink) {
    this.#events = events;
  }

  /** Undefined: there is no such object any more. Answers the UIDs of the pods that may be stale now. */
  objectChanged(
    kind: EnvironmentKind,
    namespace: string,
    name: string,
    resourceVersion: string | undefined,
  ): readonly string[] {
    const key = keyOf(kind, namespace, name);
    const version = resourceVersion ?? deleted;
    if (this.#versions.get(key) === version) return [];
    const users = this.#users.get(key);
    if (users === undefined) return [];
    this.#versions.set(key, version);
    return [...users];
  }

  /** Objects of which it is not known whether the containers that run have their newest version. */
  unknownObjects(pod: Pod, runtimePod: RuntimePod | undefined): readonly EnvironmentObject[] {
    const namespace = podNamespace(pod);
    return usesOf(runtimePod)
      .map(({ object }) => object)
      .filter(({ kind, name }) => !this.#versions.has(keyOf(kind, namespace, name)));
  }

  /** Undefined for a pod of which no container has variables from objects, or as long as nothing is known of them. Tells every container that went stale once. */
  condition(pod: Pod, runtimePod: RuntimePod | undefined, before: PodCondition | undefined): PodCondition | undefined {
    const [uid, namespace] = [podUid(pod), podNamespace(pod)];
    const uses = usesOf(runtimePod);
    this.#remember(
      uid,
      uses.map(({ object: { kind, name } }) => keyOf(kind, namespace, name)),
    );
    if (uses.length === 0) return undefined;
    // After a restart of this program, until the objects were looked at, what was told before is all that is known.
    if (this.unknownObjects(pod, runtimePod).length > 0) return before && withoutTime(before);
    const stale = uses.flatMap((use) => {
      const version = this.#versions.get(keyOf(use.object.kind, namespace, use.object.name));
      return version === undefined || !isLater(version, use.object.resourceVersion) ? [] : [{ ...use, version }];
    });
    if (stale.length === 0) return { type: environmentCondition, status: 'True' };
    const messages = stale.map(({ container, object: { kind, name }, version }) => {
      const what = version === deleted ? 'was deleted' : 'has changed';
      return `container ${container} has variables from ${kind} "${name}", which ${what} since the container started`;
    });
    this.#tell(pod, stale, messages, before);
    return { type: environmentCondition, status: 'False', reason: 'ObjectChanged', message: messages.join('; ') };
  }

  forgetPod(uid: string): void {
    this.#remember(uid, []);
    this.#told.delete(uid);
  }

  #remember(uid: string, keys: readonly string[]): void {
    const now = new Set(keys);
    for (const key of this.#keys.get(uid) ?? []) {
      const users = this.#users.get(key);
      if (now.has(key) || users === undefined) continue;
      users.delete(uid);
      if (users.size > 0) continue;
      this.#users.delete(key);
      this.#versions.delete(key);
    }
    for (const key of now) this.#users.set(key, (this.#users.get(key) ?? new Set()).add(uid));
    if (now.size > 0) this.#keys.set(uid, now);
    else this.#keys.delete(uid);
  }

  #tell(
    pod: Pod,
    stale: readonly (Use & { readonly version: string })[],
    messages: readonly string[],
    before: PodCondition | undefined,
  ): void {
    const isFirst = !this.#told.has(podUid(pod));
    const told = this.#told.get(podUid(pod)) ?? new Set<string>();
    this.#told.set(podUid(pod), told);
    for (const [index, { container, containerId, object, version }] of stale.entries()) {
      const key = `${containerId} ${object.kind}/${object.name} ${version}`;
      const message = messages[index] ?? '';
      if (told.has(key)) continue;
      told.add(key);
      // Before a restart of this program it was told already.
      if (isFirst && before?.status === 'False' && before.message?.includes(message) === true) continue;
      this.#events.record({ pod, container, type: 'Warning', reason: 'EnvironmentStale', message });
    }
  }
}

function usesOf(runtimePod: RuntimePod | undefined): readonly Use[] {
  return (runtimePod?.containers ?? [])
    .filter(({ state }) => state.kind === 'running')
    .flatMap(({ id, name, labels }) =>
      readEnvironmentObjects(labels).map((object) => ({ container: name, containerId: id, object })),
    );
}

/** When it last changed is the status manager's business. */
function withoutTime({ lastTransitionTime: _time, ...condition }: PodCondition): PodCondition {
  return condition;
}

function keyOf(kind: EnvironmentKind, namespace: string, name: string): string {
  return `${kind}/${namespace}/${name}`;
}

/** A container may have read a version of which nobody has told yet: where versions are numbers, an older one is not news. */
function isLater(version: string, than: string): boolean {
  const areNumbers = /^\d+$/.test(version) && /^\d+$/.test(than);
  return areNumbers ? BigInt(version) > BigInt(than) : version !== than;
}
