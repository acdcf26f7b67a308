/** What the containers of a pod see, given its volumes: variables, mounts, and the credentials its images are pulled with. */
import type { Container, EphemeralContainer } from '../../kube/kinds/pod/container.ts';
import { allContainers } from '../../kube/kinds/pod/pod-spec.ts';
import {
  type Keyring,
  PullSecretError,
  type RegistryCredentials,
  credentialsFor,
  parsePullSecrets,
} from '../../kube/references/pull-credentials.ts';
import { specName } from '../../kube/references/volume-spec.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { ImageReferenceError } from '../../kube/values/image-reference.ts';
import { podDirectory } from '../../kube/values/node-layout.ts';
import { viewContainer } from '../../pods/view/container-view.ts';
import {
  type ImagePullSecrets,
  collectPullSecrets,
  missingPullSecretsEvent,
} from '../../pods/images/image-pull-secrets.ts';
import type { ContainerMount, MountedVolume, MountedVolumes } from '../../pods/view/mounts.ts';
import { ContainerConfigError } from '../../pods/view/variables.ts';
import type { PreparedVolume } from './pod-volumes.ts';
import type { RenderNode } from './render-node.ts';
import {
  PodStartError,
  type RenderedContainer,
  type RenderedCredential,
  type RenderedMount,
  type RenderedPod,
} from './rendered-pod.ts';

type Containers = Pick<RenderedPod, 'initContainers' | 'containers' | 'ephemeralContainers'>;
type AnyContainer = Container | EphemeralContainer;

/** Reports every container that could not start, not only the first. */
export async function renderContainers(
  node: RenderNode,
  volumes: readonly PreparedVolume[],
  signal: AbortSignal,
): Promise<Containers> {
  const { spec } = node.pod;
  const mounted = new Map(volumes.map((volume) => [volume.name, mountedVolume(volume)]));
  const messages: string[] = [];
  const render = async (containers: readonly AnyContainer[] = []): Promise<readonly RenderedContainer[]> => {
    const rendered: RenderedContainer[] = [];
    for (const container of containers) {
      try {
        rendered.push(await renderContainer(node, container, mounted, signal));
      } catch (error) {
        if (!(error instanceof ContainerConfigError)) throw error;
        messages.push(`container "${container.name}": ${error.reason}: ${error.message}`);
      }
    }
    return rendered;
  };
  const initContainers = await render(spec.initContainers);
  const containers = await render(spec.containers);
  const ephemeralContainers = await render(spec.ephemeralContainers);
  if (messages.length > 0) throw new PodStartError(messages);
  return { initContainers, containers, ephemeralContainers };
}

async function renderContainer(
  { pod, root, view }: RenderNode,
  container: AnyContainer,
  volumes: MountedVolumes,
  signal: AbortSignal,
): Promise<RenderedContainer> {
  const { podIP, podIPs = podIP === undefined ? [] : [{ ip: podIP }] } = pod.status ?? {};
  const { environment, mounts } = await viewContainer(
    {
      pod,
      container,
      volumes,
      podDirectory: podDirectory(root, pod.metadata.uid ?? ''),
      podIPs: podIPs.map(({ ip }) => ip),
      runtimeSupportsRecursiveReadOnly: true,
      clusterDomain: 'cluster.local',
    },
    view,
    signal,
  );
  return {
    name: container.name,
    env: environment.map(({ name, value, secret }) => ({ name, value, secret })),
    mounts: mounts.map(renderMount),
  };
}

function renderMount(mount: ContainerMount): RenderedMount {
  const { mountPath, hostPath = '', readOnly, subPath, secretSubPath, image, propagation, recursiveReadOnly } = mount;
  return {
    mountPath,
    hostPath: image ?? hostPath,
    readOnly,
    ...(subPath !== undefined && { subPath }),
    ...(propagation !== 'None' && { mountPropagation: propagation }),
    ...(recursiveReadOnly && { recursiveReadOnly }),
    secretSubPath,
  };
}

function mountedVolume({ spec, isDevice, plugin, source, path }: PreparedVolume): MountedVolume {
  if (isDevice) return { kind: 'block', link: undefined, readOnly: spec.readOnly };
  if (path === undefined) return { kind: 'image', reference: spec.volume?.image?.reference ?? '' };
  const { readOnly, replaced } = plugin.attributes(source, spec);
  return {
    kind: 'filesystem',
    hostPath: path,
    specName: specName(spec),
    readOnly: spec.readOnly || readOnly,
    ...(replaced !== undefined && { replaced }),
  };
}

/** The credentials that a pod's pull secrets hold and the images they would be tried for; never a password. */
export async function renderCredentials(
  { pod, view, note }: RenderNode,
  signal: AbortSignal,
): Promise<readonly RenderedCredential[]> {
  const collected = await collectPullSecrets(pod, view.secrets, signal);
  const missing = missingPullSecretsEvent(collected);
  if (missing !== undefined) note(`pod ${pod.metadata.namespace}/${pod.metadata.name}: ${missing.message}`);
  return credentialsIn(keyringOf(collected), allContainers(pod.spec));
}

function keyringOf({ secrets }: ImagePullSecrets): Keyring {
  try {
    return parsePullSecrets(secrets.map(({ metadata: { name }, type = '', data = {} }) => ({ name, type, data })));
  } catch (error) {
    if (error instanceof PullSecretError) throw new PodStartError([error.message]);
    throw error;
  }
}

type Named = Pick<Container, 'name' | 'image'>;

/** Reports every container whose image has no name that can be pulled, with or without credentials. */
function credentialsIn(keyring: Keyring, containers: readonly Named[]): readonly RenderedCredential[] {
  const fitting = new Map<string, ReadonlySet<RegistryCredentials>>();
  const messages: string[] = [];
  for (const { name, image = '' } of containers) {
    try {
      fitting.set(image, new Set(credentialsFor(keyring, image)));
    } catch (error) {
      if (!(error instanceof ImageReferenceError)) throw error;
      const why = `Failed to apply default image tag ${goQuote(image)}: ${error.message}`;
      messages.push(`container "${name}": InvalidImageName: ${why}`);
    }
  }
  if (messages.length > 0) throw new PodStartError(messages);
  return [...keyring.values()].flat().map((credential) => ({
    registry: credential.registry,
    username: credential.username,
    images: [...fitting].filter(([, credentials]) => credentials.has(credential)).map(([image]) => image),
  }));
}
