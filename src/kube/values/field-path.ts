/**
 * Values of `fieldRef`: a pod's own fields as text, for downward API files and for environment variables. The two differ:
 * volumes see metadata only, variables also see the node, the service account and addresses.
 */
import { OperatingError } from '../../base/errors.ts';
import { compareByteOrder, goQuote } from './go-text.ts';
import { qualifiedNameProblems } from './names.ts';
import { type IpFamily, orderPodIps } from './network-names.ts';

/** All that field paths look at. */
export interface FieldSource {
  readonly metadata: {
    readonly name?: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

interface EnvironmentFieldSource extends FieldSource {
  readonly spec: { readonly nodeName?: string; readonly serviceAccountName?: string };
}

/** What only the node knows about a pod. */
interface PodAddresses {
  readonly podIps: readonly string[];
  /** The node's own addresses, the primary one first. */
  readonly hostIps: readonly string[];
  readonly nodeFamily: IpFamily;
}

interface FieldReference {
  readonly apiVersion: string;
  readonly fieldPath: string;
}

interface Subscripted {
  readonly path: string;
  readonly subscript: string;
}

/** `metadata.labels['app']` in its two parts, or undefined for a path without a subscript. */
export function splitSubscript(fieldPath: string): Subscripted | undefined {
  if (!fieldPath.endsWith("']")) return undefined;
  const inner = fieldPath.slice(0, -2);
  const open = inner.indexOf("['");
  return open > 0 ? { path: inner.slice(0, open), subscript: inner.slice(open + 2) } : undefined;
}

/** Lines `key="value"` in the order of the keys' bytes, without a newline at the end. */
export function formatMap(map: Readonly<Record<string, string>> | undefined): string {
  return Object.entries(map ?? {})
    .toSorted(([a], [b]) => compareByteOrder(a, b))
    .map(([key, value]) => `${key}=${goQuote(value)}`)
    .join('\n');
}

/** The content of a downward API file. Throws a OperatingError. */
export function volumeFieldValue({ metadata }: FieldSource, fieldPath: string): string {
  const subscripted = splitSubscript(fieldPath);
  if (subscripted !== undefined) return mapValue(metadata, fieldPath, subscripted);
  switch (fieldPath) {
    case 'metadata.annotations':
      return formatMap(metadata.annotations);
    case 'metadata.labels':
      return formatMap(metadata.labels);
    case 'metadata.name':
      return metadata.name ?? '';
    case 'metadata.namespace':
      return metadata.namespace ?? '';
    case 'metadata.uid':
      return metadata.uid ?? '';
    default:
      throw new OperatingError('InvalidFieldPath', `unsupported fieldPath: ${fieldPath}`);
  }
}

/** The value of an environment variable. Throws a OperatingError. */
export function environmentFieldValue(
  pod: EnvironmentFieldSource,
  reference: FieldReference,
  { podIps, hostIps, nodeFamily }: PodAddresses,
): string {
  const fieldPath = checkedFieldLabel(reference);
  switch (fieldPath) {
    case 'spec.nodeName':
      return pod.spec.nodeName ?? '';
    case 'spec.serviceAccountName':
      return pod.spec.serviceAccountName ?? '';
    case 'status.hostIP':
      return hostIps[0] ?? '';
    case 'status.hostIPs':
      return hostIps.join(',');
    case 'status.podIP':
      return orderPodIps(podIps, nodeFamily)[0] ?? podIps[0] ?? '';
    case 'status.podIPs':
      return orderPodIps(podIps, nodeFamily).join(',');
    default:
      return volumeFieldValue(pod, fieldPath);
  }
}

const fieldLabels: ReadonlySet<string> = new Set([
  'metadata.annotations',
  'metadata.labels',
  'metadata.name',
  'metadata.namespace',
  'metadata.uid',
  'spec.nodeName',
  'spec.restartPolicy',
  'spec.serviceAccountName',
  'spec.schedulerName',
  'status.phase',
  'status.hostIP',
  'status.hostIPs',
  'status.podIP',
  'status.podIPs',
]);

/** The first filter of a reference, also used by API validation: what could be a field of a pod at all. */
export function checkedFieldLabel({ apiVersion, fieldPath }: FieldReference): string {
  if (apiVersion !== 'v1') throw new OperatingError('InvalidFieldPath', `unsupported pod version: ${apiVersion}`);
  const subscripted = splitSubscript(fieldPath);
  if (subscripted !== undefined) {
    if (subscripted.path === 'metadata.annotations' || subscripted.path === 'metadata.labels') return fieldPath;
    throw new OperatingError('InvalidFieldPath', `field label does not support subscript: ${fieldPath}`);
  }
  // The name this field had in the first clients.
  if (fieldPath === 'spec.host') return 'spec.nodeName';
  if (!fieldLabels.has(fieldPath))
    throw new OperatingError('InvalidFieldPath', `field label not supported: ${fieldPath}`);
  return fieldPath;
}

function mapValue(metadata: FieldSource['metadata'], fieldPath: string, { path, subscript }: Subscripted): string {
  if (path !== 'metadata.annotations' && path !== 'metadata.labels') {
    throw new OperatingError('InvalidFieldPath', `fieldPath ${goQuote(fieldPath)} does not support subscript`);
  }
  const isLabel = path === 'metadata.labels';
  // Keys of annotations may have capitals where keys of labels may not.
  const problems = qualifiedNameProblems(isLabel ? subscript : subscript.toLowerCase());
  if (problems.length > 0)
    throw new OperatingError('InvalidFieldPath', `invalid key subscript in ${fieldPath}: ${problems.join(';')}`);
  const map = (isLabel ? metadata.labels : metadata.annotations) ?? {};
  return Object.hasOwn(map, subscript) ? (map[subscript] ?? '') : '';
}
