/**
 * What a driver says of the node it runs on, and how the cluster learns of it: an annotation and labels of the Node, and an entry of
 * the CSINode. Pure: objects in, changed objects or patches out. What a driver says is checked here and nowhere else.
 */
import { OperatingError } from '../base/errors.ts';
import type { NodeGetInfoResponse } from '../grpc/messages/csi_pb.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { CsiNode } from '../kube/kinds/storage/csi.ts';
import { annotated } from '../kube/references/claims.ts';
import { migratedDrivers, migratedPlugins } from '../kube/references/csi-translation.ts';
import { valueAt } from '../kube/schema/equality.ts';
import { compareByteOrder, goQuote, inKeyOrder } from '../kube/values/go-text.ts';
import { labelValueProblems, qualifiedNameProblems } from '../kube/values/names.ts';
import { driverText } from './drivers.ts';

export interface DriverInfo {
  readonly nodeId: string;
  /** Where volumes of this node can be reached from: labels of the Node. */
  readonly topology: Readonly<Record<string, string>>;
  /** How many volumes the node can have attached; undefined: the driver knows no limit. */
  readonly volumesMax: number | undefined;
}

/** As the API allows. */
const nodeIdBytesMax = 256;
/** Two or three are usual: region, zone, host. */
const topologyKeysMax = 32;
const int32Max = 2 ** 31 - 1;

export function driverInfoOf({ nodeId, maxVolumesPerNode, accessibleTopology }: NodeGetInfoResponse): DriverInfo {
  if (nodeId === '') throw unusable('error adding CSI driver node info: driverNodeID must not be empty');
  if (Buffer.byteLength(nodeId) > nodeIdBytesMax || driverText(nodeId) !== nodeId) {
    throw unusable(`the node ID of a driver must be printable and ${nodeIdBytesMax} bytes or less`);
  }
  const segments = Object.entries(accessibleTopology?.segments ?? {});
  if (segments.length > topologyKeysMax) throw unusable(`a driver may report ${topologyKeysMax} topology keys or less`);
  for (const [key, value] of segments) {
    const [problem] = [...qualifiedNameProblems(key), ...labelValueProblems(value)];
    if (problem === undefined) continue;
    const segment = `${goQuote(key.slice(0, nodeIdBytesMax))}:${goQuote(value.slice(0, nodeIdBytesMax))}`;
    throw unusable(`the topology ${segment} of a driver cannot be a label: ${problem}`);
  }
  const volumesMax = maxVolumesPerNode > 0n ? Math.min(Number(maxVolumesPerNode), int32Max) : undefined;
  return { nodeId, topology: Object.fromEntries(segments), volumesMax };
}

function unusable(message: string): OperatingError {
  return new OperatingError('DriverInfoUnusable', message);
}

const nodeIdAnnotation = 'csi.volume.kubernetes.io/nodeid';

interface MetadataPatch {
  readonly metadata: {
    readonly annotations?: Readonly<Record<string, string | null>>;
    readonly labels?: Readonly<Record<string, string>>;
  };
}

/** For the Node; undefined when it says everything already. Without `info` the driver goes; its labels stay, as volumes depend on them. */
export function nodeMetadataPatch(
  { metadata }: Node,
  driver: string,
  info: DriverInfo | undefined,
): MetadataPatch | undefined {
  const text = metadata.annotations?.[nodeIdAnnotation] ?? '';
  const known = nodeIdsOf(text);
  const { [driver]: _id, ...others } = known;
  const ids = info === undefined ? others : { ...others, [driver]: info.nodeId };
  const annotation = Object.keys(ids).length === 0 ? null : JSON.stringify(inKeyOrder(ids));
  const labels = newLabels(metadata.labels ?? {}, info?.topology ?? {});
  const patch = {
    ...(valueAt(known, driver) !== info?.nodeId && { annotations: { [nodeIdAnnotation]: annotation } }),
    ...(Object.keys(labels).length > 0 && { labels }),
  };
  return Object.keys(patch).length === 0 ? undefined : { metadata: patch };
}

function nodeIdsOf(text: string): Readonly<Record<string, string>> {
  if (text === '') return {};
  const failed = `failed to parse node's ${goQuote(nodeIdAnnotation)} annotation value (${goQuote(text)}) err=`;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new OperatingError('NodeAnnotationUnreadable', `${failed}${(cause as Error).message}`, { cause });
  }
  const isMap = typeof value === 'object' && !Array.isArray(value);
  if (!isMap || Object.values(value ?? {}).some((id) => typeof id !== 'string')) {
    throw new OperatingError('NodeAnnotationUnreadable', `${failed}it is not a map of strings`);
  }
  return (value ?? {}) as Readonly<Record<string, string>>;
}

function newLabels(labels: Readonly<Record<string, string>>, topology: DriverInfo['topology']): DriverInfo['topology'] {
  const wanted = Object.entries(topology);
  for (const [key, value] of wanted) {
    const existing = Object.hasOwn(labels, key) ? labels[key] : undefined;
    if (existing === undefined || existing === value) continue;
    const reported = `${goQuote(key)}:${goQuote(value)}`;
    const text = `detected topology value collision: driver reported ${reported} but existing label is ${goQuote(key)}:${goQuote(existing)}`;
    throw new OperatingError('TopologyCollision', text);
  }
  return Object.fromEntries(wanted.filter(([key]) => valueAt(labels, key) === undefined));
}

type DriverEntry = CsiNode['spec']['drivers'][number];

/** The plugins that were part of Kubernetes once and are served by CSI drivers now, which is all of them. */
const allMigrated = [...migratedDrivers.keys()].join(',');

export function newCsiNode({ metadata: { name, uid = '' } }: Node): CsiNode {
  return withMigratedPlugins({
    apiVersion: 'storage.k8s.io/v1',
    kind: 'CSINode',
    metadata: { name, ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid }] },
    spec: { drivers: [] },
  });
}

/** The UID of the Node that it belongs to, where that is another than this; the old Node's drivers are not those of the new one. */
export function foreignOwner({ metadata }: CsiNode, node: Node): string | undefined {
  const owner = metadata.ownerReferences?.find(({ kind }) => kind === 'Node');
  return owner === undefined || owner.uid === node.metadata.uid ? undefined : owner.uid;
}

export function withMigratedPlugins(csiNode: CsiNode): CsiNode {
  return annotated(csiNode, [migratedPlugins], allMigrated);
}

/** The same object when it says so already. An entry that changes moves to the end. */
export function withDriver(csiNode: CsiNode, name: string, info: DriverInfo): CsiNode {
  const { nodeId: nodeID, topology, volumesMax: count } = info;
  const topologyKeys = Object.keys(topology).toSorted(compareByteOrder);
  const entry: DriverEntry = { name, nodeID, topologyKeys, ...(count !== undefined && { allocatable: { count } }) };
  const known = entryOf(csiNode, name);
  if (known !== undefined && hasIdentity(known, entry) && known.allocatable?.count === count) return csiNode;
  return { ...csiNode, spec: { drivers: [...withoutDriver(csiNode, name).spec.drivers, entry] } };
}

/** The API lets nothing of an entry change but its limit: another node ID or topology takes a removal before. */
export function isReplacement(before: CsiNode, after: CsiNode): boolean {
  return after.spec.drivers.some((entry) => {
    const known = entryOf(before, entry.name);
    return known !== undefined && !hasIdentity(known, entry);
  });
}

function hasIdentity(one: DriverEntry, other: DriverEntry): boolean {
  const keysOf = ({ topologyKeys = [] }: DriverEntry): string => topologyKeys.toSorted(compareByteOrder).join();
  return one.nodeID === other.nodeID && keysOf(one) === keysOf(other);
}

/** The same object when it has no such driver. */
export function withoutDriver(csiNode: CsiNode, name: string): CsiNode {
  if (entryOf(csiNode, name) === undefined) return csiNode;
  return { ...csiNode, spec: { drivers: csiNode.spec.drivers.filter((entry) => entry.name !== name) } };
}

function entryOf({ spec }: CsiNode, name: string): DriverEntry | undefined {
  return spec.drivers.find((entry) => entry.name === name);
}
