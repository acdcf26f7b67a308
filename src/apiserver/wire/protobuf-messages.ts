/** Every message that a request may carry in protobuf, and which of them is which kind. */
import { parseMessage } from './message-notation.ts';
import type { Message } from './message-notation.ts';
import { clusterMessages } from './messages/cluster.ts';
import { metadataMessages } from './messages/metadata.ts';
import { nodeMessages } from './messages/nodes.ts';
import { podStatusMessages } from './messages/pod-status.ts';
import { podMessages } from './messages/pods.ts';
import { reviewMessages } from './messages/reviews.ts';
import { volumeMessages } from './messages/volumes.ts';

const tables = {
  ...metadataMessages,
  ...podMessages,
  ...podStatusMessages,
  ...volumeMessages,
  ...nodeMessages,
  ...clusterMessages,
  ...reviewMessages,
};

/** Parsed from the start, all together: 250 short texts take a fraction of a millisecond, and a typing error shows at once. */
export const messages: ReadonlyMap<string, Message> = new Map(
  Object.entries(tables).map(([name, text]) => [name, parseMessage(text)]),
);

const core =
  'Pod Node ConfigMap Secret Namespace ServiceAccount Event Binding Service Endpoints PersistentVolume PersistentVolumeClaim';
const kinds: ReadonlyMap<string, string> = new Map([
  ...core.split(' ').map((kind) => [`v1/${kind}`, kind] as const),
  ['coordination.k8s.io/v1/Lease', 'Lease'],
  ['events.k8s.io/v1/Event', 'events.Event'],
  ['policy/v1/Eviction', 'Eviction'],
  ['policy/v1beta1/Eviction', 'Eviction'],
  ...['TokenRequest', 'TokenReview', 'SelfSubjectReview'].map(
    (kind) => [`authentication.k8s.io/v1/${kind}`, kind] as const,
  ),
  ...['SubjectAccessReview', 'SelfSubjectAccessReview', 'LocalSubjectAccessReview', 'SelfSubjectRulesReview'].map(
    (kind) => [`authorization.k8s.io/v1/${kind}`, kind] as const,
  ),
  ['storage.k8s.io/v1/CSINode', 'CSINode'],
  ['storage.k8s.io/v1/CSIDriver', 'CSIDriver'],
  ['node.k8s.io/v1/RuntimeClass', 'RuntimeClass'],
  ['certificates.k8s.io/v1beta1/ClusterTrustBundle', 'ClusterTrustBundle'],
]);

/** The name of the message behind a kind. DeleteOptions come under the version of whatever is to be deleted. */
export function messageNameOf(apiVersion: string, kind: string): string | undefined {
  return kind === 'DeleteOptions' ? kind : kinds.get(`${apiVersion}/${kind}`);
}

/** For tests that want to try every kind: pairs of apiVersion and kind. */
export function protobufKinds(): readonly (readonly [string, string])[] {
  const pairs = [...kinds.keys()].map(
    (key) => [key.slice(0, key.lastIndexOf('/')), key.slice(key.lastIndexOf('/') + 1)] as const,
  );
  return [...pairs, ['v1', 'DeleteOptions']];
}
