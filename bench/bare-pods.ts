/**
 * The calls to a container runtime that no node can do without, made one after the other for each pod and by nobody else: what
 * a whole node is compared with.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Containerd } from '../src/testing/machine/containerd.ts';

const callMs = 240_000;
const graceSeconds = 2n;

export class BarePods {
  readonly #containerd: Containerd;
  readonly #image: string;
  readonly #signal: AbortSignal;

  constructor(containerd: Containerd, image: string, signal: AbortSignal) {
    this.#containerd = containerd;
    this.#image = image;
    this.#signal = signal;
  }

  /** Resolves to the sandbox when the container runs. */
  async start(name: string): Promise<string> {
    const { runtime, directory } = this.#containerd;
    const logDirectory = join(directory, 'bare', name);
    mkdirSync(logDirectory, { recursive: true });
    const config = {
      metadata: { name, namespace: 'bare', uid: name, attempt: 0 },
      hostname: name,
      logDirectory,
      linux: {},
    };
    const options = { timeoutMs: callMs, signal: this.#signal };
    const { podSandboxId } = await runtime.runPodSandbox({ config }, options);
    const { containerId } = await runtime.createContainer(
      {
        podSandboxId,
        config: { metadata: { name: 'main', attempt: 0 }, image: { image: this.#image }, logPath: '0.log', linux: {} },
        sandboxConfig: config,
      },
      options,
    );
    await runtime.startContainer({ containerId }, options);
    return podSandboxId;
  }

  async remove(podSandboxId: string): Promise<void> {
    const { runtime } = this.#containerd;
    const options = { timeoutMs: callMs, signal: this.#signal };
    const { containers } = await runtime.listContainers({ filter: { podSandboxId } }, options);
    for (const { id } of containers) {
      await runtime.stopContainer({ containerId: id, timeout: graceSeconds }, options);
      await runtime.removeContainer({ containerId: id }, options);
    }
    await runtime.stopPodSandbox({ podSandboxId }, options);
    await runtime.removePodSandbox({ podSandboxId }, options);
  }
}

/** The processor time of a process and of all that it starts from now on: containerd with its shims, runc and plugins. */
export class CpuMeter {
  readonly #group: string;
  readonly #pid: number;

  constructor(pid: number) {
    const lines = execFileSync('mount', ['-t', 'cgroup,cgroup2'], { encoding: 'utf8' }).split('\n');
    const line = lines.find((text) => /\bcpuacct\b/.test(text)) ?? lines.find((text) => text.includes('type cgroup2'));
    const point = line?.split(' ')[2];
    if (point === undefined) throw new Error('This machine has no control groups to measure processor time with');
    this.#pid = pid;
    this.#group = join(point, `mountlet-bench-${pid}`);
    mkdirSync(this.#group);
    writeFileSync(join(this.#group, 'cgroup.procs'), String(pid));
  }

  spentMs(): number {
    try {
      return Number(readFileSync(join(this.#group, 'cpuacct.usage'), 'utf8')) / 1_000_000;
    } catch {
      const text = readFileSync(join(this.#group, 'cpu.stat'), 'utf8');
      return Number(/^usage_usec (\d+)/m.exec(text)?.[1]) / 1_000;
    }
  }

  /** After the process has ended. */
  async remove(): Promise<void> {
    for (let tries = 0; tries < 100; tries += 1) {
      try {
        rmdirSync(this.#group);
        return;
      } catch {
        await sleep(50); // what it started is ending
      }
    }
    process.stderr.write(`the control group of process ${this.#pid} is left: ${this.#group}\n`);
  }
}
