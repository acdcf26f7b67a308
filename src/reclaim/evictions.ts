/** Why a pod is evicted, in the kubelet's words: the node is short of something, or the pod uses more than its limits allow. */
import { isSidecar } from '../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { Quantity, readQuantity } from '../kube/values/quantity.ts';
import { type Filesystems, type StarvedResource, observe, resourceOf } from './disk-pressure.ts';
import { type PodUsage, podStorage, shown, storage, storageOf } from './pod-usage.ts';
import { type Threshold, amountOf } from './thresholds.ts';

export interface PodEviction {
  readonly message: string;
  readonly graceSeconds: number;
  /** For programs that read the Event. */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  /** The node needs the room, through no fault of the pod's own limits: its owner may start it elsewhere. */
  readonly isDisruption: boolean;
}

/** As little as a program needs to notice that it ends. */
const immediateGraceSeconds = 1;

/** Why a pod ends for a node whose thresholds are met; the first is the one that is being resolved. */
export function pressureEviction(
  pod: Pod,
  usage: PodUsage | undefined,
  thresholds: readonly [Threshold, ...Threshold[]],
  filesystems: Filesystems,
  podGraceSecondsMax: number,
): PodEviction {
  const [threshold] = thresholds;
  const resource = resourceOf(threshold.signal);
  const { terminationGracePeriodSeconds = podGraceSecondsMax } = pod.spec;
  const graceSeconds =
    threshold.graceMs === 0 ? immediateGraceSeconds : Math.min(podGraceSecondsMax, terminationGracePeriodSeconds);
  const offenders = usage === undefined ? [] : offendersOf(pod, usage, resource);
  const message = [
    `The node was low on resource: ${resource}. `,
    thresholdText(thresholds, filesystems, resource),
    ...offenders.map(
      ({ name, used, requested }) =>
        `Container ${name} was using ${used}, request is ${requested}, has larger consumption of ${resource}. `,
    ),
  ].join('');
  const annotations = {
    offending_containers: offenders.map(({ name }) => name).join(','),
    offending_containers_usage: offenders.map(({ used }) => used).join(','),
    starved_resource: resource,
  };
  return { message, graceSeconds, annotations: usage && annotations, isDisruption: true };
}

function thresholdText(thresholds: readonly Threshold[], filesystems: Filesystems, resource: StarvedResource): string {
  const first = thresholds.find(({ signal }) => resourceOf(signal) === resource);
  const observed = first && observe(filesystems, first.signal);
  if (first === undefined || observed === undefined) return '';
  const { available, capacity } = observed;
  const { below } = first;
  // One that was given as an amount is shown as it was given.
  const quantity = 'quantity' in below ? String(below.quantity) : shown(amountOf(below, capacity), resource);
  return `Threshold quantity: ${quantity}, available: ${shown(available, resource)}. `;
}

interface Offender {
  readonly name: string;
  readonly used: string;
  readonly requested: string;
}

/** Containers that use more than they asked for. Nobody can ask for inodes, so nobody is blamed for them. */
function offendersOf({ spec }: Pod, usage: PodUsage, resource: StarvedResource): readonly Offender[] {
  if (resource === 'inodes') return [];
  const specs = [...spec.containers, ...(spec.initContainers ?? [])];
  return usage.containers.flatMap(({ name, rootfs, logs }) => {
    const container = specs.find((one) => one.name === name);
    if (container === undefined || rootfs?.usedBytes === undefined || logs?.usedBytes === undefined) return [];
    const used = rootfs.usedBytes + logs.usedBytes;
    const requested = storageOf(container.resources?.requests) ?? Quantity.zero();
    return isAbove(used, requested) ? [{ name, used: shown(used), requested: String(requested) }] : [];
  });
}

/** Why a pod ends that uses more than its own limits allow; undefined: it does not. */
export function limitEviction(pod: Pod, usage: PodUsage, isImageDedicated: boolean): PodEviction | undefined {
  const message =
    volumeAboveLimit(pod, usage) ?? podAboveLimit(pod, usage) ?? containerAboveLimit(pod, usage, isImageDedicated);
  return message === undefined ? undefined : { message, graceSeconds: immediateGraceSeconds, isDisruption: false };
}

/** Whether `limitEviction` could find anything: usage is measured only then. */
export function hasLocalLimits(pod: Pod): boolean {
  const { volumes = [] } = pod.spec;
  return volumes.some(({ emptyDir }) => emptyDir?.sizeLimit !== undefined) || podStorage(pod, 'limits') !== undefined;
}

function volumeAboveLimit({ spec }: Pod, { volume: volumes = [] }: PodUsage): string | undefined {
  for (const { name, emptyDir } of spec.volumes ?? []) {
    const limit = readQuantity(emptyDir?.sizeLimit);
    const used = volumes.find((one) => one.name === name)?.usedBytes ?? 0;
    if (limit === undefined || limit.sign() <= 0 || !isAbove(used, limit)) continue;
    return `Usage of EmptyDir volume ${goQuote(name)} exceeds the limit ${goQuote(String(limit))}. `;
  }
  return undefined;
}

function podAboveLimit(pod: Pod, usage: PodUsage): string | undefined {
  const limit = podStorage(pod, 'limits');
  if (limit === undefined || !isAbove(usage[storage]?.usedBytes ?? 0, limit)) return undefined;
  return `Pod ephemeral local storage usage exceeds the total limit of containers ${String(limit)}. `;
}

function containerAboveLimit({ spec }: Pod, usage: PodUsage, isImageDedicated: boolean): string | undefined {
  const limited = [...spec.containers, ...(spec.initContainers ?? []).filter(isSidecar)];
  for (const { name, rootfs, logs } of usage.containers) {
    const limit = storageOf(limited.find((one) => one.name === name)?.resources?.limits);
    // What it writes to its root is on the disk of the images then, and not on the one that is divided among pods.
    const used = (logs?.usedBytes ?? 0) + (isImageDedicated ? 0 : (rootfs?.usedBytes ?? 0));
    if (limit === undefined || limit.isZero() || !isAbove(used, limit)) continue;
    return `Container ${name} exceeded its local ephemeral storage limit ${goQuote(String(limit))}. `;
  }
  return undefined;
}

function isAbove(usedBytes: number, quantity: Quantity): boolean {
  return new Quantity(BigInt(usedBytes), 0, 'BinarySI').compare(quantity) > 0;
}
