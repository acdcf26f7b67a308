/** The node that one pod of a rendering is on: what it knows (manifests) and what it can do (this machine). */
import { randomInt } from 'node:crypto';
import { systemClock } from '../base/clock.ts';
import { privateTmpfsDirectory } from '../disk/mounts/file-system.ts';
import type { Mounts } from '../disk/mounts/mounts.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { nodeKind, serviceAccountKind, serviceKind } from '../kube/manifests/manifest-kinds.ts';
import type { Manifests } from '../kube/manifests/manifests.ts';
import type { ClaimReader } from '../kube/references/volume-spec.ts';
import { PluginRegistry } from '../plugins/registry.ts';
import { standardPlugins } from '../plugins/standard-plugins.ts';
import type { ContainerViewDeps } from '../pods/container-view.ts';
import { containerEffects } from './container-effects.ts';
import { manifestObjects } from './manifest-objects.ts';
import { thisMachine } from './this-machine.ts';

export interface RenderNode {
  readonly root: string;
  readonly mounts: Mounts;
  readonly plugins: PluginRegistry;
  readonly claims: ClaimReader;
  readonly view: ContainerViewDeps & { readonly secrets: NonNullable<ContainerViewDeps['secrets']> };
  /** The pod as the cluster would hand it to this node. */
  readonly pod: Pod;
  readonly tell: Tell;
}

/** What a user should know besides the result: told once for each topic, which is the note itself if none is given. */
export type Tell = (note: string, topic?: string) => void;

interface RenderNodeSettings {
  readonly root: string;
  readonly nodeName: string;
  readonly runtimeDirectory: string | undefined;
  readonly uid: number;
}

export function renderNode(
  manifests: Manifests,
  pod: Pod,
  settings: RenderNodeSettings,
  mounts: Mounts,
  tell: Tell,
): RenderNode {
  const { root, runtimeDirectory, uid } = settings;
  const node = nodeOf(manifests, pod, () => thisMachine(settings.nodeName, root));
  const objects = manifestObjects(manifests, node, systemClock, tell);
  const { configMaps, secrets, claims } = objects;
  const plugins = standardPlugins({
    ...objects,
    root,
    mounts,
    privateTmpfs: () => privateTmpfsDirectory({ ...(runtimeDirectory !== undefined && { runtimeDirectory }), uid }),
    now: () => systemClock.now(),
    random: () => randomInt(2 ** 32), // taken from a store, where randomBytes asks for each
    // What holds for the machine is found out for every pod, each time with another path, and told for the first.
    notify: ({ kind, message }) => tell(message, kind === 'PodWarning' ? message : kind),
  });
  return {
    root,
    mounts,
    plugins: PluginRegistry.of(plugins).registry,
    claims,
    view: { configMaps, secrets, services: manifests.all(serviceKind), node, ...containerEffects(root, mounts) },
    pod: admitted(manifests, pod, node),
    tell,
  };
}

/** The node the pod names, the only one there is, or else this machine. */
function nodeOf(manifests: Manifests, { spec: { nodeName = '' } }: Pod, machine: () => Node): Node {
  const nodes = manifests.all(nodeKind);
  if (nodeName !== '') {
    return nodes.find(({ metadata }) => metadata.name === nodeName) ?? { ...machine(), metadata: { name: nodeName } };
  }
  const [only, ...others] = nodes;
  return only !== undefined && others.length === 0 ? only : machine();
}

/** What scheduling and the service account's admission add and a container can notice. The token volume is not added. */
function admitted(manifests: Manifests, pod: Pod, node: Node): Pod {
  const { namespace = '' } = pod.metadata;
  const account = manifests.get(serviceAccountKind, namespace, pod.spec.serviceAccountName ?? '');
  const imagePullSecrets = pod.spec.imagePullSecrets?.length ? pod.spec.imagePullSecrets : account?.imagePullSecrets;
  return { ...pod, spec: { ...pod.spec, nodeName: node.metadata.name, ...(imagePullSecrets && { imagePullSecrets }) } };
}
