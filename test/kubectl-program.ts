/** Real kubectl as a user has it, in processes of its own: it finishes, it fails, or it goes on and is read line by line. */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { dirname } from 'node:path';
import type { Ran } from './mountlet-program.ts';

export const hasKubectl = spawnSync('kubectl', ['version', '--client']).status === 0;

/** For what has to happen at all: a busy machine may take its time, and a test that waits for longer has found a failure. */
export const patienceMs = 120_000;

export interface KubectlOptions {
  readonly input?: string | Buffer;
  readonly env?: Readonly<Record<string, string>>;
}

export class Kubectl {
  readonly #kubeconfig: string;

  constructor(kubeconfig: string) {
    this.#kubeconfig = kubeconfig;
  }

  start(args: readonly string[], env: KubectlOptions['env'] = {}): ChildProcess {
    return this.startProgram('kubectl', args, env);
  }

  /** A program that calls kubectl. */
  startProgram(program: string, args: readonly string[], env: KubectlOptions['env'] = {}): ChildProcess {
    return spawn(program, args, {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'], HOME: dirname(this.#kubeconfig), KUBECONFIG: this.#kubeconfig, ...env },
    });
  }

  async run(args: readonly string[], options: KubectlOptions = {}): Promise<Ran> {
    for (;;) {
      const ran = await this.#runOnce(args, options);
      // kubectl drops what a server sends before it has made its own streams, on a machine that is busy enough.
      if (!ran.stderr.includes('Unknown stream id')) return ran;
    }
  }

  async #runOnce(args: readonly string[], { input = '', env = {} }: KubectlOptions): Promise<Ran> {
    const child = this.start(args, env);
    const output = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.on('data', (bytes: Buffer) => output[name].push(bytes));
    }
    const timer = setTimeout(() => child.kill('SIGKILL'), patienceMs);
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
    const [code] = (await once(child, 'close')) as [number | null];
    clearTimeout(timer);
    return { code, stdout: Buffer.concat(output.stdout).toString(), stderr: Buffer.concat(output.stderr).toString() };
  }

  /** What succeeds; anything else is shown. A text is cut at its blanks. */
  async ok(line: string | readonly string[], options: KubectlOptions = {}): Promise<string> {
    const args = typeof line === 'string' ? line.split(' ') : line;
    const { code, stdout, stderr } = await this.run(args, options);
    assert.equal(code, 0, `kubectl ${args.join(' ')}: ${code}\n${stdout.slice(0, 2000)}${stderr}`);
    return stdout;
  }

  async apply(...objects: readonly object[]): Promise<void> {
    await this.ok('apply -f -', { input: JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }) });
  }

  async json<T>(line: string): Promise<T> {
    return JSON.parse(await this.ok(`${line} -o json`)) as T;
  }

  /** Follows the object until the path has the value; what it was in the end is shown if it never does. */
  async until(object: string, path: string, value: string): Promise<void> {
    const { code, stderr } = await this.run([
      'wait',
      object,
      `--for=jsonpath=${path}=${value}`,
      `--timeout=${patienceMs / 1000}s`,
    ]);
    if (code === 0) return;
    const { stdout } = await this.run(['get', object, '-o', 'jsonpath={.status}']);
    const events = await this.run(['events', '--for', object]);
    assert.fail(`${object} never had ${path}=${value}: ${stderr}\n${stdout}\n${events.stdout}`);
  }

  async running(...pods: readonly string[]): Promise<void> {
    await Promise.all(pods.map((name) => this.until(`pod/${name}`, '{.status.phase}', 'Running')));
  }

  async exec(pod: string, ...command: readonly string[]): Promise<string> {
    return await this.ok(['exec', pod, '--', ...command]);
  }
}

/** Retries until the assertion passes; the last failure is the test's. For state that emits no changes, such as files. */
export async function eventually<T>(ask: () => T | Promise<T>): Promise<T> {
  const deadline = performance.now() + patienceMs;
  // Most questions start kubectl, which costs more than a wait: what takes long is asked about less often.
  for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 1.5, 500)) {
    try {
      return await ask();
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
