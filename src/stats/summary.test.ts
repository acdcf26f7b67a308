import assert from 'node:assert/strict';
import { linkSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { PodStats } from '../runtimes/runtime.ts';
import { FakeClock } from '../testing/fakes/fake-clock.ts';
import { temporaryDirectory } from '../testing/machine/temporary-directory.ts';
import { DirectoryUsage, fileSystemAt } from './directory-usage.ts';
import { readMachineUsage } from './machine-usage.ts';
import { resourceMetrics } from './resource-metrics.ts';
import { type PodFacts, SummarySource } from './summary.ts';

const { signal } = new AbortController();

interface World {
  readonly root: string;
  readonly clock: FakeClock;
  readonly source: SummarySource;
  readonly directories: DirectoryUsage;
  pods: readonly PodStats[];
  facts: Partial<PodFacts>;
}

function world(t: TestContext): World {
  const root = temporaryDirectory(t);
  const clock = new FakeClock(Date.parse('2026-01-02T03:04:05Z'));
  const directories = new DirectoryUsage(clock, 60_000, fileSystemAt);
  const made: World = {
    root,
    clock,
    directories,
    pods: [],
    facts: {},
    source: new SummarySource({
      clock,
      nodeName: 'here',
      rootDirectory: root,
      runtime: { stats: async () => made.pods, images: undefined },
      directories,
      machine: readMachineUsage,
      factsOf: () => ({
        volumes: [],
        hostsFile: join(root, 'etc-hosts'),
        logDirectory: (name) => join(root, 'logs', name),
        memoryBytesMax: () => undefined,
        ...made.facts,
      }),
    }),
  };
  return made;
}

function pod(atMs: number, cpuNanoseconds: number, startedAtMs = 1_000): PodStats {
  const container = {
    startedAtMs,
    atMs,
    cpuNanoseconds,
    memoryBytes: 30,
    workingSetBytes: 20,
    rssBytes: 10,
    pageFaults: undefined,
    majorPageFaults: undefined,
    swap: { usedBytes: 5, bytesMax: 8 },
    processes: 2,
    writableLayer: { usedBytes: 4096, inodesUsed: 1 },
  };
  return {
    uid: 'u',
    namespace: 'shop',
    name: 'web',
    startedAtMs: 500,
    network: {
      atMs,
      interfaces: [{ name: 'eth0', receivedBytes: 1, receiveErrors: 2, sentBytes: 3, sendErrors: 4 }],
    },
    whole: undefined,
    containers: [
      { name: 'a', ...container },
      { name: 'b', ...container },
    ],
  };
}

test('the cores in use follow from two samples, and a container that was started again begins anew', async (t) => {
  const made = world(t);
  const now = made.clock.now();
  const nanoCores = async (): Promise<(number | undefined)[]> => {
    const [shown] = (await made.source.cpuAndMemory(signal)).pods;
    return [shown?.cpu?.usageNanoCores, ...(shown?.containers ?? []).map(({ cpu }) => cpu.usageNanoCores)];
  };
  made.pods = [pod(now, 1e9)];
  assert.deepEqual(await nanoCores(), [undefined, undefined, undefined]);
  made.pods = [pod(now + 10_000, 6e9)];
  assert.deepEqual(await nanoCores(), [1e9, 5e8, 5e8]);
  made.pods = [pod(now + 10_100, 9e9)];
  assert.deepEqual(await nanoCores(), [1e9, 5e8, 5e8], 'samples too close to each other');
  made.pods = [pod(now + 20_000, 1e9, 9_000)];
  assert.deepEqual(await nanoCores(), [undefined, undefined, undefined]);
});

test('ephemeral storage is what a pod has on the disk of the node: layers, logs, its hosts and its volumes', async (t) => {
  const made = world(t);
  const { root } = made;
  const write = (path: string, bytes: number): void => {
    mkdirSync(join(root, path, '..'), { recursive: true });
    writeFileSync(join(root, path), Buffer.alloc(bytes, 1));
  };
  write('logs/a/0.log', 100_000);
  write('logs/b/0.log', 50_000);
  write('etc-hosts', 10);
  write('cache/file', 200_000);
  write('claim/file', 400_000);
  made.pods = [pod(made.clock.now(), 0)];
  made.facts = {
    volumes: [
      { name: 'cache', path: join(root, 'cache'), claim: undefined, isForeign: false },
      { name: 'data', path: join(root, 'claim'), claim: { name: 'data', namespace: 'shop' }, isForeign: true },
      { name: 'memory', path: '/dev/shm', claim: undefined, isForeign: false },
      { name: 'gone', path: join(root, 'gone'), claim: undefined, isForeign: false },
    ],
    memoryBytesMax: (name) => (name === 'a' ? 100 : undefined),
  };
  const { node, pods } = await made.source.summary(signal);
  const [shown] = pods;
  const volumes = new Map(shown?.volume?.map((volume) => [volume.name, volume]));
  assert.deepEqual([...volumes.keys()], ['cache', 'data', 'memory']);
  assert.deepEqual(volumes.get('data')?.pvcRef, { name: 'data', namespace: 'shop' });
  assert.ok((volumes.get('data')?.inodesUsed ?? 0) > 2, 'a claim uses a file system, not a directory');
  const used = volumes.get('cache')?.usedBytes ?? 0;
  assert.ok(used >= 200_000 && used < 250_000);
  const local = shown?.['ephemeral-storage']?.usedBytes ?? 0;
  assert.ok(local >= 350_000 && local < 420_000, String(local));
  assert.equal(shown?.containers[0]?.rootfs?.usedBytes, 4096);
  assert.ok((shown?.containers[0]?.logs?.usedBytes ?? 0) >= 100_000);
  assert.equal(shown?.containers[0]?.memory.availableBytes, 80);
  assert.equal(shown?.memory?.availableBytes, undefined, 'one container has no limit');
  assert.equal(shown?.memory?.workingSetBytes, 40);
  assert.equal(shown?.network?.txErrors, 4);
  assert.deepEqual([shown?.memory?.rssBytes, shown?.memory?.pageFaults], [20, undefined], 'what all of them know');
  assert.deepEqual(shown?.process_stats, { process_count: 4 });
  assert.deepEqual([shown?.swap?.swapUsageBytes, shown?.swap?.swapAvailableBytes], [10, 6]);
  const [kubelet, all] = node.systemContainers;
  assert.ok((kubelet?.memory.pageFaults ?? 0) > 100 && (kubelet?.memory.rssBytes ?? 0) > 1e6);
  assert.deepEqual([all?.name, all?.memory.workingSetBytes], ['pods', 40]);
  assert.equal(all?.memory.availableBytes, (await readMachineUsage()).memory.totalBytes - 40);
  assert.ok((node.memory.availableBytes ?? 0) > 0 && node.cpu.usageCoreNanoSeconds > 0);
  assert.ok((node.rlimit?.curproc ?? 0) > 0 && (node.rlimit?.maxpid ?? 0) > 1000);
  assert.ok((node.fs?.capacityBytes ?? 0) >= (node.fs?.availableBytes ?? Infinity));
  await made.directories.close();
});

test('a pod that is counted as a whole uses more than its containers', async (t) => {
  const made = world(t);
  const counted = { cpuNanoseconds: 9e9, memoryBytes: 99, workingSetBytes: 77, processes: 7 };
  const unknown = { rssBytes: undefined, pageFaults: undefined, majorPageFaults: undefined, swap: undefined };
  made.pods = [{ ...pod(made.clock.now(), 1e9), whole: { ...counted, ...unknown } }];
  const [shown] = (await made.source.cpuAndMemory(signal)).pods;
  assert.deepEqual(
    [shown?.cpu?.usageCoreNanoSeconds, shown?.memory?.workingSetBytes, shown?.process_stats?.process_count],
    [9e9, 77, 7],
  );
  assert.equal(shown?.swap, undefined);
});

test('a directory is walked once a minute, links and second names count once', async (t) => {
  const { root, clock, directories } = world(t);
  writeFileSync(join(root, 'file'), Buffer.alloc(40_000, 1));
  linkSync(join(root, 'file'), join(root, 'other-name'));
  symlinkSync('/', join(root, 'everything'));
  const first = await directories.tree(root, signal);
  assert.equal(first.inodesUsed, 3);
  writeFileSync(join(root, 'more'), Buffer.alloc(40_000, 1));
  await clock.advance(59_000);
  assert.equal((await directories.tree(root, signal)).inodesUsed, 3);
  await clock.advance(2_000);
  assert.equal((await directories.tree(root, signal)).inodesUsed, 4);
  assert.deepEqual(await new DirectoryUsage(clock, 60_000, fileSystemAt).tree(join(root, 'absent'), signal), {
    usedBytes: 0,
    inodesUsed: 0,
    atMs: clock.now(),
  });
});

test('resource metrics have the times of their measurements', async (t) => {
  const made = world(t);
  made.pods = [pod(1_700_000_000_123, 2_500_000_000)];
  const text = resourceMetrics(await made.source.cpuAndMemory(signal));
  const lines = text.split('\n');
  const of = 'container="a",namespace="shop",pod="web"';
  assert.ok(lines.includes(`container_cpu_usage_seconds_total{${of}} 2.5 1700000000123`), text);
  assert.ok(lines.includes(`container_memory_working_set_bytes{${of}} 20 1700000000123`));
  assert.ok(lines.includes(`container_start_time_seconds{${of}} 1`));
  assert.ok(lines.includes(`container_swap_usage_bytes{${of}} 5 1700000000123`));
  assert.ok(lines.includes(`container_swap_limit_bytes{${of}} 8 1700000000123`));
  assert.ok(lines.includes('pod_swap_usage_bytes{namespace="shop",pod="web"} 10 1700000000123'));
  assert.ok(lines.includes('pod_cpu_usage_seconds_total{namespace="shop",pod="web"} 5 1700000000123'));
  assert.ok(lines.includes('# TYPE node_cpu_usage_seconds_total counter'));
  assert.ok(lines.includes('resource_scrape_error 0'));
  assert.equal(resourceMetrics(undefined).match(/^(resource_)?scrape_error 1$/gm)?.length, 2);
});
