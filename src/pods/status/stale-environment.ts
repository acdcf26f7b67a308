/**
 * Variables are read when a container starts and never again. This compares the versions of objects that running containers were
 * started with to the current versions, and reports where they differ. It reads no values.
 */
import type { EventSink } from '../../kube/kinds/event.ts';
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

/** The version of an object that was deleted. */
const deleted = '';

export class StaleEnvironment {
  readonly #events: EventSink;
  readonly #versions = new Map<string, string>();
  readonly #users = new Map<string, Set<string>>();
  readonly #keys = new Map<string, ReadonlySet<string>>();
  /** Reported Events, by pod UID. */
  readonly #reported = new Map<string, Set<string>>();

  constructor(events: EventSink) {
    this.#events = events;
  }

  /** `resourceVersion` is undefined for an object that was deleted. Returns the UIDs of the pods that may be stale now. */
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

  /** Objects whose current version is unknown. */
  unknownObjects(pod: Pod, runtimePod: RuntimePod | undefined): readonly EnvironmentObject[] {
    const namespace = podNamespace(pod);
    return usesOf(runtimePod)
      .map(({ object }) => object)
      .filter(({ kind, name }) => !this.#versions.has(keyOf(kind, namespace, name)));
  }

  /**
   * Undefined if no container of the pod has variables from objects, or while nothing is known of them. Records an Event for every
   * container that went stale, once.
   */
  condition(pod: Pod, runtimePod: RuntimePod | undefined, before: PodCondition | undefined): PodCondition | undefined {
    const [uid, namespace] = [podUid(pod), podNamespace(pod)];
    const uses = usesOf(runtimePod);
    this.#remember(
      uid,
      uses.map(({ object: { kind, name } }) => keyOf(kind, namespace, name)),
    );
    if (uses.length === 0) return undefined;
    // After a restart of this program, until the objects were read, the last status is all that is known.
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
    this.#record(pod, stale, messages, before);
    return { type: environmentCondition, status: 'False', reason: 'ObjectChanged', message: messages.join('; ') };
  }

  forgetPod(uid: string): void {
    this.#remember(uid, []);
    this.#reported.delete(uid);
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

  #record(
    pod: Pod,
    stale: readonly (Use & { readonly version: string })[],
    messages: readonly string[],
    before: PodCondition | undefined,
  ): void {
    const isFirst = !this.#reported.has(podUid(pod));
    const reported = this.#reported.get(podUid(pod)) ?? new Set<string>();
    this.#reported.set(podUid(pod), reported);
    for (const [index, { container, containerId, object, version }] of stale.entries()) {
      const key = `${containerId} ${object.kind}/${object.name} ${version}`;
      const message = messages[index] ?? '';
      if (reported.has(key)) continue;
      reported.add(key);
      // It was recorded before a restart of this program.
      if (isFirst && before?.status === 'False' && before.message?.includes(message) === true) continue;
      this.#events.record({ pod, container, type: 'Warning', reason: 'EnvironmentStale', message });
    }
  }
}

function usesOf(runtimePod: RuntimePod | undefined): readonly Use[] {
  return (runtimePod?.containers ?? [])
    .filter(({ state }) => state.kind === 'running')
    .flatMap(({ id, name, annotations }) =>
      readEnvironmentObjects(annotations).map((object) => ({ container: name, containerId: id, object })),
    );
}

/** The status manager sets the time of the last change. */
function withoutTime({ lastTransitionTime: _time, ...condition }: PodCondition): PodCondition {
  return condition;
}

function keyOf(kind: EnvironmentKind, namespace: string, name: string): string {
  return `${kind}/${namespace}/${name}`;
}

/** A container may have read a version before its change was reported. Where versions are numbers, an older one is not a change. */
function isLater(version: string, than: string): boolean {
  const areNumbers = /^\d+$/.test(version) && /^\d+$/.test(than);
  return areNumbers ? BigInt(version) > BigInt(than) : version !== than;
}
