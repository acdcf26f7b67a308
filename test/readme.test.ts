/**
 * The README keeps its word: the lines of its minute of use run as they stand, in their order, and so do those that `mountlet up`
 * suggests. In mount and network namespaces of their own, so that they find the state directory and the port that they name.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { eventually, noKubectl, patienceMs } from './kubectl-program.ts';
import { isRoot } from './mountlet-program.ts';

const project = fileURLToPath(new URL('../../', import.meta.url));
const readme = readFileSync(join(project, 'README.md'), 'utf8');
const minute = readme.slice(readme.indexOf('\n## A minute of use'), readme.indexOf('\nMore, with what it needs'));
const blocks = [...minute.matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, block = '']) => linesOf(block));
const [start = [], withKubectl = [], without = [], alone = []] = blocks;
const skip = !isRoot ? 'needs root: the lines are those of root' : noKubectl;

function linesOf(block: string): string[] {
  return block
    .split('\n')
    .map((line) => line.replace(/\s+#.*$/, ''))
    .filter((line) => line !== '');
}

const home = mkdtempSync(join(tmpdir(), 'mountlet-test-'));
const kubectlPaths = (process.env['PATH'] ?? '')
  .split(':')
  .map((directory) => join(directory, 'kubectl'))
  .filter((path) => existsSync(path));

/** A machine with nothing on it but this one's programs. */
class EmptyMachine {
  readonly #holder: ChildProcess;
  readonly #environment: NodeJS.ProcessEnv = { ...process.env, HOME: home, EDITOR: 'sed -i s/6379/6380/' };

  private constructor(holder: ChildProcess) {
    this.#holder = holder;
  }

  static async open(...commands: readonly string[]): Promise<EmptyMachine> {
    const script = ['ip link set lo up', 'mount -t tmpfs none /var/lib', ...commands, 'echo ready', 'read end'];
    const words = ['--mount', '--net', '--propagation', 'slave', 'sh', '-c', script.join(' && ')];
    const holder = spawn('unshare', words, { stdio: ['pipe', 'pipe', 'inherit'] });
    const [line] = (await once(createInterface({ input: holder.stdout }), 'line')) as [string];
    assert.equal(line, 'ready');
    return new EmptyMachine(holder);
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
    const words = ['--target', String(this.#holder.pid), '--mount', '--net', 'sh', '-c', `cd ${project} && ${line}`];
    const child = spawn('nsenter', words, {
      env: this.#environment,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.setEncoding('utf8');
    child.stderr.setEncoding('utf8');
    return child;
  }

  /** `mountlet up` ends by one signal, for a second one would not let it drain; all else ends with it. */
  async close(): Promise<void> {
    const network = readlinkSync(`/proc/${this.#holder.pid}/ns/net`);
    const left = (): number[] => {
      const pids = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && networkOf(pid) === network);
      return pids.map(Number).filter((pid) => pid !== this.#holder.pid);
    };
    for (const pid of left()) if (isMountlet(pid)) end(pid, 'SIGTERM');
    try {
      await eventually(() => assert.deepEqual(left(), []));
    } finally {
      for (const pid of left()) end(pid, 'SIGKILL');
      this.#holder.kill('SIGKILL');
    }
  }
}

/** And not npm or a shell with its name among their words. */
function isMountlet(pid: number): boolean {
  try {
    const [, program = '', command] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return /\/mountlet(\.js)?$/.test(program) && command === 'up';
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

/** `mountlet up`, with what it has printed so far. */
class Up {
  printed = '';
  readonly #child: ChildProcess;

  constructor(child: ChildProcess) {
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (text: string) => (this.printed += text));
  }

  /** The lines to try, once the first pod runs. */
  async suggestions(): Promise<string[]> {
    const found = await eventually(() => {
      const [, lines] = /^Try, in another terminal:\n((?: {2}.+\n)+)\n/m.exec(this.printed) ?? [];
      if (this.#child.exitCode === null) assert.ok(lines !== undefined, this.printed);
      return lines;
    });
    assert.ok(found !== undefined, `mountlet up has ended: ${this.printed}`);
    return linesOf(found.replaceAll(/^ {2}/gm, ''));
  }
}

test('there are the blocks that the tests run', () => {
  const [first] = start;
  assert.match(first ?? '', /^npx mountlet up /);
  assert.ok(withKubectl.length > 3 && without.length > 2 && alone.length > 2, JSON.stringify(blocks));
});

if (skip === false) {
  let machine: EmptyMachine;
  let up: Up;
  before(async () => {
    // npx asks its registry once, and there is no way to it from a network of its own.
    const { status, stderr } = spawnSync('npx', ['mountlet', '--version'], {
      cwd: project,
      env: { ...process.env, HOME: home },
      encoding: 'utf8',
    });
    assert.equal(status, 0, stderr);
    machine = await EmptyMachine.open();
    up = new Up(machine.start(start.join('\n')));
    await up.suggestions();
  });
  after(async () => {
    try {
      await machine.run('kubectl delete pods --all --now');
    } finally {
      await machine.close();
      rmSync(home, { recursive: true, force: true });
      rmSync(join(project, 'change.yaml'), { force: true });
    }
  });

  test('every line for kubectl runs, and the edited file is in the container', async () => {
    const shown: string[] = [];
    for (const line of withKubectl) shown.push(await machine.run(line));
    const files = shown.filter((text) => text.startsWith('port='));
    assert.deepEqual(
      files.map((text) => text.split('\n')[0]),
      ['port=6379', 'port=6380'],
      up.printed,
    );
    const described = shown.find((text) => text.includes('Events:')) ?? '';
    assert.match(described, /Scheduled/);
    assert.doesNotMatch(described, /FailedScheduling/, 'the node was there before the first pod');
  });

  test('every line without kubectl runs', async () => {
    for (const line of without) await machine.run(line);
  });

  test('every line that needs no server runs', async () => {
    for (const line of alone) await machine.run(line);
  });

  test('what up suggests where there is kubectl runs', async () => {
    for (const line of await up.suggestions()) await machine.run(line);
  });

  test('what up suggests where there is none runs', async (t) => {
    const bare = await EmptyMachine.open(...kubectlPaths.map((path) => `mount --bind /dev/null ${path}`));
    t.after(async () => await bare.close());
    const started = new Up(bare.start(start.join('\n').replace(' up ', ' up --drain ')));
    const lines = await started.suggestions();
    assert.ok(lines.length > 2 && lines.every((line) => line.startsWith('npx mountlet ')), lines.join('\n'));
    for (const line of lines) await bare.run(line);
  });
} else {
  test('the lines of the README', { skip }, () => {});
}
