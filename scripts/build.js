// tsc checks and compiles every source for the library and the tests; esbuild bundles the program, with one chunk
// for each command, because a start that resolves forty modules is felt at every call.
import { build } from 'esbuild';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from './set-up.js';

const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
run(process.execPath, [compiler, '--project', join(root, 'tsconfig.json')]);

// A file that left the sources must leave the build too, or its tests would go on passing.
for (const folder of ['src', 'test', 'bench', 'examples']) {
  const built = join(root, 'dist', folder);
  for (const name of existsSync(built) ? readdirSync(built, { recursive: true }) : []) {
    const source = join(root, folder, String(name).replace(/(\.d)?\.[jt]s(\.map)?$/, '.ts'));
    if (/\.[jt]s(\.map)?$/.test(String(name)) && !existsSync(source)) rmSync(join(built, String(name)));
  }
}

rmSync(join(root, 'dist', 'bin'), { recursive: true, force: true });
await build({
  entryPoints: {
    mountlet: join(root, 'src', 'cli', 'main.ts'),
    spawner: join(root, 'src', 'runtimes', 'process', 'spawner', 'spawner.ts'), // a process of its own
    'sub-path-program': join(root, 'src', 'disk', 'pods', 'sub-path-program.ts'), // the same
    // A thread of its own, found beside the program.
    'request-worker': join(root, 'src', 'apiserver', 'serving', 'request-worker.ts'),
  },
  outdir: join(root, 'dist', 'bin'),
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  sourcemap: 'linked',
  external: ['koffi'], // holds native code
  // Bundled CommonJS packages call require() for Node's own modules.
  banner: {
    js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
  },
  logLevel: 'warning',
});
