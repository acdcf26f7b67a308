/** What a pod may say, and its author hardly means. `path` is that of the pod's spec. */
import type { Container } from '../../kube/kinds/pod/container.ts';
import type { PodSpec } from '../../kube/kinds/pod/pod-spec.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { readQuantity } from '../../kube/values/quantity.ts';

export function podWarnings(spec: PodSpec, path: string): readonly string[] {
  const lists = ['initContainers', 'containers'] as const;
  return [
    ...placementWarnings(spec).map((field) => `${path}.${field}: kept, but this server's scheduler does not act on it`),
    ...lists.flatMap((list) =>
      (spec[list] ?? []).flatMap((container, index) => [...containerWarnings(container, `${path}.${list}[${index}]`)]),
    ),
  ];
}

/** What of where a pod wants to run is kept and not acted on. */
function placementWarnings({ affinity, topologySpreadConstraints = [] }: PodSpec): readonly string[] {
  return [
    ...(topologySpreadConstraints.length > 0 ? ['topologySpreadConstraints'] : []),
    ...(['podAffinity', 'podAntiAffinity'] as const)
      .filter((field) => Object.keys(affinity?.[field] ?? {}).length > 0)
      .map((field) => `affinity.${field}`),
  ];
}

/** In the words of the API server. */
function* containerWarnings({ env = [], resources = {} }: Container, path: string): Generator<string> {
  // `memory: 100m`, which is a tenth of a byte.
  for (const name of ['memory', 'ephemeral-storage']) {
    for (const list of ['limits', 'requests'] as const) {
      const amount = readQuantity(resources[list]?.[name]);
      if (amount === undefined || amount.milliValue() % 1000n === 0n) continue;
      const place = `${path}.resources.${list}[${name}]`;
      yield `${place}: fractional byte value ${goQuote(String(amount))} is invalid, must be an integer`;
    }
  }
  const seen = new Set<string>();
  for (const [index, { name, value = '', valueFrom }] of env.entries()) {
    // One that builds on the one before is meant so.
    const hides = seen.has(name) && (valueFrom !== undefined || !value.includes(`$(${name})`));
    if (hides) {
      yield `${path}.env[${index}]: hides previous definition of ${goQuote(name)}, which may be dropped when using apply`;
    }
    seen.add(name);
  }
}
