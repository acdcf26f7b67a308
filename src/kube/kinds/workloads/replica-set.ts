/** A ReplicaSet: so many pods of a template. Deployments make them; users seldom do. */
import type { FieldError } from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { labelSelector, objectFields } from '../../schema/meta.ts';
import { nonNegativeErrors, validateObjectMeta, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import { type Of, described, int32, integer, object, required } from '../../schema/schema.ts';
import { dnsSubdomainProblems } from '../../values/names.ts';
import { defaultPodTemplateSpec, podTemplateSpec } from '../pod/pod.ts';
import { countErrors, replicaConditions, selectorAndTemplateErrors, selectorChangeErrors } from './workload.ts';

/** What a ReplicationController says of itself, too. */
export const replicaStatusFields = {
  replicas: required(int32),
  fullyLabeledReplicas: int32,
  readyReplicas: int32,
  availableReplicas: int32,
  observedGeneration: integer,
  conditions: replicaConditions,
};

export const replicaSetShape = described(
  {
    text: 'So many pods of a template.',
    fields: { spec: 'How many pods, and which.', status: 'How many there are.' },
  },
  object({
    ...objectFields,
    spec: required(
      described(
        {
          text: 'How many pods are wanted, and which.',
          fields: {
            replicas: 'How many pods are wanted; 1 if absent.',
            minReadySeconds: 'How long a pod has to be ready to count as available.',
            selector: 'Which pods are counted. Every pod of the template has to be among them.',
            template: 'What the pods should be.',
          },
        },
        object({
          replicas: int32,
          minReadySeconds: int32,
          selector: labelSelector,
          template: required(podTemplateSpec),
        }),
      ),
    ),
    status: object({ ...replicaStatusFields, terminatingReplicas: int32 }),
  }),
);
export interface ReplicaSet extends Of<typeof replicaSetShape> {}

export const replicaSetKind = resourceKind<ReplicaSet>({
  group: 'apps',
  kind: 'ReplicaSet',
  plural: 'replicasets',
  shortNames: ['rs'],
  categories: ['all'],
  namespaced: true,
  shape: replicaSetShape,
  complete: ({ spec, ...rest }) => ({
    ...rest,
    spec: { ...spec, replicas: spec.replicas ?? 1, template: defaultPodTemplateSpec(spec.template) },
  }),
  validate: ({ metadata, spec }) => [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...specErrors(spec),
  ],
  validateUpdate: ({ metadata, spec }, old) => [
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...specErrors(spec),
    ...selectorChangeErrors(spec.selector, old.spec.selector),
  ],
  wire: {
    ReplicaSet: '1 metadata ObjectMeta, 2 spec ReplicaSetSpec, 3 status ReplicaSetStatus',
    ReplicaSetSpec: '1 replicas? int, 4 minReadySeconds int, 2 selector? LabelSelector, 3 template PodTemplateSpec',
    ReplicaSetStatus: `
    1 replicas! int, 2 fullyLabeledReplicas int, 4 readyReplicas int, 5 availableReplicas int, 7 terminatingReplicas? int,
    3 observedGeneration int, 6 conditions [ReplicaSetCondition]`,
    ReplicaSetCondition: '1 type!, 2 status!, 3 lastTransitionTime Time, 4 reason, 5 message',
  },
});

function specErrors(spec: ReplicaSet['spec']): readonly FieldError[] {
  return [
    ...nonNegativeErrors(spec.replicas ?? 0, ['spec', 'replicas']),
    ...nonNegativeErrors(spec.minReadySeconds ?? 0, ['spec', 'minReadySeconds']),
    ...selectorAndTemplateErrors(spec, 'deployment', 'ReplicaSet'),
  ];
}

export function validateReplicaStatusUpdate(
  { metadata, status }: Pick<ReplicaSet, 'metadata' | 'status'>,
  old: Pick<ReplicaSet, 'metadata'>,
): readonly FieldError[] {
  const parts = ['fullyLabeledReplicas', 'readyReplicas', 'availableReplicas'] as const;
  const counts = ['replicas', ...parts, 'terminatingReplicas', 'observedGeneration'] as const;
  return [...validateObjectMetaUpdate(metadata, old.metadata), ...countErrors(status ?? {}, counts, parts)];
}
