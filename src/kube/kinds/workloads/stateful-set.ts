/** A StatefulSet: numbered pods, each with a name and storage that stay with its number. */
import { canonicalJson } from '../../schema/equality.ts';
import {
  type FieldError,
  forbiddenField,
  invalidField,
  invalidFields,
  requiredField,
  unsupportedField,
} from '../../schema/field-errors.ts';
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
  list,
  object,
  required,
  string,
} from '../../schema/schema.ts';
import { dnsLabelProblems } from '../../values/names.ts';
import { defaultPodTemplateSpec, podTemplateSpec } from '../pod/pod.ts';
import { claimKind, claimSpecErrors, persistentVolumeClaimShape } from '../storage/persistent-volume-claim.ts';
import {
  collisionErrors,
  countErrors,
  partErrors,
  replicaConditions,
  selectorAndTemplateErrors,
  shareMaxErrors,
  sizeOfPart,
} from './workload.ts';

export const statefulSetShape = described(
  {
    text: 'Numbered pods, each with a name and storage of its own.',
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
            selector: 'Which pods are counted. Every pod of the template has to be among them.',
            template: 'What the pods should be.',
            volumeClaimTemplates: 'The claims that each pod gets. They stay when the pod goes.',
            serviceName: 'The service that gives each pod a name in DNS.',
            podManagementPolicy: 'OrderedReady, one pod after the other, or Parallel.',
            updateStrategy: 'RollingUpdate, or OnDelete.',
            revisionHistoryLimit: 'How many old versions are kept to go back to; 10 if absent.',
            minReadySeconds: 'How long a pod has to be ready to count as available.',
            persistentVolumeClaimRetentionPolicy: 'What becomes of claims: Retain or Delete.',
            ordinals: 'Where the numbers start.',
          },
        },
        object({
          replicas: int32,
          selector: labelSelector,
          template: required(podTemplateSpec),
          volumeClaimTemplates: list(persistentVolumeClaimShape),
          serviceName: string,
          podManagementPolicy: string,
          updateStrategy: object({
            type: string,
            rollingUpdate: object({ partition: int32, maxUnavailable: intOrString }),
          }),
          revisionHistoryLimit: int32,
          minReadySeconds: int32,
          persistentVolumeClaimRetentionPolicy: object({ whenDeleted: string, whenScaled: string }),
          ordinals: object({ start: required(int32) }),
        }),
      ),
    ),
    status: object({
      observedGeneration: integer,
      replicas: required(int32),
      readyReplicas: int32,
      currentReplicas: int32,
      updatedReplicas: int32,
      currentRevision: string,
      updateRevision: string,
      collisionCount: int32,
      conditions: replicaConditions,
      availableReplicas: int32,
    }),
  }),
);
export interface StatefulSet extends Of<typeof statefulSetShape> {}

export const statefulSetKind = resourceKind<StatefulSet>({
  group: 'apps',
  kind: 'StatefulSet',
  plural: 'statefulsets',
  shortNames: ['sts'],
  categories: ['all'],
  namespaced: true,
  shape: statefulSetShape,
  complete: defaultStatefulSet,
  validate: ({ metadata, spec }) => [
    ...validateObjectMeta(metadata, { name: dnsLabelProblems, scope: 'namespace' }),
    ...specErrors(spec),
    ...(spec.volumeClaimTemplates ?? []).flatMap((claim, index) =>
      claimSpecErrors(claim.spec, ['spec', 'volumeClaimTemplates', index, 'spec']),
    ),
    ...((spec.serviceName ?? '') === ''
      ? []
      : invalidFields(['spec', 'serviceName'], spec.serviceName, dnsLabelProblems(spec.serviceName ?? ''))),
  ],
  validateUpdate: ({ metadata, spec }, old) => [
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...specErrors(spec),
    ...fixedErrors(spec, old.spec),
  ],
  wire: {
    StatefulSet: '1 metadata ObjectMeta, 2 spec StatefulSetSpec, 3 status StatefulSetStatus',
    StatefulSetSpec: `
    1 replicas? int, 2 selector? LabelSelector, 3 template PodTemplateSpec, 4 volumeClaimTemplates [PersistentVolumeClaim],
    5 serviceName!, 6 podManagementPolicy, 7 updateStrategy StatefulSetUpdateStrategy, 8 revisionHistoryLimit? int,
    9 minReadySeconds int, 10 persistentVolumeClaimRetentionPolicy? StatefulSetPersistentVolumeClaimRetentionPolicy,
    11 ordinals? StatefulSetOrdinals`,
    StatefulSetUpdateStrategy: '1 type, 2 rollingUpdate? RollingUpdateStatefulSetStrategy',
    RollingUpdateStatefulSetStrategy: '1 partition? int, 2 maxUnavailable? IntOrString',
    StatefulSetPersistentVolumeClaimRetentionPolicy: '1 whenDeleted, 2 whenScaled',
    StatefulSetOrdinals: '1 start! int',
    StatefulSetStatus: `
    1 observedGeneration int, 2 replicas! int, 3 readyReplicas int, 4 currentReplicas int, 5 updatedReplicas int,
    6 currentRevision, 7 updateRevision, 9 collisionCount? int, 10 conditions [StatefulSetCondition],
    11 availableReplicas! int`,
    StatefulSetCondition: '1 type!, 2 status!, 3 lastTransitionTime Time, 4 reason, 5 message',
  },
});

type Spec = StatefulSet['spec'];

const rolling = 'RollingUpdate';
const managements = new Set(['OrderedReady', 'Parallel']);
const retentions = ['Retain', 'Delete'];

function defaultStatefulSet(set: StatefulSet): StatefulSet {
  const { spec } = set;
  const { type = '', rollingUpdate } = spec.updateStrategy ?? {};
  const isRolling = type === '' || (type === rolling && rollingUpdate !== undefined);
  const { whenDeleted, whenScaled } = spec.persistentVolumeClaimRetentionPolicy ?? {};
  return {
    ...set,
    spec: {
      ...spec,
      replicas: spec.replicas ?? 1,
      template: defaultPodTemplateSpec(spec.template),
      podManagementPolicy: spec.podManagementPolicy || 'OrderedReady',
      updateStrategy: {
        type: type || rolling,
        ...(rollingUpdate && { rollingUpdate }),
        ...(isRolling && { rollingUpdate: { ...rollingUpdate, partition: rollingUpdate?.partition ?? 0 } }),
      },
      revisionHistoryLimit: spec.revisionHistoryLimit ?? 10,
      persistentVolumeClaimRetentionPolicy: {
        whenDeleted: whenDeleted || 'Retain',
        whenScaled: whenScaled || 'Retain',
      },
      ...(spec.volumeClaimTemplates && {
        volumeClaimTemplates: spec.volumeClaimTemplates.map((claim) => ({
          ...claimKind.complete(claim),
          apiVersion: 'v1',
          kind: claimKind.kind,
          status: { ...claim.status, phase: claim.status?.phase || 'Pending' },
        })),
      }),
    },
  };
}

function specErrors(spec: Spec): readonly FieldError[] {
  const path = ['spec'];
  const { podManagementPolicy: management = '', persistentVolumeClaimRetentionPolicy: retention } = spec;
  const managementPath = [...path, 'podManagementPolicy'];
  return [
    ...(managements.has(management)
      ? []
      : [invalidField(managementPath, management, "must be 'OrderedReady' or 'Parallel'")]),
    ...strategyErrors(spec, [...path, 'updateStrategy']),
    ...(['whenDeleted', 'whenScaled'] as const).flatMap((field) => {
      const value = retention?.[field] ?? 'Retain';
      const here = [...path, 'persistentVolumeClaimRetentionPolicy', field];
      return retentions.includes(value) ? [] : [unsupportedField(here, value, retentions)];
    }),
    ...(['replicas', 'minReadySeconds', 'revisionHistoryLimit'] as const).flatMap((field) =>
      nonNegativeErrors(spec[field] ?? 0, [...path, field]),
    ),
    ...nonNegativeErrors(spec.ordinals?.start ?? 0, [...path, 'ordinals.start']),
    ...selectorAndTemplateErrors(checkedOwner(spec), 'statefulset', 'StatefulSet'),
  ];
}

/** With the volumes that its pods get, and without what they get from their number. */
function checkedOwner(spec: Spec): Spec {
  const { template, volumeClaimTemplates = [] } = spec;
  const { hostname: _hostname, subdomain: _subdomain, volumes = [], ...rest } = template.spec;
  const names = new Set(volumeClaimTemplates.map(({ metadata }) => metadata.name));
  const claimed = [...names].map((name) => ({ name, persistentVolumeClaim: { claimName: name } }));
  const all = [...claimed, ...volumes.filter(({ name }) => !names.has(name))];
  return { ...spec, template: { ...template, spec: { ...rest, ...(all.length > 0 && { volumes: all }) } } };
}

function strategyErrors({ updateStrategy }: Spec, path: FieldPath): readonly FieldError[] {
  const { type = '', rollingUpdate } = updateStrategy ?? {};
  if (type === '') return [requiredField(path)];
  const here = [...path, 'rollingUpdate'];
  if (type === 'OnDelete') {
    return rollingUpdate === undefined
      ? []
      : [invalidField(here, rollingUpdate, "only allowed for updateStrategy 'RollingUpdate'")];
  }
  if (type !== rolling) return [invalidField(path, updateStrategy, "must be 'RollingUpdate' or 'OnDelete'")];
  const { partition = 0, maxUnavailable } = rollingUpdate ?? {};
  const part = [...here, 'maxUnavailable'];
  return [
    ...nonNegativeErrors(partition, [...here, 'partition']),
    ...(maxUnavailable === undefined
      ? []
      : [
          ...partErrors(maxUnavailable, part),
          ...(sizeOfPart(maxUnavailable) === 0 ? [invalidField(part, maxUnavailable, 'cannot be 0')] : []),
          ...shareMaxErrors(maxUnavailable, part),
        ]),
  ];
}

const changeable: readonly string[] = [
  'replicas',
  'ordinals',
  'template',
  'updateStrategy',
  'revisionHistoryLimit',
  'persistentVolumeClaimRetentionPolicy',
  'minReadySeconds',
];

function fixedErrors(spec: Spec, old: Spec): readonly FieldError[] {
  const fixed = (one: Spec): unknown =>
    Object.entries(one)
      .filter(([field]) => !changeable.includes(field))
      .toSorted();
  if (canonicalJson(fixed(spec)) === canonicalJson(fixed(old))) return [];
  const names = changeable.map((field) => `'${field}'`);
  const detail = `updates to statefulset spec for fields other than ${names.slice(0, -1).join(', ')} and ${names.at(-1)} are forbidden`;
  return [forbiddenField(['spec'], detail)];
}

export function validateStatefulSetStatusUpdate(
  { metadata, status }: StatefulSet,
  old: StatefulSet,
): readonly FieldError[] {
  const parts = ['readyReplicas', 'currentReplicas', 'updatedReplicas', 'availableReplicas'] as const;
  return [
    ...countErrors(status ?? {}, ['replicas', ...parts, 'observedGeneration'], parts),
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...collisionErrors(status?.collisionCount, old.status?.collisionCount),
  ];
}
