/** The content of a clusterTrustBundle source: the certificates of one bundle, or of all that a signer and labels select. */
import { createHash } from 'node:crypto';
import { MountletError, messageOf } from '../base/errors.ts';
import type { ClusterTrustBundle } from '../kube/kinds/cluster-trust-bundle.ts';
import type { ClusterTrustBundleProjection } from '../kube/kinds/pod/volume.ts';
import type { LabelSelector } from '../kube/schema/meta.ts';
import { formatRequirements, requirementsMatch, requirementsOf } from '../kube/values/labels.ts';
import { ObjectNotFoundError, type VolumeError } from './plugin.ts';
import { invalidPayload } from './projection.ts';

export interface TrustBundleReader {
  get(name: string, signal: AbortSignal): Promise<ClusterTrustBundle | undefined>;
  /** All bundles of one signer. */
  list(signerName: string, signal: AbortSignal): Promise<readonly ClusterTrustBundle[]>;
}

/** The kubelet keeps what it made of a selector under its text, and so bounds it. */
const selectorBytesMax = 100 * 1024;

/** Where the source is optional and nothing is found, the file is there and empty. */
export async function collectTrustBundle(
  bundles: TrustBundleReader | undefined,
  { name, signerName, labelSelector, optional }: ClusterTrustBundleProjection,
  signal: AbortSignal,
): Promise<Buffer> {
  if (name === undefined && signerName === undefined) {
    throw invalidPayload('ClusterTrustBundle projection requires either name or signerName to be set');
  }
  if (bundles === undefined) {
    throw invalidPayload('ClusterTrustBundle projection is not supported in static kubelet mode');
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
    throw invalidPayload(`label selector length (${length}) is larger than ${selectorBytesMax}`);
  }
  const all = await bundles.list(signerName, signal);
  return all.filter(({ metadata }) => requirementsMatch(requirements, metadata.labels ?? {}));
}

function parse(selector: LabelSelector): ReturnType<typeof requirementsOf> {
  try {
    return requirementsOf(selector);
  } catch (error) {
    if (!(error instanceof MountletError)) throw error;
    throw invalidPayload(`while parsing label selector: ${messageOf(error)}`, { cause: error });
  }
}

function notFound(name: string | undefined): VolumeError {
  if (name === undefined) {
    return invalidPayload('combination of signerName and labelSelector matched zero ClusterTrustBundles');
  }
  const { message } = new ObjectNotFoundError('clustertrustbundle.certificates.k8s.io', name);
  return invalidPayload(`while getting ClusterTrustBundle: ${message}`);
}

/**
 * Every PEM block of all bundles, each once, as a bare CERTIFICATE: headers and the text between blocks are gone. The
 * order is that of the certificates' digests. It says nothing about the order of the bundles, so no reader comes to rely
 * on it, and the same set gives the same bytes, so an unchanged set is never written again.
 */
export function trustAnchors(bundles: readonly string[]): Buffer {
  const certificates = new Map<string, string>();
  for (const bundle of bundles) {
    for (const body of pemBodies(bundle)) {
      certificates.set(createHash('sha256').update(Buffer.from(body, 'base64')).digest('hex'), body);
    }
  }
  const sorted = [...certificates].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Buffer.from(sorted.map(([, body]) => encode(body)).join(''), 'latin1');
}

/** The base64 of each well-formed block; what is malformed is skipped, as Go's decoder does. */
function* pemBodies(text: string): Iterable<string> {
  const blocks = /^-----BEGIN ([^\r\n]*)-----[ \t]*\r?\n((?:(?!-----)[\s\S])*?)^-----END \1-----[ \t]*\r?$/gm;
  for (const [, , inner = ''] of text.matchAll(blocks)) {
    const body = withoutHeaders(inner).replace(/\s/g, '');
    if (body.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(body)) yield body;
  }
}

/** `Proc-Type: 4,ENCRYPTED` and the like: lines with a colon, up to the first without one. */
function withoutHeaders(inner: string): string {
  const lines = inner.split('\n');
  const start = lines.findIndex((line) => !line.includes(':'));
  return start < 0 ? '' : lines.slice(start).join('\n');
}

function encode(body: string): string {
  const canonical = Buffer.from(body, 'base64').toString('base64');
  const lines = canonical.match(/.{1,64}/g) ?? [];
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
}
