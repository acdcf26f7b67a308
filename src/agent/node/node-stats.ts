/** What this node uses: the summary of it, wired to the runtime, the pods and their volumes. */
import { dirname } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { OperatingError } from '../../base/errors.ts';
import { foreignUsageOf } from '../../disk/devices/foreign-paths.ts';
import { systemPrograms } from '../../disk/devices/programs.ts';
import { isForeign } from '../../disk/mounts/mount-table.ts';
import { podNamespace } from '../../kube/kinds/pod/pod-identity.ts';
import { allContainers } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { claimNameOf } from '../../kube/references/volume-spec.ts';
import { etcHostsFile } from '../../kube/values/node-layout.ts';
import { readQuantity } from '../../kube/values/quantity.ts';
import type { NodeServerDeps } from '../../node-server/node-handler.ts';
import type { PodLoop } from '../../pods/loop/pod-loop.ts';
import type { Runtime } from '../../runtimes/runtime.ts';
import { type AskForeign, DirectoryUsage, fileSystemAt } from '../../stats/directory-usage.ts';
import { readMachineUsage } from '../../stats/machine-usage.ts';
import { resourceMetrics, resourceMetricsType } from '../../stats/resource-metrics.ts';
import { type PodFacts, SummarySource } from '../../stats/summary.ts';
import type { MountedVolume } from '../../volumes/queries.ts';
import { asPodUid } from '../../volumes/volume-name.ts';
import type { AgentSettings } from './agent-settings.ts';
import type { NodeVolumes } from './node-volumes.ts';

interface NodeStatsDeps {
  readonly clock: Clock;
  readonly runtime: Pick<Runtime, 'stats' | 'images'>;
  readonly volumes: NodeVolumes;
  readonly pods: Pick<PodLoop, 'pod' | 'runtimePodOf'>;
}

export interface NodeStats {
  readonly source: SummarySource;
  readonly directories: DirectoryUsage;
  close(): Promise<void>;
}

export function nodeStats(deps: NodeStatsDeps, settings: AgentSettings): NodeStats {
  const { nodeName, rootDirectory, volumeStatsMs } = settings;
  const { clock, runtime } = deps;
  const measure = foreignMeasure();
  const directories = new DirectoryUsage(clock, volumeStatsMs, measure);
  const source = new SummarySource({
    clock,
    nodeName,
    rootDirectory,
    runtime,
    directories,
    machine: readMachineUsage,
    factsOf: (podUid) => factsOf(deps, measure, rootDirectory, podUid),
  });
  return { source, directories, close: () => directories.close() };
}

/** Another process asks a server, which may be gone; what is a claim's and yet on this machine is asked directly. */
export function foreignMeasure(): AskForeign {
  const programs = systemPrograms();
  const noDisk = { device: -1 };
  return async (path, signal) =>
    isForeign(path) ? { ...noDisk, ...(await foreignUsageOf(programs, path, signal)) } : await fileSystemAt(path);
}

function factsOf(
  { pods, volumes }: NodeStatsDeps,
  measure: AskForeign,
  root: string,
  podUid: string,
): PodFacts | undefined {
  const pod = pods.pod(podUid);
  if (pod === undefined) return undefined;
  const mounted = [...volumes.manager.queries.mountedVolumesOf(asPodUid(podUid)).values()];
  return {
    // What is the host's own is not the pod's to answer for.
    volumes: mounted.flatMap((volume) => {
      const { name, plugin, path = plugin.usage && volume.link } = volume;
      if (path === undefined || plugin.hostPathOf !== undefined) return [];
      const claim = claimOf(pod, name);
      const askDriver = driverOf(volume, measure);
      return [{ name, path, claim, isForeign: claim !== undefined || plugin.supportsMountOptions, askDriver }];
    }),
    hostsFile: etcHostsFile(root, podUid),
    logDirectory(name) {
      const container = pods.runtimePodOf(podUid)?.containers.find((one) => one.name === name);
      return container && dirname(container.logPath);
    },
    memoryBytesMax(name) {
      const container = allContainers(pod.spec).find((one) => one.name === name);
      const limit = container?.resources?.limits?.['memory'];
      return limit === undefined ? undefined : Number(readQuantity(limit)?.value() ?? 0n);
    },
  };
}

/** Of a raw device nothing but its driver has figures. */
function driverOf({ plugin, source, spec, mode }: MountedVolume, measure: AskForeign): AskForeign | undefined {
  if (plugin.usage === undefined) return undefined;
  return async (path, signal) => {
    const usage = await plugin.usage?.({ source, spec, path }, signal);
    if (usage === undefined && mode === 'Filesystem') return await measure(path, signal);
    if (usage === undefined) throw new OperatingError('NoFigures', `there are no figures of the device "${path}"`);
    const unknown = { capacityBytes: 0, availableBytes: 0, usedBytes: 0, inodes: 0, inodesFree: 0, inodesUsed: 0 };
    return { device: -1, ...unknown, ...usage };
  };
}

function claimOf(pod: Pod, volumeName: string): PodFacts['volumes'][number]['claim'] {
  const volume = pod.spec.volumes?.find(({ name }) => name === volumeName);
  const name = volume && claimNameOf(pod, volume);
  return name === undefined ? undefined : { name, namespace: podNamespace(pod) };
}

/** A runtime that does not answer must not block a scrape of the node. */
const scrapeMsMax = 10_000;

export function servedStats({ source }: NodeStats): NodeServerDeps['stats'] {
  return {
    async summary(onlyCpuAndMemory, signal) {
      const { node, pods } = await (onlyCpuAndMemory ? source.cpuAndMemory(signal) : source.summary(signal));
      // As the kubelet: pods with nothing that runs take part in evictions and are not shown.
      return { node, pods: pods.filter(({ containers }) => containers.length > 0) };
    },
    async resourceMetrics(signal) {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(scrapeMsMax)]);
      const summary = await source.cpuAndMemory(limit).catch(() => undefined);
      return { contentType: resourceMetricsType, text: resourceMetrics(summary) };
    },
  };
}
