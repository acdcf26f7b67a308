/** What pods use of the disk, and which of them ends first when it is short. */
import { containersTogether } from '../kube/kinds/pod/container.ts';
import { podUid } from '../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { Quantity, type ResourceList, readQuantity } from '../kube/values/quantity.ts';
import type { StarvedResource } from './disk-pressure.ts';
import type { Signal } from './thresholds.ts';

interface Used {
  readonly usedBytes?: number | undefined;
  readonly inodesUsed?: number | undefined;
}

/** Of one pod, as `/stats/summary` shows it. */
export interface PodUsage {
  readonly podRef: { readonly uid: string };
  readonly containers: readonly { readonly name: string; readonly rootfs?: Used; readonly logs?: Used }[];
  readonly volume?: readonly ({ readonly name: string } & Used)[] | undefined;
  readonly 'ephemeral-storage'?: Used | undefined;
}

type UsageOf = (pod: Pod) => PodUsage | undefined;

export function usageOf(pods: readonly PodUsage[]): UsageOf {
  const byUid = new Map(pods.map((usage) => [usage.podRef.uid, usage]));
  return (pod) => byUid.get(podUid(pod));
}

export const storage = 'ephemeral-storage';

/** What a pod's containers ask for, or may use, together. Undefined: nothing is said of it. */
export function podStorage({ spec }: Pod, kind: 'requests' | 'limits'): Quantity | undefined {
  const { containers, initContainers = [] } = spec;
  const together = containersTogether(containers, initContainers, ({ resources }) => resources?.[kind]).get(storage);
  const overhead = storageOf(spec.overhead);
  return together === undefined || overhead === undefined ? together : together.plus(overhead);
}

export function storageOf(list: ResourceList | undefined): Quantity | undefined {
  return readQuantity(list?.[storage]);
}

/** As the kubelet prints what it measured: bytes in powers of two, inodes in thousands. */
export function shown(amount: number, resource: StarvedResource = storage): string {
  return String(new Quantity(BigInt(amount), 0, resource === 'inodes' ? 'DecimalSI' : 'BinarySI'));
}

/** What counts against a pod when this signal is short: where images have their own disk, only what is on the short one. */
function countedUsage(
  pod: Pod,
  usage: PodUsage,
  signal: Signal,
  resource: StarvedResource,
  isImageDedicated: boolean,
): number {
  const [onNode, onImages] = isImageDedicated
    ? [signal.startsWith('nodefs.'), signal.startsWith('imagefs.')]
    : [true, true];
  const amount = (used: Used | undefined): number => (resource === 'inodes' ? used?.inodesUsed : used?.usedBytes) ?? 0;
  const containers = usage.containers.reduce(
    (sum, { rootfs, logs }) => sum + (onImages ? amount(rootfs) : 0) + (onNode ? amount(logs) : 0),
    0,
  );
  const local = localVolumes(pod);
  const volumes = (usage.volume ?? []).filter(({ name }) => onNode && local.has(name));
  return volumes.reduce((sum, one) => sum + amount(one), containers);
}

/** Volumes whose content is on the node's own disk. */
function localVolumes({ spec }: Pod): ReadonlySet<string> {
  const local = (spec.volumes ?? []).filter(
    ({ hostPath, emptyDir, configMap, gitRepo }) =>
      [hostPath, configMap, gitRepo].some((source) => source !== undefined) ||
      (emptyDir !== undefined && (emptyDir.medium ?? '') === ''),
  );
  return new Set(local.map(({ name }) => name));
}

/** The pods in the order in which they are to end: those above what they asked for first, then by priority, then by how far above. */
export function rankForEviction(
  pods: readonly Pod[],
  usage: UsageOf,
  signal: Signal,
  resource: StarvedResource,
  isImageDedicated: boolean,
): readonly Pod[] {
  const ranked = pods.map((pod) => {
    const known = usage(pod);
    const used = known && countedUsage(pod, known, signal, resource, isImageDedicated);
    const requested = Number(podStorage(pod, 'requests')?.value() ?? 0);
    return {
      pod,
      isUnknown: used === undefined,
      isAbove: (used ?? 0) > (resource === 'inodes' ? 0 : requested),
      priority: pod.spec.priority ?? 0,
      // The kubelet subtracts requested bytes from inodes too: who asked for storage is spared.
      above: (used ?? 0) - requested,
    };
  });
  return ranked
    .toSorted(
      (a, b) =>
        Number(b.isUnknown) - Number(a.isUnknown) ||
        Number(b.isAbove) - Number(a.isAbove) ||
        a.priority - b.priority ||
        b.above - a.above,
    )
    .map(({ pod }) => pod);
}
