/**
 * What the projection plugins ask of the rest of the node, and no more: which strategy answers, from which cache, is
 * not their business. `undefined` means that the object does not exist; every other trouble is thrown.
 */
import type { ClusterTrustBundle } from '../kube/kinds/cluster-trust-bundle.ts';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { Secret } from '../kube/kinds/secret.ts';

export interface ConfigMapReader {
  get(namespace: string, name: string, signal: AbortSignal): Promise<ConfigMap | undefined>;
}

export interface SecretReader {
  get(namespace: string, name: string, signal: AbortSignal): Promise<Secret | undefined>;
}

/** The node this process runs on. */
export interface NodeReader {
  get(signal: AbortSignal): Promise<Node | undefined>;
}

export interface TrustBundleReader {
  get(name: string, signal: AbortSignal): Promise<ClusterTrustBundle | undefined>;
  /** All bundles of one signer. */
  list(signerName: string, signal: AbortSignal): Promise<readonly ClusterTrustBundle[]>;
}

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

export interface PodCertificateSource {
  get(request: PodCertificateRequest, signal: AbortSignal): Promise<PodCertificate>;
}
