/** docs/library.md keeps its word: every example is compiled by the project's compiler and run against the package's own doors. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { directoryForMounts } from '../src/testing/machine/temporary-directory.ts';

const project = fileURLToPath(new URL('../../', import.meta.url));
const page = readFileSync(join(project, 'docs', 'library.md'), 'utf8');

interface Example {
  /** The last heading before it. */
  readonly title: string;
  readonly code: string;
}

function examplesOf(text: string): readonly Example[] {
  let title = '';
  return [...text.matchAll(/^#+ (.*)$|^```ts\n([\s\S]*?)^```$/gm)].flatMap(([, heading, code]) => {
    if (code !== undefined) return [{ title, code }];
    title = heading ?? '';
    return [];
  });
}

const examples = examplesOf(page);
let directory = '';

before((t) => {
  const after = (act: () => void): void => (t as { after(act: () => void): void }).after(act);
  directory = directoryForMounts({ after });
  mkdirSync(join(directory, 'node_modules', '@types'), { recursive: true });
  symlinkSync(project, join(directory, 'node_modules', 'mountlet'));
  symlinkSync(join(project, 'node_modules', '@types', 'node'), join(directory, 'node_modules', '@types', 'node'));
  writeFileSync(join(directory, 'package.json'), '{ "type": "module" }');
  const compilerOptions = {
    target: 'es2022', // what Node 20 runs: `await using` is compiled away
    lib: ['es2023', 'esnext.disposable'],
    module: 'nodenext',
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    types: ['node'],
  };
  writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
  for (const [index, { code }] of examples.entries()) writeFileSync(join(directory, `example-${index}.ts`), code);
  const compiler = join(project, 'node_modules', 'typescript', 'bin', 'tsc');
  const { status, stdout } = spawnSync(process.execPath, [compiler, '--project', directory], { encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});

test('there is an example for each door of package.json', () => {
  const { exports } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')) as { exports: object };
  const doors = Object.keys(exports)
    .filter((door) => door !== './package.json')
    .map((door) => `mountlet${door.slice(1)}`);
  const code = examples.map((example) => example.code).join('');
  assert.deepEqual(
    doors.filter((door) => !code.includes(`from '${door}'`)),
    [],
  );
});

for (const [index, { title }] of examples.entries()) {
  test(`the example of ${title} runs`, { timeout: 240_000 }, () => {
    const run = spawnSync(process.execPath, [`example-${index}.js`], {
      cwd: directory,
      encoding: 'utf8',
      timeout: 230_000,
    });
    assert.equal(run.status, 0, run.stderr);
    assert.equal(run.stderr, '');
  });
}
