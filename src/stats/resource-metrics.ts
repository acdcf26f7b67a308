/** CPU and memory of the node and its pods in Prometheus' text format, with the times of the measurements: `/metrics/resource`. */
import type { Summary } from './summary.ts';

const metrics = {
  container_cpu_usage_seconds_total: ['counter', 'Cumulative cpu time consumed by the container in core-seconds'],
  container_memory_working_set_bytes: ['gauge', 'Current working set of the container in bytes'],
  container_swap_limit_bytes: ['gauge', 'Current amount of the container swap limit in bytes'],
  container_swap_usage_bytes: ['gauge', 'Current amount of the container swap usage in bytes'],
  container_start_time_seconds: ['gauge', 'Start time of the container since unix epoch in seconds'],
  node_cpu_usage_seconds_total: ['counter', 'Cumulative cpu time consumed by the node in core-seconds'],
  node_memory_working_set_bytes: ['gauge', 'Current working set of the node in bytes'],
  node_swap_usage_bytes: ['gauge', 'Current swap usage of the node in bytes'],
  pod_cpu_usage_seconds_total: ['counter', 'Cumulative cpu time consumed by the pod in core-seconds'],
  pod_memory_working_set_bytes: ['gauge', 'Current working set of the pod in bytes'],
  pod_swap_usage_bytes: ['gauge', 'Current amount of the pod swap usage in bytes'],
  resource_scrape_error: ['gauge', '1 if there was an error while getting container metrics, 0 otherwise'],
  scrape_error: ['gauge', '1 if there was an error while getting container metrics, 0 otherwise'],
} as const;

type Metric = keyof typeof metrics;

export const resourceMetricsType = 'text/plain; version=0.0.4; charset=utf-8';

/** Undefined: it could not be measured, which is a figure too. */
export function resourceMetrics(summary: Summary | undefined): string {
  const samples = new Map<Metric, string[]>();
  const add = (metric: Metric, labels: Readonly<Record<string, string>>, value: number, time?: string): void => {
    const list = samples.get(metric) ?? [];
    list.push(`${metric}${labelsOf(labels)} ${value}${time === undefined ? '' : ` ${Date.parse(time)}`}\n`);
    samples.set(metric, list);
  };
  if (summary !== undefined) addUsage(summary, add);
  for (const metric of ['resource_scrape_error', 'scrape_error'] as const)
    add(metric, {}, summary === undefined ? 1 : 0);
  return [...samples]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([metric, lines]) => {
      const [type, help] = metrics[metric];
      return `# HELP ${metric} ${help}\n# TYPE ${metric} ${type}\n${lines.join('')}`;
    })
    .join('');
}

function addUsage(
  { node, pods }: Summary,
  add: (metric: Metric, labels: Readonly<Record<string, string>>, value: number, time?: string) => void,
): void {
  add('node_cpu_usage_seconds_total', {}, node.cpu.usageCoreNanoSeconds / 1e9, node.cpu.time);
  add('node_memory_working_set_bytes', {}, node.memory.workingSetBytes, node.memory.time);
  add('node_swap_usage_bytes', {}, node.swap.swapUsageBytes, node.swap.time);
  for (const { podRef, containers, cpu, memory, swap } of pods) {
    const { name: pod, namespace } = podRef;
    for (const one of containers) {
      const labels = { container: one.name, namespace, pod };
      add('container_start_time_seconds', labels, Date.parse(one.startTime) / 1e3);
      add('container_cpu_usage_seconds_total', labels, one.cpu.usageCoreNanoSeconds / 1e9, one.cpu.time);
      add('container_memory_working_set_bytes', labels, one.memory.workingSetBytes, one.memory.time);
      if (one.swap === undefined) continue;
      const { time, swapUsageBytes, swapAvailableBytes } = one.swap;
      add('container_swap_usage_bytes', labels, swapUsageBytes, time);
      if (swapAvailableBytes !== undefined)
        add('container_swap_limit_bytes', labels, swapAvailableBytes + swapUsageBytes, time);
    }
    if (cpu) add('pod_cpu_usage_seconds_total', { namespace, pod }, cpu.usageCoreNanoSeconds / 1e9, cpu.time);
    if (memory) add('pod_memory_working_set_bytes', { namespace, pod }, memory.workingSetBytes, memory.time);
    if (swap) add('pod_swap_usage_bytes', { namespace, pod }, swap.swapUsageBytes, swap.time);
  }
}

function labelsOf(labels: Readonly<Record<string, string>>): string {
  const texts = Object.entries(labels).map(([name, value]) => `${name}="${value.replace(/["\\\n]/g, escaped)}"`);
  return texts.length === 0 ? '' : `{${texts.join(',')}}`;
}

function escaped(character: string): string {
  return character === '\n' ? '\\n' : `\\${character}`;
}
