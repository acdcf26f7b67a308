/** Commands of the program in processes of their own, for tests of nodes: when a test ends, so do they and what they left. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { removeWithMounts } from '../src/testing/machine/temporary-directory.ts';
import { endProcessesOf } from './left-behind.ts';
import { programCommand } from './mountlet-program.ts';

export interface Spawned {
  readonly child: ChildProcess;
  readonly stderr: () => string;
  /** The first that it prints; rejects when it ends before. */
  line(): Promise<string>;
  readonly ended: Promise<number | null>;
}

interface Agent extends Spawned {
  /** The line that it prints when it is ready. */
  readonly ready: string;
}

interface AgentOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly asOrdinaryUser?: boolean;
  /** Words of a program that runs another, such as nsenter. */
  readonly under?: readonly string[];
}

/** Directories and agents of one test. When it ends, so do they, in this order: agents, their pods, mounts, files. */
export class AgentMachine {
  readonly #directories: string[] = [];
  readonly #processes: ChildProcess[] = [];

  constructor(t: Pick<TestContext, 'after'>) {
    t.after(async () => {
      const isRunning = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode === null && signalCode === null;
      for (const child of this.#processes) {
        if (!isRunning(child)) continue;
        const exited = once(child, 'exit');
        child.kill('SIGKILL');
        await exited;
      }
      for (const directory of this.#directories) {
        endProcessesOf(directory);
        removeWithMounts(directory);
      }
    });
  }

  directory(under = tmpdir()): string {
    const directory = realpathSync(mkdtempSync(join(under, 'mountlet-test-')));
    chmodSync(directory, 0o777); // for the ordinary user
    this.#directories.push(directory);
    return directory;
  }

  own(child: ChildProcess): void {
    this.#processes.push(child);
  }

  async start(args: readonly string[], { env = {}, asOrdinaryUser = false }: AgentOptions = {}): Promise<Agent> {
    const given = ['agent', '--node-name', 'here', '--port', '0', '--address', '127.0.0.1', ...args];
    const agent = this.spawn(given, { env, asOrdinaryUser });
    return { ...agent, ready: await agent.line() };
  }

  /** Any command, which may take its time until it prints a line. */
  spawn(args: readonly string[], { env = {}, asOrdinaryUser = false, under = [] }: AgentOptions = {}): Spawned {
    const [file = '', ...before] = [...under, ...programCommand(asOrdinaryUser)];
    const child = spawn(file, [...before, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'], HOME: '/nonexistent', ...env },
    });
    this.own(child);
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const first = once(createInterface({ input: child.stdout }), 'line').then(([line]) => String(line));
    const ended = once(child, 'exit').then(([code]) => code as number | null);
    const early = ended.then(() => assert.fail(`it ended before it was ready: ${stderr}`));
    early.catch(() => {});
    return { child, stderr: () => stderr, line: () => Promise.race([first, early]), ended };
  }
}
