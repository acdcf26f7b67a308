/** What a Kubernetes Event is about: an object, or a container within a pod. */
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { ObjectReference } from '../kube/schema/meta.ts';

export interface EventObject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Absent for cluster-wide objects. */
  readonly namespace?: string | undefined;
  readonly name: string;
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
  /** The part of the object: `spec.containers{web}`. */
  readonly fieldPath?: string | undefined;
}

/** What a node's own code asks to be recorded. Who says so, and when, the recorder adds. */
export interface NewEvent {
  readonly object: EventObject;
  readonly type: 'Normal' | 'Warning';
  /** One word in UpperCamelCase, on which people filter. */
  readonly reason: string;
  /** Holds no value of a Secret. */
  readonly message: string;
}

/** All that anyone needs of a recorder. */
export interface EventSink {
  record(event: NewEvent): void;
}

/** The pod, or the container of this name in it. */
export function podEventObject({ metadata, spec }: Pod, container?: string): EventObject {
  const { namespace, name, uid, resourceVersion } = metadata;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    namespace,
    name,
    uid,
    resourceVersion,
    ...(container !== undefined && { fieldPath: containerPath(spec, container) }),
  };
}

const containerLists = ['containers', 'initContainers', 'ephemeralContainers'] as const;

function containerPath(spec: Pod['spec'], container: string): string {
  const list = containerLists.find((field) => spec[field]?.some(({ name }) => name === container));
  return list === undefined ? `implicitly required container ${container}` : `spec.${list}{${container}}`;
}

/**
 * Until the cluster has said which UID the node has, its name stands for it: that is where `kubectl describe node` looks too.
 */
export function nodeEventObject(name: string, uid: string | undefined): EventObject {
  return { apiVersion: 'v1', kind: 'Node', name, uid: uid ?? name };
}

export function referenceOf(object: EventObject): ObjectReference {
  const { apiVersion, kind, namespace, name, uid, resourceVersion, fieldPath } = object;
  return {
    apiVersion,
    kind,
    name,
    ...(namespace !== undefined && { namespace }),
    ...(uid !== undefined && { uid }),
    ...(resourceVersion !== undefined && { resourceVersion }),
    ...(fieldPath !== undefined && { fieldPath }),
  };
}
