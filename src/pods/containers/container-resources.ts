/** What pods and containers may use of the machine, in the words of a runtime, and who is killed first when its memory is short. */
import { containersTogether } from '../../kube/kinds/pod/container.ts';
import { type AnyContainer, isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { podLimits, qualityOfService } from '../../kube/references/pod-resources.ts';
import { Quantity } from '../../kube/values/quantity.ts';
import type { PodRequest, ResourceLimits } from '../../runtimes/runtime.ts';

type ResourceList = Readonly<Record<string, string | number>>;

/** Of a container; a limit that it does not have is that of its pod. `memoryBytes` is the machine's memory. */
export function containerResources(container: AnyContainer, pod: Pod, memoryBytes: number): ResourceLimits {
  const { limits = {}, requests = {} } = container.resources ?? {};
  const ofPod = pod.spec.resources?.limits ?? {};
  const hugePages = Object.entries(limits).filter(([name]) => name.startsWith(hugePagesPrefix));
  return {
    memoryBytesMax: bytes(limits, 'memory') || bytes(ofPod, 'memory'),
    cpuMilliMax: milli(limits) || milli(ofPod),
    cpuMilliRequested: milli(requests),
    oomScoreAdjustment: oomScore(container, pod, memoryBytes),
    hugePageBytesMax: Object.fromEntries(
      hugePages.map(([name]) => [name.slice(hugePagesPrefix.length), bytes(limits, name) ?? 0]),
    ),
  };
}

const hugePagesPrefix = 'hugepages-';

/** Of a pod: in all, of its containers together, and of what it costs beside them. */
export function podResources({ spec }: Pod): Pick<PodRequest, 'resources' | 'containersTotal' | 'overhead'> {
  const { overhead = {}, ...withoutOverhead } = spec;
  const all = [...spec.containers, ...(spec.initContainers ?? [])];
  const requests = containersTogether(
    spec.containers,
    spec.initContainers ?? [],
    ({ resources }) => resources?.requests,
  );
  const cpuRequest = milli(spec.resources?.requests ?? {}) ?? Number(requests.get('cpu')?.milliValue() ?? 0n);
  // One container without a limit can use all there is, and so can its pod.
  const isBounded = (name: string): boolean =>
    !isZero(spec.resources?.limits, name) || all.every(({ resources }) => !isZero(resources?.limits, name));
  const limits = podLimits(spec);
  const ofContainers = podLimits(withoutOverhead);
  const cpuOverhead = milli(overhead);
  return {
    resources: {
      memoryBytesMax: isBounded('memory') ? Number(limits.get('memory')?.value() ?? 0n) : undefined,
      cpuMilliMax: isBounded('cpu') ? Number(limits.get('cpu')?.milliValue() ?? 0n) : undefined,
      cpuMilliRequested: cpuRequest + (cpuOverhead ?? 0),
    },
    containersTotal: {
      memoryBytesMax: Number(ofContainers.get('memory')?.value() ?? 0n),
      cpuMilliMax: Number(ofContainers.get('cpu')?.milliValue() ?? 0n),
      ...(requests.has('cpu') || !isZero(spec.resources?.requests, 'cpu') ? { cpuMilliRequested: cpuRequest } : {}),
    },
    overhead:
      spec.overhead === undefined
        ? {}
        : {
            memoryBytesMax: bytes(overhead, 'memory') ?? 0,
            cpuMilliMax: cpuOverhead ?? 0,
            cpuMilliRequested: cpuOverhead ?? 0,
          },
  };
}

const guaranteedScore = -997;
const bestEffortScore = 1000;

/** The less of the machine's memory a container asked for, the sooner it is killed; see proc(5), oom_score_adj. */
function oomScore(container: AnyContainer, pod: Pod, memoryBytes: number): number {
  const { spec } = pod;
  const isNodeCritical = spec.priorityClassName === 'system-node-critical';
  const quality = qualityOfService(spec);
  if (isNodeCritical || quality === 'Guaranteed') return guaranteedScore;
  if (quality === 'BestEffort') return bestEffortScore;
  const requestOf = (one: AnyContainer): number => bytes(one.resources?.requests ?? {}, 'memory') ?? 0;
  const asked = [requestOf(container)];
  // A sidecar goes no sooner than those who need it.
  if (isSidecar(container)) asked.push(Math.min(...spec.containers.map(requestOf)));
  const score = 1000 - Math.floor((1000 * (Math.max(...asked) + unassignedShare(pod))) / memoryBytes);
  return Math.max(1000 + guaranteedScore, score === bestEffortScore ? score - 1 : score);
}

/** Memory that the pod asks for beyond its containers is split evenly among them. */
function unassignedShare({ spec }: Pod): number {
  const { containers, initContainers = [] } = spec;
  const asked = bytes(spec.resources?.requests ?? {}, 'memory') ?? 0;
  const assigned = containersTogether(containers, initContainers, ({ resources }) => resources?.requests);
  const rest = Math.max(0, asked - Number(assigned.get('memory')?.value() ?? 0n));
  return Math.floor(rest / (containers.length + initContainers.length));
}

function isZero(list: ResourceList | undefined, name: string): boolean {
  const value = list?.[name];
  return value === undefined || Quantity.parse(value).isZero();
}

function bytes(list: ResourceList, name: string): number | undefined {
  const value = list[name];
  return value === undefined ? undefined : Number(Quantity.parse(value).value());
}

function milli(list: ResourceList): number | undefined {
  const value = list['cpu'];
  return value === undefined ? undefined : Number(Quantity.parse(value).milliValue());
}
