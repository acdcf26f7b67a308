/**
 * The cgroups in which a runtime puts the containers of a pod, named as the kubelet names them: `kubepods/burstable/pod<uid>`. The
 * runtime makes what is below and removes that alone. With systemd the slices are systemd's: they are only named.
 */
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, readFile, readdir, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { errorCode, messageOf } from '../../base/errors.ts';
import { type GroupUsage, readGroupUsage } from '../../linux/group-usage.ts';
import { type PodRequest, RuntimeError } from '../runtime.ts';
import { type CgroupDriver, cgroupParent, cpuPeriodMicroseconds, cpuQuota, cpuShares } from './sandbox-config.ts';

interface PodCgroupsDeps {
  readonly clock: Clock;
  /** SIGKILL. */
  readonly kill: (pid: number) => void;
  /** Told once: pods run without groups of their own then. */
  readonly report: (problem: string) => void;
}

interface PodCgroupsSettings {
  /** `/sys/fs/cgroup` */
  readonly directory: string;
  readonly driver: Exclude<CgroupDriver, 'none'>;
  readonly version: 1 | 2;
  /** For each pod; undefined: no limit but that of the machine. */
  readonly podPidsMax: number | undefined;
}

type PodGroup = Pick<PodRequest, 'uid' | 'qosClass' | 'resources'>;

interface PodGroupUsage {
  readonly whole: GroupUsage | undefined;
  container(id: string): GroupUsage | undefined;
}

const qosClasses = ['Guaranteed', 'Burstable', 'BestEffort'] as const;

/** Processes that were killed leave their group soon after. */
const removeTries = 50;
const removePauseMs = 20;

export class PodCgroups {
  readonly #deps: PodCgroupsDeps;
  readonly #settings: PodCgroupsSettings;
  #driver: CgroupDriver;
  #hasMade = false;
  #shares: Map<string, number> | undefined;

  constructor(deps: PodCgroupsDeps, settings: PodCgroupsSettings) {
    this.#deps = deps;
    this.#settings = settings;
    this.#driver = settings.driver;
  }

  /** `none` when this program may not make groups: then a pod must not name one. */
  get driver(): CgroupDriver {
    return this.#driver;
  }

  /**
   * Before the pod's sandbox. Repeating it changes nothing. A group that cannot be made fails its pod, which is tried again; only a
   * program that may not make any from the start goes on without.
   */
  async make(pod: PodGroup): Promise<void> {
    if (this.#driver !== 'cgroupfs') return;
    const path = cgroupParent(pod, 'cgroupfs');
    try {
      for (const hierarchy of await this.#hierarchies()) await this.#makeIn(hierarchy, path);
      await this.#limit(path, pod);
      await this.#weighClasses();
      this.#hasMade = true;
    } catch (thrown) {
      if (this.#hasMade || !isForbidden(thrown)) {
        throw new RuntimeError(`cgroup "${path}": ${messageOf(thrown)}`, { cause: thrown }, 'PodGroupFailed');
      }
      this.#driver = 'none';
      this.#deps.report(
        `Cannot make the cgroup "${path}", so pods run without limits of their own: ${messageOf(thrown)}`,
      );
    }
  }

  /** What still runs in them is killed. */
  async remove(uid: string, signal: AbortSignal): Promise<void> {
    if (this.#settings.driver !== 'cgroupfs') return;
    for (const hierarchy of await this.#hierarchies()) {
      for (const qosClass of qosClasses) {
        await this.#removeTree(join(hierarchy, cgroupParent({ uid, qosClass }, 'cgroupfs')), signal);
      }
    }
    if ((await this.#burstableShares()).delete(uid)) await this.#weighClasses();
  }

  /** What the kernel counts for a pod and for its containers, by their IDs; undefined where the pod has no group of its own. */
  usageOf(uid: string): PodGroupUsage | undefined {
    const { driver, version } = this.#settings;
    const paths = qosClasses.map((qosClass) => cgroupParent({ uid, qosClass }, driver));
    const path = paths.find((one) => existsSync(this.#file(one, 'memory', '')));
    if (path === undefined) return undefined;
    const read = (...below: readonly string[]): GroupUsage | undefined =>
      readGroupUsage(version, (controller) => join(this.#file(path, controller, ''), ...below));
    // Runtimes name the groups of containers in their own ways, with the ID in it.
    const names = namesIn(this.#file(path, 'memory', ''));
    return {
      whole: read(),
      container(id) {
        const name = names.find((one) => one.includes(id));
        return name === undefined ? undefined : read(name);
      },
    };
  }

  /** One directory for each hierarchy of version 1. */
  async #hierarchies(): Promise<readonly string[]> {
    const { directory, version } = this.#settings;
    if (version === 2) return [directory];
    const entries = await readdir(directory, { withFileTypes: true });
    // Links are second names: `cpu` of `cpu,cpuacct`.
    return entries.filter((entry) => entry.isDirectory()).map((entry) => join(directory, entry.name));
  }

  async #makeIn(hierarchy: string, path: string): Promise<void> {
    let above = hierarchy;
    for (const name of path.split('/').slice(1)) {
      if (this.#settings.version === 2) await this.#handDown(above);
      const group = join(above, name);
      const isNew = await mkdir(group).then(
        () => true,
        (thrown: unknown) => {
          if (errorCode(thrown) !== 'EEXIST') throw thrown;
          return false;
        },
      );
      // A new group of this controller may use no processor and no memory until it is told which.
      if (isNew && this.#settings.version === 1) {
        for (const file of ['cpuset.cpus', 'cpuset.mems']) await copy(join(above, file), join(group, file));
      }
      above = group;
    }
  }

  /** The controllers that a group has are not those of the groups below it unless it says so. */
  async #handDown(group: string): Promise<void> {
    const controllers = await readWords(join(group, 'cgroup.controllers'));
    const given = new Set(await readWords(join(group, 'cgroup.subtree_control')));
    const missing = controllers.filter((name) => !given.has(name));
    if (missing.length === 0) return;
    const give = async (names: readonly string[]): Promise<void> =>
      await writeFile(join(group, 'cgroup.subtree_control'), names.map((name) => `+${name}`).join(' '), { flag: 'r+' });
    try {
      await give(missing);
    } catch {
      // One that cannot be handed down keeps back the others. Without it its limits do not hold, but those of the others do.
      for (const name of missing) await give([name]).catch(() => {});
    }
  }

  async #limit(path: string, { uid, qosClass, resources }: PodGroup): Promise<void> {
    const { podPidsMax } = this.#settings;
    const { memoryBytesMax = 0, cpuMilliMax = 0, cpuMilliRequested } = resources;
    const shares = cpuShares(cpuMilliRequested ?? cpuMilliMax);
    await this.#weigh(path, shares);
    if (qosClass === 'Burstable') (await this.#burstableShares()).set(uid, shares);
    const quota = cpuQuota(cpuMilliMax);
    if (this.#settings.version === 2) {
      if (quota > 0) await write(this.#file(path, 'cpu', 'cpu.max'), `${quota} ${cpuPeriodMicroseconds}`);
    } else if (quota > 0) {
      await write(this.#file(path, 'cpu', 'cpu.cfs_period_us'), cpuPeriodMicroseconds);
      await write(this.#file(path, 'cpu', 'cpu.cfs_quota_us'), quota);
    }
    const memoryFile = this.#settings.version === 2 ? 'memory.max' : 'memory.limit_in_bytes';
    if (memoryBytesMax > 0) await write(this.#file(path, 'memory', memoryFile), memoryBytesMax);
    if (podPidsMax !== undefined) await write(this.#file(path, 'pids', 'pids.max'), podPidsMax);
  }

  /** Pods that ask for nothing get what is left over; the burstable ones together as much as they ask for. */
  async #weighClasses(): Promise<void> {
    const burstable = await this.#burstableShares();
    await this.#weigh('/kubepods/besteffort', cpuShares(0));
    await this.#weigh(
      '/kubepods/burstable',
      Math.max(
        cpuShares(0),
        [...burstable.values()].reduce((sum, one) => sum + one, 0),
      ),
    );
  }

  /** Of each burstable pod, by UID; at first those of pods from before a restart. */
  async #burstableShares(): Promise<Map<string, number>> {
    if (this.#shares !== undefined) return this.#shares;
    const directory = this.#file('/kubepods/burstable', 'cpu', '');
    const pods = (await readdir(directory).catch(() => [])).filter((name) => name.startsWith('pod'));
    const found = new Map<string, number>();
    for (const pod of pods) {
      const [value = '0'] = await readWords(
        join(directory, pod, this.#settings.version === 1 ? 'cpu.shares' : 'cpu.weight'),
      );
      found.set(pod.slice('pod'.length), this.#settings.version === 1 ? Number(value) : sharesOf(Number(value)));
    }
    return (this.#shares ??= found);
  }

  async #weigh(path: string, shares: number): Promise<void> {
    if (this.#settings.version === 1) await write(this.#file(path, 'cpu', 'cpu.shares'), shares);
    else await write(this.#file(path, 'cpu', 'cpu.weight'), Math.min(10_000, weightOf(shares)));
  }

  #file(path: string, controller: string, name: string): string {
    const { directory, version } = this.#settings;
    return join(directory, version === 1 ? controller : '', path, name);
  }

  async #removeTree(group: string, signal: AbortSignal): Promise<void> {
    for (let attempt = 0; attempt < removeTries; attempt += 1) {
      try {
        return await this.#removeOnce(group);
      } catch (thrown) {
        if (errorCode(thrown) !== 'EBUSY') throw thrown;
      }
      await this.#deps.clock.sleep(removePauseMs, signal);
    }
    throw new RuntimeError(`Cannot remove the cgroup "${group}": processes in it do not end`);
  }

  async #removeOnce(group: string): Promise<void> {
    const entries = await readdir(group, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) if (entry.isDirectory()) await this.#removeOnce(join(group, entry.name));
    for (const pid of await readWords(join(group, 'cgroup.procs'))) this.#deps.kill(Number(pid));
    await rmdir(group).catch((thrown: unknown) => {
      if (errorCode(thrown) !== 'ENOENT') throw thrown;
    });
  }
}

/** No permission, or a read-only file system. */
function isForbidden(thrown: unknown): boolean {
  return ['EACCES', 'EPERM', 'EROFS'].includes(errorCode(thrown) ?? '');
}

/** Shares of version 1 go from 2 to 262144, weights of version 2 from 1 to 10000. */
function weightOf(shares: number): number {
  return 1 + Math.floor(((shares - 2) * 9999) / 262_142);
}

function sharesOf(weight: number): number {
  return 2 + Math.floor(((weight - 1) * 262_142) / 9999);
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    return []; // it went meanwhile
  }
}

async function copy(from: string, to: string): Promise<void> {
  const text = await readFile(from, 'utf8').catch(() => undefined);
  if (text !== undefined) await write(to, text.trim());
}

/** A limit that the kernel does not have does not keep a pod from running. */
async function write(file: string, value: number | string): Promise<void> {
  await writeFile(file, String(value), { flag: 'r+' }).catch((thrown: unknown) => {
    if (errorCode(thrown) !== 'ENOENT' && errorCode(thrown) !== 'EINVAL') throw thrown;
  });
}

async function readWords(file: string): Promise<readonly string[]> {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text.split(/\s+/).filter(Boolean);
}
