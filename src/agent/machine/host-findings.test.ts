import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type HostFacts, hostFindings } from './host-findings.ts';

const usual: HostFacts = {
  isRoot: true,
  rootPropagation: 'shared',
  directories: ['/etc', '/usr', '/bin', '/proc'],
  programDirectories: ['/usr/local/bin', '/usr/bin', '/bin'],
  shownDirectories: ['/usr', '/bin'],
  missingPackages: [],
};

const show = (facts: Partial<HostFacts>): readonly string[] =>
  hostFindings({ ...usual, ...facts }).map(({ name, available, consequence, cure }) =>
    available ? name : `no ${name}: ${consequence} -> ${cure}`,
  );

test('a machine that has everything lacks nothing', () => {
  assert.deepEqual(show({}), ['root', 'mount propagation', 'host directories', 'file systems']);
});

const lacks: readonly { readonly facts: Partial<HostFacts>; readonly says: RegExp }[] = [
  {
    facts: { rootPropagation: 'private' },
    says: /^no mount propagation: .* mountPropagation HostToContainer and Bidirectional are refused.* -> mount --make-rshared \/$/,
  },
  { facts: { rootPropagation: 'slave' }, says: /^no mount propagation: .* mountPropagation Bidirectional are refused/ },
  {
    facts: { programDirectories: ['/usr/bin', '/home/me/bin', '/home/me/bin'], directories: ['/usr', '/srv', '/home'] },
    says: /^no host directories: Of \/home, \/srv containers see nothing\. The programs in \/home\/me\/bin are not .* -> --host-path DIR/,
  },
  {
    facts: { missingPackages: ['e2fsprogs', 'nfs-common'] },
    says: /^no file systems: .* -> Install e2fsprogs, nfs-common\.$/,
  },
  {
    facts: { isRoot: false },
    says: /^no root: .* runAsUser, runAsGroup, fsGroup .* refused.* -> Run mountlet as root/,
  },
];
for (const { facts, says } of lacks) {
  test(`what a machine lacks is named with the way out: ${JSON.stringify(facts)}`, () => {
    const missing = show(facts).filter((line) => line.startsWith('no '));
    assert.equal(missing.length, 1, missing.join('\n'));
    assert.match(missing.join(''), says);
  });
}

test('what only root can have is not asked of others', () => {
  const names = hostFindings({ ...usual, isRoot: false, rootPropagation: 'private', missingPackages: ['x'] });
  assert.deepEqual(
    names.map(({ name }) => name),
    ['root', 'host directories'],
  );
});

test('a directory is hidden unless it or one above it is shown', () => {
  const [, , files] = hostFindings({
    ...usual,
    directories: ['/usr', '/usrlocal', '/nix'],
    shownDirectories: ['/usr', '/bin', '/nix/store'],
  });
  assert.match(
    files?.consequence ?? '',
    /^Containers find the programs of your PATH\. Of \/nix, \/usrlocal containers see nothing: --host-path DIR shows one more, --host-files all everything\.$/,
  );
});
