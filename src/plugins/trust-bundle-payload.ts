/** The content of a clusterTrustBundle source: the certificates of one bundle, or of all that a signer and labels select. */
import { MountletError, messageOf } from '../base/errors.ts';
import type { ClusterTrustBundle } from '../kube/kinds/cluster-trust-bundle.ts';
import type { ClusterTrustBundleProjection } from '../kube/kinds/pod/volume.ts';
import type { LabelSelector } from '../kube/schema/meta.ts';
import { formatRequirements, requirementsMatch, requirementsOf } from '../kube/values/labels.ts';
import type { TrustBundleReader } from './object-readers.ts';
import { PayloadError } from './payload-errors.ts';
import { ObjectNotFoundError } from './plugin.ts';
import { trustAnchors } from './trust-anchors.ts';

/** The kubelet keeps what it made of a selector under its text, and so bounds it. */
const selectorBytesMax = 100 * 1024;

/** Where the source is optional and nothing is found, the file is there and empty. */
export async function collectTrustBundle(
  bundles: TrustBundleReader | undefined,
  { name, signerName, labelSelector, optional }: ClusterTrustBundleProjection,
  signal: AbortSignal,
): Promise<Buffer> {
  if (name === undefined && signerName === undefined) {
    throw new PayloadError('ClusterTrustBundle projection requires either name or signerName to be set');
  }
  if (bundles === undefined) {
    throw new PayloadError('ClusterTrustBundle projection is not supported in static kubelet mode');
  }
  const found =
    name === undefined
      ? await selected(bundles, signerName ?? '', labelSelector, signal)
      : [await bundles.get(name, signal)].filter((bundle) => bundle !== undefined);
  if (found.length === 0 && optional !== true) throw notFound(name);
  return trustAnchors(found.map(({ spec }) => spec.trustBundle));
}

async function selected(
  bundles: TrustBundleReader,
  signerName: string,
  selector: LabelSelector | undefined,
  signal: AbortSignal,
): Promise<ClusterTrustBundle[]> {
  if (selector === undefined) return []; // no selector selects nothing; an empty one selects everything
  const requirements = parse(selector);
  const length = Buffer.byteLength(formatRequirements(requirements));
  if (length > selectorBytesMax) {
    throw new PayloadError(`label selector length (${length}) is larger than ${selectorBytesMax}`);
  }
  const all = await bundles.list(signerName, signal);
  return all.filter(({ metadata }) => requirementsMatch(requirements, metadata.labels ?? {}));
}

function parse(selector: LabelSelector): ReturnType<typeof requirementsOf> {
  try {
    return requirementsOf(selector);
  } catch (error) {
    if (!(error instanceof MountletError)) throw error;
    throw new PayloadError(`while parsing label selector: ${messageOf(error)}`, { cause: error });
  }
}

function notFound(name: string | undefined): PayloadError {
  if (name === undefined) {
    return new PayloadError('combination of signerName and labelSelector matched zero ClusterTrustBundles');
  }
  const { message } = new ObjectNotFoundError('clustertrustbundle.certificates.k8s.io', name);
  return new PayloadError(`while getting ClusterTrustBundle: ${message}`);
}
