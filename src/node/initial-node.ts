/** The Node object with which a machine joins a cluster, and what becomes of one that is there already. Pure. */
import type { Node } from '../kube/kinds/node.ts';
import { type ResourceList, isHugePages } from '../kube/values/resource-list.ts';
import type { NodeSettings } from './node-settings.ts';
import { type Observed, observedStatus } from './node-status.ts';

const attachAnnotation = 'volumes.kubernetes.io/controller-managed-attach-detach';

/** Those that a node may have an opinion on; others that an operator configured are only for a new Node. */
const ownLabels = [
  'kubernetes.io/hostname',
  'topology.kubernetes.io/zone',
  'topology.kubernetes.io/region',
  'failure-domain.beta.kubernetes.io/zone',
  'failure-domain.beta.kubernetes.io/region',
  'node.kubernetes.io/instance-type',
  'beta.kubernetes.io/instance-type',
  'kubernetes.io/os',
  'kubernetes.io/arch',
  'beta.kubernetes.io/os',
  'beta.kubernetes.io/arch',
] as const;

export function initialNode(
  settings: NodeSettings,
  observed: Observed,
): { readonly node: Node; readonly changes: readonly string[] } {
  const { nodeName, nodeLabels, taints, controllerAttaches, providerId } = settings;
  const { status, changes } = observedStatus({}, observed, settings);
  const spec = { ...(taints.length > 0 && { taints }), ...(providerId !== '' && { providerID: providerId }) };
  const node: Node = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name: nodeName,
      labels: {
        'kubernetes.io/hostname': nodeName,
        ...machineLabels(observed),
        ...betaLabels(observed),
        ...nodeLabels,
      },
      ...(controllerAttaches && { annotations: { [attachAnnotation]: 'true' } }),
    },
    ...(Object.keys(spec).length > 0 && { spec }),
    status,
  };
  return { node, changes };
}

/** The two that a node corrects whenever they are wrong: programs for another machine do not run here. */
export function machineLabels({ machine }: Observed): Readonly<Record<string, string>> {
  if (machine === undefined) return {};
  return { 'kubernetes.io/os': machine.operatingSystem, 'kubernetes.io/arch': machine.architecture };
}

function betaLabels({ machine }: Observed): Readonly<Record<string, string>> {
  if (machine === undefined) return {};
  return { 'beta.kubernetes.io/os': machine.operatingSystem, 'beta.kubernetes.io/arch': machine.architecture };
}

/** The Node that was there, with what this node has to say: the status follows in its own time. */
export function reconciledNode(existing: Node, initial: Node): Node {
  const { metadata, status = {} } = existing;
  const labels: Record<string, string> = { ...metadata.labels };
  for (const name of ownLabels) {
    const value = initial.metadata.labels?.[name];
    if (value === '') delete labels[name];
    else if (value !== undefined) labels[name] = value;
  }
  const { [attachAnnotation]: _before, ...annotations } = metadata.annotations ?? {};
  const attach = initial.metadata.annotations?.[attachAnnotation];
  const { capacity = {}, allocatable = {} } = initial.status ?? {};
  return {
    ...existing,
    metadata: {
      ...metadata,
      labels,
      annotations: attach === undefined ? annotations : { ...annotations, [attachAnnotation]: attach },
    },
    status: {
      ...status,
      capacity: withPagesOf(status.capacity ?? capacity, capacity),
      allocatable: withPagesOf(status.allocatable ?? allocatable, allocatable),
    },
  };
}

/** Sizes of huge pages that the machine no longer has are taken away; those it has are as it says. */
function withPagesOf(existing: ResourceList, initial: ResourceList): ResourceList {
  const isPages = ([name]: readonly [string, unknown]): boolean => isHugePages(name);
  return Object.fromEntries([
    ...Object.entries(existing).filter((entry) => !isPages(entry)),
    ...Object.entries(initial).filter(isPages),
  ]);
}
