/**
 * The Secrets that a pod names for pulling its images. A missing one does not stop the pod: the image may be present already, or
 * public. It is reported only when a pull has failed, because only then it may be the reason.
 */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Secret } from '../../kube/kinds/secret.ts';
import { type RegistryCredentials, credentialsFor, parsePullSecrets } from '../../kube/references/pull-credentials.ts';
import type { ObjectReader } from '../view/environment-objects.ts';

export interface ImagePullSecrets {
  /** In the pod's order, which is the order in which their credentials are tried. */
  readonly secrets: readonly Secret[];
  /** Names of those that could not be read. */
  readonly missing: readonly string[];
}

export async function collectPullSecrets(
  { metadata, spec }: Pod,
  reader: ObjectReader<Secret>,
  signal: AbortSignal,
): Promise<ImagePullSecrets> {
  const secrets: Secret[] = [];
  const missing: string[] = [];
  for (const { name } of spec.imagePullSecrets ?? []) {
    // Old API servers let an entry without a name through.
    if (name === '') continue;
    const secret = await read(reader, metadata.namespace ?? 'default', name, signal);
    if (secret === undefined) missing.push(name);
    else secrets.push(secret);
  }
  return { secrets, missing };
}

async function read(
  reader: ObjectReader<Secret>,
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<Secret | undefined> {
  try {
    return await reader.get(namespace, name, signal);
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

/**
 * What to try for an image, one after another; none means without a login. Throws where a secret for this image cannot be
 * parsed, which fails the image and not the pod.
 */
export function pullCredentials({ secrets }: ImagePullSecrets, image: string): readonly RegistryCredentials[] {
  return credentialsFor(
    parsePullSecrets(secrets.map(({ metadata, ...secret }) => ({ ...secret, name: metadata.name }))),
    image,
  );
}

interface PullSecretsEvent {
  readonly type: 'Warning';
  readonly reason: 'FailedToRetrieveImagePullSecret';
  readonly message: string;
}

/** The Event about missing pull secrets after a pull has failed in this sync; undefined if none is missing. */
export function missingPullSecretsEvent({ missing }: ImagePullSecrets): PullSecretsEvent | undefined {
  if (missing.length === 0) return undefined;
  const names = missing.join(', ');
  return {
    type: 'Warning',
    reason: 'FailedToRetrieveImagePullSecret',
    message: `Unable to retrieve some image pull secrets (${names}); attempting to pull the image may not succeed.`,
  };
}
