// `npm run house`: the house in numbers. What they should be is a matter of judgement; what must hold is in test/architecture.test.ts.
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { root } from './set-up.js';

const source = join(root, 'src');
const files = readdirSync(source, { recursive: true })
  .map(String)
  .filter((name) => name.endsWith('.ts'))
  .sort();
const text = new Map(files.map((file) => [file, readFileSync(join(source, file), 'utf8')]));
const program = files.filter((file) => !file.endsWith('.test.ts') && !file.startsWith('grpc/messages/'));
const linesOf = (file) => text.get(file).split('\n').length - 1;

const statement =
  /(?:^|\n)\s*(?:import|export)\s([^;]*?)from\s+'(\.[^']+)'|import\('(\.[^']+)'\)|(?:^|\n)import '(\.[^']+)'/g;
const imports = files.flatMap((from) =>
  [...text.get(from).matchAll(statement)].map(([, what = '', a, b, c]) => ({
    from,
    to: relative(source, resolve(source, dirname(from), a ?? b ?? c)),
    names: [...what.matchAll(/(?:type )?(\w+)(?: as \w+)?\s*[,}]/g)].map(([, name]) => name),
    isWhole: b !== undefined || what.includes('*'),
  })),
);
const programImports = imports.filter(({ from }) => program.includes(from));

/** Folders that reach themselves, each group once. */
function cycles() {
  const next = new Map();
  for (const { from, to } of programImports) {
    const [a, b] = [dirname(from), dirname(to)];
    if (a !== b && a !== '.') next.set(a, (next.get(a) ?? new Set()).add(b));
  }
  const reach = (start) => {
    const seen = new Set();
    const todo = [...(next.get(start) ?? [])];
    for (let folder = todo.pop(); folder !== undefined; folder = todo.pop()) {
      if (!seen.has(folder)) todo.push(...(next.get(seen.add(folder) && folder) ?? []));
    }
    return seen;
  };
  const reached = new Map([...next.keys()].map((folder) => [folder, reach(folder)]));
  const groups = new Set();
  for (const [folder, seen] of reached) {
    if (!seen.has(folder)) continue;
    groups.add(
      [...seen]
        .filter((other) => reached.get(other)?.has(folder))
        .sort()
        .join(' '),
    );
  }
  return [...groups];
}

const sizes = program.map(linesOf).sort((a, b) => a - b);
const at = (share) => sizes[Math.floor((sizes.length - 1) * share)];
const importersOf = (file) => new Set(programImports.filter(({ to }) => to === file).map(({ from }) => from)).size;
const folders = new Map();
for (const file of program) folders.set(dirname(file), (folders.get(dirname(file)) ?? 0) + 1);
const { exports: entries } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const doors = new Set(Object.values(entries).map((path) => path.replace('./dist/src/', '').replace(/\.js$/, '.ts')));
const declared = /^export (?:abstract )?(?:async )?(?:function\*?|class|const|let|interface|type) (\w+)/gm;
const used = (list) => new Set(list.flatMap(({ to, names }) => names.map((name) => `${to} ${name}`)));
const whole = new Set(imports.filter(({ isWhole }) => isWhole).map(({ to }) => to));
const [byProgram, byAll] = [used(programImports), used(imports)];
const exported = program
  .filter((file) => !doors.has(file) && !whole.has(file) && !file.startsWith('testing/'))
  .flatMap((file) => [...text.get(file).matchAll(declared)].map(([, name]) => `${file} ${name}`));
const unused = exported.filter((name) => !byProgram.has(name));
const isUsedAtHome = (entry) => {
  const [file, name] = entry.split(' ');
  return text.get(file).split(new RegExp(`\\b${name}\\b`)).length > 2;
};
const count = (pattern, room = '') =>
  program
    .filter((file) => file.startsWith(room) && !file.startsWith('testing/'))
    .reduce((sum, file) => sum + [...text.get(file).matchAll(pattern)].length, 0);
const below = (room) => program.filter((file) => file.startsWith(room)).reduce((sum, file) => sum + linesOf(file), 0);
const loops = cycles();
const large = [...folders].filter(([, number]) => number > 20);
const small = [...folders].filter(([name, number]) => number < 4 && name !== '.');

const rows = [
  ['program files / lines', `${program.length} / ${sizes.reduce((a, b) => a + b, 0)}`],
  ['median / p10 / longest file', `${at(0.5)} / ${at(0.1)} / ${sizes.at(-1)}`],
  ['files under 30 lines', sizes.filter((size) => size < 30).length],
  ['under 60 lines with one importer', program.filter((f) => linesOf(f) < 60 && importersOf(f) === 1).length],
  ['folder cycles', loops.length],
  ['folders above 20 files; below 4', `${large.length}; ${small.length}`],
  ['apiserver, lines', below('apiserver/')],
  ['error classes', count(/^(?:export )?(?:abstract )?class \w+ extends \w*Error\b/gm)],
  ['exports only tests use', unused.filter((name) => byAll.has(name) && !isUsedAtHome(name)).length],
  ['exports used only in their file', unused.filter((name) => !byAll.has(name)).length],
  ['exported for tests, used at home', unused.filter((name) => byAll.has(name) && isUsedAtHome(name)).length],
  [
    'raw abort listeners outside base',
    count(/addEventListener\(\s*'abort'/g) - count(/addEventListener\(\s*'abort'/g, 'base/'),
  ],
];
for (const [name, value] of rows) process.stdout.write(`${name.padEnd(36)} ${value}\n`);
if (process.argv.includes('--details')) {
  for (const loop of loops) process.stdout.write(`cycle: ${loop}\n`);
  for (const [name, number] of [...large, ...small]) process.stdout.write(`folder: ${name} ${number}\n`);
  for (const name of unused) process.stdout.write(`unused: ${name}\n`);
}
