/** Workloads that keep a number of pods, and what they are made of: what the server decides of them, and their tables. */
import { type ControllerRevision, controllerRevisionKind } from '../../kube/kinds/controller-revision.ts';
import { type PodTemplate, podTemplateKind, podTemplateShape } from '../../kube/kinds/pod-template.ts';
import { means } from '../../kube/schema/equality.ts';
import { type LabelSelector, controllerOf } from '../../kube/schema/meta.ts';
import { formatRequirements, requirementsOf } from '../../kube/values/labels.ts';
import { type Shape, map, string } from '../../kube/schema/schema.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import {
  type Deployment,
  deploymentKind,
  deploymentShape,
  validateDeploymentStatusUpdate,
} from '../../kube/kinds/workloads/deployment.ts';
import {
  type ReplicaSet,
  replicaSetKind,
  replicaSetShape,
  validateReplicaStatusUpdate,
} from '../../kube/kinds/workloads/replica-set.ts';
import {
  type ReplicationController,
  replicationControllerKind,
  replicationControllerShape,
} from '../../kube/kinds/workloads/replication-controller.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { ageColumn, nameColumn, orNone, text, wide } from '../model/columns.ts';
import { type Column, type Resource, keepFields, parseApiVersion, resource } from '../model/resource.ts';
import { podWarnings } from './pod-warnings.ts';
import { scaleOf } from './scale.ts';
import { plainStatus } from './storage.ts';

export const podTemplates = resource(podTemplateKind, {
  prepareForCreate: (object) => withGeneration(object, 1),
  prepareForUpdate: (object, old) => counted(podTemplateShape, object, old),
  warnings: ({ template }) => podWarnings(template.spec, 'template.spec'),
  columns: [
    nameColumn,
    text('Containers', 'The names of the containers.', ({ template: { spec } }) =>
      spec.containers.map(({ name }) => name).join(','),
    ),
    text('Images', 'The images of the containers.', ({ template: { spec } }) =>
      spec.containers.map(({ image = '' }) => image).join(','),
    ),
    text('Pod Labels', 'The labels of the pods.', ({ template: { metadata } }) => labelsOf(metadata?.labels)),
  ],
  deleteAnswers: 'object',
});

export const controllerRevisions = resource(controllerRevisionKind, {
  columns: [
    nameColumn,
    text('Controller', 'The controller it belongs to.', controllerName),
    { name: 'Revision', type: 'string', description: 'Its number.', priority: 0, cell: ({ revision }) => revision },
    ageColumn,
  ],
});

const number = { type: 'integer', priority: 0 } as const;

const replicaColumns: readonly Column<ReplicaSet | ReplicationController>[] = [
  nameColumn,
  { ...number, name: 'Desired', description: 'How many pods are wanted.', cell: ({ spec }) => spec.replicas ?? 0 },
  { ...number, name: 'Current', description: 'How many there are.', cell: ({ status }) => status?.replicas ?? 0 },
  { ...number, name: 'Ready', description: 'How many are ready.', cell: ({ status }) => status?.readyReplicas ?? 0 },
  ageColumn,
];

export const deployments: Resource<Deployment> = resource(deploymentKind, {
  subresources: [
    {
      name: 'status',
      verbs: ['get', 'patch', 'update'],
      update: {
        // Annotations come with it: the controller keeps the revision in one.
        prepare: (object, old) => ({
          ...keepFields(object, old, 'spec'),
          metadata: keepFields(object.metadata, old.metadata, 'labels'),
        }),
        validate: validateDeploymentStatusUpdate,
      },
    },
    scaleOf<Deployment>(
      () => deployments,
      ({ spec }) => spec.selector,
    ),
  ],
  prepareForCreate: (object) => withGeneration({ ...object, status: {} }, 1),
  prepareForUpdate: (object, old) => {
    const next = counted(deploymentShape, keepFields(object, old, 'status'), old);
    const isSame = next.metadata.generation === old.metadata.generation;
    const annotations = map(string);
    // The controller copies annotations to its ReplicaSets, and has to see each change.
    return isSame && !means(annotations, object.metadata.annotations, old.metadata.annotations)
      ? withGeneration(next, (old.metadata.generation ?? 0) + 1)
      : next;
  },
  warnings: templateWarnings,
  columns: [
    nameColumn,
    text('Ready', 'How many pods are ready, of how many.', ({ spec, status }) => {
      return `${status?.readyReplicas ?? 0}/${spec.replicas ?? 0}`;
    }),
    {
      ...number,
      name: 'Up-to-date',
      description: 'How many pods are of the newest template.',
      cell: ({ status }) => status?.updatedReplicas ?? 0,
    },
    {
      ...number,
      name: 'Available',
      description: 'How many pods have been ready for long enough.',
      cell: ({ status }) => status?.availableReplicas ?? 0,
    },
    ageColumn,
    ...templateColumns<Deployment>(({ spec }) => spec),
  ],
});

export const replicaSets: Resource<ReplicaSet> = resource(replicaSetKind, {
  subresources: [
    plainStatus<ReplicaSet>(validateReplicaStatusUpdate),
    scaleOf<ReplicaSet>(
      () => replicaSets,
      ({ spec }) => spec.selector,
    ),
  ],
  prepareForCreate: (object) => withGeneration({ ...object, status: { replicas: 0 } }, 1),
  prepareForUpdate: (object, old) => counted(replicaSetShape, keepFields(object, old, 'status'), old),
  warnings: templateWarnings,
  fields: { 'status.replicas': ({ status }) => String(status?.replicas ?? 0) },
  columns: [...replicaColumns, ...templateColumns<ReplicaSet>(({ spec }) => spec)],
});

export const replicationControllers: Resource<ReplicationController> = resource(replicationControllerKind, {
  subresources: [
    plainStatus<ReplicationController>(validateReplicaStatusUpdate),
    scaleOf<ReplicationController>(
      () => replicationControllers,
      ({ spec }) => ({ matchLabels: spec.selector ?? {} }),
    ),
  ],
  prepareForCreate: (object) => withGeneration({ ...object, status: { replicas: 0 } }, 1),
  prepareForUpdate: (object, old) => counted(replicationControllerShape, keepFields(object, old, 'status'), old),
  warnings: templateWarnings,
  fields: { 'status.replicas': ({ status }) => String(status?.replicas ?? 0) },
  columns: [
    ...replicaColumns,
    ...templateColumns<ReplicationController>(({ spec }) => ({
      ...spec,
      selector: { matchLabels: spec.selector ?? {} },
    })),
  ],
  deletion: { dependents: 'Orphan' },
});

/** Counts the versions of the spec. Only the server sets it. */
export function counted<T extends KubeObject>(shape: Shape<T>, object: T, old: T): T {
  const before = old.metadata.generation ?? 0;
  const sameMetadata = { ...object, metadata: old.metadata };
  return withGeneration(object, means(shape, sameMetadata, old) ? before : before + 1);
}

export function withGeneration<T extends KubeObject>(object: T, generation: number): T {
  return { ...object, metadata: { ...object.metadata, generation } };
}

/** Of pods that are made from a template. */
export function templateWarnings({ spec }: { readonly spec: TemplateOwner }): readonly string[] {
  return spec.template === undefined ? [] : podWarnings(spec.template.spec, 'spec.template.spec');
}

interface TemplateOwner {
  readonly selector?: LabelSelector | undefined;
  readonly template?: PodTemplate['template'] | undefined;
}

/** With `-o wide`: what the pods are, and which are counted. */
export function templateColumns<T>(specOf: (object: T) => TemplateOwner): readonly Column<T>[] {
  const containers = (object: T): PodTemplate['template']['spec']['containers'] =>
    specOf(object).template?.spec.containers ?? [];
  return [
    wide<T>('Containers', 'The names of the containers.', (object) =>
      containers(object)
        .map(({ name }) => name)
        .join(','),
    ),
    wide<T>('Images', 'The images of the containers.', (object) =>
      containers(object)
        .map(({ image = '' }) => image)
        .join(','),
    ),
    wide<T>('Selector', 'Which pods are its own.', (object) =>
      orNone(formatRequirements(requirementsOf(specOf(object).selector ?? {}))),
    ),
  ];
}

function labelsOf(labels: Readonly<Record<string, string>> = {}): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return orNone(pairs.sort(compareByteOrder).join(','));
}

/** `daemonset.apps/web` */
function controllerName({ metadata }: ControllerRevision): string {
  const controller = controllerOf(metadata);
  if (controller === undefined) return '<none>';
  const { group } = parseApiVersion(controller.apiVersion);
  const kind = group === '' ? controller.kind : `${controller.kind}.${group}`;
  return `${kind.toLowerCase()}/${controller.name}`;
}
