/** The credentials that a pod's pull secrets hold and the images they would be tried for; never a password. */
import { MountletError } from '../base/errors.ts';
import { allContainers } from '../kube/pod.ts';
import { credentialsFor, parsePullSecrets } from '../kube/pull-credentials.ts';
import type { Keyring } from '../kube/pull-credentials.ts';
import { collectPullSecrets, missingPullSecretsEvent } from '../pods/image-pull-secrets.ts';
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
  try {
    const keyring = parsePullSecrets(
      collected.secrets.map(({ metadata: { name }, type = '', data = {} }) => ({ name, type, data })),
    );
    return credentialsIn(keyring, [...new Set(allContainers(pod.spec).map(({ image = '' }) => image))]);
  } catch (error) {
    if (error instanceof MountletError) throw new PodStartError([error.message]);
    throw error;
  }
}

function credentialsIn(keyring: Keyring, images: readonly string[]): readonly RenderedCredential[] {
  const used = images.map((image) => ({ image, credentials: new Set(credentialsFor(keyring, image)) }));
  return [...keyring.values()].flat().map((credential) => ({
    registry: credential.registry,
    username: credential.username,
    images: used.filter(({ credentials }) => credentials.has(credential)).map(({ image }) => image),
  }));
}
