/** What of this machine decides how pods and containers are described to the runtime. Read once: none of it changes while it runs. */
import { access, readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';

export interface MachineFacts {
  readonly cgroupVersion: 1 | 2;
  /** The kernel limits the swap of cgroups. */
  readonly limitsSwap: boolean;
  readonly hugePageBytes: readonly number[];
  /** Of processors: what they tell would let a container watch its neighbours. */
  readonly thermalPaths: readonly string[];
}

/** `root` is `/`, or a directory with what a test wants there. */
export async function readMachineFacts(root: string): Promise<MachineFacts> {
  const cgroups = join(root, 'sys/fs/cgroup');
  const cgroupVersion = (await isThere(join(cgroups, 'cgroup.controllers'))) ? 2 : 1;
  const processors = await namesIn(join(root, 'sys/devices/system/cpu'), /^cpu\d+$/);
  const thermalPaths: string[] = [];
  for (const name of processors) {
    const path = `/sys/devices/system/cpu/${name}/thermal_throttle`;
    if (await isThere(join(root, path))) thermalPaths.push(path);
  }
  const pages = await namesIn(join(root, 'sys/kernel/mm/hugepages'), /^hugepages-\d+kB$/);
  return {
    cgroupVersion,
    limitsSwap: await isThere(
      cgroupVersion === 1
        ? join(cgroups, 'memory/memory.memsw.limit_in_bytes')
        : join(cgroups, await ownCgroup(root), 'memory.swap.max'),
    ),
    hugePageBytes: pages.map((name) => Number(/\d+/.exec(name)?.[0]) * 1024).toSorted((a, b) => a - b),
    thermalPaths,
  };
}

/** The root of a version 2 hierarchy has no such file, so that of this program is asked. */
async function ownCgroup(root: string): Promise<string> {
  const text = await readFile(join(root, 'proc/self/cgroup'), 'utf8').catch(() => '');
  return /^0::(.*)$/m.exec(text)?.[1] ?? '';
}

async function isThere(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}

async function namesIn(directory: string, pattern: RegExp): Promise<readonly string[]> {
  const names = await readdir(directory).catch(() => []);
  return names.filter((name) => pattern.test(name));
}
