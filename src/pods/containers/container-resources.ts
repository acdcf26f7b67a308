/** How much of the machine a container or a pod may use, in the units of a runtime. */
import type { ResourceRequirements } from '../../kube/kinds/pod/container.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { podLimits } from '../../kube/references/pod-resources.ts';
import { Quantity } from '../../kube/values/quantity.ts';
import type { ResourceLimits } from '../../runtimes/runtime.ts';

export function containerResources({ limits = {}, requests = {} }: ResourceRequirements = {}): ResourceLimits {
  return {
    memoryBytesMax: bytes(limits['memory']),
    cpuMilliMax: milli(limits['cpu']),
    cpuMilliRequested: milli(requests['cpu']),
  };
}

/** A pod is limited as a whole only where every container is: the sum of some says nothing of the rest. */
export function podResources({ spec }: Pod): ResourceLimits {
  const all = [...spec.containers, ...(spec.initContainers ?? [])];
  const limits = podLimits(spec);
  const bounded = (name: string): Quantity | undefined => {
    const isSet = spec.resources?.limits?.[name] !== undefined;
    return isSet || all.every(({ resources }) => resources?.limits?.[name] !== undefined)
      ? limits.get(name)
      : undefined;
  };
  return { memoryBytesMax: number(bounded('memory')?.value()), cpuMilliMax: number(bounded('cpu')?.milliValue()) };
}

function bytes(quantity: string | number | undefined): number | undefined {
  return quantity === undefined ? undefined : number(Quantity.parse(quantity).value());
}

function milli(quantity: string | number | undefined): number | undefined {
  return quantity === undefined ? undefined : number(Quantity.parse(quantity).milliValue());
}

function number(value: bigint | undefined): number | undefined {
  return value === undefined ? undefined : Number(value);
}
