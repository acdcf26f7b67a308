/**
 * Namespaces. Deleting one only begins its end: the phase says so, and it stays until its own finalizer is taken away through
 * `finalize`, by the controller that has removed everything in it.
 */
import { leaseKind } from '../../kube/kinds/lease.ts';
import {
  namespaceKind,
  validateNamespaceFinalizeUpdate,
  validateNamespaceStatusUpdate,
} from '../../kube/kinds/namespace.ts';
import { type Node, nodeKind, validateNodeUpdate } from '../../kube/kinds/node.ts';
import { runtimeClassKind } from '../../kube/kinds/runtime-class.ts';
import { serviceAccountKind, tokenRequestKind } from '../../kube/kinds/service-account.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { ageColumn, nameColumn, orNone, text, wide } from '../model/columns.ts';
import { keepFields, proxyOf, resource } from '../model/resource.ts';

const ownFinalizer = 'kubernetes';
const keptForever = new Set(['default', 'kube-system', 'kube-public']);

export const namespaces = resource(namespaceKind, {
  verbs: ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'],
  subresources: [
    {
      name: 'status',
      verbs: ['get', 'patch', 'update'],
      update: {
        prepare: (object, old) => keepFields(object, old, 'spec'),
        validate: validateNamespaceStatusUpdate,
      },
    },
    {
      name: 'finalize',
      verbs: ['update'],
      update: {
        // Nothing but these: everything else stays as it is.
        prepare: ({ spec }, old) => ({ ...old, spec: { ...old.spec, finalizers: spec?.finalizers ?? [] } }),
        validate: validateNamespaceFinalizeUpdate,
      },
    },
  ],
  prepareForCreate: (object) => ({
    ...object,
    spec: { ...object.spec, finalizers: [...new Set([...(object.spec?.finalizers ?? []), ownFinalizer])] },
    status: { phase: 'Active' },
  }),
  prepareForUpdate: (object, old) => keepFields(object, old, 'spec', 'status'),
  deletion: {
    isHeld: ({ spec }) => (spec?.finalizers ?? []).length > 0,
    begin: (object) => ({ ...object, status: { ...object.status, phase: 'Terminating' } }),
    refusal: ({ metadata: { name } }) => (keptForever.has(name) ? 'this namespace may not be deleted' : undefined),
  },
  fields: { 'status.phase': ({ status }) => status?.phase ?? '' },
  columns: [
    nameColumn,
    text('Status', 'Whether the namespace is in use or about to end.', ({ status }) => status?.phase ?? ''),
    ageColumn,
  ],
  deleteAnswers: 'object',
});

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
    proxyOf('Node'),
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

export const serviceAccounts = resource(serviceAccountKind, {
  subresources: [{ name: 'token', kind: tokenRequestKind, verbs: ['create'] }],
  columns: [nameColumn, ageColumn],
  deleteAnswers: 'object',
});

export const leases = resource(leaseKind, {
  columns: [nameColumn, text('Holder', 'Who holds it now.', ({ spec }) => spec?.holderIdentity ?? ''), ageColumn],
  allowsCreateOnUpdate: true,
  // Who overwrites a lease unseen takes it from its holder.
  allowsUnconditionalUpdate: false,
});

export const runtimeClasses = resource(runtimeClassKind, {
  columns: [nameColumn, text('Handler', 'What the node calls it.', ({ handler }) => handler), ageColumn],
  allowsCreateOnUpdate: true,
  allowsUnconditionalUpdate: false,
});
