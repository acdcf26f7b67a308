/** Where the content of an emptyDir lives and how large it may get: decided from the pod alone. Pure. */
import { MountletError } from '../base/errors.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { EmptyDirVolumeSource } from '../kube/kinds/pod/volume.ts';
import { tmpfsSizeBytes } from '../kube/references/pod-resources.ts';
import { Quantity } from '../kube/values/quantity.ts';

export class MediumError extends MountletError {
  readonly reason = 'UnusableMedium';
}

export type Medium =
  | { readonly kind: 'disk' }
  /** 0: as large as the kernel allows. */
  | { readonly kind: 'memory'; readonly sizeBytes: bigint }
  /** `anySize`: a mount that is there already may have another page size. */
  | { readonly kind: 'hugePages'; readonly pageSize: string; readonly anySize: boolean };

const sizedPrefix = 'HugePages-';

/** `allocatableMemory`: what the node has for pods; only asked for the medium Memory. */
export function mediumOf(source: EmptyDirVolumeSource, pod: Pod, allocatableMemory: Quantity): Medium {
  const medium = source.medium ?? '';
  if (medium === '') return { kind: 'disk' };
  if (medium === 'Memory')
    return { kind: 'memory', sizeBytes: tmpfsSizeBytes(allocatableMemory, pod.spec, source.sizeLimit) };
  if (medium === 'HugePages' || medium.startsWith(sizedPrefix)) {
    return { kind: 'hugePages', pageSize: hugePageSize(medium, pod), anySize: medium === 'HugePages' };
  }
  throw new MediumError(`unknown storage medium "${medium}"`);
}

/**
 * The page size in the kernel's and Kubernetes' common spelling (`2Mi`): the one that the pod's huge page requests
 * agree in, or the one the medium names, if somebody requests it.
 */
export function hugePageSize(medium: string, { spec }: Pick<Pod, 'spec'>): string {
  const wanted = medium === 'HugePages' ? undefined : Quantity.parse(medium.slice(sizedPrefix.length));
  const lists = [
    isPodLevelSet(spec.resources) ? spec.resources?.requests : undefined,
    ...[...spec.containers, ...(spec.initContainers ?? [])].map(({ resources }) => resources?.requests),
  ];
  let found: Quantity | undefined;
  for (const name of lists.flatMap((list) => Object.keys(list ?? {}))) {
    if (!name.startsWith(resourcePrefix)) continue;
    const size = Quantity.parse(name.slice(resourcePrefix.length));
    if (wanted !== undefined && !size.equals(wanted)) continue;
    if (found !== undefined && !found.equals(size)) {
      throw new MediumError(`medium: ${medium} can't be used if container requests multiple huge page sizes`);
    }
    found = size;
  }
  if (found === undefined) {
    throw new MediumError(
      `medium ${medium}: hugePages storage requested, but there is no resource request for huge pages`,
    );
  }
  return found.toString();
}

const resourcePrefix = 'hugepages-';

/** Only these resources mean anything for a pod as a whole. */
function isPodLevelSet(resources: Pod['spec']['resources']): boolean {
  return [...Object.keys(resources?.requests ?? {}), ...Object.keys(resources?.limits ?? {})].some(
    (name) => name === 'cpu' || name === 'memory' || name.startsWith(resourcePrefix),
  );
}
