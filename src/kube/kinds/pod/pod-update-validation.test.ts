import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aContainer, aPod, messagesOf } from '../../../testing/fakes/builders.ts';
import { validateEphemeralContainersUpdate, validatePodUpdate } from './pod-update-validation.ts';
import { type Pod, defaultPod } from './pod.ts';

const toleration = { key: 'a', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 5 };

/** A pod as it is stored. */
function stored(parts: Parameters<typeof aPod>[0] = {}): Pod {
  const pod = defaultPod(aPod({ serviceAccountName: 'default', ...parts }));
  return { ...pod, metadata: { ...pod.metadata, resourceVersion: '1' } };
}

const refusal =
  'spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n';

const cases: readonly {
  it: string;
  old?: Parameters<typeof aPod>[0];
  pod: Parameters<typeof aPod>[0];
  errors: string[];
}[] = [
  { it: 'takes a pod that did not change', pod: {}, errors: [] },
  { it: 'takes another image', pod: { containers: [aContainer({ image: 'other:2' })] }, errors: [] },
  { it: 'takes other labels', pod: { metadata: { labels: { a: 'b' } } }, errors: [] },
  { it: 'takes an empty list for an absent one', pod: { initContainers: [], hostAliases: [] }, errors: [] },
  {
    it: 'takes the same amount in another spelling',
    old: { containers: [aContainer({ resources: { limits: { cpu: '1' } } })] },
    pod: { containers: [aContainer({ resources: { limits: { cpu: '1000m' } } })] },
    errors: [],
  },
  {
    it: 'refuses what may not change, and shows it',
    pod: { nodeName: 'node-1', containers: [aContainer({ image: 'other:2', command: ['sh'] })] },
    errors: [`${refusal}+ spec-less`],
  },
  {
    it: 'refuses another container',
    pod: { containers: [aContainer(), aContainer({ name: 'two' })] },
    errors: ['spec.containers: Forbidden: pod updates may not add or remove containers'],
  },
  {
    it: 'refuses to lose an init container',
    old: { initContainers: [aContainer({ name: 'first' })] },
    pod: {},
    errors: ['spec.initContainers: Forbidden: pod updates may not add or remove containers'],
  },
  { it: 'takes a first deadline', pod: { activeDeadlineSeconds: 10 }, errors: [] },
  { it: 'takes a lower deadline', old: { activeDeadlineSeconds: 10 }, pod: { activeDeadlineSeconds: 9 }, errors: [] },
  {
    it: 'refuses a higher deadline',
    old: { activeDeadlineSeconds: 10 },
    pod: { activeDeadlineSeconds: 11 },
    errors: ['spec.activeDeadlineSeconds: Invalid value: 11: must be less than or equal to previous value'],
  },
  {
    it: 'refuses to lose a deadline',
    old: { activeDeadlineSeconds: 10 },
    pod: {},
    errors: ['spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value'],
  },
  {
    it: 'takes a further toleration and other seconds of an old one',
    old: { tolerations: [toleration] },
    pod: {
      tolerations: [
        { ...toleration, tolerationSeconds: 9 },
        { operator: 'Exists', key: 'b' },
      ],
    },
    errors: [],
  },
  {
    it: 'refuses to lose a toleration',
    old: { tolerations: [toleration] },
    pod: { tolerations: [] },
    errors: ['spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds'],
  },
  {
    it: 'takes fewer scheduling gates',
    old: { schedulingGates: [{ name: 'a' }, { name: 'b' }] },
    pod: { schedulingGates: [{ name: 'b' }] },
    errors: [],
  },
  {
    it: 'refuses a new scheduling gate',
    old: { schedulingGates: [{ name: 'a' }] },
    pod: { schedulingGates: [{ name: 'a' }, { name: 'b' }] },
    errors: ["spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'b'"],
  },
  {
    it: 'takes a narrower node selector while a gate holds the pod',
    old: { schedulingGates: [{ name: 'a' }], nodeSelector: { x: '1' } },
    pod: { schedulingGates: [{ name: 'a' }], nodeSelector: { x: '1', y: '2' } },
    errors: [],
  },
  {
    it: 'refuses another node selector even then',
    old: { schedulingGates: [{ name: 'a' }], nodeSelector: { x: '1' } },
    pod: { schedulingGates: [{ name: 'a' }], nodeSelector: { x: '2' } },
    errors: [
      'spec.nodeSelector: Invalid value: {"x":"2"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)',
    ],
  },
  {
    it: 'refuses to make a mirror pod of it',
    old: { nodeName: 'node-1' },
    pod: { nodeName: 'node-1', metadata: { annotations: { 'kubernetes.io/config.mirror': 'x' } } },
    errors: ['metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation'],
  },
];
for (const { it, old, pod, errors } of cases) {
  test(`validatePodUpdate ${it}`, () => {
    const expected = errors.map((message) =>
      message.replace('+ spec-less', '+ containers[0].command: ["sh"]\n+ nodeName: "node-1"'),
    );
    assert.deepEqual(messagesOf(validatePodUpdate(stored(pod), stored(old ?? {}))), expected);
  });
}

test('validatePodUpdate lets a negative grace period of old become 1', () => {
  const old = stored();
  const before = { ...old, spec: { ...old.spec, terminationGracePeriodSeconds: -5 } };
  const after = { ...old, spec: { ...old.spec, terminationGracePeriodSeconds: 1 } };
  assert.deepEqual(validatePodUpdate(after, before), []);
});

test('validateEphemeralContainersUpdate takes new containers and refuses to change or lose old ones', () => {
  const one = aContainer({ name: 'one', terminationMessagePolicy: 'File', imagePullPolicy: 'Always' });
  const old = stored({ ephemeralContainers: [one] });
  const two = { ...one, name: 'two' };
  assert.deepEqual(validateEphemeralContainersUpdate(stored({ ephemeralContainers: [one, two] }), old), []);
  assert.deepEqual(
    messagesOf(validateEphemeralContainersUpdate(stored({ ephemeralContainers: [{ ...one, image: 'x' }] }), old)),
    [
      'spec.ephemeralContainers: Forbidden: existing ephemeral containers "one" may not be changed\n- image: "registry.example/web:1"\n+ image: "x"',
    ],
  );
  assert.deepEqual(messagesOf(validateEphemeralContainersUpdate(stored(), old)), [
    'spec.ephemeralContainers: Forbidden: existing ephemeral containers "one" may not be removed\n',
  ]);
  const mirror = stored({ metadata: { annotations: { 'kubernetes.io/config.mirror': 'x' } } });
  assert.deepEqual(messagesOf(validateEphemeralContainersUpdate(mirror, mirror)), [
    ': Forbidden: static pods do not support ephemeral containers',
  ]);
});
