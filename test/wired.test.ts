/**
 * Nothing is built and left unconnected: every export is used by the program or stands in a door of the package, and every setting
 * is read, and every kind of notice has a row in the table.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryDirectory } from '../src/testing/machine/temporary-directory.ts';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const { exports: doors } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly exports: Readonly<Record<string, string>>;
};
const doorFiles = new Set(Object.values(doors).map((path) => path.replace('./dist/', '').replace(/\.js$/, '.ts')));

/** Path below the root, to text. */
type Sources = ReadonlyMap<string, string>;

function sourcesBelow(...directories: readonly string[]): Sources {
  const files = directories.flatMap((directory) =>
    readdirSync(join(root, directory), { recursive: true }).map((name) => join(directory, String(name))),
  );
  const code = files.filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts'));
  return new Map(code.map((file) => [file, readFileSync(join(root, file), 'utf8')]));
}

const isProgram = (file: string): boolean =>
  !file.endsWith('.test.ts') && !/^(test|bench|src\/testing|src\/grpc\/messages)\//.test(file);

const byName = /(?:import|export)\s[^;]*?\{([^}]*)\}\s+from\s+'(\.[^']+)'/g;
const asAWhole = /export (?:type )?\* (?:as \w+ )?from '(\.[^']+)'/g;
const onDemand = /\{ (\w+) \} = await import\('(\.[^']+)'\)/g;

/** `file name` of every export that neither its own file, nor another of the program, nor a door uses. */
function unusedExports(sources: Sources): string[] {
  const imported = new Set<string>();
  const whole = new Set<string>();
  for (const [file, text] of sources) {
    if (!isProgram(file)) continue;
    const target = (from: string): string => relative(root, resolve(root, dirname(file), from));
    for (const [, names = '', from = ''] of text.matchAll(byName)) {
      for (const name of names.split(','))
        imported.add(
          `${target(from)} ${
            name
              .trim()
              .replace(/^type /, '')
              .split(' as ')[0]
          }`,
        );
    }
    for (const [, from = ''] of text.matchAll(asAWhole)) whole.add(target(from));
    for (const [, name = '', from = ''] of text.matchAll(onDemand)) imported.add(`${target(from)} ${name}`);
  }
  const declared = /^export (?:abstract )?(?:async )?(?:function\*?|class|const|let|interface|type) (\w+)/gm;
  return [...sources]
    .filter(([file]) => file.startsWith('src/') && isProgram(file) && !doorFiles.has(file) && !whole.has(file))
    .flatMap(([file, text]) =>
      [...text.matchAll(declared)]
        .map(([, name = '']) => name)
        .filter((name) => !imported.has(`${file} ${name}`) && text.split(new RegExp(`\\b${name}\\b`)).length <= 2)
        .map((name) => `${file} ${name}`),
    );
}

const noticesFile = 'src/agent/node/notices.ts';
const sources = sourcesBelow('src', 'test', 'bench', 'bin');

test('every export is used by the program or stands in a door', () => {
  assert.deepEqual(unusedExports(sources), []);
});

test('an export that nothing uses is found, also when a test imports it', () => {
  const planted = new Map([
    ...sources,
    ['src/base/planted.ts', 'export function planted(): void {}\nexport const used = 1;\n'],
    ['src/base/planted.test.ts', "import { planted } from './planted.ts';\n"],
    ['src/base/other.ts', "import { used } from './planted.ts';\n"],
  ]);
  assert.ok(unusedExports(planted).includes('src/base/planted.ts planted'));
  assert.ok(!unusedExports(planted).includes('src/base/planted.ts used'));
});

/** Fields of the configuration that become no setting, and settings that are read nowhere. */
function unreadSettings(all: Sources): string[] {
  const file = 'src/agent/node/agent-settings.ts';
  const text = all.get(file) ?? '';
  const fieldsOf = (start: string, pattern: RegExp): string[] => {
    const from = text.indexOf(start);
    const block = text.slice(from, text.indexOf('\n}', from));
    return [...block.matchAll(pattern)].map(([, name = '']) => name);
  };
  const given = fieldsOf('agentConfiguration = object({', /^ {2}(\w+):/gm).filter(
    (name) => !['apiVersion', 'kind'].includes(name),
  );
  const settings = fieldsOf('export interface AgentSettings {', /^ {2}readonly (\w+)\??:/gm);
  assert.ok(given.length > 10 && settings.length > 10, 'the fields were found');
  const rest = [...all].filter(([path]) => path !== file && isProgram(path)).map(([, other]) => other);
  const builder = text.slice(text.indexOf('export function agentSettings('));
  return [
    ...given.filter((name) => !new RegExp(`\\b${name}\\b`).test(builder)),
    ...settings.filter((name) => !rest.some((other) => new RegExp(`\\b${name}\\b`).test(other))),
  ];
}

test('every setting is read', () => {
  assert.deepEqual(unreadSettings(sources), []);
});

test('a setting that is read nowhere is found', () => {
  const file = 'src/agent/node/agent-settings.ts';
  const text = sources.get(file) ?? '';
  const planted = text.replace(
    'export interface AgentSettings {',
    'export interface AgentSettings {\n  readonly plantedSetting: number;',
  );
  assert.deepEqual(unreadSettings(new Map([...sources, [file, planted]])), ['plantedSetting']);
});

/** What the compiler says of the table of notices with this text. */
function compileNotices(t: TestContext, text: string): string {
  const directory = temporaryDirectory(t);
  const home = join(root, dirname(noticesFile));
  const moved = text.replace(
    /from '(\.[^']+)'/g,
    (_, path: string) => `from '${relative(directory, resolve(home, path))}'`,
  );
  writeFileSync(join(directory, 'notices.ts'), moved);
  writeFileSync(join(directory, 'package.json'), '{ "type": "module" }');
  const compilerOptions = {
    noEmit: true,
    rootDir: '/',
    tsBuildInfoFile: join(directory, 'build'),
    typeRoots: [join(root, 'node_modules', '@types')],
  };
  const project = { extends: join(root, 'tsconfig.json'), compilerOptions, include: [], files: ['notices.ts'] };
  writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify(project));
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  return spawnSync(process.execPath, [compiler, '--project', directory], { encoding: 'utf8' }).stdout;
}

test('a kind of notice without a row does not compile', (t) => {
  const text = sources.get(noticesFile) ?? '';
  const union = 'export type NodeNotice =';
  assert.ok(text.includes(union));
  assert.equal(compileNotices(t, text), '');
  const planted = text.replace(union, `${union}\n  | { readonly kind: 'Planted' }`);
  assert.match(compileNotices(t, planted), /Property 'Planted' is missing/);
});
