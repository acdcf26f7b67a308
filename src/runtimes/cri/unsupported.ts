/** What this machine's CRI runtime cannot do for a pod. It is refused: a runtime that is too old ignores fields it does not know. */
import type { StatusResponse } from '../../grpc/messages/cri_pb.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import type { ContainerRequest, PodRequest, RuntimeFeature } from '../runtime.ts';

export interface RuntimeFeatures {
  /** Names of handlers; the default one has no name. */
  readonly recursiveReadOnly: ReadonlySet<string>;
  readonly userNamespaces: ReadonlySet<string>;
  readonly supplementalGroupsPolicy: boolean;
  /** No message tells whether these are there: only the version does. */
  readonly imageVolumes: boolean;
  readonly stopSignals: boolean;
}

/** `version` is that of the runtime itself: `1.6.20`. */
export function runtimeFeatures(
  { runtimeHandlers, features }: Pick<StatusResponse, 'runtimeHandlers' | 'features'>,
  { name, version }: { readonly name: string; readonly version: string },
): RuntimeFeatures {
  const having = (feature: 'recursiveReadOnlyMounts' | 'userNamespaces'): ReadonlySet<string> =>
    new Set(runtimeHandlers.filter((handler) => handler.features?.[feature] === true).map((handler) => handler.name));
  const isAtLeast = (major: number, minor: number): boolean => {
    const [, ownMajor = 0, ownMinor = 0] = (/^v?(\d+)\.(\d+)/.exec(version) ?? []).map(Number);
    return name !== 'containerd' || ownMajor > major || (ownMajor === major && ownMinor >= minor);
  };
  return {
    recursiveReadOnly: having('recursiveReadOnlyMounts'),
    userNamespaces: having('userNamespaces'),
    supplementalGroupsPolicy: features?.supplementalGroupsPolicy ?? false,
    imageVolumes: isAtLeast(2, 1),
    stopSignals: isAtLeast(2, 2),
  };
}

export function isSupported(feature: RuntimeFeature, handler: string, features: RuntimeFeatures): boolean {
  return feature === 'recursiveReadOnly' ? features.recursiveReadOnly.has(handler) : features.supplementalGroupsPolicy;
}

/** Checked before the pod's sandbox is made. */
export function unsupportedPod(
  { hostUsers, runtimeHandler, security }: PodRequest,
  features: RuntimeFeatures,
): string | undefined {
  if (!hostUsers) {
    const who = runtimeHandler === '' ? 'runtime' : `RuntimeClass handler ${goQuote(runtimeHandler)}`;
    return features.userNamespaces.has(runtimeHandler)
      ? "can't set `spec.hostUsers: false`, this node gives pods no user namespaces"
      : `can't set \`spec.hostUsers: false\`, ${who} does not support user namespaces`;
  }
  if (security.supplementalGroupsPolicy === 'Strict' && !features.supplementalGroupsPolicy) {
    return 'SupplementalGroupsPolicy=Strict is not supported in this node';
  }
  return undefined;
}

export function unsupportedContainer(
  { mounts, stopSignal }: ContainerRequest,
  features: RuntimeFeatures,
): string | undefined {
  const imageMount = mounts.find(({ image }) => image !== undefined);
  if (imageMount !== undefined && !features.imageVolumes) {
    return `the volume at ${goQuote(imageMount.containerPath)} is an image, and the runtime cannot mount images: containerd can from version 2.1 on`;
  }
  if (stopSignal !== '' && !features.stopSignals) {
    return `stopSignal ${goQuote(stopSignal)} is not supported by the runtime: containerd does from version 2.2 on`;
  }
  return undefined;
}
