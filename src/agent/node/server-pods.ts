/** The pods of this node, as its own server needs them. */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { NodePod, NodePods } from '../../node-server/node-pods.ts';
import type { PodLoop } from '../../pods/pod-loop.ts';
import type { Runtime, RuntimePod } from '../../runtimes/runtime.ts';

export function serverPods(loop: PodLoop, runtime: Pick<Runtime, 'list' | 'get'>): NodePods {
  return {
    find(namespace, name) {
      const pod = loop.podNamed(namespace, name);
      return pod === undefined ? undefined : nodePod(pod, loop, runtime);
    },
    list: () =>
      loop.pods().map((pod) => ({ ...pod, status: loop.statusOf(pod.metadata.uid ?? '') ?? pod.status ?? {} })),
    running: async (signal) => (await runtime.list(signal)).filter(hasRunning).map(shownPod),
  };
}

function nodePod(pod: Pod, loop: PodLoop, runtime: Pick<Runtime, 'get'>): NodePod {
  const uid = pod.metadata.uid ?? '';
  const containers = (): RuntimePod['containers'] => loop.runtimePodOf(uid)?.containers ?? [];
  return {
    pod,
    runningContainer: (name) => containers().find((one) => one.name === name && one.state.kind === 'running')?.id,
    log(containerId) {
      const id = containerId.slice(containerId.indexOf('://') < 0 ? 0 : containerId.indexOf('://') + 3);
      const path = containers().find((one) => one.id === id)?.logPath;
      if (path === undefined) return undefined;
      const isRunning = async (): Promise<boolean> => {
        const now = await runtime.get(uid, new AbortController().signal);
        return now?.containers.some((one) => one.id === id && one.state.kind === 'running') ?? false;
      };
      return { path, isRunning };
    },
  };
}

function hasRunning({ containers }: RuntimePod): boolean {
  return containers.some(({ state }) => state.kind === 'running');
}

function shownPod({ uid, namespace, name, containers }: RuntimePod): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { uid, namespace, name },
    spec: { containers: containers.map((one) => ({ name: one.name, image: one.image })) },
  };
}
