// Formatter and linter, as the tests run them: `npm run check`. Types are checked by the build.
import { join } from 'node:path';
import { root, run, setUp } from './set-up.js';

export function check() {
  run(join(root, 'node_modules', '.bin', 'oxfmt'), ['--check', '.'], { toStderr: true });
  run(join(root, 'node_modules', '.bin', 'oxlint'), ['--type-aware', '--deny-warnings'], { toStderr: true });
}

if (process.argv[1]?.endsWith('check.js')) {
  setUp();
  check();
}
