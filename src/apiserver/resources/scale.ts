/** The `scale` subresource of everything that makes pods by number: a view of the object as a Scale, which changes its replicas alone. */
import { type Scale, scaleKind } from '../../kube/kinds/workloads/scale.ts';
import { type KubeObject, resourceKind } from '../../kube/schema/kind.ts';
import { formatRequirements, requirementsOf } from '../../kube/values/labels.ts';
import type { LabelSelector, ObjectMeta } from '../../kube/schema/meta.ts';
import { ageColumn, nameColumn } from '../model/columns.ts';
import { type Resource, type Subresource, keepFields, resource } from '../model/resource.ts';

interface Scalable extends KubeObject {
  readonly spec: { readonly replicas?: number | undefined };
  readonly status?: { readonly replicas?: number | undefined } | undefined;
}

/** `parent`: the resource that has it, which is not there yet when its subresources are written down. */
export function scaleOf<T extends Scalable>(
  parent: () => Resource,
  selectorOf: (object: T) => LabelSelector | undefined,
): Subresource<T> {
  const view = resource(
    resourceKind<Scale>({
      ...scaleKind,
      plural: 'scales',
      namespaced: true,
      validateUpdate: (object) => scaleKind.validate(object),
    }),
    {
      verbs: ['get', 'patch', 'update'],
      viewOf: {
        get resource() {
          return parent();
        },
        fromStored: (stored) => shown(stored as T, formatRequirements(requirementsOf(selectorOf(stored as T) ?? {}))),
        toStored: (object, current) => scaled(object, current as Scalable | undefined),
      },
      columns: [
        nameColumn,
        {
          ...number,
          name: 'Desired',
          description: 'How many pods there should be.',
          cell: ({ spec }) => spec?.replicas ?? 0,
        },
        {
          ...number,
          name: 'Available',
          description: 'How many there are.',
          cell: ({ status }) => status?.replicas ?? 0,
        },
        ageColumn,
      ],
    },
  );
  return { name: 'scale', kind: scaleKind, verbs: view.verbs, view };
}

const number = { type: 'integer', priority: 0 } as const;

function shown({ metadata, spec, status }: Scalable, selector: string): Scale {
  const { replicas = 0 } = spec;
  const named: ObjectMeta = { name: metadata.name };
  return {
    kind: scaleKind.kind,
    apiVersion: 'autoscaling/v1',
    metadata: keepFields(named, metadata, 'namespace', 'uid', 'resourceVersion', 'creationTimestamp'),
    // As Go writes it: a zero is not shown.
    spec: replicas === 0 ? {} : { replicas },
    status: { replicas: status?.replicas ?? 0, ...(selector !== '' && { selector }) },
  };
}

/** The object as it is, with the number that was asked for. What is said of its identity has to hold. */
function scaled({ metadata, spec }: Scale, current: Scalable | undefined): KubeObject {
  const { uid, resourceVersion, name, namespace } = metadata;
  const given = { ...(uid && { uid }), name, ...(namespace && { namespace }) };
  const { resourceVersion: _, ...kept } = current?.metadata ?? {};
  const now = { ...kept, ...given, ...(resourceVersion && { resourceVersion }) };
  return { ...current, metadata: now, spec: { ...current?.spec, replicas: spec?.replicas ?? 0 } } as KubeObject;
}
