/** How much memory the containers of a pod may use together. */
import type { Container } from './container.ts';
import type { Pod } from './pod.ts';
import { Quantity } from './quantity.ts';

const nothing = Quantity.zero('BinarySI');

/**
 * The memory limit of the pod as a whole, or undefined when it has none: one container without a limit leaves the pod
 * without one, unless the pod itself names it. Pods of the class BestEffort have no limits, and those of the class
 * Guaranteed have all of them, so the class need not be asked.
 */
export function podMemoryLimit({ spec }: Pick<Pod, 'spec'>): Quantity | undefined {
  const own = quantityOf(spec.resources?.limits?.['memory']);
  const initContainers = spec.initContainers ?? [];
  const isDeclared = [...initContainers, ...spec.containers].every((container) => !limitOf(container).isZero());
  if (own.isZero() && !isDeclared) return undefined;
  const limit = own.isZero() ? limitOfContainers(spec.containers, initContainers) : own;
  return limit.isZero() ? undefined : limit.plus(quantityOf(spec.overhead?.['memory']));
}

/**
 * Init containers run one after the other and before the others, so the largest counts, each together with the sidecars
 * (init containers that keep running) that were started before it.
 */
function limitOfContainers(containers: readonly Container[], initContainers: readonly Container[]): Quantity {
  let running = containers.map(limitOf).reduce((sum, limit) => sum.plus(limit), nothing);
  let sidecars = nothing;
  let starting = nothing;
  for (const container of initContainers) {
    const limit = limitOf(container);
    if (container.restartPolicy === 'Always') {
      running = running.plus(limit);
      sidecars = sidecars.plus(limit);
      starting = larger(starting, sidecars);
    } else {
      starting = larger(starting, sidecars.plus(limit));
    }
  }
  return larger(running, starting);
}

function limitOf({ resources }: Container): Quantity {
  return quantityOf(resources?.limits?.['memory']);
}

function quantityOf(written: string | number | undefined): Quantity {
  return written === undefined ? nothing : Quantity.parse(written);
}

function larger(a: Quantity, b: Quantity): Quantity {
  return a.compare(b) < 0 ? b : a;
}
