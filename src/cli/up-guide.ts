/** What a newcomer wants to see and to try: the volumes of the first pod that runs, and the next lines to type. */
import { lstatSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { RunningMachine } from '../agent/embedded/up.ts';
import type { PodStatus } from '../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { showText } from './terminal.ts';

export interface GuideSettings {
  readonly volumesOf: (podUid: string) => string;
  readonly hasKubectl: boolean;
}

/** Once, for the first pod that runs. Resolves when it has been shown, or when the signal aborts. */
export async function showFirstPod(
  { node, kubeconfig }: RunningMachine,
  { volumesOf, hasKubectl }: GuideSettings,
  print: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const pod = await firstRunning(node.pods, signal);
  if (pod === undefined) return;
  const { name, namespace = '', uid = '' } = pod.metadata;
  print(`\npod ${namespace}/${name} is running; its volumes:\n`);
  print(`${volumeTree(volumesOf(uid))}\n`);
  print(
    `Try, in another terminal:\n${nextLines(pod, kubeconfig, hasKubectl)
      .map((line) => `  ${line}\n`)
      .join('')}\n`,
  );
}

// Polled: no notice says this, and a tenth of a second is short enough.
const lookEveryMs = 100;

async function firstRunning(pods: RunningMachine['node']['pods'], signal: AbortSignal): Promise<Pod | undefined> {
  while (!signal.aborted) {
    const running = pods.pods().find(({ metadata: { uid = '' } }) => isRunning(pods.statusOf(uid)));
    if (running !== undefined) return running;
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
  }
  return undefined;
}

/** A pod whose container does not start has this phase too. */
function isRunning(status: PodStatus | undefined): boolean {
  const { phase, containerStatuses = [] } = status ?? {};
  return phase === 'Running' && containerStatuses.some(({ state }) => state?.running !== undefined);
}

/** `volumes/<plugin>/<volume>/<files>`, as `tree` would show it. Versions are left out: they are what `..data` is for. */
function volumeTree(directory: string): string {
  const volumes = namesIn(directory).flatMap((plugin) =>
    namesIn(join(directory, plugin)).map((name) => join(plugin, name)),
  );
  const lines = volumes.flatMap((volume, index) => {
    const path = join(directory, volume);
    const files = namesIn(path).filter((name) => !/^\.\.\d/.test(name));
    const isLast = index === volumes.length - 1;
    return [
      `${isLast ? '└──' : '├──'} ${volume}`,
      ...files.map((name, at) => {
        const branch = at === files.length - 1 ? '└──' : '├──';
        return `${isLast ? ' ' : '│'}   ${branch} ${name}${targetOf(join(path, name))}`;
      }),
    ];
  });
  return `${[directory, ...lines].map(showText).join('\n')}\n`;
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory).sort();
  } catch {
    return [];
  }
}

function targetOf(path: string): string {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true ? ` -> ${readlinkSync(path)}` : '';
}

function nextLines({ metadata, spec }: Pod, kubeconfig: string, hasKubectl: boolean): readonly string[] {
  const configMap = spec.volumes?.find((volume) => volume.configMap !== undefined)?.configMap?.name;
  const mount = spec.containers[0]?.volumeMounts?.[0]?.mountPath;
  const namespace = metadata.namespace === 'default' ? '' : ` -n ${metadata.namespace}`;
  if (!hasKubectl) {
    const given = `--kubeconfig ${kubeconfig}`;
    const getPods = `npx mountlet get pods${namespace} ${given}`;
    if (configMap === undefined) return [getPods];
    return [
      getPods,
      `npx mountlet get configmap ${configMap}${namespace} -o yaml ${given} > change.yaml`,
      `npx mountlet apply -f change.yaml ${given}      # after editing it: the pod has it at once`,
    ];
  }
  return [
    `export KUBECONFIG=${kubeconfig}`,
    `kubectl get pods${namespace}`,
    ...(mount === undefined ? [] : [`kubectl exec ${metadata.name}${namespace} -- ls -l ${mount}`]),
    ...(configMap === undefined
      ? []
      : [`kubectl edit configmap ${configMap}${namespace}      # the pod has it at once`]),
  ];
}
