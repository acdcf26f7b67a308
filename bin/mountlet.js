#!/usr/bin/env node
// In a fresh clone nothing is built yet: the first call does it, as `npm start` would. The published package is built.
import { existsSync } from 'node:fs';

const program = new URL('../dist/bin/mountlet.js', import.meta.url);
if (!existsSync(program)) {
  const { setUp } = await import('../scripts/set-up.js');
  setUp();
}
await import(program.href);
