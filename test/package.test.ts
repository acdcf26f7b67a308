/** The package as others get it: its doors open, its program is where npm looks for it. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('../../', import.meta.url));
const { exports, bin, dependencies, devDependencies } = JSON.parse(
  readFileSync(join(project, 'package.json'), 'utf8'),
) as {
  exports: Record<string, string>;
  bin: Record<string, string>;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
};

const doors = [
  {
    door: 'mountlet',
    has: ['AtomicWriter', 'render', 'readManifests', 'MountletError', 'Quantity', 'startNode', 'startUp'],
  },
  { door: 'mountlet/plugins', has: ['PluginRegistry', 'standardPlugins', 'failureClassOf'] },
  { door: 'mountlet/apiserver', has: ['startApiServer', 'restoreBackup'] },
  { door: 'mountlet/client', has: ['ApiClient', 'connectApiClient', 'reflect', 'NotFoundError'] },
  { door: 'mountlet/testing', has: ['FakeClock', 'temporaryDirectory', 'aPod'] },
];
for (const { door, has } of doors) {
  test(`import from '${door}' gives ${has.join(', ')}`, async () => {
    const module = (await import(door)) as Record<string, unknown>;
    for (const name of has) assert.equal(typeof module[name], 'function', name);
  });
}

test('every door and program of package.json exists', () => {
  for (const path of [...Object.values(exports), ...Object.values(bin)])
    assert.ok(existsSync(join(project, path)), path);
});

test('every dependency has its page in docs/decisions', () => {
  const listing = readFileSync(join(project, 'docs', 'decisions', 'README.md'), 'utf8');
  for (const name of [...Object.keys(dependencies), ...Object.keys(devDependencies)]) {
    assert.ok(listing.includes(`\`${name}\``), `docs/decisions/README.md does not name ${name}`);
  }
});
