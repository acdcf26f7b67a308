// `npm test`: sets up, checks format and lint, then runs the compiled tests with node's own runner.
//   npm test -- disk writer      only the test files whose path contains one of these words
//   npm run test:long            the long ones (*.long.test.ts) instead
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { run as runTests } from 'node:test';
import { spec } from 'node:test/reporters';
import { check } from './check.js';
import { root, setUp } from './set-up.js';
import { useKubectl } from './test-kubectl.js';

const words = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const long = process.argv.includes('--long');

// test-nodes.js, which tests with several versions of Node, has built already; the build is the same for all.
const built = process.argv.includes('--built');
if (!built) setUp();
if (words.length === 0 && !long && !built) check();

const found = readdirSync(join(root, 'dist'), { recursive: true })
  .map(String)
  .filter((name) => name.endsWith('.test.js') && name.endsWith('.long.test.js') === long)
  .filter((name) => words.length === 0 || words.some((word) => name.includes(word)))
  .sort();
if (found.length === 0) {
  process.stderr.write(`error: No test file matches ${words.join(' ')}\n`);
  process.exit(2);
}
// Those of the whole program take longest: at the end of a run one of them would go on alone.
const isLong = (name) => name.startsWith('test/');
const files = [...found.filter(isLong), ...found.filter((name) => !isLong(name))].map((name) =>
  join(root, 'dist', name),
);
process.chdir(root);
useKubectl();
// The runner's command line would sort the files. More at a time than a small machine has cores: much of a run is waiting.
runTests({ files, concurrency: 6 })
  .on('test:fail', () => (process.exitCode = 1))
  .compose(new spec())
  .pipe(process.stdout);
