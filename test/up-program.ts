/** Runs `mountlet up` in a process of its own, with kubectl to talk to it, and knows what it must not leave behind. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type AddressInfo, createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { removeWithMounts } from '../src/testing/machine/temporary-directory.ts';
import { Kubectl, eventually, noKubectl } from './kubectl-program.ts';
import { type LeftBehind, assertNothingLeft, endProcessesOf, leftBehind } from './left-behind.ts';
import { isRoot, programCommand } from './mountlet-program.ts';
import { type RunningRuntime, type TestedRuntime, testedRuntime } from './tested-runtime.ts';

/** For tests that need pods with all that a node of root gives them, and kubectl. */
export const withNode = {
  skip: !isRoot ? 'needs root: an ordinary user has no mounts' : noKubectl === false ? testedRuntime().skip : noKubectl,
};

export class UpProgram {
  readonly directory: string;
  readonly process: ChildProcess;
  readonly kubectl: Kubectl;
  /** What it has printed so far, of both kinds. */
  readonly output: () => string;
  readonly #exited: Promise<number | null>;
  readonly #runtime: RunningRuntime;

  private constructor(
    directory: string,
    child: ChildProcess,
    output: () => string,
    exited: Promise<number | null>,
    runtime: RunningRuntime,
  ) {
    this.directory = directory;
    this.#runtime = runtime;
    this.process = child;
    this.output = output;
    this.#exited = exited;
    this.kubectl = new Kubectl(join(directory, 'kubeconfig'));
  }

  /** Resolves when it says that it is ready; rejects when it ends before. */
  static async start(
    directory: string,
    runtime: RunningRuntime,
    args: readonly string[],
    asOrdinaryUser: boolean,
    under: readonly string[] = [],
  ): Promise<UpProgram> {
    const [file = '', ...before] = [...under, ...programCommand(asOrdinaryUser)];
    // Pods of the tests run scripts with this Node, wherever it is.
    const given = [
      'up',
      '--state',
      directory,
      '--listen',
      '127.0.0.1:0',
      '--host-path',
      dirname(process.execPath),
      ...runtime.args,
      ...args,
    ];
    const env = { PATH: process.env['PATH'], HOME: '/nonexistent', NODE_OPTIONS: process.env['NODE_OPTIONS'] };
    const child = spawn(file, [...before, ...given], { stdio: ['ignore', 'pipe', 'pipe'], env });
    const exited = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => (output += text));
    }
    const [line] = (await Promise.race([
      once(createInterface({ input: child.stdout }), 'line'),
      exited.then((code) => assert.fail(`mountlet up ended with ${code} before it was ready: ${output}`)),
    ])) as [string];
    assert.match(line, /^API server is ready at /);
    return new UpProgram(directory, child, () => output, exited, runtime);
  }

  /** SIGTERM; resolves to the exit code. Pods go on, unless it was started with --drain. */
  async stop(): Promise<number | null> {
    this.process.kill('SIGTERM');
    return await this.#exited;
  }

  /** kill -9; resolves when it is gone. */
  async kill(): Promise<void> {
    this.process.kill('SIGKILL');
    await this.#exited;
  }

  async uidOf(pod: string): Promise<string> {
    return await this.kubectl.ok(['get', 'pod', pod, '-o', 'jsonpath={.metadata.uid}']);
  }

  /** The directory of a volume on this machine, below that of its pod. */
  async volume(pod: string, plugin: string, name: string): Promise<string> {
    return join(this.directory, 'node', 'pods', await this.uidOf(pod), 'volumes', `kubernetes.io~${plugin}`, name);
  }

  left(): LeftBehind {
    return leftBehind(this.directory);
  }

  async assertNothingLeft(): Promise<void> {
    await eventually(async () => {
      assertNothingLeft(this.directory, this.process.pid);
      assert.deepEqual(await this.#runtime.left(), []);
    });
  }
}

/** A state directory for the tests of one file, and what has to be taken from the machine when they have failed. */
export class UpMachine {
  readonly directory = realpathSync(mkdtempSync(join(tmpdir(), 'mountlet-test-')));
  readonly #tested: TestedRuntime;
  #up: UpProgram | undefined;
  #runtime: RunningRuntime | undefined;

  constructor(runtime = testedRuntime()) {
    this.#tested = runtime;
  }

  /** The one that runs, or ran last. */
  get up(): UpProgram {
    assert.ok(this.#up !== undefined, 'mountlet up was not started');
    return this.#up;
  }

  get kubectl(): Kubectl {
    return this.up.kubectl;
  }

  async start(...args: readonly string[]): Promise<UpProgram> {
    return await this.startUnder([], ...args);
  }

  /** `under` are the words of a program that runs another, such as prlimit. */
  async startUnder(under: readonly string[], ...args: readonly string[]): Promise<UpProgram> {
    this.#runtime ??= await this.#tested.start();
    this.#up = await UpProgram.start(join(this.directory, 'state'), this.#runtime, args, false, under);
    return this.#up;
  }

  async startAsOrdinaryUser(...args: readonly string[]): Promise<UpProgram> {
    chmodSync(this.directory, 0o777);
    this.#runtime ??= await this.#tested.start();
    this.#up = await UpProgram.start(join(this.directory, 'state'), this.#runtime, args, true);
    return this.#up;
  }

  /** Deletes every pod and stops; nothing may be left. For `after`. */
  async end(): Promise<void> {
    try {
      if (this.#up === undefined || this.#up.process.exitCode !== null) return;
      await this.kubectl.ok('delete pods --all --all-namespaces --now');
      await this.#up.assertNothingLeft();
      assert.equal(await this.#up.stop(), 0, `SIGTERM ends it cleanly: ${this.#up.output()}`);
      assertNothingLeft(this.#up.directory);
    } finally {
      this.#up?.process.kill('SIGKILL');
      endProcessesOf(this.directory);
      await this.#runtime?.close();
      removeWithMounts(this.directory);
    }
  }
}

/** Undefined when a port that was asked for is taken. */
export async function portIfFree(wanted: number): Promise<number | undefined> {
  const server = createServer().listen(wanted, '127.0.0.1');
  try {
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  } catch {
    return undefined;
  } finally {
    server.close();
  }
}

/** Below those that the kernel gives to outgoing connections, one of which could take it meanwhile. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries += 1) {
    const port = await portIfFree(randomInt(20_000, 32_000));
    if (port !== undefined) return port;
  }
  return assert.fail('no port is free');
}
