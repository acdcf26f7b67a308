/** What a newcomer wants to see and to try: the volumes of the first pod that runs, and the next lines to type. */
import { lstatSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { RunningMachine } from '../agent/up.ts';
import type { Pod } from '../kube/objects/pod.ts';
import { showText } from './show-text.ts';

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

// Nothing tells of it here, and nobody minds a tenth of a second.
const lookEveryMs = 100;

async function firstRunning(pods: RunningMachine['node']['pods'], signal: AbortSignal): Promise<Pod | undefined> {
  while (!signal.aborted) {
    const running = pods.pods().find(({ metadata: { uid = '' } }) => pods.statusOf(uid)?.phase === 'Running');
    if (running !== undefined) return running;
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
  }
  return undefined;
}

/** `volumes/<plugin>/<volume>/<files>`, as `tree` would show it. */
function volumeTree(directory: string): string {
  const lines = [directory];
  for (const plugin of namesIn(directory)) {
    for (const volume of namesIn(join(directory, plugin))) {
      lines.push(`└─ ${plugin}/${volume}`);
      for (const file of namesIn(join(directory, plugin, volume))) {
        if (file.startsWith('..2')) continue;
        lines.push(`   └─ ${file}${targetOf(join(directory, plugin, volume, file))}`);
      }
    }
  }
  return `${lines.map(showText).join('\n')}\n`;
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
  if (!hasKubectl) {
    const given = `--kubeconfig ${kubeconfig}`;
    return [
      `npx mountlet get pods ${given}`,
      ...(configMap === undefined ? [] : [`npx mountlet get configmap ${configMap} -o yaml ${given} > change.yaml`]),
      `npx mountlet apply -f change.yaml ${given}      # after editing it: the pod has it at once`,
    ];
  }
  return [
    `export KUBECONFIG=${kubeconfig}`,
    'kubectl get pods',
    ...(mount === undefined ? [] : [`kubectl exec ${metadata.name} -- ls -l ${mount}`]),
    ...(configMap === undefined ? [] : [`kubectl edit configmap ${configMap}      # the pod has it at once`]),
  ];
}
