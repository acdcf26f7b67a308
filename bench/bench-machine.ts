/** A `mountlet up` that is measured: the real program in a process of its own, and a client of its API server. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../src/base/clock.ts';
import { type ApiClient, apiClientDefaults, connectApiClient } from '../src/client/api/api-client.ts';
import { clusterAccess } from '../src/client/credentials/cluster-access.ts';
import { poolDefaults } from '../src/client/transport/connection-pool.ts';
import { machineAccess } from '../src/cli/cluster-client.ts';
import type { ContainerRecord, PodRecord } from '../src/runtimes/process/container-records.ts';
import { endSpawner } from '../src/runtimes/process/spawner/spawner-client.ts';
import { mountPointsBelow } from '../src/testing/machine/temporary-directory.ts';
import { program } from '../test/mountlet-program.ts';

const preload = fileURLToPath(new URL('memory-on-request.js', import.meta.url));
// What is measured is the node's work, not how much the benchmark allows itself.
const unlimited = { perSecond: Infinity, burst: 1 };
/** Ending a thousand pods takes its time; whatever is left after that is killed. */
const drainMsMax = 75_000;

export interface Memory {
  readonly heapKiB: number;
  readonly residentKiB: number;
}

/** The longest of the event loop since it was last asked for. */
export interface Turn {
  readonly delayMs: number;
  /** The processor time of the main thread, without what others took from it. */
  readonly busyMs: number;
}

/** `stop` ends its pods, and leaves nothing behind. */
export class BenchMachine {
  readonly directory: string;
  readonly client: ApiClient;
  readonly #child: ChildProcess;

  private constructor(directory: string, client: ApiClient, child: ChildProcess) {
    this.directory = directory;
    this.client = client;
    this.#child = child;
  }

  /** `settings` are lines of the file of `--config`; `flags` are node's own, `args` those of `mountlet up`. */
  static async start(
    settings: readonly string[],
    flags: readonly string[],
    signal: AbortSignal,
    args: readonly string[] = [],
  ): Promise<BenchMachine> {
    const directory = mkdtempSync(join(tmpdir(), 'mountlet-bench-'));
    const config = join(directory, 'config.yaml');
    const kind = ['apiVersion: mountlet.dev/v1alpha1', 'kind: AgentConfiguration', 'nodeName: bench'];
    writeFileSync(config, [...kind, ...settings, ''].join('\n'));
    const state = join(directory, 'state');
    mkdirSync(state);
    const own = ['--state', state, '--listen', '127.0.0.1:0', '--config', config, '--drain', ...args];
    const node = ['--enable-source-maps', '--expose-gc', '--import', preload, ...flags];
    const child = spawn(process.execPath, [...node, program, 'up', ...own], {
      // Ctrl-C is for the benchmark, which then ends this one in good order.
      detached: true,
      stdio: ['ignore', 'pipe', openSync(join(directory, 'log'), 'w'), 'ipc'],
    });
    try {
      const lines = createInterface({ input: child.stdout ?? process.stdin });
      const ended = once(child, 'exit', { signal }).then(() => Promise.reject(new Error('mountlet up has ended')));
      await Promise.race([once(lines, 'line', { signal }), ended]);
      ended.catch(() => {});
      const access = await clusterAccess(
        { kubeconfig: join(state, 'kubeconfig'), context: undefined },
        machineAccess(),
      );
      const rates = { rate: unlimited, watchRate: unlimited };
      const client = connectApiClient(access, systemClock, { ...apiClientDefaults, ...rates }, poolDefaults);
      return new BenchMachine(directory, client, child);
    } catch (error) {
      process.stderr.write(readFileSync(join(directory, 'log')));
      await endOf(child, directory);
      throw error;
    }
  }

  async stop(): Promise<void> {
    await this.client.close();
    await endOf(this.#child, this.directory);
  }

  memory(): Promise<Memory> {
    return this.#ask<Memory>('memory');
  }

  longestTurn(): Promise<Turn> {
    return this.#ask<Turn>('turn');
  }

  async #ask<T>(question: string): Promise<T> {
    const answer = once(this.#child, 'message');
    this.#child.send(question);
    const [given] = (await answer) as [T];
    return given;
  }

  /** The administrator's. */
  get kubeconfig(): string {
    return join(this.directory, 'state', 'kubeconfig');
  }

  /** Of all its threads, and how often its main thread went to sleep and woke up again. */
  spent(): { readonly cpuMs: number; readonly wakeUps: number } {
    const of = (file: string): string => readFileSync(`/proc/${this.#child.pid}/${file}`, 'utf8');
    // After the name, which is in parentheses, utime and stime are the 12th and 13th; in hundredths of a second.
    const fields = of('stat').split(') ')[1]?.split(' ') ?? [];
    const wakeUps = Number(/^voluntary_ctxt_switches:\s*(\d+)/m.exec(of('status'))?.[1]);
    return { cpuMs: (Number(fields[11]) + Number(fields[12])) * 10, wakeUps };
  }

  /** Where this process sees what the pod's container sees. */
  rootOf(podUid: string): string {
    const record = recordsIn(this.directory, 'containers').find((one) => one.podUid === podUid);
    const main = record?.run?.main;
    if (main === undefined) throw new Error(`pod ${podUid} has no container: ${record?.end?.message}`);
    return `/proc/${main.pid}/root`;
  }
}

async function endOf(child: ChildProcess, directory: string): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    const limit = setTimeout(() => child.kill('SIGKILL'), drainMsMax);
    await ended;
    clearTimeout(limit);
  }
  await endSpawner(join(directory, 'state', 'node', 'runtime'));
  const left = mountPointsBelow(directory);
  if (left.length > 0) process.stderr.write(`mountlet up left ${left.length} mounts\n`);
  for (const path of left) spawnSync('umount', ['--lazy', path]);
  rmSync(directory, { recursive: true, force: true });
}

interface Records {
  readonly containers: ContainerRecord;
  readonly pods: PodRecord;
}

function recordsIn<Kind extends keyof Records>(directory: string, kind: Kind): readonly Records[Kind][] {
  const folder = join(directory, 'state', 'node', 'runtime', kind);
  try {
    return readdirSync(folder).map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as Records[Kind]);
  } catch {
    return []; // it did not get that far
  }
}
