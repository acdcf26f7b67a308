// `npm test`: sets up, checks format and lint, then runs the compiled tests with node's own runner.
//   npm test -- disk writer      only the test files whose path contains one of these words
//   npm run test:long            the long ones (*.long.test.ts) instead
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { check } from './check.js';
import { root, run, setUp } from './set-up.js';

const words = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const long = process.argv.includes('--long');

// test-nodes.js, which tests with several versions of Node, has built already; the build is the same for all.
const built = process.argv.includes('--built');
if (!built) setUp();
if (words.length === 0 && !long && !built) check();

const files = readdirSync(join(root, 'dist'), { recursive: true })
  .map(String)
  .filter((name) => name.endsWith('.test.js') && name.endsWith('.long.test.js') === long)
  .filter((name) => words.length === 0 || words.some((word) => name.includes(word)))
  .map((name) => join('dist', name))
  .sort();
if (files.length === 0) {
  process.stderr.write(`error: No test file matches ${words.join(' ')}\n`);
  process.exit(2);
}
// More at a time than a small machine has cores: much of a run is waiting.
run(process.execPath, ['--enable-source-maps', '--test', '--test-reporter=spec', '--test-concurrency=4', ...files]);
