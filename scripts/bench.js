// `npm run bench -- NAME`: sets up and runs bench/NAME.ts. Without a name it lists them.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { root, run, setUp } from './set-up.js';

const [name, ...rest] = process.argv.slice(2);
const names = readdirSync(join(root, 'bench'))
  .filter((file) => file.endsWith('.bench.ts'))
  .map((file) => file.slice(0, -'.bench.ts'.length));
if (name === undefined || !existsSync(join(root, 'bench', `${name}.bench.ts`))) {
  process.stderr.write(
    `${name === undefined ? '' : `error: No benchmark is named "${name}".\n`}usage: npm run bench -- ${names.join('|')}\n`,
  );
  process.exit(2);
}
setUp();
run(process.execPath, [
  '--enable-source-maps',
  '--expose-gc',
  join(root, 'dist', 'bench', `${name}.bench.js`),
  ...rest,
]);
