/**
 * One node of the benchmark `volumes`, in a process of its own: what a large heap costs has to be seen. Mounts the given number of
 * volumes, each with its own ConfigMap and ten to a pod, reports the memory they take, and then makes updates whenever
 * it is asked: `fork('volume-updates.js', [COUNT, UNDER])`, answered by a `Ready`; a number of updates, answered by a `Measured`.
 */
import { systemMounts } from '../src/disk/mounts/mounts.ts';
import type { Pod } from '../src/kube/kinds/pod/pod.ts';
import { podUsing } from '../src/testing/worlds/volume-world.ts';
import { BenchGround } from './bench-ground.ts';
import { BenchNode } from './bench-node.ts';

export interface Ready {
  readonly heapKiBPerMount: number;
  readonly residentKiBPerMount: number;
}

export interface Measured {
  /** One for each update. */
  readonly ms: readonly number[];
  /** Of the whole round. */
  readonly cpuMs: number;
}

const volumesPerPod = 10;
const [, , countText = '', under = ''] = process.argv;
const count = Number(countText);
const nameOf = (index: number): string => `config-${index}`;
const podOf = (index: number): string => `pod-${Math.floor(index / volumesPerPod)}`;

function somePods(): Pod[] {
  return Array.from({ length: count / volumesPerPod }, (_, pod) => {
    const volumes = Array.from({ length: volumesPerPod }, (_volume, index) => {
      const name = nameOf(pod * volumesPerPod + index);
      return { name, configMap: { name, defaultMode: 0o644 } };
    });
    return podUsing(podOf(pod * volumesPerPod), volumes);
  });
}

function usedKiB(): { readonly heap: number; readonly resident: number } {
  for (let time = 0; time < 3; time += 1) globalThis.gc?.();
  // Remembered content lies outside of the heap, in buffers.
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heap: (heapUsed + external) / 1024, resident: rss / 1024 };
}

const mounts = systemMounts();
const ground = new BenchGround(mounts);
ground.clearOnSignals();
const node = new BenchNode({ root: ground.directory(under), mounts });
for (let index = 0; index < count; index += 1) node.setConfigMap(nameOf(index), 0);
const pods = somePods();
node.addPods(pods);
const unmounted = usedKiB();
node.start();
await node.mountAll(pods, count);
const mounted = usedKiB();

let version = 0;
async function update(): Promise<number> {
  version += 1;
  const index = Math.floor(Math.random() * count);
  node.setConfigMap(nameOf(index), version);
  const start = performance.now();
  await node.change(nameOf(index), 1);
  const seen = node.versionIn(podOf(index), nameOf(index));
  const tookMs = performance.now() - start;
  if (seen !== version) throw new Error(`Version ${seen} is readable and not ${version}`);
  return tookMs;
}

async function measure(updates: number): Promise<void> {
  const ms: number[] = [];
  const before = process.cpuUsage();
  for (let done = 0; done < updates; done += 1) ms.push(await update());
  const { user, system } = process.cpuUsage(before);
  process.send?.({ ms, cpuMs: (user + system) / 1_000 } satisfies Measured);
}

async function end(): Promise<void> {
  await node.stop();
  ground.clear();
  process.exit();
}

process.on('message', (updates: number) => void measure(updates));
process.once('disconnect', () => void end());
process.send?.({
  heapKiBPerMount: (mounted.heap - unmounted.heap) / count,
  residentKiBPerMount: (mounted.resident - unmounted.resident) / count,
} satisfies Ready);
