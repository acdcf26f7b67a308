/** The pods of this node, as its own server needs them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { issueServerCertificate, makeAuthority } from '../../apiserver/identity/certificates.ts';
import { messageOf } from '../../base/errors.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import type { ResourceReference } from '../../client/api/resource-reference.ts';
import type { ClusterAccess } from '../../client/credentials/cluster-access.ts';
import { ensurePrivateFile } from '../../disk/paths/node-files.ts';
import { bareContainerId } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type SubjectAccessReview, subjectAccessReviewShape, tokenReviewShape } from '../../kube/kinds/reviews.ts';
import type { NodePod, NodePods } from '../../node-server/container-logs.ts';
import type { NodeAccess } from '../../node-server/node-access.ts';
import type { PodLoop } from '../../pods/loop/pod-loop.ts';
import { amountText } from '../../reclaim/thresholds.ts';
import type { Runtime, RuntimePod } from '../../runtimes/runtime.ts';
import { thisMachine } from '../machine/machine-facts.ts';
import { type AgentSettings, AgentSettingsError } from './agent-settings.ts';
import type { NodeDeps } from './node.ts';
import { effectiveConfiguration } from './kubelet-configuration.ts';
import type { ServingSettings } from './serving-settings.ts';

type Reviews = Pick<NodeAccess, 'authenticate' | 'authorize'>;

export function serverPods(loop: PodLoop, runtime: Pick<Runtime, 'list' | 'get'>): NodePods {
  return {
    find(namespace, name) {
      const pod = loop.podNamed(namespace, name);
      return pod === undefined ? undefined : nodePod(pod, loop, runtime);
    },
    list: () =>
      loop.pods().map((pod) => ({ ...pod, status: loop.statusOf(pod.metadata.uid ?? '') ?? pod.status ?? {} })),
    running: async (signal) => (await runtime.list(signal)).filter(hasRunning).map(shownPod),
  };
}

function nodePod(pod: Pod, loop: PodLoop, runtime: Pick<Runtime, 'get'>): NodePod {
  const uid = pod.metadata.uid ?? '';
  const containers = (): RuntimePod['containers'] => loop.runtimePodOf(uid)?.containers ?? [];
  return {
    pod,
    runningContainer: (name) => containers().find((one) => one.name === name && one.state.kind === 'running')?.id,
    log(containerId) {
      const id = bareContainerId(containerId);
      const path = containers().find((one) => one.id === id)?.logPath;
      if (path === undefined) return undefined;
      const isRunning = async (): Promise<boolean> => {
        const now = await runtime.get(uid, new AbortController().signal);
        return now?.containers.some((one) => one.id === id && one.state.kind === 'running') ?? false;
      };
      return { path, isRunning };
    },
  };
}

function hasRunning({ containers }: RuntimePod): boolean {
  return containers.some(({ state }) => state.kind === 'running');
}

function shownPod({ uid, namespace, name, containers }: RuntimePod): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { uid, namespace, name },
    spec: { containers: containers.map((one) => ({ name: one.name, image: one.image })) },
  };
}

/** What /configz shows, as of a kubelet. */
export function servedConfiguration(settings: AgentSettings, { images }: Pick<Runtime, 'images'>) {
  const { given, rootDirectory, logsDirectory, clusterDomain, failsOnCgroupV1, serving, eviction, taints } = settings;
  const hard = [...(images === undefined ? [] : eviction.defaults), ...eviction.given].filter(
    (one) => one.graceMs === 0,
  );
  const kubeletconfig = effectiveConfiguration(given, {
    clusterDomain,
    podLogsDir: logsDirectory ?? join(rootDirectory, 'logs'),
    healthzPort: serving.health?.port ?? 0,
    serverTLSBootstrap: serving.requestsCertificate,
    failCgroupV1: failsOnCgroupV1,
    containerRuntimeEndpoint: images === undefined ? '' : settings.containerRuntimeEndpoint,
    evictionHard: Object.fromEntries(hard.map(({ signal, below }) => [signal, amountText(below)])),
    registerWithTaints: taints,
  });
  return { kubeletconfig };
}

/** Who may ask this node for logs and commands: the API server decides, as for a kubelet with webhook authentication. */
const tokenReviews = {
  group: 'authentication.k8s.io',
  version: 'v1',
  plural: 'tokenreviews',
  kind: 'TokenReview',
  isNamespaced: false,
  shape: tokenReviewShape,
};
const accessReviews: ResourceReference<SubjectAccessReview> = {
  group: 'authorization.k8s.io',
  version: 'v1',
  plural: 'subjectaccessreviews',
  kind: 'SubjectAccessReview',
  isNamespaced: false,
  shape: subjectAccessReviewShape,
};
/** What the API server's own client certificate says of it: it has asked itself already who may do what. */
const masters = 'system:masters';

/** Without an API server only who shows a certificate of its administrators gets in, unless the settings let in everybody. */
export function nodeAccess(
  client: Pick<ApiClient, 'create'> | undefined,
  nodeName: string,
  { reviewsTokens, allowsAnonymous, allowsAll }: ServingSettings,
): NodeAccess {
  const reviewed = client === undefined ? mastersOnly : reviewedAccess(client, nodeName);
  return {
    authenticate: reviewsTokens ? reviewed.authenticate : mastersOnly.authenticate,
    authorize: allowsAll ? async () => true : reviewed.authorize,
    allowsAnonymous,
  };
}

function reviewedAccess(client: Pick<ApiClient, 'create'>, nodeName: string): Reviews {
  return {
    async authenticate(token, signal) {
      const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', metadata: {}, spec: { token } };
      const { status } = await client.create(tokenReviews, {}, review, signal);
      const user = status?.authenticated === true ? status.user : undefined;
      if (user === undefined) return undefined;
      const { username = '', uid = '', groups = [], extra = {} } = user;
      return { name: username, uid, groups, extra };
    },
    async authorize({ name, uid, groups, extra }, { verb, subresource }, signal) {
      if (groups.includes(masters)) return true;
      const resourceAttributes = { verb, version: 'v1', resource: 'nodes', subresource, name: nodeName };
      const review = {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        metadata: {},
        spec: { user: name, uid, groups, extra, resourceAttributes },
      };
      const { status } = await client.create(accessReviews, {}, review, signal);
      return status?.allowed === true;
    },
  };
}

const mastersOnly: Reviews = {
  authenticate: async () => undefined,
  authorize: async ({ groups }) => groups.includes(masters),
};

/**
 * What the server of an agent shows and believes. Like a kubelet without a signed certificate it makes its own, which API servers
 * accept unless they are configured to verify it. It accepts clients of the cluster's authority.
 */
const days = 365;

export async function agentServing(
  {
    rootDirectory,
    nodeName,
    nodeIp,
    serving,
  }: Pick<AgentSettings, 'rootDirectory' | 'nodeName' | 'nodeIp' | 'serving'>,
  host: string,
  cluster: Pick<ClusterAccess, 'endpoint'> | undefined,
  signal: AbortSignal,
): Promise<NodeDeps['serving']> {
  const { certificate, clientAuthorityFile } = serving;
  const trust = await cluster?.endpoint.trust(signal);
  const authorityPem =
    clientAuthorityFile === undefined
      ? trust?.authorityPem
      : readPem('authentication.x509.clientCAFile', clientAuthorityFile);
  const addresses = (thisMachine(nodeName, rootDirectory).status?.addresses ?? []).map(({ address }) => address);
  const hosts = [...new Set([nodeName, host.toLowerCase(), ...(nodeIp === undefined ? addresses : [nodeIp])])];
  const now = Date.now();
  const { certificatePem, keyPem } = certificate
    ? {
        certificatePem: readPem('tlsCertFile', certificate.file),
        keyPem: readPem('tlsPrivateKeyFile', certificate.keyFile),
      }
    : ensurePrivateFile(
        join(rootDirectory, 'serving.json'),
        () => JSON.stringify(issueServerCertificate(makeAuthority({ now, days }), { hosts, now, days })),
        (text) => {
          const read = JSON.parse(text) as { certificatePem: string; keyPem: string };
          createSecureContext({ cert: read.certificatePem, key: read.keyPem });
          return read;
        },
      );
  // Without an authority no client certificate is accepted; bearer tokens still work.
  return {
    certificatePem,
    keyPem,
    clientAuthorityPem: authorityPem ?? certificatePem,
    ...(serving.requestsCertificate && trust !== undefined && { clusterAuthorityPem: trust.authorityPem ?? '' }),
  };
}

function readPem(field: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new AgentSettingsError('settings', [`${field}: cannot read it: ${messageOf(error)}`]);
  }
}
