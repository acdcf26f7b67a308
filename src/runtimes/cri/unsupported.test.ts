import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { StatusResponseSchema } from '../../grpc/messages/cri_pb.ts';
import { containerRequest, mount, podRequest } from '../../testing/machine/process-sandboxes.ts';
import type { ContainerRequest, PodRequest } from '../runtime.ts';
import {
  type RuntimeFeatures,
  isSupported,
  runtimeFeatures,
  unsupportedContainer,
  unsupportedPod,
} from './unsupported.ts';

const old = runtimeFeatures(create(StatusResponseSchema), { name: 'containerd', version: '1.6.20~ds1' });
const recent = runtimeFeatures(
  create(StatusResponseSchema, {
    runtimeHandlers: [
      { name: '', features: { recursiveReadOnlyMounts: true, userNamespaces: true } },
      { name: 'kata', features: {} },
    ],
    features: { supplementalGroupsPolicy: true },
  }),
  { name: 'containerd', version: 'v2.2.0' },
);

interface Case {
  readonly it: string;
  readonly features: RuntimeFeatures;
  readonly pod?: Partial<PodRequest>;
  readonly container?: Partial<ContainerRequest>;
  readonly refused: string | undefined;
}

const strict = { ...podRequest('/node').security, supplementalGroupsPolicy: 'Strict' } as const;
const image = mount('', '/data', { image: 'data:1', readOnly: true });

const cases: readonly Case[] = [
  { it: 'nothing of an ordinary pod', features: old, refused: undefined },
  {
    it: 'a user namespace that the runtime does not have',
    features: old,
    pod: { hostUsers: false },
    refused: "can't set `spec.hostUsers: false`, runtime does not support user namespaces",
  },
  {
    it: 'a user namespace that a handler does not have',
    features: recent,
    pod: { hostUsers: false, runtimeHandler: 'kata' },
    refused: 'can\'t set `spec.hostUsers: false`, RuntimeClass handler "kata" does not support user namespaces',
  },
  {
    it: 'a user namespace that only the runtime has',
    features: recent,
    pod: { hostUsers: false },
    refused: "can't set `spec.hostUsers: false`, this node gives pods no user namespaces",
  },
  {
    it: 'strict groups that the runtime would ignore',
    features: old,
    pod: { security: strict },
    refused: 'SupplementalGroupsPolicy=Strict is not supported in this node',
  },
  { it: 'no strict groups that it knows', features: recent, pod: { security: strict }, refused: undefined },
  {
    it: 'an image as a volume',
    features: old,
    container: { mounts: [image] },
    refused:
      'the volume at "/data" is an image, and the runtime cannot mount images: containerd can from version 2.1 on',
  },
  {
    it: 'no image as a volume of a runtime that can',
    features: recent,
    container: { mounts: [image] },
    refused: undefined,
  },
  {
    it: 'a stop signal',
    features: old,
    container: { stopSignal: 'SIGQUIT' },
    refused: 'stopSignal "SIGQUIT" is not supported by the runtime: containerd does from version 2.2 on',
  },
];
for (const { it, features, pod = {}, container = {}, refused } of cases) {
  test(`refuses ${it}`, () => {
    const request = podRequest('/node', pod);
    const own = containerRequest(request.uid, { stopSignal: '', ...container });
    assert.equal(unsupportedPod(request, features) ?? unsupportedContainer(own, features), refused);
  });
}

test('a feature is there if the runtime says so, recursive read-only mounts for each handler', () => {
  const asked = [
    [recent, 'recursiveReadOnly', ''],
    [recent, 'recursiveReadOnly', 'kata'],
    [recent, 'recursiveReadOnly', 'unknown'],
    [recent, 'supplementalGroupsPolicy', 'kata'],
    [old, 'recursiveReadOnly', ''],
    [old, 'supplementalGroupsPolicy', ''],
  ] as const;
  const answers = asked.map(([features, feature, handler]) => isSupported(feature, handler, features));
  assert.deepEqual(answers, [true, false, false, true, false, false]);
});
