// What `npm start` and `npm test` need before they can run: packages as the lock file says, and a build of the
// sources as they are. Each is done only when its stamp is out of date, so that a second run starts at once.
// Plain JavaScript without dependencies: it runs before anything is installed.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));
const stampDirectory = join(root, 'node_modules', '.mountlet');

export function setUp() {
  installPackages();
  buildSources();
}

function installPackages() {
  const wanted = hashOf(['package.json', 'package-lock.json']);
  if (stamp('packages') === wanted) return;
  say('installing packages');
  run('npm', ['ci', '--no-fund', '--no-audit', '--loglevel=error'], { toStderr: true });
  stamp('packages', wanted);
}

function buildSources() {
  const wanted = hashOf(sourceFiles());
  if (stamp('build') === wanted && existsSync(join(root, 'dist', 'bin', 'mountlet.js'))) return;
  say('building');
  run(process.execPath, [join(root, 'scripts', 'build.js')], { toStderr: true });
  stamp('build', wanted);
}

/** Everything whose change asks for a new build; hashed by content, because a checkout sets arbitrary times. */
function sourceFiles() {
  const files = ['package-lock.json', 'tsconfig.json', join('scripts', 'build.js')];
  for (const folder of ['src', 'test', 'bench']) {
    if (!existsSync(join(root, folder))) continue;
    for (const name of readdirSync(join(root, folder), { recursive: true })) {
      const file = join(folder, String(name));
      if (statSync(join(root, file)).isFile()) files.push(file);
    }
  }
  return files.sort();
}

function hashOf(files) {
  const hash = createHash('sha256').update(process.version);
  for (const file of files) hash.update(`\0${file}\0`).update(readFileSync(join(root, file)));
  return hash.digest('hex');
}

function stamp(name, value) {
  const file = join(stampDirectory, name);
  if (value === undefined) return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
  mkdirSync(stampDirectory, { recursive: true });
  writeFileSync(file, value);
  return value;
}

/** Progress is talk: it goes to standard error, so that standard output holds what the program printed. */
function say(what) {
  process.stderr.write(`mountlet: ${what} ...\n`);
}

/** Runs a command in the project's folder and ends this process when it fails. */
export function run(command, args, { toStderr = false, env = process.env } = {}) {
  const { status, signal, error } = spawnSync(command, args, {
    cwd: root,
    env,
    stdio: ['inherit', toStderr ? 2 : 'inherit', 'inherit'],
  });
  if (error) throw error;
  if (status !== 0) process.exit(signal === 'SIGINT' ? 130 : (status ?? 1));
}
