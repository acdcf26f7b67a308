import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wantsColor } from './terminal.ts';

const cases = [
  { it: 'a terminal', env: { TERM: 'xterm' }, terminal: true, colors: true },
  { it: 'a pipe', env: { TERM: 'xterm' }, terminal: false, colors: false },
  { it: 'a terminal that cannot', env: { TERM: 'dumb' }, terminal: true, colors: false },
  { it: 'a terminal with NO_COLOR', env: { NO_COLOR: '1' }, terminal: true, colors: false },
  { it: 'a terminal with an empty NO_COLOR', env: { NO_COLOR: '' }, terminal: true, colors: true },
  { it: 'a pipe with FORCE_COLOR', env: { FORCE_COLOR: '1' }, terminal: false, colors: true },
  { it: 'a pipe with an empty FORCE_COLOR', env: { FORCE_COLOR: '' }, terminal: false, colors: false },
  { it: 'a terminal with FORCE_COLOR=0', env: { FORCE_COLOR: '0' }, terminal: true, colors: false },
  { it: 'a pipe with both', env: { FORCE_COLOR: '1', NO_COLOR: '1' }, terminal: false, colors: false },
  { it: 'a pipe in a build', env: { CI: 'true' }, terminal: false, colors: false },
];
for (const { it, env, terminal, colors } of cases) {
  test(`${it} gets ${colors ? 'colours' : 'no colours'}`, () => assert.equal(wantsColor(env, terminal), colors));
}
