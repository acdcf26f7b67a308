/** Where volumes are to be, and where they are: labels of nodes, of which a driver names the keys in each CSINode. Pure. */
import type { Topology } from '../../grpc/messages/csi_pb.ts';
import type { CsiNode } from '../../kube/kinds/storage/csi.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { StorageClass } from '../../kube/kinds/storage/storage-class.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { RefusedError } from './requests.ts';

type Segments = Readonly<Record<string, string>>;

/** What `requisite` and `preferred` say. */
export interface Requirement {
  readonly requisite: { readonly segments: Record<string, string> }[];
  readonly preferred: { readonly segments: Record<string, string> }[];
}

interface Place {
  readonly node: KubeObject | undefined;
  readonly csiNode: CsiNode | undefined;
}

/** The node that was chosen does not exist any more: another one has to be. */
export class NodeGoneError extends RefusedError {}

/** A claim whose node is chosen is served there and nowhere else. */
export function requirementAt(driver: string, name: string, { node, csiNode }: Place): Requirement {
  if (csiNode === undefined) {
    throw new NodeGoneError(`failed to get selected CSINode ${name}: csinode.storage.k8s.io "${name}" not found`);
  }
  const keys = keysOf(driver, csiNode);
  const failed = (text: string): RefusedError =>
    new RefusedError(`error generating accessibility requirements: ${text}`);
  if (keys.length === 0) throw failed(`no topology key found for node ${name}`);
  const segments = segmentsOf(node, keys);
  if (segments === undefined)
    throw failed(
      `topology labels from selected node ${name} do not match topology keys from CSINode [${keys.join(' ')}]`,
    );
  return asRequirement([segments]);
}

/** No node is chosen: wherever the driver is and the class allows it. */
export function requirementAnywhere(
  driver: string,
  allowed: NonNullable<StorageClass['allowedTopologies']>,
  places: readonly Place[],
): Requirement {
  const terms = places.flatMap(({ node, csiNode }) => {
    const segments = csiNode && segmentsOf(node, keysOf(driver, csiNode));
    return segments !== undefined && isAllowed(segments, allowed) ? [segments] : [];
  });
  if (terms.length > 0) return asRequirement(terms);
  throw new RefusedError('error generating accessibility requirements: no available topology found');
}

function isAllowed(segments: Segments, allowed: NonNullable<StorageClass['allowedTopologies']>): boolean {
  const fits = ({ matchLabelExpressions = [] }: (typeof allowed)[number]): boolean =>
    matchLabelExpressions.every(({ key, values }) => values.includes(segments[key] ?? ''));
  return allowed.length === 0 || allowed.some(fits);
}

function keysOf(driver: string, { spec }: CsiNode): readonly string[] {
  return spec.drivers.find(({ name }) => name === driver)?.topologyKeys ?? [];
}

function segmentsOf(node: KubeObject | undefined, keys: readonly string[]): Segments | undefined {
  const labels = node?.metadata.labels ?? {};
  if (keys.length === 0 || !keys.every((key) => Object.hasOwn(labels, key))) return undefined;
  return Object.fromEntries(keys.map((key) => [key, labels[key] ?? '']));
}

/** The first is preferred. Sorted, so that a call that is repeated is the same call. */
function asRequirement(terms: readonly Segments[]): Requirement {
  const byText = new Map(terms.map((segments) => [JSON.stringify(sortedEntries(segments)), segments]));
  const sorted = [...byText].sort(([a], [b]) => compareByteOrder(a, b)).map(([, segments]) => ({ segments }));
  return { requisite: sorted, preferred: sorted };
}

function sortedEntries(segments: Segments): [string, string][] {
  return Object.entries(segments).sort(([a], [b]) => compareByteOrder(a, b));
}

type Affinity = NonNullable<PersistentVolume['spec']['nodeAffinity']>;

/** The nodes from which the volume can be reached; undefined: all. */
export function affinityOf(topologies: readonly Topology[]): Affinity | undefined {
  const nodeSelectorTerms = topologies
    .map(({ segments }) => sortedEntries(segments))
    .filter((entries) => entries.length > 0)
    .map((entries) => ({
      matchExpressions: entries.map(([key, value]) => ({ key, operator: 'In', values: [value] })),
    }));
  return nodeSelectorTerms.length === 0 ? undefined : { required: { nodeSelectorTerms } };
}
