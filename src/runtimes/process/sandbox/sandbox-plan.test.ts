import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type PathLook, isBelow, resolveInRoot } from './root-path.ts';
import { type HostView, type SandboxRequest, type VolumeMount, planSandbox } from './sandbox-plan.ts';

const tree: Readonly<Record<string, PathLook>> = {
  '/etc': { kind: 'directory' },
  '/etc/hosts': { kind: 'file' },
  '/etc/resolv.conf': { kind: 'link', to: '../run/resolver/stub' },
  '/run': { kind: 'directory' },
  '/run/resolver': { kind: 'directory' },
  '/run/resolver/stub': { kind: 'file' },
  '/var': { kind: 'directory' },
  '/var/run': { kind: 'link', to: '/run' },
  '/var/state': { kind: 'directory' },
  '/usr': { kind: 'directory' },
  '/bin': { kind: 'link', to: 'usr/bin' },
  '/loop': { kind: 'link', to: 'loop' },
  '/up': { kind: 'link', to: '../../../etc' },
  '/tmp': { kind: 'directory' },
  '/proc': { kind: 'directory' },
  '/sys': { kind: 'directory' },
  '/dev': { kind: 'directory' },
  '/dev/null': { kind: 'file' },
  '/volumes/a': { kind: 'directory' },
  '/volumes/a/inner': { kind: 'directory' },
  '/volumes/a/evil': { kind: 'link', to: '/etc' },
  '/volumes/b': { kind: 'directory' },
};

const host: HostView = {
  look: (path) => tree[path],
  entries: () => ['bin', 'dev', 'etc', 'loop', 'proc', 'run', 'sys', 'tmp', 'up', 'usr', 'var'],
  mounts: [{ mountPoint: '/', fileSystem: 'ext4', options: ['rw', 'relatime'], propagation: 'private' }],
};

function request(volumes: readonly VolumeMount[], given: Partial<SandboxRequest> = {}): SandboxRequest {
  return {
    work: '/var/state/work',
    technique: 'overlay',
    writableRoot: false,
    readOnlyRoot: false,
    privileged: false,
    view: { root: '/', directories: [] },
    ownNetwork: false,
    resolver: undefined,
    hidden: ['/var/state'],
    volumes,
    devices: [],
    ...given,
  };
}

function volume(source: string, target: string, given: Partial<VolumeMount> = {}): VolumeMount {
  return {
    source,
    kind: 'directory',
    target,
    readOnly: false,
    recursiveReadOnly: false,
    propagation: 'None',
    ...given,
  };
}

const cases = [
  {
    it: 'makes a mount point that the host has not',
    target: '/etc/config',
    at: '/etc/config',
    made: ['skel/etc/config'],
  },
  { it: 'makes none where the host has one', target: '/usr', at: '/usr', made: [] },
  { it: 'follows links inside of the root', target: '/var/run/x', at: '/run/x', made: ['run/x'] },
  { it: 'never leaves the root by a link', target: '/up/x', at: '/etc/x', made: ['skel/etc/x'] },
  { it: 'never leaves the root by dots', target: '/../../etc/./a/../b', at: '/etc/b', made: ['skel/etc/b'] },
  { it: 'makes mount points below /tmp in the own one', target: '/tmp/a/b', at: '/tmp/a/b', made: ['tmp/a/b'] },
  {
    it: 'makes mount points below what is hidden in nothing',
    target: '/var/state/x',
    at: '/var/state/x',
    made: ['hidden/x'],
  },
  { it: 'takes a relative path from the root', target: 'data', at: '/data', made: ['skel/data'] },
];
for (const { it, target, at, made } of cases) {
  test(`planSandbox ${it}`, () => {
    const without = planSandbox(request([]), host);
    const plan = planSandbox(request([volume('/volumes/b', target)]), host);
    assert.equal(plan.mounts.at(-1)?.target, at);
    assert.deepEqual(
      plan.directories.filter((directory) => !without.directories.includes(directory)),
      made,
    );
    assert.deepEqual(plan.volumePoints, []);
  });
}

test('planSandbox makes the place of a file as a file', () => {
  const plan = planSandbox(request([volume('/volumes/f', '/etc/app/conf', { kind: 'file' })]), host);
  assert.ok(plan.files.includes('skel/etc/app/conf') && plan.directories.includes('skel/etc/app'));
});

test('planSandbox mounts parents before children and makes the places in the parent', () => {
  const plan = planSandbox(
    request([
      volume('/volumes/b', '/data/inner/deep'),
      volume('/volumes/b', '/data/evil/x'),
      volume('/volumes/a', '/data'),
    ]),
    host,
  );
  const [parent, first, second] = plan.mounts.slice(-3).map(({ target }) => target);
  assert.equal(parent, '/data');
  // A link in a volume leads to the container's /etc, and the place is made in our own layer.
  assert.deepEqual([first, second].toSorted(), ['/data/inner/deep', '/etc/x']);
  assert.deepEqual(plan.volumePoints, [{ volume: '/volumes/a', below: 'inner/deep', kind: 'directory' }]);
  assert.ok(plan.directories.includes('skel/etc/x'));
});

for (const target of ['/', '', '/..', '/proc', '/proc/1/root', '/etc/hosts', '/loop/x', '/etc/hosts/x']) {
  test(`planSandbox refuses to mount a directory at "${target}"`, () => {
    assert.throws(() => planSandbox(request([volume('/volumes/b', target)]), host), {
      reason: 'RuntimeFailed',
      message: /^Cannot mount at "/,
    });
  });
}

test('planSandbox hides the state directory after everything else of the host, and keeps names resolving', () => {
  const targets = planSandbox(request([]), host).mounts.map(({ target }) => target);
  assert.equal(targets.at(-1), '/var/state');
  assert.ok(targets.indexOf('/run/resolver/stub') > targets.indexOf('/run'));
});

test('planSandbox gives a user namespace a root of binds, with an overlay only where something is missing', () => {
  const plan = planSandbox(request([volume('/volumes/b', '/etc/config')], { technique: 'binds' }), host);
  const kinds = Object.fromEntries(plan.mounts.map(({ target, type, options }) => [target, `${type} ${options[0]}`]));
  assert.equal(kinds['/'], 'none bind');
  assert.equal(kinds['/etc'], 'overlay ro');
  assert.equal(kinds['/usr'], 'none rbind');
  assert.equal(kinds['/bin'], undefined);
});

test('whatever is mounted where: nothing is outside of the root, nothing is covered by its parent, all places are made', () => {
  const name = fc.constantFrom(
    'etc',
    'var',
    'run',
    'up',
    'data',
    'inner',
    'evil',
    'x',
    '..',
    '.',
    '',
    'tmp',
    "a b\n'$(id)",
  );
  const target = fc.array(name, { minLength: 1, maxLength: 5 }).map((names) => `/${names.join('/')}`);
  const volumes = fc.array(
    fc.record({ target, source: fc.constantFrom('/volumes/a', '/volumes/b'), readOnly: fc.boolean() }),
    { minLength: 1, maxLength: 5 },
  );
  fc.assert(
    fc.property(volumes, fc.boolean(), (given, writableRoot) => {
      let plan;
      try {
        plan = planSandbox(
          request(
            given.map((one) => volume(one.source, one.target, one)),
            { writableRoot },
          ),
          host,
        );
      } catch (thrown) {
        assert.match(String(thrown), /Cannot mount at/);
        return;
      }
      for (const path of [...plan.directories, ...plan.files, ...plan.volumePoints.map((point) => point.below)]) {
        assert.ok(!path.startsWith('/') && !path.split('/').includes('..') && !path.endsWith('/'), path);
      }
      const targets = plan.mounts.slice(-given.length).map((mount) => mount.target);
      const hasLinks = given.some((one) => one.target.includes('evil')); // a volume that leads elsewhere covers what it likes
      for (const [index, path] of targets.entries()) {
        assert.ok(path.startsWith('/') && path !== '/' && !isBelow('/proc', path));
        assert.deepEqual(
          path.split('/').filter((part) => part === '..' || part === '.'),
          [],
        );
        const later = targets.slice(index + 1);
        assert.ok(hasLinks || !later.some((other) => other !== path && isBelow(other, path)), `${path} is covered`);
      }
    }),
  );
});

test('resolveInRoot ends up at the same place when it is asked again', () => {
  const parts = fc.array(fc.constantFrom('etc', 'var', 'run', 'up', 'bin', 'x', '..', '.', ''), { maxLength: 8 });
  fc.assert(
    fc.property(parts, (names) => {
      const once = resolveInRoot(names.join('/'), (path) => host.look(path));
      assert.equal(resolveInRoot(once.path, (path) => host.look(path)).path, once.path);
    }),
  );
});
