/**
 * Puts manifests on an API server by server-side apply: `mountlet apply`, and `mountlet up FILE`. What an object may be is the
 * server's to judge; here only the order and the words are.
 */
import { resources } from '../../apiserver/resources/resources.ts';
import { OperatingError } from '../../base/errors.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import { ApiError, NotFoundError } from '../../client/api/api-errors.ts';
import { type DiscoveredResources, UnknownKindError } from '../../client/discovery.ts';
import type { ManifestFile } from '../../kube/manifests/manifests.ts';
import { type Position, parseYamlDocuments } from '../../kube/manifests/yaml-documents.ts';
import { isRecord } from '../../kube/schema/equality.ts';
import { placeOf, showPath } from '../../kube/schema/field-errors.ts';
import { apiVersionsOf } from '../../kube/schema/kind.ts';
import { type FieldPath, type ShapeProblem, decode } from '../../kube/schema/schema.ts';

export interface AppliedObject {
  /** `configmap/web`. */
  readonly name: string;
  readonly namespace: string | undefined;
  readonly outcome: 'created' | 'configured' | 'unchanged' | 'refused';
  /** Why it was refused, each with its place in the file. */
  readonly problems?: readonly string[];
}

interface Manifest {
  /** Where the field stands, or what is nearest around it. */
  readonly locate: (field: FieldPath) => string;
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly object: Readonly<Record<string, unknown>>;
}

type Client = Pick<ApiClient, 'get' | 'patch'>;

const fieldManager = 'mountlet';

/**
 * Everything is read before anything is sent, and what others live in is sent first. What the server refuses, or has no kind for,
 * is reported in its turn; the rest is applied.
 */
export async function* applyManifests(
  files: readonly ManifestFile[],
  namespace: string,
  client: Client,
  kinds: DiscoveredResources,
  signal: AbortSignal,
): AsyncGenerator<AppliedObject> {
  const manifests = files.flatMap(readManifest).toSorted((a, b) => rank(a) - rank(b));
  if (manifests.length === 0) throw new OperatingError('ManifestUnusable', 'no objects found in these manifests');
  for (const manifest of manifests) {
    const { kind, metadata } = manifest;
    try {
      yield await apply(manifest, namespace, client, kinds, signal);
    } catch (error) {
      if (!(error instanceof ApiError) && !(error instanceof UnknownKindError)) throw error;
      yield {
        name: `${kind.toLowerCase()}/${metadata.name}`,
        namespace: metadata.namespace ?? namespace,
        outcome: 'refused',
        problems: problemsOf(manifest, error),
      };
    }
  }
}

async function apply(
  { apiVersion, kind, metadata, object }: Manifest,
  namespace: string,
  client: Client,
  kinds: DiscoveredResources,
  signal: AbortSignal,
): Promise<AppliedObject> {
  const { name } = metadata;
  const resource = kinds.ofKind(apiVersion, kind);
  const place = { name, ...(resource.isNamespaced && { namespace: metadata.namespace ?? namespace }) };
  const before = await client.get(resource, place, signal).catch((error: unknown) => {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  });
  const options = { ...place, type: 'apply', fieldManager, force: true } as const;
  const after = await client.patch(resource, options, object, signal);
  const isSame = before?.metadata.resourceVersion === after.metadata.resourceVersion;
  return {
    name: `${resource.singular}${resource.group === '' ? '' : `.${resource.group}`}/${name}`,
    namespace: place.namespace,
    outcome: before === undefined ? 'created' : isSame ? 'unchanged' : 'configured',
  };
}

/** The server names an object and fields; their author needs the places in the file. */
function problemsOf(manifest: Manifest, error: ApiError | UnknownKindError): readonly string[] {
  const { locate, kind, metadata } = manifest;
  const who = `${kind} "${metadata.name}"`;
  if (error instanceof UnknownKindError) return [`${locate([])}: ${who}: ${error.message}`];
  const misfits = misfitsOf(manifest, error);
  if (misfits.length > 0) {
    return misfits.map(({ path, message }) => `${locate(placeOf({ path }))}: ${who}: ${showPath(path)}: ${message}`);
  }
  const { causes, message: text } = error;
  const [invalid] = /^.*? is invalid: /.exec(text) ?? [];
  if (causes.length < 2 || invalid === undefined) return [`${locate(pathOf(causes[0]?.field ?? ''))}: ${text}`];
  return causes.map(({ field = '', message }) => `${locate(pathOf(field))}: ${invalid}${field}: ${message}`);
}

/** What a server could not even decode it names without advice, and some quote the value, which may be a Secret's. */
function misfitsOf({ apiVersion, kind, object }: Manifest, { message }: ApiError): readonly ShapeProblem[] {
  if (!message.startsWith('failed to create typed patch object')) return [];
  const known = resources.find((one) => one.kind === kind && apiVersionsOf(one).includes(apiVersion));
  return known === undefined ? [] : decode(known.shape, object).problems;
}

/** `spec.containers[0].image` and `data[app.conf]` as the steps that they are. */
function pathOf(field: string): FieldPath {
  return [...field.matchAll(/\[([^\]]*)\]|[^.[\]]+/g)].map(([name, inBrackets = name]) =>
    /^\d+$/.test(inBrackets) ? Number(inBrackets) : inBrackets,
  );
}

/** Namespaces before what is in them, and pods after everything they name. */
function rank({ kind }: Manifest): number {
  return kind === 'Namespace' ? 0 : kind === 'Pod' ? 2 : 1;
}

/** As kubectl reads it: of a key that stands twice the last counts. */
function readManifest({ name, text }: ManifestFile): Manifest[] {
  const at = ({ line, column }: Position): string => `${name}:${line}:${column}`;
  const documents = parseYamlDocuments(text);
  const problems = documents
    .flatMap((document) => document.problems)
    .filter(({ repeatedKey }) => repeatedKey === undefined);
  if (problems.length > 0) {
    const lines = problems.map(({ position, message }) => `${at(position)}: ${message}`);
    throw new OperatingError('ManifestUnusable', lines.join('\n'));
  }
  return documents
    .filter(({ value }) => value !== undefined && value !== null)
    .flatMap((document) => objectsOf((path) => at(document.locate(path)), document.value, []));
}

type Locate = (path: FieldPath) => string;

interface ObjectType {
  readonly apiVersion?: unknown;
  readonly kind?: unknown;
}

function objectsOf(locate: Locate, value: unknown, path: FieldPath, ofList: ObjectType = {}): Manifest[] {
  const where = locate(path);
  if (!isRecord(value)) throw new OperatingError('ManifestUnusable', `${where}: this is no Kubernetes object`);
  // Items of a PodList need not say that they are Pods.
  const { apiVersion = ofList.apiVersion, kind = ofList.kind, metadata, items } = value;
  if (typeof kind === 'string' && kind.endsWith('List') && Array.isArray(items)) {
    const ofItems = kind === 'List' ? {} : { apiVersion, kind: kind.slice(0, -'List'.length) };
    return items.flatMap((item, index) => objectsOf(locate, item, [...path, 'items', index], ofItems));
  }
  if (typeof apiVersion !== 'string' || typeof kind !== 'string') {
    throw new OperatingError('ManifestUnusable', `${where}: apiVersion and kind must be set`);
  }
  if (!isRecord(metadata) || typeof metadata['name'] !== 'string' || metadata['name'] === '') {
    throw new OperatingError('ManifestUnusable', `${where}: metadata.name of this ${kind} must be set`);
  }
  const { name, namespace } = metadata;
  return [
    {
      locate: (field) => locate([...path, ...field]),
      apiVersion,
      kind,
      metadata: { name, ...(typeof namespace === 'string' && { namespace }) },
      object: { ...authored(value, metadata), apiVersion, kind },
    },
  ];
}

/** The server's own, which an object has that was printed by it: to apply it again is to wish for the rest. */
const serverSet = new Set([
  'managedFields',
  'resourceVersion',
  'uid',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'selfLink',
]);

function authored(
  object: Readonly<Record<string, unknown>>,
  metadata: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const kept = Object.entries(metadata).filter(([field]) => !serverSet.has(field));
  const fields = Object.entries(object).filter(([field]) => field !== 'status');
  return { ...Object.fromEntries(fields), metadata: Object.fromEntries(kept) };
}
