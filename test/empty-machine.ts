/** A machine with nothing on it, for lines that name the usual state directory and port: mount and network namespaces of its own. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { leaveOthersMounts } from '../src/testing/machine/node-machine.ts';
import { eventually, patienceMs } from './kubectl-program.ts';

interface Surroundings {
  /** Where lines run. */
  readonly directory: string;
  readonly env: Readonly<Record<string, string>>;
}

export class EmptyMachine {
  readonly #holder: ChildProcess;
  readonly #directory: string;
  readonly #environment: NodeJS.ProcessEnv;

  private constructor(holder: ChildProcess, { directory, env }: Surroundings) {
    this.#holder = holder;
    this.#directory = directory;
    this.#environment = { ...process.env, ...env };
  }

  /** With the state directory empty and the port free; `commands` make it emptier still. */
  static async open(surroundings: Surroundings, ...commands: readonly string[]): Promise<EmptyMachine> {
    const script = ['ip link set lo up', 'mount -t tmpfs none /var/lib', ...commands, 'echo ready', 'read end'];
    const shell = ['sh', '-c', `${leaveOthersMounts}\n${script.join(' && ')}`];
    const words = ['--mount', '--net', '--propagation', 'slave', ...shell];
    const holder = spawn('unshare', words, { stdio: ['pipe', 'pipe', 'inherit'] });
    const [line] = (await once(createInterface({ input: holder.stdout }), 'line')) as [string];
    assert.equal(line, 'ready');
    return new EmptyMachine(holder, surroundings);
  }

  /** Runs a line to its end; `export` holds for the lines after it. */
  async run(line: string): Promise<string> {
    const [, name, value] = /^export (\w+)=(\S+)$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) {
      this.#environment[name] = value;
      return '';
    }
    const child = this.start(line);
    const timer = setTimeout(() => child.kill('SIGKILL'), patienceMs);
    const output = { stdout: '', stderr: '' };
    child.stdout?.on('data', (text: string) => (output.stdout += text));
    child.stderr?.on('data', (text: string) => (output.stderr += text));
    const [code] = (await once(child, 'close')) as [number | null];
    clearTimeout(timer);
    assert.equal(code, 0, `${line}: ${output.stdout}${output.stderr}`);
    return output.stdout;
  }

  start(line: string): ChildProcess {
    const words = [
      '--target',
      String(this.#holder.pid),
      '--mount',
      '--net',
      'sh',
      '-c',
      `cd ${this.#directory} && ${line}`,
    ];
    const child = spawn('nsenter', words, {
      env: this.#environment,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.setEncoding('utf8');
    child.stderr.setEncoding('utf8');
    return child;
  }

  /** A server ends by one signal, for a second one would not let it drain; all else ends with it. */
  async close(): Promise<void> {
    const network = readlinkSync(`/proc/${this.#holder.pid}/ns/net`);
    const left = (): number[] => {
      const pids = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && networkOf(pid) === network);
      return pids.map(Number).filter((pid) => pid !== this.#holder.pid);
    };
    for (const pid of left()) if (isServer(pid)) end(pid, 'SIGTERM');
    try {
      await eventually(() => assert.deepEqual(left(), []));
    } finally {
      for (const pid of left()) end(pid, 'SIGKILL');
      this.#holder.kill('SIGKILL');
    }
  }
}

/** And not npm or a shell with its name among their words. */
function isServer(pid: number): boolean {
  try {
    const [, program = '', command] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return /\/mountlet(\.js)?$/.test(program) && ['up', 'agent', 'apiserver', 'controllers'].includes(command ?? '');
  } catch {
    return false; // it has ended meanwhile
  }
}

function networkOf(pid: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`);
  } catch {
    return undefined; // it has ended meanwhile
  }
}

function end(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // it has ended meanwhile
  }
}
