/** The rules of the small kinds, each by its exact messages, on creation and on update. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded, messagesOf } from '../../testing/fakes/builders.ts';
import type { FieldError } from '../schema/field-errors.ts';
import type { Shape } from '../schema/schema.ts';
import { endpointsKind } from './endpoints.ts';
import { eventKind, eventShape, validateNewEvent, validateNewEventUpdate } from './event.ts';
import { leaseKind, leaseShape } from './lease.ts';
import { namespaceKind, validateNamespaceFinalizeUpdate, validateNamespaceStatusUpdate } from './namespace.ts';
import { bindingKind } from './pod/pod-requests.ts';
import {
  localSubjectAccessReviewKind,
  selfSubjectAccessReviewKind,
  subjectAccessReviewKind,
  subjectAccessReviewShape,
} from './reviews.ts';
import { runtimeClassKind, runtimeClassShape } from './runtime-class.ts';
import { tokenRequestKind, tokenRequestShape } from './service-account.ts';
import { csiDriverKind, csiDriverShape, csiNodeKind } from './storage/csi.ts';
import { storageClassKind } from './storage/storage-class.ts';
import { validateVolumeAttachmentUpdate, volumeAttachmentKind } from './storage/volume-attachment.ts';

interface Case {
  readonly it: string;
  readonly object: object;
  /** With it, the rule is one for updates. */
  readonly old?: object;
  readonly errors: readonly string[];
}

interface Rules<T> {
  readonly shape: Shape<T>;
  readonly metadata?: object;
  readonly complete?: (object: T) => T;
  readonly validate: (object: T) => readonly FieldError[];
  readonly update?: (object: T, old: T) => readonly FieldError[];
}

function testRules<T>(name: string, rules: Rules<T>, cases: readonly Case[]): void {
  const metadata = { resourceVersion: '1', ...rules.metadata };
  const from = (parts: object): T => {
    const object = decoded(rules.shape, { metadata, ...parts });
    return rules.complete?.(object) ?? object;
  };
  for (const { it, object, old, errors } of cases) {
    test(`${name} ${it}`, () => {
      const found = old === undefined ? rules.validate(from(object)) : (rules.update?.(from(object), from(old)) ?? []);
      assert.deepEqual(messagesOf(found), errors);
    });
  }
}

const inShop = { name: 'x', namespace: 'shop' };

testRules(
  'a Namespace',
  { shape: namespaceKind.shape, validate: namespaceKind.validate, update: namespaceKind.validateUpdate },
  [
    {
      it: 'has a name that is a DNS label',
      object: { metadata: { name: 'a.b' } },
      errors: ['metadata.name: Invalid value: "a.b": must not contain dots'],
    },
    {
      it: 'has finalizers with a domain or of Kubernetes',
      object: { metadata: { name: 'a' }, spec: { finalizers: ['kubernetes', 'a.b/c', 'mine'] } },
      errors: [
        'spec.finalizers: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified',
      ],
    },
    {
      it: 'may change its labels',
      object: { metadata: { name: 'a', resourceVersion: '1', labels: { x: 'y' } } },
      old: { metadata: { name: 'a' } },
      errors: [],
    },
  ],
);

testRules(
  "a Namespace's status",
  {
    shape: namespaceKind.shape,
    metadata: { name: 'a' },
    validate: namespaceKind.validate,
    update: validateNamespaceStatusUpdate,
  },
  [
    { it: 'is Active', object: { status: { phase: 'Active' } }, old: {}, errors: [] },
    {
      it: 'is not Terminating before it is deleted',
      object: { status: { phase: 'Terminating' } },
      old: {},
      errors: ['status.Phase: Invalid value: "Terminating": may only be \'Active\' if `deletionTimestamp` is empty'],
    },
  ],
);

test("a Namespace's status is Terminating once it is deleted", () => {
  const metadata = { name: 'a', resourceVersion: '1', deletionTimestamp: '2026-01-01T00:00:00Z' };
  const from = (phase: string) => decoded(namespaceKind.shape, { metadata, status: { phase } });
  assert.deepEqual(validateNamespaceStatusUpdate(from('Terminating'), from('Active')), []);
  assert.deepEqual(messagesOf(validateNamespaceStatusUpdate(from('Active'), from('Active'))), [
    'status.Phase: Invalid value: "Active": may only be \'Terminating\' if `deletionTimestamp` is not empty',
  ]);
});

test("a Namespace's own finalizers are named one by one", () => {
  const object = decoded(namespaceKind.shape, {
    metadata: { name: 'a', resourceVersion: '1' },
    spec: { finalizers: ['mine'] },
  });
  assert.deepEqual(messagesOf(validateNamespaceFinalizeUpdate(object, object)), [
    'spec.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified',
  ]);
});

const ofPod = { involvedObject: { kind: 'Pod', namespace: 'shop', name: 'web' } };
const mismatch = (namespace_: string): string =>
  `involvedObject.namespace: Invalid value: "${namespace_}": does not match event.namespace`;
const complete = {
  ...ofPod,
  eventTime: '2026-01-01T00:00:00.000000Z',
  reportingComponent: 'example.com/agent',
  reportingInstance: 'agent-1',
  action: 'Binding',
  reason: 'Bound',
  type: 'Normal',
};

testRules('an Event', { shape: eventShape, metadata: inShop, validate: eventKind.validate }, [
  { it: 'is in the namespace of its object', object: ofPod, errors: [] },
  { it: 'is in no other namespace', object: { involvedObject: { namespace: 'other' } }, errors: [mismatch('other')] },
  {
    it: 'of an object without namespace is in default',
    object: { metadata: { name: 'x', namespace: 'default' }, involvedObject: { kind: 'Node' } },
    errors: [],
  },
  {
    it: 'of an object without namespace is in no other',
    object: { involvedObject: { kind: 'Node' } },
    errors: [mismatch('')],
  },
  {
    it: 'has a name that can stand in a path',
    object: { ...ofPod, metadata: { name: 'a/b', namespace: 'shop' } },
    errors: ['metadata.name: Invalid value: "a/b": may not contain \'/\''],
  },
  {
    it: 'of the new form says who reports what',
    object: { ...ofPod, eventTime: complete.eventTime, message: 'x'.repeat(1025) },
    errors: [
      'reportingComponent: Required value',
      'reportingComponent: Invalid value: "": name part must be non-empty',
      `reportingComponent: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
      'reportingInstance: Required value',
      'action: Required value',
      'reason: Required value',
      'message: Invalid value: "": can have at most 1024 characters',
    ],
  },
]);

testRules(
  'an Event through events.k8s.io',
  { shape: eventShape, metadata: inShop, validate: validateNewEvent, update: validateNewEventUpdate },
  [
    { it: 'is complete', object: complete, errors: [] },
    {
      it: 'has nothing of the old form',
      object: {
        ...complete,
        type: 'Odd',
        count: 2,
        firstTimestamp: '2026-01-01T00:00:00Z',
        lastTimestamp: '2026-01-01T00:00:00Z',
        source: { host: 'h' },
        series: { count: 1 },
      },
      errors: [
        'series.count: Invalid value: "": should be at least 2',
        'series.lastObservedTime: Required value',
        'type: Invalid value: "": has invalid value: Odd',
        'firstTimestamp: Invalid value: "": needs to be unset',
        'lastTimestamp: Invalid value: "": needs to be unset',
        'count: Invalid value: "": needs to be unset',
        'source: Invalid value: "": needs to be unset',
      ],
    },
    { it: 'has a time', object: { ...complete, eventTime: null }, errors: ['eventTime: Required value'] },
    {
      it: 'may continue its series',
      object: { ...complete, series: { count: 2, lastObservedTime: '2026-01-01T00:00:00Z' } },
      old: complete,
      errors: [],
    },
    {
      it: 'keeps its time to the microsecond',
      object: { ...complete, eventTime: '2026-01-01T00:00:00.000000999Z' },
      old: complete,
      errors: [],
    },
    {
      it: 'changes nothing else',
      object: {
        ...complete,
        reason: 'Other',
        message: 'm',
        involvedObject: { ...ofPod.involvedObject, name: 'other' },
      },
      old: complete,
      errors: [
        'involvedObject: Invalid value: {"kind":"Pod","namespace":"shop","name":"other"}: field is immutable',
        'reason: Invalid value: "Other": field is immutable',
        'message: Invalid value: "m": field is immutable',
      ],
    },
  ],
);

testRules(
  'a Lease',
  { shape: leaseShape, metadata: inShop, validate: leaseKind.validate, update: leaseKind.validateUpdate },
  [
    { it: 'needs nothing but a name', object: {}, errors: [] },
    {
      it: 'lasts for some time',
      object: { spec: { leaseDurationSeconds: 0, leaseTransitions: -1 } },
      errors: [
        'spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0',
        'spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0',
      ],
    },
    {
      it: 'has a known strategy, or none',
      object: { spec: { strategy: 'Odd' } },
      errors: ['spec.strategy: Unsupported value: "Odd": supported values: "OldestEmulationVersion"'],
    },
    {
      it: 'prefers a holder only by a strategy',
      object: { spec: { preferredHolder: 'me' } },
      errors: ['spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined'],
    },
    {
      it: 'can be renewed',
      object: { spec: { leaseDurationSeconds: 40, renewTime: '2026-01-01T00:00:01Z' } },
      old: { spec: { renewTime: '2026-01-01T00:00:00Z' } },
      errors: [],
    },
    {
      it: 'cannot be renewed for no time',
      object: { spec: { leaseDurationSeconds: -1 } },
      old: {},
      errors: ['spec.leaseDurationSeconds: Invalid value: -1: must be greater than 0'],
    },
  ],
);

testRules(
  'Endpoints',
  { shape: endpointsKind.shape, metadata: inShop, complete: endpointsKind.complete, validate: endpointsKind.validate },
  [
    { it: 'may be none', object: {}, errors: [] },
    {
      it: 'have addresses and ports',
      object: { subsets: [{ addresses: [{ ip: '10.0.0.1' }], ports: [{ port: 80 }] }] },
      errors: [],
    },
    {
      it: 'have an address',
      object: { subsets: [{}] },
      errors: ['subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`'],
    },
    {
      it: 'have addresses that others can reach',
      object: { subsets: [{ addresses: ['x', '127.0.0.1', '169.254.1.1', '224.0.0.1', '::'].map((ip) => ({ ip })) }] },
      errors: [
        'subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        'subsets[0].addresses[1].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
        'subsets[0].addresses[2].ip: Invalid value: "169.254.1.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)',
        'subsets[0].addresses[3].ip: Invalid value: "224.0.0.1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)',
        'subsets[0].addresses[4].ip: Invalid value: "::": may not be unspecified (::)',
      ],
    },
    {
      it: 'have names for several ports',
      object: {
        subsets: [
          {
            notReadyAddresses: [{ ip: '10.0.0.1' }],
            ports: [
              { port: 0, name: 'a' },
              { port: 80, protocol: 'X' },
            ],
          },
        ],
      },
      errors: [
        'subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive',
        'subsets[0].ports[1].name: Required value',
        'subsets[0].ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
      ],
    },
  ],
);

testRules(
  'a StorageClass',
  {
    shape: storageClassKind.shape,
    metadata: { name: 'x' },
    complete: storageClassKind.complete,
    validate: storageClassKind.validate,
    update: storageClassKind.validateUpdate,
  },
  [
    { it: 'has a provisioner', object: {}, errors: ['provisioner: Required value'] },
    {
      it: 'has known choices',
      object: { provisioner: 'a/b', reclaimPolicy: 'Recycle', volumeBindingMode: 'Never', parameters: { '': 'x' } },
      errors: [
        'parameters: Invalid value: "": field can not be empty.',
        'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"',
        'volumeBindingMode: Unsupported value: "Never": supported values: "Immediate", "WaitForFirstConsumer"',
      ],
    },
    {
      it: 'says of each label once where volumes may be',
      object: {
        provisioner: 'a/b',
        allowedTopologies: [
          {
            matchLabelExpressions: [
              { key: 'zone', values: ['a', 'a'] },
              { key: 'zone', values: [] },
            ],
          },
          { matchLabelExpressions: [{ key: 'x', values: ['a', 'b'] }] },
          { matchLabelExpressions: [{ key: 'x', values: ['b', 'a'] }] },
        ],
      },
      errors: [
        'allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"',
        'allowedTopologies[0].matchLabelExpressions[1].values: Required value',
        'allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "zone"',
        'allowedTopologies[2].matchLabelExpressions: Duplicate value: ""',
      ],
    },
    {
      it: 'may change whether volumes grow',
      object: { provisioner: 'a/b', allowVolumeExpansion: true },
      old: { provisioner: 'a/b' },
      errors: [],
    },
    {
      it: 'keeps the rest',
      object: {
        provisioner: 'a/c',
        parameters: { a: 'b' },
        reclaimPolicy: 'Retain',
        volumeBindingMode: 'WaitForFirstConsumer',
      },
      old: { provisioner: 'a/b' },
      errors: [
        'parameters: Invalid value: {"a":"b"}: field is immutable',
        'provisioner: Invalid value: "a/c": field is immutable',
        'reclaimPolicy: Invalid value: "Retain": field is immutable',
        'volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable',
      ],
    },
  ],
);

const driver = { name: 'd', nodeID: 'n', topologyKeys: ['a/b'] };
testRules(
  'a CSINode',
  {
    shape: csiNodeKind.shape,
    metadata: { name: 'x' },
    validate: csiNodeKind.validate,
    update: csiNodeKind.validateUpdate,
  },
  [
    { it: 'may have no driver', object: { spec: { drivers: [] } }, errors: [] },
    {
      it: 'has each driver once, with an id',
      object: {
        spec: { drivers: [driver, { name: 'd', nodeID: '', topologyKeys: ['a', 'a'], allocatable: { count: -1 } }] },
      },
      errors: [
        'spec.drivers[1].nodeID: Required value',
        'spec.drivers[1].allocatable.count: Invalid value: -1: must be greater than or equal to 0',
        'spec.drivers[1].name: Duplicate value: "d"',
        'spec.drivers[1]: Duplicate value: "a"',
      ],
    },
    {
      it: 'may say another number of volumes',
      object: { spec: { drivers: [{ ...driver, allocatable: { count: 3 } }] } },
      old: { spec: { drivers: [driver] } },
      errors: [],
    },
    {
      it: 'keeps the id of a driver',
      object: { spec: { drivers: [{ ...driver, nodeID: 'other' }] } },
      old: { spec: { drivers: [driver] } },
      errors: ['spec.drivers: Invalid value: {"name":"d","nodeID":"other","topologyKeys":["a/b"]}: field is immutable'],
    },
  ],
);

testRules(
  'a CSIDriver',
  {
    shape: csiDriverShape,
    metadata: { name: 'x' },
    complete: csiDriverKind.complete,
    validate: csiDriverKind.validate,
    update: csiDriverKind.validateUpdate,
  },
  [
    { it: 'is complete by default', object: { spec: {} }, errors: [] },
    {
      it: 'has known choices',
      object: { spec: { fsGroupPolicy: 'Odd', volumeLifecycleModes: ['Odd'] } },
      errors: [
        'spec.fsGroupPolicy: Unsupported value: "Odd": supported values: "File", "None", "ReadWriteOnceWithFSType"',
        'spec.volumeLifecycleModes: Unsupported value: "Odd": supported values: "Ephemeral", "Persistent"',
      ],
    },
    {
      it: 'keeps how its volumes live',
      object: { spec: { attachRequired: false, volumeLifecycleModes: ['Ephemeral'] } },
      old: { spec: {} },
      errors: [
        'spec.attachedRequired: Invalid value: false: field is immutable',
        'spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable',
      ],
    },
  ],
);

const attachment = { attacher: 'd', source: { persistentVolumeName: 'pv' }, nodeName: 'n' };
testRules(
  'a VolumeAttachment',
  {
    shape: volumeAttachmentKind.shape,
    metadata: { name: 'x' },
    validate: volumeAttachmentKind.validate,
    update: validateVolumeAttachmentUpdate,
  },
  [
    { it: 'names a volume', object: { spec: attachment }, errors: [] },
    {
      it: 'names exactly one volume',
      object: { spec: { ...attachment, source: {} } },
      errors: ['spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName'],
    },
    {
      it: 'reports errors of some length',
      object: {
        spec: attachment,
        status: { attached: false, attachError: { message: 'x'.repeat(1025), errorCode: -1 } },
      },
      errors: [
        'status.attachError.message: Too long: may not be more than 1024 bytes',
        'status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive',
      ],
    },
    {
      it: 'keeps what it wishes',
      object: { spec: { ...attachment, nodeName: 'm' } },
      old: { spec: attachment },
      errors: [
        'spec: Invalid value: {"attacher":"d","source":{"persistentVolumeName":"pv"},"nodeName":"m"}: field is immutable',
      ],
    },
  ],
);

testRules(
  'a RuntimeClass',
  {
    shape: runtimeClassShape,
    metadata: { name: 'x' },
    validate: runtimeClassKind.validate,
    update: runtimeClassKind.validateUpdate,
  },
  [
    { it: 'has a handler', object: {}, errors: ['handler: Required value'] },
    {
      it: 'has a handler that is a DNS label',
      object: { handler: 'a.b' },
      errors: ['handler: Invalid value: "a.b": must not contain dots'],
    },
    {
      it: 'keeps its handler',
      object: { handler: 'b' },
      old: { handler: 'a' },
      errors: ['handler: Invalid value: "b": field is immutable'],
    },
  ],
);

const resourceAttributes = { verb: 'get', resource: 'pods' };
const either = 'exactly one of nonResourceAttributes or resourceAttributes must be specified';
testRules(
  'a SubjectAccessReview',
  { shape: subjectAccessReviewShape, metadata: { resourceVersion: '' }, validate: subjectAccessReviewKind.validate },
  [
    { it: 'asks about a user and a resource', object: { spec: { user: 'u', resourceAttributes } }, errors: [] },
    {
      it: 'asks about one thing',
      object: { spec: {} },
      errors: [
        `spec: Invalid value: null: ${either}`,
        'spec.user: Invalid value: "": at least one of user or group must be specified',
      ],
    },
    {
      it: 'has no metadata',
      object: { metadata: { name: 'x' }, spec: { groups: ['g'], nonResourceAttributes: { path: '/' } } },
      errors: ['metadata: Invalid value: {"name":"x"}: must be empty'],
    },
    {
      it: 'has selectors that say something',
      object: {
        spec: {
          user: 'u',
          resourceAttributes: {
            fieldSelector: {},
            labelSelector: { rawSelector: 'a', requirements: [{ key: 'a', operator: 'Exists' }] },
          },
        },
      },
      errors: [
        'spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required',
        'spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a": may not specified at the same time as requirements',
      ],
    },
  ],
);
testRules(
  'a SelfSubjectAccessReview',
  {
    shape: selfSubjectAccessReviewKind.shape,
    metadata: { resourceVersion: '' },
    validate: selfSubjectAccessReviewKind.validate,
  },
  [
    { it: 'asks about one thing', object: { spec: { resourceAttributes } }, errors: [] },
    {
      it: 'does not ask about two',
      object: { spec: { resourceAttributes, nonResourceAttributes: { path: '/' } } },
      errors: [`spec: Invalid value: {"path":"/"}: ${either}`],
    },
  ],
);
testRules(
  'a LocalSubjectAccessReview',
  {
    shape: subjectAccessReviewShape,
    metadata: { namespace: 'shop', resourceVersion: '' },
    validate: localSubjectAccessReviewKind.validate,
  },
  [
    {
      it: 'asks about its namespace',
      object: { spec: { user: 'u', resourceAttributes: { namespace: 'shop' } } },
      errors: [],
    },
    {
      it: 'asks about no other',
      object: { spec: { user: 'u', resourceAttributes: { namespace: 'other' } } },
      errors: ['spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace'],
    },
    {
      it: 'does not ask about paths',
      object: { spec: { user: 'u', nonResourceAttributes: { path: '/' } } },
      errors: ['spec.nonResourceAttributes: Invalid value: {"path":"/"}: disallowed on this kind of request'],
    },
  ],
);

testRules(
  'a TokenRequest',
  { shape: tokenRequestShape, complete: tokenRequestKind.complete, validate: tokenRequestKind.validate },
  [
    { it: 'lasts an hour by default', object: { spec: { audiences: [] } }, errors: [] },
    {
      it: 'lasts for ten minutes at least',
      object: { spec: { audiences: [], expirationSeconds: 5 } },
      errors: ['spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes'],
    },
    {
      it: 'lasts for 2^32 seconds at most',
      object: { spec: { audiences: [], expirationSeconds: 2 ** 32 + 1 } },
      errors: [
        'spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds',
      ],
    },
    {
      it: 'attests nothing',
      object: { spec: { audiences: [], attestations: { a: ['b'] } } },
      errors: [
        'spec.attestations: Invalid value: {"a":["b"]}: attestations may only be specified with a webhook bound object reference',
      ],
    },
  ],
);

testRules('a Binding', { shape: bindingKind.shape, validate: bindingKind.validate }, [
  { it: 'names a node', object: { target: { name: 'n' } }, errors: [] },
  {
    it: 'names nothing else',
    object: { target: { kind: 'x' } },
    errors: ['target.kind: Unsupported value: "x": supported values: "Node", "<empty>"', 'target.name: Required value'],
  },
]);
