// `npm run test:nodes`: the tests with every version of Node that is supported, beside the one that runs `npm test`.
//   npm run test:nodes -- disk volumes    only the test files whose path contains one of these words
//   npm run test:nodes -- --newest        only the newest version
//   npm run test:nodes -- --if-possible   no failure where a version cannot be had
// The programs are inside of npm packages, which are kept beside the project's own and are not dependencies of it.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { root, run, setUp } from './set-up.js';

const versions = [22, 24, 26];
const options = new Set(process.argv.slice(2));
const words = [...options].filter((option) => !option.startsWith('--'));

setUp();
for (const version of options.has('--newest') ? versions.slice(-1) : versions) {
  const program = programOf(version);
  if (program === undefined) {
    process.stderr.write(`mountlet: Node ${version} cannot be had for this machine, not tested\n`);
    if (!options.has('--if-possible')) process.exitCode = 1;
    continue;
  }
  process.stderr.write(`mountlet: testing with Node ${version} ...\n`);
  run(program, ['--enable-source-maps', join('scripts', 'test.js'), '--built', ...words]);
}

/** Installed once; undefined where the registry or this machine's kind of processor does not have it. */
function programOf(version) {
  const name = `node-linux-${process.arch}`;
  const directory = join(root, 'node_modules', '.mountlet', `node-${version}`);
  const program = join(directory, 'node_modules', name, 'bin', 'node');
  if (!existsSync(program)) {
    const args = ['install', '--prefix', directory, '--no-save', '--no-fund', '--no-audit', '--loglevel=error'];
    spawnSync('npm', [...args, `${name}@${version}`], { stdio: ['ignore', 2, 2] });
  }
  return spawnSync(program, ['--version']).status === 0 ? program : undefined;
}
