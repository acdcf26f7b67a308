/**
 * Puts manifests on an API server by server-side apply: `mountlet apply`, and `mountlet up --apply`. What an object may be is the
 * server's to judge; here only the order and the words are.
 */
import { OperatingError } from '../../base/errors.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import { ApiError, NotFoundError } from '../../client/api/api-errors.ts';
import type { DiscoveredResources } from '../../client/discovery.ts';
import type { ManifestFile } from '../../kube/manifests/manifests.ts';
import { parseYamlDocuments } from '../../kube/manifests/yaml-documents.ts';
import { isRecord } from '../../kube/schema/equality.ts';

export interface AppliedObject {
  /** `configmap/web`. */
  readonly name: string;
  readonly namespace: string | undefined;
  readonly outcome: 'created' | 'configured' | 'unchanged';
}

interface Manifest {
  readonly where: string;
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly object: Readonly<Record<string, unknown>>;
}

const fieldManager = 'mountlet';

/** Everything is read before anything is sent, and what others live in is sent first. */
export async function* applyManifests(
  files: readonly ManifestFile[],
  namespace: string,
  client: Pick<ApiClient, 'get' | 'patch'>,
  kinds: DiscoveredResources,
  signal: AbortSignal,
): AsyncGenerator<AppliedObject> {
  const manifests = files.flatMap(readManifest).toSorted((a, b) => rank(a) - rank(b));
  if (manifests.length === 0) throw new OperatingError('ManifestUnusable', 'no objects found in these manifests');
  const placed = manifests.map((manifest) => ({
    manifest,
    resource: kinds.ofKind(manifest.apiVersion, manifest.kind),
  }));
  for (const { manifest, resource } of placed) {
    const { name } = manifest.metadata;
    const place = { name, ...(resource.isNamespaced && { namespace: manifest.metadata.namespace ?? namespace }) };
    const before = await client.get(resource, place, signal).catch((error: unknown) => {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    });
    const options = { ...place, type: 'apply', fieldManager, force: true } as const;
    const after = await client.patch(resource, options, manifest.object, signal).catch((error: unknown) => {
      // The server names an object; its author needs the place in the file.
      if (!(error instanceof ApiError)) throw error;
      throw new OperatingError('ManifestUnusable', `${manifest.where}: ${error.message}`, { cause: error });
    });
    const isSame = before?.metadata.resourceVersion === after.metadata.resourceVersion;
    yield {
      name: `${resource.singular}${resource.group === '' ? '' : `.${resource.group}`}/${name}`,
      namespace: place.namespace,
      outcome: before === undefined ? 'created' : isSame ? 'unchanged' : 'configured',
    };
  }
}

/** Namespaces before what is in them, and pods after everything they name. */
function rank({ kind }: Manifest): number {
  return kind === 'Namespace' ? 0 : kind === 'Pod' ? 2 : 1;
}

function readManifest({ name, text }: ManifestFile): Manifest[] {
  return parseYamlDocuments(text).flatMap((document) => {
    const { value, problems } = document;
    const [problem] = problems;
    if (problem !== undefined) {
      throw new OperatingError(
        'ManifestUnusable',
        `${name}:${problem.position.line}:${problem.position.column}: ${problem.message}`,
      );
    }
    return value === undefined || value === null ? [] : objectsOf(`${name}:${document.locate([]).line}`, value);
  });
}

function objectsOf(where: string, value: unknown): Manifest[] {
  if (!isRecord(value)) throw new OperatingError('ManifestUnusable', `${where}: this is no Kubernetes object`);
  const { apiVersion, kind, metadata, items } = value;
  if (typeof kind === 'string' && kind.endsWith('List') && Array.isArray(items)) {
    return items.flatMap((item) => objectsOf(where, item));
  }
  if (typeof apiVersion !== 'string' || typeof kind !== 'string') {
    throw new OperatingError('ManifestUnusable', `${where}: apiVersion and kind must be set`);
  }
  if (!isRecord(metadata) || typeof metadata['name'] !== 'string' || metadata['name'] === '') {
    throw new OperatingError('ManifestUnusable', `${where}: metadata.name of this ${kind} must be set`);
  }
  const { name, namespace } = metadata;
  return [
    { where, apiVersion, kind, metadata: { name, ...(typeof namespace === 'string' && { namespace }) }, object: value },
  ];
}
