/** Volumes that merge several sources (objects, pod fields, tokens, trust bundles, certificates), in memory. */
import type { Payload, PayloadFile } from '../disk/writer/payload.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type {
  ObjectProjection,
  PodCertificateProjection,
  ProjectedVolumeSource,
  ServiceAccountTokenProjection,
  VolumeProjection,
} from '../kube/kinds/pod/volume.ts';
import { inlineSpec } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { type ConfigMapReader, configMapPayload } from './configmap.ts';
import { collectDownwardApi, podFollows } from './downwardapi.ts';
import type { NodeReader } from './empty-dir.ts';
import { type Follow, ObjectNotFoundError, type VolumePlugin } from './plugin.ts';
import {
  type KeyProjection,
  invalidPayload,
  requireDefaultMode,
  type ProjectionVolumes,
  combineErrors,
  payloadFile,
  projectionAttributes,
} from './projection.ts';
import { type SecretReader, secretPayload } from './secret.ts';
import { type TrustBundleReader, collectTrustBundle } from './trust-bundle.ts';

export function projectedPlugin(
  sources: ProjectedSources,
  volumes: ProjectionVolumes,
): VolumePlugin<ProjectedVolumeSource> {
  return {
    name: 'kubernetes.io/projected',
    sourceOf: ({ volume }) => volume?.projected,
    follows: ({ sources: projections = [] }) => projections.flatMap(followsOf),
    supportsMountOptions: false,
    attributes: () => projectionAttributes,
    setUp: (request, signal) =>
      volumes.setUp(request, 'memory', () => collectProjected(sources, request, signal), signal),
    async tearDown(request) {
      await volumes.tearDown(request);
      // Only once the files are gone: a failed tear-down leaves a volume that is still read.
      sources.tokens?.forgetPod(request.podUid);
    },
    reconstruct: (name) => inlineSpec({ name, projected: { sources: [] } }),
  };
}

function followsOf(projection: VolumeProjection): readonly Follow[] {
  const { secret, configMap, downwardAPI, clusterTrustBundle, serviceAccountToken, podCertificate } = projection;
  if (secret !== undefined) return [{ object: { kind: 'Secret', name: secret.name } }];
  if (configMap !== undefined) return [{ object: { kind: 'ConfigMap', name: configMap.name } }];
  if (downwardAPI !== undefined) return podFollows(downwardAPI.items ?? []);
  if (clusterTrustBundle !== undefined) {
    const { name } = clusterTrustBundle;
    return [{ object: { kind: 'ClusterTrustBundle', name, isClusterWide: true } }];
  }
  return serviceAccountToken === undefined && podCertificate === undefined ? [] : [{ token: true }];
}

/**
 * The files of a projected volume: several sources merged into one directory. A later source wins a path from an
 * earlier one; one source that fails fails the volume, after all were asked, so that the user reads all problems at once.
 */
export interface PodTokenRequest {
  readonly namespace: string;
  readonly serviceAccountName: string;
  /** Empty: the API server's own audience. */
  readonly audiences: readonly string[];
  /** Left out: the API server decides. */
  readonly expirationSeconds?: number | undefined;
  /** The token dies with this pod. */
  readonly pod: { readonly name: string; readonly uid: string };
}

export interface TokenSource {
  get(request: PodTokenRequest, signal: AbortSignal): Promise<string>;
  /** Drops every token that is bound to a pod. */
  forgetPod(podUid: string): void;
}

/** Which certificate is meant: each podCertificate source of each volume of each pod has its own key. */
export interface PodCertificateRequest {
  readonly namespace: string;
  readonly podName: string;
  readonly podUid: string;
  readonly volumeName: string;
  readonly sourceIndex: number;
}

interface PodCertificate {
  /** PEM. */
  readonly privateKey: Uint8Array;
  /** PEM, leaf first. */
  readonly certificateChain: Uint8Array;
}

interface PodCertificateSource {
  get(request: PodCertificateRequest, signal: AbortSignal): Promise<PodCertificate>;
}

export interface ProjectedSources {
  readonly configMaps: ConfigMapReader;
  readonly secrets: SecretReader;
  readonly nodes: NodeReader;
  /** These three come from a cluster; a node without one goes without them. */
  readonly tokens?: TokenSource | undefined;
  readonly trustBundles?: TrustBundleReader | undefined;
  readonly podCertificates?: PodCertificateSource | undefined;
}

/** For whom the volume is made. */
export interface ProjectedVolume {
  readonly pod: Pod;
  readonly volumeName: string;
  readonly source: ProjectedVolumeSource;
  readonly fsUser?: number | undefined;
  readonly fsGroup?: number | undefined;
}

export async function collectProjected(
  sources: ProjectedSources,
  volume: ProjectedVolume,
  signal: AbortSignal,
): Promise<Payload> {
  const defaultMode = requireDefaultMode(volume.source.defaultMode);
  const collector = new SourceCollector(sources, volume, defaultMode, signal);
  const results = await Promise.allSettled(
    (volume.source.sources ?? []).map((projection, index) => collector.collect(projection, index)),
  );
  signal.throwIfAborted();
  const [failure, ...failures] = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
  if (failure !== undefined) throw combineErrors([failure, ...failures]);
  const files = new Map<string, PayloadFile>();
  for (const result of results) {
    if (result.status === 'fulfilled') for (const [path, file] of result.value) files.set(path, file);
  }
  return files;
}

const nothing: Payload = new Map();

class SourceCollector {
  readonly #sources: ProjectedSources;
  readonly #volume: ProjectedVolume;
  readonly #defaultMode: number;
  readonly #signal: AbortSignal;

  constructor(sources: ProjectedSources, volume: ProjectedVolume, defaultMode: number, signal: AbortSignal) {
    this.#sources = sources;
    this.#volume = volume;
    this.#defaultMode = defaultMode;
    this.#signal = signal;
  }

  /** One member of a source is honoured, the first in this order; the API allows no more than one. */
  async collect(projection: VolumeProjection, index: number): Promise<Payload> {
    const { secret, configMap, downwardAPI, serviceAccountToken, clusterTrustBundle, podCertificate } = projection;
    if (secret !== undefined) return this.#secret(secret);
    if (configMap !== undefined) return this.#configMap(configMap);
    if (downwardAPI !== undefined) {
      const { pod, source } = this.#volume;
      const { defaultUser } = source;
      const items = downwardAPI.items ?? [];
      return collectDownwardApi(
        this.#sources.nodes,
        { pod, items, defaultMode: this.#defaultMode, defaultUser },
        this.#signal,
      );
    }
    if (serviceAccountToken !== undefined) return this.#token(serviceAccountToken);
    if (clusterTrustBundle !== undefined) {
      const content = await collectTrustBundle(this.#sources.trustBundles, clusterTrustBundle, this.#signal);
      return new Map([[clusterTrustBundle.path, this.#credential(content, clusterTrustBundle.user)]]);
    }
    return podCertificate === undefined ? nothing : this.#certificate(podCertificate, index);
  }

  async #secret(projection: ObjectProjection): Promise<Payload> {
    const { pod } = this.#volume;
    const secret = await this.#sources.secrets.get(namespaceOf(pod), projection.name, this.#signal);
    if (secret === undefined && projection.optional !== true) throw new ObjectNotFoundError('secret', projection.name);
    return secretPayload(secret ?? {}, this.#keys(projection));
  }

  async #configMap(projection: ObjectProjection): Promise<Payload> {
    const { pod } = this.#volume;
    const configMap = await this.#sources.configMaps.get(namespaceOf(pod), projection.name, this.#signal);
    if (configMap === undefined && projection.optional !== true) {
      throw new ObjectNotFoundError('configmap', projection.name);
    }
    return configMapPayload(configMap ?? {}, this.#keys(projection));
  }

  #keys({ items, optional }: ObjectProjection): KeyProjection {
    return { items, optional, defaultMode: this.#defaultMode, defaultUser: this.#volume.source.defaultUser };
  }

  async #token({ path, audience, expirationSeconds, user }: ServiceAccountTokenProjection): Promise<Payload> {
    const { pod } = this.#volume;
    if (this.#sources.tokens === undefined) {
      throw invalidPayload('failed to fetch token: cannot use TokenManager when kubelet is in standalone mode');
    }
    const token = await this.#sources.tokens.get(
      {
        namespace: namespaceOf(pod),
        serviceAccountName: pod.spec.serviceAccountName ?? '',
        audiences: audience === undefined || audience === '' ? [] : [audience],
        expirationSeconds,
        pod: { name: pod.metadata.name, uid: pod.metadata.uid ?? '' },
      },
      this.#signal,
    );
    return new Map([[path, this.#credential(Buffer.from(token, 'utf8'), user)]]);
  }

  async #certificate(projection: PodCertificateProjection, sourceIndex: number): Promise<Payload> {
    const { pod, volumeName } = this.#volume;
    if (this.#sources.podCertificates === undefined) {
      const source = `sources[${sourceIndex}].podCertificate of signer ${goQuote(projection.signerName ?? '')}`;
      throw invalidPayload(`${source}: this node requests no certificates for pods: project a Secret instead`);
    }
    const { privateKey, certificateChain } = await this.#sources.podCertificates.get(
      {
        namespace: namespaceOf(pod),
        podName: pod.metadata.name,
        podUid: pod.metadata.uid ?? '',
        volumeName,
        sourceIndex,
      },
      this.#signal,
    );
    const { credentialBundlePath, keyPath, certificateChainPath, user } = projection;
    const files = new Map<string, PayloadFile>();
    const place = (path: string | undefined, data: Uint8Array): void => {
      if (path !== undefined && path !== '') files.set(path, this.#credential(data, user));
    };
    place(credentialBundlePath, Buffer.concat([privateKey, certificateChain]));
    place(keyPath, privateKey);
    place(certificateChainPath, certificateChain);
    return files;
  }

  /** Tokens, trust bundles and certificates are closed to others as soon as it is known who must read them. */
  #credential(data: Uint8Array, user: number | undefined): PayloadFile {
    const { fsUser, fsGroup, source } = this.#volume;
    const owner = user ?? source.defaultUser ?? fsUser;
    // With a group, the writer adds its read bit: 0600 becomes 0640.
    const mode = owner !== undefined || fsGroup !== undefined ? 0o600 : this.#defaultMode;
    return payloadFile(data, mode, owner);
  }
}

function namespaceOf({ metadata }: Pod): string {
  return metadata.namespace ?? '';
}
