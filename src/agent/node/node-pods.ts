/** The pods of a node at an API server: the list it follows, and the few things a node writes there. */
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { onAbort } from '../../base/abort.ts';
import type { ApiClient } from '../../client/api-client.ts';
import { AlreadyExistsError, ConflictError, NotFoundError } from '../../client/api-errors.ts';
import { type ReflectorDeps, reflect, reflectorDefaults } from '../../client/reflector.ts';
import { objectKey, pods, runtimeClasses, withShape } from '../../client/resource-reference.ts';
import { type Pod, podShape } from '../../kube/kinds/pod/pod.ts';
import { runtimeClassShape } from '../../kube/kinds/runtime-class.ts';
import type { PodApi } from '../../pods/loop/pod-parts.ts';
import type { PodNetwork } from '../../pods/probes/http-exchange.ts';
import type { Runtime } from '../../runtimes/runtime.ts';

const podResource = withShape<Pod>(pods, podShape);
const runtimeClassResource = withShape(runtimeClasses, runtimeClassShape);

export function apiPods(client: Pick<ApiClient, 'get' | 'patchForMetadata' | 'delete' | 'create'>): PodApi {
  return {
    get: (namespace, name, signal) => unlessGone(() => client.get(podResource, { namespace, name }, signal)),
    patchStatus: (namespace, name, patch, signal) =>
      unlessGone(() =>
        client.patchForMetadata(pods, { namespace, name, subresource: 'status', type: 'strategic' }, patch, signal),
      ),
    async delete(namespace, name, uid, signal) {
      const options = { apiVersion: 'v1', kind: 'DeleteOptions', gracePeriodSeconds: 0, preconditions: { uid } };
      await unlessGone(() => client.delete(pods, { namespace, name }, options, signal));
    },
    async create(pod, signal) {
      try {
        await client.create(podResource, { namespace: pod.metadata.namespace }, { ...pod, ...kindOfPod }, signal);
        return true;
      } catch (error) {
        if (error instanceof AlreadyExistsError) return false;
        throw error;
      }
    },
  };
}

/** Undefined: there is no such RuntimeClass. */
export async function runtimeHandler(
  client: Pick<ApiClient, 'get'>,
  name: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  return (await unlessGone(() => client.get(runtimeClassResource, { name }, signal)))?.handler;
}

const kindOfPod = { apiVersion: 'v1', kind: 'Pod' };

/** A pod that is gone, or whose name another pod has now, is no longer this node's to write. */
async function unlessGone<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof NotFoundError || error instanceof ConflictError) return undefined;
    throw error;
  }
}

/** All pods that are bound to the node, anew after every change. */
export async function* podLists(
  deps: ReflectorDeps,
  nodeName: string,
  signal: AbortSignal,
): AsyncGenerator<readonly Pod[]> {
  const known = new Map<string, Pod>();
  const target = { ...reflectorDefaults, resource: podResource, fieldSelector: `spec.nodeName=${nodeName}` };
  for await (const reflection of reflect(deps, target, signal)) {
    if (reflection.kind === 'replaced') {
      known.clear();
      for (const pod of reflection.objects) known.set(objectKey(pod), pod);
    } else if (reflection.kind === 'changed') known.set(objectKey(reflection.object), reflection.object);
    else known.delete(objectKey(reflection.object));
    yield [...known.values()];
  }
}

/** How this node reaches ports of pods, for probes and hooks. */
export function podNetwork(runtime: Pick<Runtime, 'connect'>): PodNetwork {
  return {
    connect: ({ podUid, host, port }, signal) =>
      host === undefined ? runtime.connect(podUid, port, signal) : dial(host, port, signal),
  };
}

function dial(host: string, port: number, signal: AbortSignal): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const socket = connect({ host, port });
    const stopListening = onAbort(signal, () => void socket.destroy(signal.reason as Error));
    const settle = (act: () => void): void => {
      stopListening();
      act();
    };
    socket.once('connect', () => settle(() => resolve(socket)));
    socket.on('error', (error) => settle(() => reject(error)));
  });
}
