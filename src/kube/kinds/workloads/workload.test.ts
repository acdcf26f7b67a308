/** The rules of the kinds that make pods of a template, each by its exact messages, their defaults, and which templates are the same. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testKind } from '../../../testing/fakes/kind-cases.ts';
import type { PodTemplateSpec } from '../pod/pod.ts';
import { daemonSetKind } from './daemon-set.ts';
import { deploymentKind } from './deployment.ts';
import { replicaSetKind } from './replica-set.ts';
import { replicationControllerKind } from './replication-controller.ts';
import { statefulSetKind } from './stateful-set.ts';
import { sameTemplate } from './workload.ts';

type Spec = Readonly<Record<string, unknown>>;

const labels = { app: 'web' };
const containers = [{ name: 'main', image: 'web' }];
const selector = { matchLabels: labels };
const template = { metadata: { labels }, spec: { containers } };
const templateWith = (spec: Spec): Spec => ({ metadata: { labels }, spec: { containers, ...spec } });
interface Written {
  readonly spec: Spec;
  readonly [field: string]: unknown;
}
const workload = (spec: Spec = {}): Written => ({ spec: { selector, template, ...spec } });

const nonNegative = 'must be greater than or equal to 0';
const percent =
  "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const mismatch =
  'spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`';
const notAlways = 'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"';

/** What holds for each of those with a selector in the form of today. */
const common = (word: string, kind: string): Parameters<typeof testKind>[1] => [
  { it: 'takes what most people write', object: workload() },
  {
    it: 'takes a selector of conditions',
    object: workload({ selector: { matchExpressions: [{ key: 'app', operator: 'In', values: ['web', 'api'] }] } }),
  },
  { it: 'needs a selector', object: { spec: { template } }, errors: ['spec.selector: Required value', mismatch] },
  {
    it: 'needs a selector that chooses',
    object: workload({ selector: {} }),
    errors: [`spec.selector: Invalid value: {}: empty selector is invalid for ${word}`],
  },
  {
    it: 'needs a selector that chooses its own pods',
    object: workload({ selector: { matchLabels: { app: 'api' } } }),
    errors: [mismatch],
  },
  {
    it: 'sees a label without text that its pods lack',
    object: workload({ selector: { matchLabels: { app: 'web', x: '' } } }),
    errors: [mismatch],
  },
  {
    it: 'makes pods that go on',
    object: workload({ template: templateWith({ restartPolicy: 'Never' }) }),
    errors: [notAlways],
  },
  {
    it: 'makes pods without an end',
    object: workload({ template: templateWith({ activeDeadlineSeconds: 5 }) }),
    errors: [`spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ${kind} is not Supported`],
  },
  {
    it: 'makes pods that are right',
    object: workload({ template: templateWith({ containers: [{ name: 'main' }] }) }),
    errors: ['spec.template.spec.containers[0].image: Required value'],
  },
  {
    it: 'waits for no negative time',
    object: workload({ minReadySeconds: -1 }),
    errors: [`spec.minReadySeconds: Invalid value: -1: ${nonNegative}`],
  },
];
const fixedSelector = {
  it: 'keeps its selector',
  old: workload({ template: { ...template, metadata: { labels: { ...labels, tier: 'a' } } } }),
  object: workload({
    selector: { matchLabels: { tier: 'a' } },
    template: { ...template, metadata: { labels: { tier: 'a' } } },
  }),
  errors: ['spec.selector: Invalid value: {"matchLabels":{"tier":"a"}}: field is immutable'],
};
const noNegativeReplicas = {
  it: 'has no negative number of pods',
  object: workload({ replicas: -1 }),
  errors: [`spec.replicas: Invalid value: -1: ${nonNegative}`],
};
const noNegativeHistory = {
  it: 'keeps no negative number of versions',
  object: workload({ revisionHistoryLimit: -1 }),
  errors: [`spec.revisionHistoryLimit: Invalid value: -1: ${nonNegative}`],
};

const rolling = (rollingUpdate: object | undefined, type = 'RollingUpdate'): Written =>
  workload({ strategy: { type, ...(rollingUpdate && { rollingUpdate }) } });
const parts = 'spec.strategy.rollingUpdate';

testKind(deploymentKind, [
  ...common('deployment', 'ReplicaSet'),
  fixedSelector,
  noNegativeReplicas,
  noNegativeHistory,
  { it: 'may replace all pods at once', object: rolling(undefined, 'Recreate') },
  {
    it: 'replaces all pods or some',
    object: rolling({ maxSurge: 1 }, 'Recreate'),
    errors: [`${parts}: Forbidden: may not be specified when strategy \`type\` is 'Recreate'`],
  },
  {
    it: 'has one of two strategies',
    object: rolling(undefined, 'Slowly'),
    errors: ['spec.strategy: Unsupported value: {"type":"Slowly"}: supported values: "Recreate", "RollingUpdate"'],
  },
  {
    it: 'may not stand still',
    object: rolling({ maxSurge: 0, maxUnavailable: '0%' }),
    errors: [`${parts}.maxUnavailable: Invalid value: "0%": may not be 0 when \`maxSurge\` is 0`],
  },
  {
    it: 'counts parts in numbers or percentages',
    object: rolling({ maxSurge: 'some', maxUnavailable: -1 }),
    errors: [
      `${parts}.maxUnavailable: Invalid value: -1: ${nonNegative}`,
      `${parts}.maxSurge: Invalid value: "some": ${percent}`,
    ],
  },
  {
    it: 'cannot miss more than all pods',
    object: rolling({ maxSurge: '200%', maxUnavailable: '101%' }),
    errors: [`${parts}.maxUnavailable: Invalid value: "101%": must not be greater than 100%`],
  },
  {
    it: 'is given more time than a pod needs to count',
    object: workload({ minReadySeconds: 10, progressDeadlineSeconds: 10 }),
    errors: ['spec.progressDeadlineSeconds: Invalid value: 10: must be greater than minReadySeconds'],
  },
]);

testKind(replicaSetKind, [...common('deployment', 'ReplicaSet'), fixedSelector, noNegativeReplicas]);

testKind(replicationControllerKind, [
  { it: 'takes what most people write', object: workload({ selector: labels }) },
  {
    it: 'chooses by the labels of its template where it says nothing',
    object: { spec: { template } },
  },
  {
    it: 'needs a template, and so a selector',
    object: { spec: {} },
    errors: ['spec.selector: Required value', 'spec.template: Required value'],
  },
  {
    it: 'needs a selector that chooses its own pods',
    object: workload({ selector: { app: 'api' } }),
    errors: [mismatch],
  },
  {
    it: 'makes pods that go on',
    object: workload({ selector: labels, template: templateWith({ restartPolicy: 'Never' }) }),
    errors: [notAlways],
  },
  {
    it: 'has no negative numbers',
    object: workload({ selector: labels, replicas: -1, minReadySeconds: -1 }),
    errors: [
      `spec.minReadySeconds: Invalid value: -1: ${nonNegative}`,
      `spec.replicas: Invalid value: -1: ${nonNegative}`,
    ],
  },
  {
    it: 'may get another selector',
    old: workload({ selector: labels }),
    object: workload({ selector: { tier: 'a' }, template: { ...template, metadata: { labels: { tier: 'a' } } } }),
  },
]);

const updated = (type: string, rollingUpdate?: object): Written =>
  workload({ updateStrategy: { type, ...(rollingUpdate && { rollingUpdate }) } });
const update = 'spec.updateStrategy';

testKind(daemonSetKind, [
  ...common('daemonset', 'DaemonSet'),
  fixedSelector,
  noNegativeHistory,
  { it: 'may leave its update to others', object: updated('OnDelete') },
  { it: 'may add a pod before it takes one', object: updated('RollingUpdate', { maxSurge: '10%', maxUnavailable: 0 }) },
  {
    it: 'has one of two strategies',
    object: updated('Recreate'),
    errors: [`${update}.type: Unsupported value: "Recreate": supported values: "RollingUpdate", "OnDelete"`],
  },
  {
    it: 'adds pods or takes them',
    object: updated('RollingUpdate', { maxSurge: 1, maxUnavailable: 1 }),
    errors: [`${update}.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero`],
  },
  {
    it: 'may not stand still',
    object: updated('RollingUpdate', { maxUnavailable: 0 }),
    errors: [`${update}.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0`],
  },
  {
    it: 'counts parts in numbers or percentages up to a hundred',
    object: updated('RollingUpdate', { maxUnavailable: '101%', maxSurge: 'x' }),
    errors: [
      `${update}.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`,
      `${update}.rollingUpdate.maxSurge: Invalid value: "x": ${percent}`,
    ],
  },
]);

const claim = {
  metadata: { name: 'data' },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
};
const changeable = ['replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit']
  .concat('persistentVolumeClaimRetentionPolicy')
  .map((field) => `'${field}'`)
  .join(', ');
const fixed = `spec: Forbidden: updates to statefulset spec for fields other than ${changeable} and 'minReadySeconds' are forbidden`;

testKind(statefulSetKind, [
  ...common('statefulset', 'StatefulSet'),
  noNegativeReplicas,
  noNegativeHistory,
  {
    it: 'has a name that its pods can have as a host name',
    object: { ...workload(), metadata: { name: 'a.b' } },
    errors: ['metadata.name: Invalid value: "a.b": must not contain dots'],
  },
  {
    it: 'has one of two ways to make its pods',
    object: workload({ podManagementPolicy: 'Random' }),
    errors: [`spec.podManagementPolicy: Invalid value: "Random": must be 'OrderedReady' or 'Parallel'`],
  },
  {
    it: 'rolls or leaves its update to others',
    object: updated('OnDelete', { partition: 1 }),
    errors: [
      `${update}.rollingUpdate: Invalid value: {"partition":1}: only allowed for updateStrategy 'RollingUpdate'`,
    ],
  },
  {
    it: 'has one of two strategies',
    object: updated('Recreate'),
    errors: [`${update}: Invalid value: {"type":"Recreate"}: must be 'RollingUpdate' or 'OnDelete'`],
  },
  {
    it: 'may not stand still',
    object: updated('RollingUpdate', { maxUnavailable: '0%', partition: -1 }),
    errors: [
      `${update}.rollingUpdate.partition: Invalid value: -1: ${nonNegative}`,
      `${update}.rollingUpdate.maxUnavailable: Invalid value: "0%": cannot be 0`,
    ],
  },
  {
    it: 'keeps claims or deletes them',
    object: workload({ persistentVolumeClaimRetentionPolicy: { whenScaled: 'Recycle' } }),
    errors: [
      'spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Recycle": supported values: "Retain", "Delete"',
    ],
  },
  {
    it: 'has no negative first number',
    object: workload({ ordinals: { start: -1 } }),
    errors: [`spec.ordinals.start: Invalid value: -1: ${nonNegative}`],
  },
  {
    it: 'mounts what its claims are for',
    object: workload({
      volumeClaimTemplates: [claim],
      template: templateWith({
        containers: [{ name: 'main', image: 'web', volumeMounts: [{ name: 'data', mountPath: '/data' }] }],
      }),
    }),
  },
  {
    it: 'may be scaled and rolled, and keep more versions',
    old: workload(),
    object: {
      spec: {
        ...workload({ replicas: 3, minReadySeconds: 1, revisionHistoryLimit: 3, ordinals: { start: 2 } }).spec,
        ...updated('OnDelete').spec,
        template: templateWith({ hostNetwork: true }),
      },
    },
  },
  ...[{ serviceName: 'other' }, { podManagementPolicy: 'Parallel' }, { volumeClaimTemplates: [claim] }].map((part) => ({
    it: `keeps its ${Object.keys(part).join()}`,
    old: workload(),
    object: workload(part),
    errors: [fixed],
  })),
]);

const withNode = (nodeSelector?: Spec): PodTemplateSpec => templateWith({ nodeSelector }) as unknown as PodTemplateSpec;
const withMetadata = (metadata: Required<PodTemplateSpec>['metadata']): PodTemplateSpec => ({
  metadata,
  spec: { containers },
});
const templates: readonly (readonly [string, PodTemplateSpec, PodTemplateSpec, boolean])[] = [
  [
    'defaults that are written out',
    withNode(),
    templateWith({ restartPolicy: 'Always' }) as unknown as PodTemplateSpec,
    true,
  ],
  ['an empty map', withNode(), withNode({}), true],
  [
    'the label of its pods',
    withMetadata({ labels }),
    withMetadata({ labels: { ...labels, 'pod-template-hash': 'x' } }),
    true,
  ],
  ['a label without text', withMetadata({ labels }), withMetadata({ labels: { ...labels, x: '' } }), false],
  ['an annotation without text', withMetadata({ labels }), withMetadata({ labels, annotations: { x: '' } }), false],
  ['a node label without text', withNode(), withNode({ k: '' }), false],
  ['another node label without text', withNode({ k: '' }), withNode({ l: '' }), false],
];
for (const [what, a, b, same] of templates) {
  test(`${what} ${same ? 'makes no other template' : 'makes another template'}`, () => {
    assert.equal(sameTemplate(a, b), same);
    assert.equal(sameTemplate(b, a), same);
  });
}
