/** The node's figures: under the kubelet's names where it has them, so that dashboards for kubelets work. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { VolumeCount, VolumeStatus } from '../../volumes/queries.ts';

/** The kubelet's, for everything about storage. */
const storageSeconds = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600];
/** Ours are about milliseconds. */
const updateSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 60];

interface EndedOperation {
  readonly plugin: string;
  readonly isMigrated: boolean;
  readonly operation: string;
  readonly status: 'success' | 'fail-unknown';
  readonly tookMs: number;
}

interface NodeMetricSources {
  volumes(): readonly VolumeCount[];
  volumeStatuses(): readonly VolumeStatus[];
  operationsRunning(): number;
  runningPods(): number;
}

export class NodeMetrics {
  readonly #registry = new Registry();
  readonly #operations: Histogram<'volume_plugin' | 'operation_name' | 'status' | 'migrated'>;
  readonly #mounts: Histogram<'plugin_name' | 'operation_name'>;
  readonly #updates: Histogram<'plugin_name'>;
  readonly #counters = new Map<string, Counter>();
  readonly #orphans: Gauge;
  readonly #orphanErrors: Gauge;

  constructor(sources: NodeMetricSources) {
    const registers = [this.#registry];
    const volumes = new Gauge({
      name: 'volume_manager_total_volumes',
      help: 'Volumes that should be mounted and that are, by plugin.',
      labelNames: ['plugin_name', 'state'],
      registers,
      collect() {
        volumes.reset();
        for (const { plugin, state, count } of sources.volumes()) volumes.set({ plugin_name: plugin, state }, count);
      },
    });
    const failing = new Gauge({
      name: 'mountlet_volumes_failing',
      help: 'Volumes of pods whose last operation failed and waits for its retry; unwanted ones cannot be unmounted.',
      labelNames: ['plugin_name', 'wanted'],
      registers,
      collect() {
        failing.reset();
        for (const { plugin, isWanted, lastError } of sources.volumeStatuses()) {
          if (lastError !== undefined) failing.inc({ plugin_name: plugin, wanted: String(isWanted) });
        }
      },
    });
    const running = new Gauge({
      name: 'mountlet_volume_operations_running',
      help: 'Operations on volumes that run now.',
      registers,
      collect() {
        running.set(sources.operationsRunning());
      },
    });
    const pods = new Gauge({
      name: 'kubelet_running_pods',
      help: 'Pods of which a container runs.',
      registers,
      collect() {
        pods.set(sources.runningPods());
      },
    });
    this.#operations = new Histogram({
      name: 'storage_operation_duration_seconds',
      help: 'How long operations on volumes took.',
      labelNames: ['volume_plugin', 'operation_name', 'status', 'migrated'],
      buckets: storageSeconds,
      registers,
    });
    this.#mounts = new Histogram({
      name: 'volume_operation_total_seconds',
      help: 'From the wish for a volume to its mount.',
      labelNames: ['plugin_name', 'operation_name'],
      buckets: storageSeconds,
      registers,
    });
    this.#updates = new Histogram({
      name: 'mountlet_volume_update_duration_seconds',
      help: 'From the news of a changed object to its content on disk.',
      labelNames: ['plugin_name'],
      buckets: updateSeconds,
      registers,
    });
    this.#orphans = new Gauge({
      name: 'kubelet_orphan_pod_cleaned_volumes',
      help: 'Orphaned pods that the last sweep has seen.',
      registers,
    });
    this.#orphanErrors = new Gauge({
      name: 'kubelet_orphan_pod_cleaned_volumes_errors',
      help: 'Those of them that could not be removed.',
      registers,
    });
    for (const [name, help] of counters) this.#counters.set(name, new Counter({ name, help, registers }));
  }

  operationEnded({ plugin, isMigrated, operation, status, tookMs }: EndedOperation): void {
    const labels = { volume_plugin: plugin, operation_name: operation, status, migrated: String(isMigrated) };
    this.#operations.observe(labels, tookMs / 1_000);
  }

  mounted(plugin: string, tookMs: number): void {
    this.#mounts.observe({ plugin_name: plugin, operation_name: 'overall_volume_mount' }, tookMs / 1_000);
  }

  updated(plugin: string, tookMs: number): void {
    this.#updates.observe({ plugin_name: plugin }, tookMs / 1_000);
  }

  reconstructed(problem: string | undefined): void {
    this.#count('reconstruct_volume_operations', problem);
  }

  failedVolumeCleaned(problem: string | undefined): void {
    this.#count('force_cleaned_failed_volume_operation', problem);
  }

  orphansSwept(candidates: number, withProblems: number): void {
    this.#orphans.set(candidates);
    this.#orphanErrors.set(withProblems);
  }

  async text(): Promise<{ readonly contentType: string; readonly text: string }> {
    return { contentType: this.#registry.contentType, text: await this.#registry.metrics() };
  }

  #count(
    what: 'reconstruct_volume_operations' | 'force_cleaned_failed_volume_operation',
    problem: string | undefined,
  ): void {
    // The kubelet writes the one in the plural and its errors in the singular.
    const plural = what.endsWith('s') ? what : `${what}s`;
    this.#counters.get(`${plural}_total`)?.inc();
    if (problem !== undefined) this.#counters.get(`${what}_errors_total`)?.inc();
  }
}

const counters = [
  ['reconstruct_volume_operations_total', 'Volumes that were found on disk at the start.'],
  ['reconstruct_volume_operations_errors_total', 'Those of them that nobody could make sense of.'],
  ['force_cleaned_failed_volume_operations_total', 'Volumes that were cleaned up without being understood.'],
  ['force_cleaned_failed_volume_operation_errors_total', 'Those of them that could not be.'],
] as const;
