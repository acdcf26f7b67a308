import { type Node, nodeKind, validateNodeUpdate } from '../../kube/kinds/node.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { ageColumn, nameColumn, orNone, text, wide } from '../model/columns.ts';
import { keepFields, resource } from '../model/resource.ts';

const rolePrefix = 'node-role.kubernetes.io/';
const roleLabel = 'kubernetes.io/role';

export const nodes = resource(nodeKind, {
  subresources: [
    {
      name: 'status',
      verbs: ['get', 'patch', 'update'],
      // The kubelet sends labels and annotations along with its status, so metadata is taken as given.
      update: {
        prepare: (object, old) => keepFields(object, old, 'spec'),
        validate: (object, old) => validateNodeUpdate(object, old),
      },
    },
  ],
  // A node registers itself together with its status.
  prepareForCreate: (object) => object,
  prepareForUpdate: (object, old) => keepFields(object, old, 'status'),
  fields: { 'spec.unschedulable': ({ spec }) => String(spec?.unschedulable ?? false) },
  columns: [
    nameColumn,
    text('Status', 'Whether the node is ready, and whether pods may come to it.', statusOf),
    text('Roles', 'What the node is for, from its labels.', rolesOf),
    ageColumn,
    text('Version', 'The version of the node agent.', ({ status }) => status?.nodeInfo?.kubeletVersion ?? ''),
    wide('Internal-IP', 'The address of the node inside the cluster.', (object) => addressOf(object, 'InternalIP')),
    wide('External-IP', 'The address of the node for others.', (object) => addressOf(object, 'ExternalIP')),
    wide('OS-Image', 'The system of the node.', ({ status }) => orUnknown(status?.nodeInfo?.osImage)),
    wide('Kernel-Version', 'The kernel of the node, with its machine in parentheses.', kernelOf),
    wide('Container-Runtime', 'What runs the containers, with its version.', ({ status }) =>
      orUnknown(status?.nodeInfo?.containerRuntimeVersion),
    ),
  ],
});

function statusOf({ spec, status }: Node): string {
  // Of conditions of the same type the last one counts.
  const ready = status?.conditions?.findLast(({ type }) => type === 'Ready');
  const words = [ready === undefined ? 'Unknown' : ready.status === 'True' ? 'Ready' : 'NotReady'];
  if (spec?.unschedulable === true) words.push('SchedulingDisabled');
  return words.join(',');
}

function rolesOf({ metadata: { labels = {} } }: Node): string {
  const roles = Object.entries(labels).map(([key, value]) => {
    if (key.startsWith(rolePrefix)) return key.slice(rolePrefix.length);
    return key === roleLabel ? value : '';
  });
  return orNone(
    [...new Set(roles)]
      .filter((role) => role !== '')
      .sort(compareByteOrder)
      .join(','),
  );
}

function addressOf({ status }: Node, type: string): string {
  return orNone(status?.addresses?.find((address) => address.type === type)?.address);
}

function kernelOf({ status }: Node): string {
  const kernel = orUnknown(status?.nodeInfo?.kernelVersion);
  const machine = status?.nodeInfo?.architecture ?? '';
  return machine === '' ? kernel : `${kernel} (${machine})`;
}

function orUnknown(value: string | undefined): string {
  return value === undefined || value === '' ? '<unknown>' : value;
}
