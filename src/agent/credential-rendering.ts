/** The credentials that a pod's pull secrets hold and the images they would be tried for; never a password. */
import type { Container } from '../kube/kinds/pod/container.ts';
import { allContainers } from '../kube/kinds/pod/pod-spec.ts';
import {
  type Keyring,
  PullSecretError,
  type RegistryCredentials,
  credentialsFor,
  parsePullSecrets,
} from '../kube/references/pull-credentials.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { ImageReferenceError } from '../kube/values/image-reference.ts';
import { type ImagePullSecrets, collectPullSecrets, missingPullSecretsEvent } from '../pods/image-pull-secrets.ts';
import { PodStartError } from './pod-start-error.ts';
import type { RenderNode } from './render-node.ts';
import type { RenderedCredential } from './rendered-pod.ts';

export async function renderCredentials(
  { pod, view, tell }: RenderNode,
  signal: AbortSignal,
): Promise<readonly RenderedCredential[]> {
  const collected = await collectPullSecrets(pod, view.secrets, signal);
  const missing = missingPullSecretsEvent(collected);
  if (missing !== undefined) tell(`pod ${pod.metadata.namespace}/${pod.metadata.name}: ${missing.message}`);
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

/** Tells of every container whose image has no name that can be pulled, whether there are credentials or not. */
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
