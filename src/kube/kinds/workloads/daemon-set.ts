/** A DaemonSet: a pod of a template on each node that it fits. */
import { type FieldError, invalidField, requiredField, unsupportedField } from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { labelSelector, objectFields } from '../../schema/meta.ts';
import { nonNegativeErrors, validateObjectMeta, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import {
  type FieldPath,
  type Of,
  described,
  intOrString,
  int32,
  integer,
  object,
  required,
  string,
} from '../../schema/schema.ts';
import { dnsSubdomainProblems } from '../../values/names.ts';
import { defaultPodTemplateSpec, podTemplateSpec } from '../pod/pod.ts';
import {
  collisionErrors,
  partErrors,
  replicaConditions,
  selectorAndTemplateErrors,
  selectorChangeErrors,
  shareMaxErrors,
  sizeOfPart,
} from './workload.ts';

export const daemonSetShape = described(
  {
    text: 'A pod of a template on each node that it fits.',
    fields: { spec: 'Which pods.', status: 'On how many nodes they run.' },
  },
  object({
    ...objectFields,
    spec: required(
      described(
        {
          text: 'Which pods are wanted on each node.',
          fields: {
            selector: 'Which pods are counted. Every pod of the template has to be among them.',
            template: 'What the pods should be, and by its affinity and tolerations on which nodes.',
            updateStrategy: 'RollingUpdate, or OnDelete.',
            minReadySeconds: 'How long a pod has to be ready to count as available.',
            revisionHistoryLimit: 'How many old versions are kept to go back to; 10 if absent.',
          },
        },
        object({
          selector: labelSelector,
          template: required(podTemplateSpec),
          updateStrategy: object({
            type: string,
            rollingUpdate: object({ maxUnavailable: intOrString, maxSurge: intOrString }),
          }),
          minReadySeconds: int32,
          revisionHistoryLimit: int32,
        }),
      ),
    ),
    status: object({
      currentNumberScheduled: required(int32),
      numberMisscheduled: required(int32),
      desiredNumberScheduled: required(int32),
      numberReady: required(int32),
      observedGeneration: integer,
      updatedNumberScheduled: int32,
      numberAvailable: int32,
      numberUnavailable: int32,
      collisionCount: int32,
      conditions: replicaConditions,
    }),
  }),
);
export interface DaemonSet extends Of<typeof daemonSetShape> {}

export const daemonSetKind = resourceKind<DaemonSet>({
  group: 'apps',
  kind: 'DaemonSet',
  plural: 'daemonsets',
  shortNames: ['ds'],
  categories: ['all'],
  namespaced: true,
  shape: daemonSetShape,
  complete: defaultDaemonSet,
  validate: ({ metadata, spec }) => [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...specErrors(spec),
  ],
  validateUpdate: ({ metadata, spec }, old) => [
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...selectorChangeErrors(spec.selector, old.spec.selector),
    ...specErrors(spec),
  ],
  wire: {
    DaemonSet: '1 metadata ObjectMeta, 2 spec DaemonSetSpec, 3 status DaemonSetStatus',
    DaemonSetSpec: `
    1 selector? LabelSelector, 2 template PodTemplateSpec, 3 updateStrategy DaemonSetUpdateStrategy,
    4 minReadySeconds int, 6 revisionHistoryLimit? int`,
    DaemonSetUpdateStrategy: '1 type, 2 rollingUpdate? RollingUpdateDaemonSet',
    RollingUpdateDaemonSet: '1 maxUnavailable? IntOrString, 2 maxSurge? IntOrString',
    DaemonSetStatus: `
    1 currentNumberScheduled! int, 2 numberMisscheduled! int, 3 desiredNumberScheduled! int, 4 numberReady! int,
    5 observedGeneration int, 6 updatedNumberScheduled int, 7 numberAvailable int, 8 numberUnavailable int,
    9 collisionCount? int, 10 conditions [DaemonSetCondition]`,
    DaemonSetCondition: '1 type!, 2 status!, 3 lastTransitionTime Time, 4 reason, 5 message',
  },
});

type Spec = DaemonSet['spec'];

const rolling = 'RollingUpdate';

function defaultDaemonSet(set: DaemonSet): DaemonSet {
  const { spec } = set;
  const { type = '', rollingUpdate } = spec.updateStrategy ?? {};
  const isRolling = type === '' || type === rolling;
  const parts = { maxUnavailable: 1, maxSurge: 0, ...rollingUpdate };
  return {
    ...set,
    spec: {
      ...spec,
      template: defaultPodTemplateSpec(spec.template),
      updateStrategy: {
        type: type || rolling,
        ...(rollingUpdate && { rollingUpdate }),
        ...(isRolling && { rollingUpdate: parts }),
      },
      revisionHistoryLimit: spec.revisionHistoryLimit ?? 10,
    },
  };
}

function specErrors(spec: Spec): readonly FieldError[] {
  return [
    ...selectorAndTemplateErrors(spec, 'daemonset', 'DaemonSet'),
    ...nonNegativeErrors(spec.minReadySeconds ?? 0, ['spec', 'minReadySeconds']),
    ...strategyErrors(spec, ['spec', 'updateStrategy']),
    ...nonNegativeErrors(spec.revisionHistoryLimit ?? 0, ['spec', 'revisionHistoryLimit']),
  ];
}

function strategyErrors({ updateStrategy }: Spec, path: FieldPath): readonly FieldError[] {
  const { type = '', rollingUpdate } = updateStrategy ?? {};
  if (type === 'OnDelete') return [];
  if (type !== rolling) return [unsupportedField([...path, 'type'], type, ['RollingUpdate', 'OnDelete'])];
  const here = [...path, 'rollingUpdate'];
  if (rollingUpdate === undefined) return [requiredField(here)];
  const { maxUnavailable = 0, maxSurge = 0 } = rollingUpdate;
  const parts = { maxUnavailable, maxSurge };
  const hasBoth = sizeOfPart(maxUnavailable) !== 0 && sizeOfPart(maxSurge) !== 0;
  const hasNone = sizeOfPart(maxUnavailable) === 0 && sizeOfPart(maxSurge) === 0;
  return [
    ...Object.entries(parts).flatMap(([field, part]) => [
      ...partErrors(part, [...here, field]),
      ...shareMaxErrors(part, [...here, field]),
    ]),
    ...(hasBoth
      ? [invalidField([...here, 'maxSurge'], maxSurge, 'may not be set when maxUnavailable is non-zero')]
      : []),
    ...(hasNone ? [requiredField([...here, 'maxUnavailable'], 'cannot be 0 when maxSurge is 0')] : []),
  ];
}

export function validateDaemonSetStatusUpdate({ metadata, status }: DaemonSet, old: DaemonSet): readonly FieldError[] {
  const { conditions: _conditions, ...counts } = status ?? {};
  return [
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...Object.entries(counts).flatMap(([field, count]) => nonNegativeErrors(count ?? 0, ['status', field])),
    ...collisionErrors(status?.collisionCount, old.status?.collisionCount),
  ];
}
