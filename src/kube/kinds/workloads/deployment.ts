/** A Deployment: pods of a template, and the way from one version of the template to the next. */
import {
  type FieldError,
  forbiddenField,
  invalidField,
  requiredField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { labelSelector, objectFields } from '../../schema/meta.ts';
import { nonNegativeErrors, validateObjectMeta, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import {
  type FieldPath,
  type Of,
  boolean,
  described,
  intOrString,
  int32,
  integer,
  list,
  object,
  required,
  string,
  time,
} from '../../schema/schema.ts';
import { dnsSubdomainProblems } from '../../values/names.ts';
import { defaultPodTemplateSpec, podTemplateSpec } from '../pod/pod.ts';
import {
  collisionErrors,
  countErrors,
  partErrors,
  selectorAndTemplateErrors,
  selectorChangeErrors,
  shareMaxErrors,
  sizeOfPart,
} from './workload.ts';

const deploymentCondition = described(
  {
    text: 'One thing that is true or not of a rollout.',
    fields: {
      type: 'Available, Progressing or ReplicaFailure.',
      status: 'True, False or Unknown.',
      lastUpdateTime: 'When it was said last.',
      lastTransitionTime: 'When the status changed last.',
      reason: 'Why, in one word.',
      message: 'Why, for people.',
    },
  },
  object({
    type: required(string),
    status: required(string),
    lastUpdateTime: time,
    lastTransitionTime: time,
    reason: string,
    message: string,
  }),
);
export interface DeploymentCondition extends Of<typeof deploymentCondition> {}

export const deploymentShape = described(
  {
    text: 'Pods of a template, and the way from one version of it to the next.',
    fields: { spec: 'What is wanted.', status: 'How far it is.' },
  },
  object({
    ...objectFields,
    spec: required(
      described(
        {
          text: 'Which pods are wanted, and how they are replaced.',
          fields: {
            replicas: 'How many pods are wanted; 1 if absent.',
            selector: 'Which pods are its own. It cannot be changed.',
            template: 'What the pods should be. A change of it replaces them all.',
            strategy: 'How pods are replaced: RollingUpdate or Recreate.',
            minReadySeconds: 'How long a pod has to be ready to count as available.',
            revisionHistoryLimit: 'How many old versions are kept to go back to; 10 if absent.',
            paused: 'While it is true, no pods are replaced.',
            progressDeadlineSeconds: 'After how long without progress it is said to have failed; 600 if absent.',
          },
        },
        object({
          replicas: int32,
          selector: labelSelector,
          template: required(podTemplateSpec),
          strategy: object({
            type: string,
            rollingUpdate: object({ maxUnavailable: intOrString, maxSurge: intOrString }),
          }),
          minReadySeconds: int32,
          revisionHistoryLimit: int32,
          paused: boolean,
          progressDeadlineSeconds: int32,
        }),
      ),
    ),
    status: object({
      observedGeneration: integer,
      replicas: int32,
      updatedReplicas: int32,
      readyReplicas: int32,
      availableReplicas: int32,
      unavailableReplicas: int32,
      terminatingReplicas: int32,
      conditions: list(deploymentCondition, 'type'),
      collisionCount: int32,
    }),
  }),
);
export interface Deployment extends Of<typeof deploymentShape> {}

type Spec = Deployment['spec'];
type Strategy = NonNullable<Spec['strategy']>;

export const deploymentKind = resourceKind<Deployment>({
  group: 'apps',
  kind: 'Deployment',
  plural: 'deployments',
  shortNames: ['deploy'],
  categories: ['all'],
  namespaced: true,
  shape: deploymentShape,
  complete: defaultDeployment,
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
    Deployment: '1 metadata ObjectMeta, 2 spec DeploymentSpec, 3 status DeploymentStatus',
    DeploymentSpec: `
    1 replicas? int, 2 selector? LabelSelector, 3 template PodTemplateSpec, 4 strategy DeploymentStrategy, 5 minReadySeconds int,
    6 revisionHistoryLimit? int, 7 paused bool, 9 progressDeadlineSeconds? int`,
    DeploymentStrategy: '1 type, 2 rollingUpdate? RollingUpdateDeployment',
    RollingUpdateDeployment: '1 maxUnavailable? IntOrString, 2 maxSurge? IntOrString',
    DeploymentStatus: `
    1 observedGeneration int, 2 replicas int, 3 updatedReplicas int, 7 readyReplicas int, 4 availableReplicas int,
    5 unavailableReplicas int, 9 terminatingReplicas? int, 6 conditions [DeploymentCondition], 8 collisionCount? int`,
    DeploymentCondition: `
    1 type!, 2 status!, 6 lastUpdateTime Time, 7 lastTransitionTime Time, 4 reason, 5 message`,
  },
});

function defaultDeployment({ spec, ...rest }: Deployment): Deployment {
  const { type = '', rollingUpdate } = spec.strategy ?? {};
  const strategy: Strategy =
    type === '' || type === 'RollingUpdate'
      ? {
          type: 'RollingUpdate',
          rollingUpdate: {
            maxUnavailable: rollingUpdate?.maxUnavailable ?? '25%',
            maxSurge: rollingUpdate?.maxSurge ?? '25%',
          },
        }
      : { type, ...(rollingUpdate && { rollingUpdate }) };
  return {
    ...rest,
    spec: {
      ...spec,
      replicas: spec.replicas ?? 1,
      strategy,
      template: defaultPodTemplateSpec(spec.template),
      revisionHistoryLimit: spec.revisionHistoryLimit ?? 10,
      progressDeadlineSeconds: spec.progressDeadlineSeconds ?? 600,
    },
  };
}

function specErrors(spec: Spec): readonly FieldError[] {
  const path = ['spec'];
  const { replicas = 0, minReadySeconds = 0, revisionHistoryLimit = 0, progressDeadlineSeconds } = spec;
  const here = [...path, 'progressDeadlineSeconds'];
  const deadlineErrors =
    progressDeadlineSeconds === undefined
      ? []
      : [
          ...nonNegativeErrors(progressDeadlineSeconds, here),
          ...(progressDeadlineSeconds > minReadySeconds
            ? []
            : [invalidField(here, progressDeadlineSeconds, 'must be greater than minReadySeconds')]),
        ];
  return [
    ...nonNegativeErrors(replicas, [...path, 'replicas']),
    ...selectorAndTemplateErrors(spec, 'deployment', 'ReplicaSet'),
    ...strategyErrors(spec.strategy ?? {}, [...path, 'strategy']),
    ...nonNegativeErrors(minReadySeconds, [...path, 'minReadySeconds']),
    ...nonNegativeErrors(revisionHistoryLimit, [...path, 'revisionHistoryLimit']),
    ...deadlineErrors,
  ];
}

const strategies = ['Recreate', 'RollingUpdate'];

function strategyErrors(strategy: Strategy, path: FieldPath): readonly FieldError[] {
  const { type = '', rollingUpdate } = strategy;
  const here = [...path, 'rollingUpdate'];
  if (!strategies.includes(type)) return [unsupportedField(path, strategy, strategies)];
  if (type === 'Recreate') {
    const text = "may not be specified when strategy `type` is 'Recreate'";
    return rollingUpdate === undefined ? [] : [forbiddenField(here, text)];
  }
  if (rollingUpdate === undefined) return [requiredField(here, 'this should be defaulted and never be nil')];
  const { maxUnavailable = 0, maxSurge = 0 } = rollingUpdate;
  const at = [...here, 'maxUnavailable'];
  const isStuck = sizeOfPart(maxUnavailable) === 0 && sizeOfPart(maxSurge) === 0;
  return [
    ...partErrors(maxUnavailable, at),
    ...partErrors(maxSurge, [...here, 'maxSurge']),
    ...(isStuck ? [invalidField(at, maxUnavailable, 'may not be 0 when `maxSurge` is 0')] : []),
    ...shareMaxErrors(maxUnavailable, at),
  ];
}

export function validateDeploymentStatusUpdate(
  { metadata, status = {} }: Deployment,
  old: Deployment,
): readonly FieldError[] {
  const parts = ['updatedReplicas', 'readyReplicas', 'availableReplicas'] as const;
  const counts = ['observedGeneration', 'replicas', ...parts, 'unavailableReplicas', 'terminatingReplicas'] as const;
  return [
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...countErrors(status, counts, parts),
    ...collisionErrors(status.collisionCount, old.status?.collisionCount),
  ];
}
