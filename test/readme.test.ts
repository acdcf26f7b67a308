/**
 * The README keeps its word: the lines of its minute of use run as they stand, in their order, and so do those that `mountlet up`
 * suggests.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { EmptyMachine } from './empty-machine.ts';
import { eventually, noKubectl } from './kubectl-program.ts';
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
const surroundings = { directory: project, env: { HOME: home, EDITOR: 'sed -i s/6379/6380/' } };
const kubectlPaths = (process.env['PATH'] ?? '')
  .split(':')
  .map((directory) => join(directory, 'kubectl'))
  .filter((path) => existsSync(path));

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
    machine = await EmptyMachine.open(surroundings);
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
    for (const line of withKubectl) {
      const seen = shown[withKubectl.indexOf(line)];
      const run = async (): Promise<string> => {
        const text = await machine.run(line);
        assert.notEqual(text, seen, line);
        return text;
      };
      // What was edited is in the container a moment later.
      shown.push(seen === undefined ? await run() : await eventually(run));
    }
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

  for (const example of ['hello', 'secret']) {
    test(`what up suggests for ${example}.yaml where there is no kubectl runs`, async (t) => {
      rmSync(join(project, 'change.yaml'), { force: true });
      const hidden = kubectlPaths.map((path) => `mount --bind /dev/null ${path}`);
      const bare = await EmptyMachine.open(surroundings, ...hidden);
      t.after(async () => await bare.close());
      const started = new Up(bare.start(`npx mountlet up --drain examples/${example}.yaml`));
      const lines = await started.suggestions();
      assert.ok(
        lines.every((line) => line.startsWith('npx mountlet ')),
        lines.join('\n'),
      );
      for (const line of lines) await bare.run(line);
    });
  }
} else {
  test('the lines of the README', { skip }, () => {});
}
