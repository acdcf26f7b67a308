/** A ReplicationController: what a ReplicaSet was called at first, with a selector of labels alone. */
import { type FieldError, requiredField } from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { objectFields } from '../../schema/meta.ts';
import { nonNegativeErrors, validateObjectMeta, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import { type Of, atomic, described, int32, map, object, required, string } from '../../schema/schema.ts';
import type { Labels } from '../../values/labels.ts';
import { dnsSubdomainProblems } from '../../values/names.ts';
import { defaultPodTemplateSpec, podTemplateSpec } from '../pod/pod.ts';
import { replicaStatusFields } from './replica-set.ts';
import { templateErrors } from './workload.ts';

export const replicationControllerShape = described(
  {
    text: 'So many pods of a template. ReplicaSets have taken its place.',
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
            selector: 'Labels of the pods that are counted; those of the template if absent.',
            template: 'What the pods should be.',
          },
        },
        object({
          replicas: int32,
          minReadySeconds: int32,
          selector: atomic(map(string)),
          template: podTemplateSpec,
        }),
      ),
    ),
    status: object(replicaStatusFields),
  }),
);
export interface ReplicationController extends Of<typeof replicationControllerShape> {}

export const replicationControllerKind = resourceKind<ReplicationController>({
  kind: 'ReplicationController',
  plural: 'replicationcontrollers',
  shortNames: ['rc'],
  categories: ['all'],
  namespaced: true,
  shape: replicationControllerShape,
  complete: defaultReplicationController,
  validate: ({ metadata, spec }) => [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...specErrors(spec),
  ],
  validateUpdate: ({ metadata, spec }, old) => [
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...specErrors(spec),
  ],
  wire: {
    ReplicationController:
      '1 metadata ObjectMeta, 2 spec ReplicationControllerSpec, 3 status ReplicationControllerStatus',
    ReplicationControllerSpec:
      '1 replicas? int, 4 minReadySeconds int, 2 selector {string}, 3 template? PodTemplateSpec',
    ReplicationControllerStatus: `
    1 replicas! int, 2 fullyLabeledReplicas int, 4 readyReplicas int, 5 availableReplicas int, 3 observedGeneration int,
    6 conditions [ReplicationControllerCondition]`,
    ReplicationControllerCondition: '1 type!, 2 status!, 3 lastTransitionTime Time, 4 reason, 5 message',
  },
});

function defaultReplicationController({ metadata, spec, ...rest }: ReplicationController): ReplicationController {
  const { labels = {} } = spec.template?.metadata ?? {};
  const has = (given: Readonly<Record<string, string>> = {}): boolean => Object.keys(given).length > 0;
  const selector = has(spec.selector) ? spec.selector : labels;
  return {
    ...rest,
    metadata: has(metadata.labels) || !has(labels) ? metadata : { ...metadata, labels },
    spec: {
      ...spec,
      replicas: spec.replicas ?? 1,
      ...(has(selector) && { selector }),
      ...(spec.template && { template: defaultPodTemplateSpec(spec.template) }),
    },
  };
}

function specErrors({
  replicas = 0,
  minReadySeconds = 0,
  selector,
  template,
}: ReplicationController['spec']): readonly FieldError[] {
  const isSelected = (labels: Labels): boolean =>
    Object.entries(selector ?? {}).every(([key, value]) => Object.hasOwn(labels, key) && labels[key] === value);
  return [
    ...nonNegativeErrors(minReadySeconds, ['spec', 'minReadySeconds']),
    ...(selector === undefined ? [requiredField(['spec', 'selector'])] : []),
    ...nonNegativeErrors(replicas, ['spec', 'replicas']),
    ...(template === undefined
      ? [requiredField(['spec', 'template'])]
      : templateErrors(template, isSelected, 'ReplicationController')),
  ];
}
