import { clusterTrustBundleShape } from '../../kube/kinds/cluster-trust-bundle.ts';
import { configMapShape } from '../../kube/kinds/config-map.ts';
import { endpointsShape } from '../../kube/kinds/endpoints.ts';
import { eventShape, eventViewShape } from '../../kube/kinds/event.ts';
import { leaseShape } from '../../kube/kinds/lease.ts';
import { limitRangeShape, podDisruptionBudgetShape, resourceQuotaShape } from '../../kube/kinds/limits.ts';
import { namespaceShape } from '../../kube/kinds/namespace.ts';
import { runtimeClassShape } from '../../kube/kinds/runtime-class.ts';
import { secretShape } from '../../kube/kinds/secret.ts';
import { serviceAccountShape } from '../../kube/kinds/service-account.ts';
import { serviceShape } from '../../kube/kinds/service.ts';
import type { Definition } from './definition.ts';
import { shapeAt } from './shape-at.ts';

const metadata = 'Name, labels and the rest that every object has.';

export const objectDefinitions: readonly Definition[] = [
  {
    shape: configMapShape,
    text: 'Configuration for pods: named texts and bytes. All of it together is at most 1 MiB.',
    fields: {
      metadata,
      immutable: 'Whether the entries can never change. It cannot be taken back.',
      data: 'Entries of text. A key consists of letters, digits, "-", "_" and ".".',
      binaryData: 'Entries of bytes, in base64. No key may also be in data.',
    },
  },
  {
    shape: secretShape,
    text: 'Confidential entries for pods. All of it together is at most 1 MiB.',
    fields: {
      metadata,
      immutable: 'Whether the entries can never change. It cannot be taken back.',
      data: 'Entries, in base64. A key consists of letters, digits, "-", "_" and ".".',
      stringData: 'Entries in clear, for writing alone: they are put over data and never shown.',
      type: 'What the entries are for; Opaque if absent. It cannot be changed.',
    },
  },
  {
    shape: serviceAccountShape,
    text: 'Somebody that pods act as.',
    fields: {
      metadata,
      secrets: 'Secrets that pods of the account may use, where that is enforced.',
      imagePullSecrets: 'Secrets with the passwords of registries, for pods that name none.',
      automountServiceAccountToken: 'Whether pods get a token of the account. A pod may say otherwise.',
    },
  },
  {
    shape: namespaceShape,
    text: 'A scope of names. Everything in it goes with it.',
    fields: {
      metadata,
      spec: 'Who must agree before the namespace is gone.',
      status: 'Whether the namespace is in use or about to end.',
    },
  },
  {
    shape: shapeAt(namespaceShape, 'spec'),
    text: 'Who must agree before a namespace is gone.',
    fields: { finalizers: 'While this list is not empty, a deleted namespace stays.' },
  },
  {
    shape: shapeAt(namespaceShape, 'status'),
    text: 'Whether a namespace is in use or about to end.',
    fields: { phase: 'Active or Terminating.', conditions: 'What keeps it from ending.' },
  },
  {
    shape: eventShape,
    text: 'Something that happened to an object. Kept for an hour.',
    fields: {
      metadata,
      involvedObject: 'What it happened to.',
      reason: 'One word for what happened.',
      message: 'What happened, for people.',
      source: 'Who says so.',
      firstTimestamp: 'When it happened first.',
      lastTimestamp: 'When it happened last.',
      count: 'How often it happened.',
      type: 'Normal or Warning.',
      eventTime: 'When it was first seen.',
      series: 'The series it is part of.',
      action: 'What was done.',
      related: 'Another object that matters here.',
      reportingComponent: 'Who says so.',
      reportingInstance: 'Which one of them.',
    },
  },
  {
    shape: eventViewShape,
    text: 'Something that happened to an object. Kept for an hour.',
    fields: {
      metadata,
      eventTime: 'When it was first seen.',
      series: 'The series it is part of.',
      reportingController: 'Who says so.',
      reportingInstance: 'Which one of them.',
      action: 'What was done.',
      reason: 'One word for what happened.',
      regarding: 'What it happened to.',
      related: 'Another object that matters here.',
      note: 'What happened, for people.',
      type: 'Normal or Warning.',
      deprecatedSource: 'Who says so, as clients of core events do.',
      deprecatedFirstTimestamp: 'When it happened first, as clients of core events say.',
      deprecatedLastTimestamp: 'When it happened last, as clients of core events say.',
      deprecatedCount: 'How often it happened, as clients of core events say.',
    },
  },
  {
    shape: leaseShape,
    text: 'Who holds something, and until when.',
    fields: { metadata, spec: 'Who holds it, and until when.' },
  },
  {
    shape: shapeAt(leaseShape, 'spec'),
    text: 'Who holds it, and until when.',
    fields: {
      holderIdentity: 'Who holds it; nobody if empty.',
      leaseDurationSeconds: 'For how long after renewTime the holder is believed.',
      acquireTime: 'When the holder got it.',
      renewTime: 'When the holder last said that it still holds it.',
      leaseTransitions: 'How often it changed hands.',
      strategy: 'How a holder is chosen among candidates.',
      preferredHolder: 'Who should get it next.',
    },
  },
  {
    shape: serviceShape,
    text: 'A name and an address for something that pods offer.',
    fields: { metadata, spec: 'How it is reached.', status: 'What a load balancer says of it.' },
  },
  {
    shape: shapeAt(serviceShape, 'spec'),
    text: 'How a service is reached.',
    fields: {
      ports: 'Its ports.',
      selector: 'The labels of the pods behind it.',
      clusterIP: 'Its address inside the cluster; None for a service without one.',
      clusterIPs: 'Its addresses, of each family.',
      type: 'ClusterIP, NodePort, LoadBalancer or ExternalName.',
      externalIPs: 'Further addresses that lead to it.',
      sessionAffinity: 'ClientIP keeps a client with one pod.',
      externalName: 'The name that it stands for, for ExternalName.',
    },
  },
  {
    shape: endpointsShape,
    text: 'The addresses behind a service.',
    fields: { metadata, subsets: 'Addresses with the ports they have in common.' },
  },
  {
    shape: limitRangeShape,
    text: 'Bounds for what pods of a namespace ask for. Not enforced by this server.',
    fields: { metadata, spec: 'The bounds.' },
  },
  {
    shape: resourceQuotaShape,
    text: 'How much a namespace may use. Not enforced by this server.',
    fields: { metadata, spec: 'What may be used.', status: 'What is used.' },
  },
  {
    shape: podDisruptionBudgetShape,
    text: 'How many pods of a selection must stay while others are moved. Not enforced by this server.',
    fields: { metadata, spec: 'Which pods, and how many.', status: 'How many there are.' },
  },
  {
    shape: runtimeClassShape,
    text: 'A way to run containers.',
    fields: {
      metadata,
      handler: 'What the node calls it. It cannot be changed.',
      overhead: 'What running a pod this way costs.',
      scheduling: 'The nodes that can do it.',
    },
  },
  {
    shape: clusterTrustBundleShape,
    text: 'Certificates of authorities that pods may trust.',
    fields: { metadata, spec: 'The certificates, and whose they are.' },
  },
  {
    shape: shapeAt(clusterTrustBundleShape, 'spec'),
    text: 'Certificates, and whose they are.',
    fields: {
      signerName: 'The signer that issues certificates under these authorities. It cannot be changed.',
      trustBundle: 'The certificates as PEM blocks.',
    },
  },
];
