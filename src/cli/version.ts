import { createRequire } from 'node:module';

/** Read from the package, two directories above both the bundle and the compiled file. */
function packageVersion(): string {
  const require = createRequire(import.meta.url);
  for (const path of ['../../package.json', '../../../package.json']) {
    try {
      const found = require(path) as { name?: string; version?: string };
      if (found.name === 'mountlet' && found.version !== undefined) return found.version;
    } catch {
      // The other place, then.
    }
  }
  return 'unknown';
}

export const version = packageVersion();
