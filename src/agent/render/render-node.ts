/** The node that one pod of a rendering is on: what it knows (manifests) and what it can do (this machine). */
import { generateKeyPairSync, randomInt, randomUUID, sign } from 'node:crypto';
import { type Clock, systemClock } from '../../base/clock.ts';
import { privateTmpfsDirectory } from '../../disk/mounts/file-system.ts';
import type { Mounts } from '../../disk/mounts/mounts.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { configMapKind } from '../../kube/kinds/config-map.ts';
import { nodeKind } from '../../kube/kinds/node.ts';
import { secretKind } from '../../kube/kinds/secret.ts';
import { serviceAccountKind } from '../../kube/kinds/service-account.ts';
import { serviceKind } from '../../kube/kinds/service.ts';
import { trustBundleKind } from '../../kube/kinds/cluster-trust-bundle.ts';
import { type ManifestKind } from '../../kube/manifests/manifest-kinds.ts';
import type { Manifests } from '../../kube/manifests/manifests.ts';
import type { ObjectMeta } from '../../kube/schema/meta.ts';
import type { ProjectedSources } from '../../plugins/projected.ts';
import { PluginRegistry, standardPlugins } from '../../plugins/registry.ts';
import type { ContainerViewDeps } from '../../pods/view/container-view.ts';
import { containerEffects } from '../machine/container-files.ts';
import { thisMachine } from '../machine/machine-facts.ts';
import type { PodClaims, RenderClaims } from './render-claims.ts';

export interface RenderNode {
  readonly root: string;
  readonly mounts: Mounts;
  readonly plugins: PluginRegistry;
  readonly claims: PodClaims;
  readonly view: ContainerViewDeps & { readonly secrets: NonNullable<ContainerViewDeps['secrets']> };
  /** The pod as the cluster would hand it to this node. */
  readonly pod: Pod;
  readonly note: Note;
}

/** Receives what a user should know in addition to the result, once per topic; without a topic, once per note. */
export type Note = (text: string, topic?: string) => void;

interface RenderNodeSettings {
  readonly root: string;
  readonly nodeName: string;
  readonly runtimeDirectory: string | undefined;
  readonly uid: number;
}

export function renderNode(
  manifests: Manifests,
  claims: RenderClaims,
  pod: Pod,
  settings: RenderNodeSettings,
  mounts: Mounts,
  note: Note,
): RenderNode {
  const { root, runtimeDirectory, uid } = settings;
  const node = nodeOf(manifests, pod, () => thisMachine(settings.nodeName, root));
  const objects = manifestObjects(manifests, node, systemClock, note);
  const { configMaps, secrets } = objects;
  const plugins = standardPlugins({
    ...objects,
    root,
    mounts,
    privateTmpfs: () => privateTmpfsDirectory({ ...(runtimeDirectory !== undefined && { runtimeDirectory }), uid }),
    now: () => systemClock.now(),
    random: () => randomInt(2 ** 32), // taken from a store, where randomBytes asks for each
    // A limit of the machine is found again for every pod, each time with another path: report the first.
    notify: ({ kind, message }) => note(message, kind === 'PodWarning' ? message : kind),
  });
  return {
    root,
    mounts,
    plugins: PluginRegistry.of(plugins).registry,
    claims: claims.of(pod, node),
    view: { configMaps, secrets, services: manifests.all(serviceKind), node, ...containerEffects(root, mounts) },
    pod: admitted(manifests, pod, node),
    note,
  };
}

/** The node the pod names, the only one there is, or else this machine. */
function nodeOf(manifests: Manifests, { spec: { nodeName = '' } }: Pod, machine: () => Node): Node {
  const nodes = manifests.all(nodeKind);
  if (nodeName !== '') {
    return nodes.find(({ metadata }) => metadata.name === nodeName) ?? { ...machine(), metadata: { name: nodeName } };
  }
  const [only, ...others] = nodes;
  return only !== undefined && others.length === 0 ? only : machine();
}

/** What scheduling and the service account's admission add and a container can notice. The token volume is not added. */
function admitted(manifests: Manifests, pod: Pod, node: Node): Pod {
  const { namespace = '' } = pod.metadata;
  const account = manifests.get(serviceAccountKind, namespace, pod.spec.serviceAccountName ?? '');
  const imagePullSecrets = pod.spec.imagePullSecrets?.length ? pod.spec.imagePullSecrets : account?.imagePullSecrets;
  return { ...pod, spec: { ...pod.spec, nodeName: node.metadata.name, ...(imagePullSecrets && { imagePullSecrets }) } };
}

// As the API server defaults it; only a pod that was never defaulted leaves it open.
const tokenSecondsDefault = 3600;

/** The objects of manifests, answered as an API server would answer for them. `note` is called once if tokens are samples. */
function manifestObjects(
  manifests: Manifests,
  node: Node,
  clock: Clock,
  note: (text: string) => void,
): ProjectedSources {
  return {
    configMaps: reader(manifests, configMapKind),
    secrets: reader(manifests, secretKind),
    nodes: { get: async () => node },
    trustBundles: {
      get: async (name) => manifests.get(trustBundleKind, '', name),
      list: async (signer) => manifests.all(trustBundleKind).filter(({ spec }) => spec.signerName === signer),
    },
    tokens: tokenSource(clock, note),
  };
}

function reader<T extends { readonly metadata: ObjectMeta }>(
  manifests: Manifests,
  kind: ManifestKind<T>,
): { get(namespace: string, name: string): Promise<T | undefined> } {
  return { get: async (namespace, name) => manifests.get(kind, namespace, name) };
}

function tokenSource(clock: Clock, note: (text: string) => void): NonNullable<ProjectedSources['tokens']> {
  let issue: ReturnType<typeof sampleTokens> | undefined;
  return {
    async get({ namespace, serviceAccountName, audiences, expirationSeconds = tokenSecondsDefault, pod }) {
      if (issue === undefined)
        note('service account tokens are samples: of the right form, but no API server accepts them');
      issue ??= sampleTokens(clock);
      return issue({ namespace, serviceAccount: serviceAccountName, audience: audiences[0], expirationSeconds, pod });
    },
    forgetPod: () => {},
  };
}

/**
 * Service account tokens where there is no API server to ask: of the right form and with the right claims, signed by a
 * key that is thrown away, so that no server accepts them.
 */
interface TokenWish {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly audience?: string | undefined;
  readonly expirationSeconds: number;
  readonly pod: { readonly name: string; readonly uid: string };
}

const issuer = 'https://kubernetes.default.svc.cluster.local';

export function sampleTokens({ now }: Pick<Clock, 'now'>): (wish: TokenWish) => string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return ({ namespace, serviceAccount, audience, expirationSeconds, pod }) => {
    const issuedAt = Math.floor(now() / 1000);
    const claims = {
      aud: [audience ?? issuer],
      exp: issuedAt + expirationSeconds,
      iat: issuedAt,
      iss: issuer,
      jti: randomUUID(),
      'kubernetes.io': { namespace, pod, serviceaccount: { name: serviceAccount } },
      nbf: issuedAt,
      sub: `system:serviceaccount:${namespace}:${serviceAccount}`,
    };
    const content = `${encode({ alg: 'ES256', kid: 'mountlet-sample', typ: 'JWT' })}.${encode(claims)}`;
    const signature = sign('sha256', Buffer.from(content), { key: privateKey, dsaEncoding: 'ieee-p1363' });
    return `${content}.${signature.toString('base64url')}`;
  };
}

function encode(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}
