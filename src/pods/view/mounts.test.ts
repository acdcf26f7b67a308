import assert from 'node:assert/strict';
import { mkdir, realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { MountletError } from '../../base/errors.ts';
import type { VolumeMount } from '../../kube/kinds/pod/container.ts';
import { type PodParts, aContainer, aPod } from '../../testing/fakes/builders.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import {
  type ContainerMount,
  ContainerMountsError,
  type MountedVolume,
  type MountsRequest,
  type SubPathPreparer,
  buildMounts,
} from './mounts.ts';
import type { Variable } from './variables.ts';

type SubPathRequest = Parameters<SubPathPreparer['prepare']>[0];
type PreparedSubPath = Awaited<ReturnType<SubPathPreparer['prepare']>>;

const { signal } = new AbortController();
const uid = aPod().metadata.uid ?? '';

const projected = { readOnly: true } as const;
const scratch = { readOnly: false } as const;
const host = { readOnly: false } as const;
const volumes: Readonly<Record<string, MountedVolume>> = {
  config: { kind: 'filesystem', hostPath: '/pods/u/volumes/config', specName: 'config', ...projected },
  scratch: { kind: 'filesystem', hostPath: '/pods/u/volumes/scratch', specName: 'scratch', ...scratch },
  claim: { kind: 'filesystem', hostPath: '/pods/u/volumes/pv-7', specName: 'pv-7', ...scratch },
  host: { kind: 'filesystem', hostPath: '/srv', specName: 'host', ...host },
  image: { kind: 'image', reference: 'registry.example/data:1' },
  block: { kind: 'block', link: '/pods/u/volumeDevices/block', readOnly: false },
};

function variable(name: string, value: string, secret = false): Variable {
  return { name, value, secret, source: { kind: 'value', expands: [] } };
}

const environment = [
  variable('POD', 'web-0'),
  variable('EMPTY', ''),
  variable('SLASH', '/etc'),
  variable('UP', '..'),
  variable('PASSWORD', 'hunter2', true),
  variable('SECRET_SLASH', '/hunter2', true),
  variable('SECRET_UP', '../hunter2', true),
];

class DiskError extends MountletError {
  readonly reason = 'DiskFailed';
}

/** Returns a path that shows the request, and records what was cleaned up. */
class FakeSubPaths implements SubPathPreparer {
  readonly cleaned: number[] = [];

  prepare({ podDirectory, volumeName, containerName, index }: SubPathRequest): Promise<PreparedSubPath> {
    return Promise.resolve({
      hostPath: join(podDirectory, 'volume-subpaths', volumeName, containerName, String(index)),
      cleanUp: () => Promise.resolve(void this.cleaned.push(index)),
    });
  }
}

const failingSubPaths: SubPathPreparer = {
  prepare: ({ volumeMountName, containerName, subPath }) =>
    Promise.reject(
      new DiskError(`failed to prepare subPath for volumeMount "${volumeMountName}" of container "${containerName}"`, {
        cause: new Error(`ELOOP: ${subPath}`),
      }),
    ),
};

interface Built {
  readonly mounts: readonly ContainerMount[];
  readonly written: ReadonlyMap<string, string>;
}

async function build(
  volumeMounts: readonly VolumeMount[],
  {
    pod = {},
    subPaths = new FakeSubPaths(),
    ...request
  }: { readonly pod?: PodParts; readonly subPaths?: SubPathPreparer } & Partial<Omit<MountsRequest, 'pod'>> = {},
): Promise<Built & { readonly cleanUps: readonly (() => Promise<void>)[] }> {
  const written = new Map<string, string>();
  const container = aContainer({ volumeMounts });
  const { mounts, cleanUps } = await buildMounts(
    {
      pod: aPod({ containers: [container], ...pod }),
      container,
      environment,
      volumes: { get: (name) => volumes[name] },
      podDirectory: '/pods/u',
      podIPs: [],
      hostname: { name: 'web', domain: '' },
      runtimeSupportsRecursiveReadOnly: true,
      ...request,
    },
    {
      subPaths,
      hostsFiles: {
        readNode: () => Promise.resolve('192.0.2.1 node\n'),
        write({ metadata }, content) {
          written.set(metadata.uid ?? '', content);
          return Promise.resolve('/pods/u/etc-hosts');
        },
      },
    },
    signal,
  );
  return { mounts, cleanUps, written };
}

const plain: Omit<ContainerMount, 'name' | 'mountPath' | 'hostPath'> = {
  subPath: undefined,
  secretSubPath: false,
  readOnly: false,
  recursiveReadOnly: false,
  propagation: 'None',
  bindMountOptions: [],
};

const good: readonly {
  readonly it: string;
  readonly mount: VolumeMount;
  readonly expected: Partial<ContainerMount>;
}[] = [
  {
    it: 'of an emptyDir is writable and relabelled',
    mount: { name: 'scratch', mountPath: '/tmp' },
    expected: { hostPath: '/pods/u/volumes/scratch' },
  },
  {
    it: 'of a hostPath follows the spec and is left unlabelled',
    mount: { name: 'host', mountPath: '/srv', readOnly: true },
    expected: { hostPath: '/srv', readOnly: true },
  },
  {
    it: 'of a configMap is read-only even with readOnly false',
    mount: { name: 'config', mountPath: '/c', readOnly: false },
    expected: { hostPath: '/pods/u/volumes/config', readOnly: true },
  },
  {
    it: 'of an image has no host path and is read-only',
    mount: { name: 'image', mountPath: '/data', subPath: 'models' },
    expected: { hostPath: undefined, image: 'registry.example/data:1', subPath: 'models', readOnly: true },
  },
  {
    it: 'with a relative path is made absolute and cleaned',
    mount: { name: 'host', mountPath: 'a/./b/../c/' },
    expected: { mountPath: '/a/c', hostPath: '/srv' },
  },
  {
    it: 'with an empty path is the root',
    mount: { name: 'host', mountPath: '' },
    expected: { mountPath: '/', hostPath: '/srv' },
  },
  {
    it: 'with an absolute path keeps it unchanged',
    mount: { name: 'host', mountPath: '/a/../b/' },
    expected: { mountPath: '/a/../b/', hostPath: '/srv' },
  },
  {
    it: 'with propagation None is private',
    mount: { name: 'host', mountPath: '/h', mountPropagation: 'None' },
    expected: { hostPath: '/srv', propagation: 'None' },
  },
  {
    it: 'passes HostToContainer on',
    mount: { name: 'host', mountPath: '/h', mountPropagation: 'HostToContainer' },
    expected: { hostPath: '/srv', propagation: 'HostToContainer' },
  },
  {
    it: 'passes Bidirectional on',
    mount: { name: 'host', mountPath: '/h', mountPropagation: 'Bidirectional' },
    expected: { hostPath: '/srv', propagation: 'Bidirectional' },
  },
  {
    it: 'passes bindMountOptions on',
    mount: { name: 'host', mountPath: '/h', bindMountOptions: ['noexec', 'nodev'] },
    expected: { hostPath: '/srv', bindMountOptions: ['noexec', 'nodev'] },
  },
  {
    it: 'with recursiveReadOnly Disabled is not',
    mount: { name: 'host', mountPath: '/h', recursiveReadOnly: 'Disabled' },
    expected: { hostPath: '/srv' },
  },
  {
    it: 'with recursiveReadOnly Enabled is',
    mount: { name: 'host', mountPath: '/h', readOnly: true, recursiveReadOnly: 'Enabled', mountPropagation: 'None' },
    expected: { hostPath: '/srv', readOnly: true, recursiveReadOnly: true },
  },
  {
    it: 'with a subPath is pinned below the name of its persistent volume',
    mount: { name: 'claim', mountPath: '/d', subPath: 'a/..b' },
    expected: { hostPath: '/pods/u/volume-subpaths/pv-7/main/0', subPath: 'a/..b' },
  },
  {
    it: 'with a subPathExpr is expanded',
    mount: { name: 'host', mountPath: '/d', subPathExpr: 'logs/$(POD)/$$(POD)/$(' },
    expected: { hostPath: '/pods/u/volume-subpaths/host/main/0', subPath: 'logs/web-0/$(POD)/$(' },
  },
  {
    it: 'uses subPathExpr before subPath',
    mount: { name: 'host', mountPath: '/d', subPath: '/ignored', subPathExpr: '$(POD)' },
    expected: { hostPath: '/pods/u/volume-subpaths/host/main/0', subPath: 'web-0' },
  },
  {
    it: 'marks a subPath that holds a Secret',
    mount: { name: 'host', mountPath: '/d', subPathExpr: 'x-$(PASSWORD)' },
    expected: { hostPath: '/pods/u/volume-subpaths/host/main/0', subPath: 'x-hunter2', secretSubPath: true },
  },
];
for (const { it, mount, expected } of good) {
  test(`a mount ${it}`, async () => {
    const { mounts } = await build([mount]);
    assert.deepEqual(mounts, [{ ...plain, name: mount.name, mountPath: mount.mountPath, ...expected }]);
  });
}

const rro = (text: string): string => `failed to resolve recursive read-only mode: ${text}`;
const at = { name: 'host', mountPath: '/h' };
const bad: readonly { readonly it: string; readonly mount: VolumeMount; readonly message: string }[] = [
  {
    it: 'a volume that is not mounted',
    mount: { name: 'gone', mountPath: '/g' },
    message: 'cannot find volume "gone" to mount into container "main"',
  },
  {
    it: 'a volume that is a block device',
    mount: { name: 'block', mountPath: '/g' },
    message: 'cannot find volume "block" to mount into container "main"',
  },
  {
    it: 'an absolute subPath',
    mount: { ...at, subPath: '/etc' },
    message: 'error SubPath `/etc` must not be an absolute path',
  },
  {
    it: 'a subPath that steps back',
    mount: { ...at, subPath: 'a/../b' },
    message: "unable to provision SubPath `a/../b`: must not contain '..'",
  },
  {
    it: 'a subPathExpr that becomes absolute',
    mount: { ...at, subPathExpr: '$(SLASH)' },
    message: 'error SubPath `/etc` must not be an absolute path',
  },
  {
    it: 'a subPathExpr that comes to step back',
    mount: { ...at, subPathExpr: 'a/$(UP)/b' },
    message: "unable to provision SubPath `a/../b`: must not contain '..'",
  },
  {
    it: 'a secret subPathExpr without revealing it (absolute)',
    mount: { ...at, subPathExpr: '$(SECRET_SLASH)' },
    message: 'error SubPath `$(SECRET_SLASH)` must not be an absolute path',
  },
  {
    it: 'a secret subPathExpr without revealing it (backstep)',
    mount: { ...at, subPathExpr: '$(SECRET_UP)' },
    message: "unable to provision SubPath `$(SECRET_UP)`: must not contain '..'",
  },
  {
    it: 'undefined and empty variables, sorted, each once',
    mount: { ...at, subPathExpr: '$(ZOO)/$(EMPTY)/$(ABSENT)/$(ZOO)/$(POD)' },
    message: 'missing value for ABSENT, EMPTY, ZOO',
  },
  {
    it: 'nested references',
    mount: { ...at, subPathExpr: '$(POD$(POD))' },
    message: 'missing value for POD$(POD',
  },
  {
    it: 'an unknown propagation',
    mount: { ...at, mountPropagation: 'Both' },
    message: 'invalid MountPropagation mode: "Both"',
  },
  {
    it: 'recursiveReadOnly on a configMap without an explicit readOnly',
    mount: { name: 'config', mountPath: '/c', recursiveReadOnly: 'IfPossible' },
    message: rro('volume "config" requested recursive read-only mode, but it is not read-only'),
  },
  {
    it: 'recursiveReadOnly with propagation',
    mount: { ...at, readOnly: true, recursiveReadOnly: 'Enabled', mountPropagation: 'HostToContainer' },
    message: rro(
      'volume "host" requested recursive read-only mode, but it is not compatible with propagation "HostToContainer"',
    ),
  },
  {
    it: 'an unknown recursiveReadOnly',
    mount: { ...at, readOnly: true, recursiveReadOnly: 'Always' },
    message: rro('unknown recursive read-only mode "Always"'),
  },
  {
    it: 'the sub path before the propagation',
    mount: { ...at, subPath: '/etc', mountPropagation: 'Both', recursiveReadOnly: 'Always' },
    message: 'error SubPath `/etc` must not be an absolute path',
  },
  {
    it: 'the propagation before the recursion',
    mount: { ...at, mountPropagation: 'Both', recursiveReadOnly: 'Always' },
    message: 'invalid MountPropagation mode: "Both"',
  },
];
for (const { it, mount, message } of bad) {
  test(`buildMounts refuses ${it}`, async () => {
    await assert.rejects(build([mount]), {
      name: 'ContainerMountsError',
      reason: 'CreateContainerConfigError',
      message,
    });
  });
}

test('recursiveReadOnly on a runtime that cannot: Enabled fails and IfPossible does without', async () => {
  const without = { runtimeSupportsRecursiveReadOnly: false };
  const mount = { ...at, readOnly: true };
  const { mounts } = await build([{ ...mount, recursiveReadOnly: 'IfPossible' }], without);
  assert.equal(mounts[0]?.recursiveReadOnly, false);
  await assert.rejects(build([{ ...mount, recursiveReadOnly: 'Enabled' }], without), {
    message: rro('volume "host" requested recursive read-only mode, but it is not supported by the runtime'),
  });
});

async function errorOf(promise: Promise<unknown>): Promise<ContainerMountsError> {
  const thrown: unknown = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  assert.ok(thrown instanceof ContainerMountsError);
  return thrown;
}

test("a sub path that cannot be prepared fails in the disk's words, with the details in the cause", async () => {
  const error = await errorOf(build([{ ...at, subPath: 'a' }], { subPaths: failingSubPaths }));
  assert.equal(error.message, 'failed to prepare subPath for volumeMount "host" of container "main"');
  assert.ok(error.cause instanceof DiskError);
});

test('a sub path that holds a Secret and cannot be prepared has no cause that could contain it', async () => {
  const error = await errorOf(build([{ ...at, subPathExpr: '$(PASSWORD)' }], { subPaths: failingSubPaths }));
  assert.equal(error.message, 'failed to prepare subPath for volumeMount "host" of container "main"');
  assert.equal(error.cause, undefined);
});

test('any error that is not ours passes unchanged: it is a bug', async () => {
  const subPaths = { prepare: () => Promise.reject(new TypeError('undefined is not a function')) };
  await assert.rejects(build([{ ...at, subPath: 'a' }], { subPaths }), TypeError);
});

test('an error at mount k leaves the clean-ups of the mounts before it, last first', async () => {
  const subPaths = new FakeSubPaths();
  const thrown = await errorOf(
    build(
      [
        { ...at, subPath: 'a' },
        { name: 'scratch', mountPath: '/s' },
        { ...at, mountPath: '/i', subPath: 'b' },
        { name: 'gone', mountPath: '/g' },
        { ...at, mountPath: '/j', subPath: 'never' },
      ],
      { subPaths },
    ),
  );
  for (const cleanUp of thrown.cleanUps) await cleanUp();
  assert.deepEqual(subPaths.cleaned, [2, 0]);
});

test('clean-ups of a success run last first', async () => {
  const subPaths = new FakeSubPaths();
  const { cleanUps } = await build(
    [
      { ...at, subPath: 'a' },
      { ...at, mountPath: '/i', subPath: 'b' },
    ],
    { subPaths },
  );
  for (const cleanUp of cleanUps) await cleanUp();
  assert.deepEqual(subPaths.cleaned, [1, 0]);
});

/** Does for real, in a test's directory, what disk does with more care. */
const plainSubPaths: SubPathPreparer = {
  async prepare({ volumeDirectory, subPath }) {
    await mkdir(join(volumeDirectory, subPath), { recursive: true });
    return { hostPath: await realpath(join(volumeDirectory, subPath)) };
  },
};

test('the subPath of a key that a configMap lacks becomes a directory', async (t) => {
  const hostPath = temporaryDirectory(t);
  const volume: MountedVolume = { kind: 'filesystem', hostPath, specName: 'config', ...projected };
  const { mounts } = await build([{ name: 'config', mountPath: '/etc/app.conf', subPath: 'app.conf' }], {
    volumes: { get: () => volume },
    subPaths: plainSubPaths,
  });
  assert.equal(mounts[0]?.hostPath, await realpath(join(hostPath, 'app.conf')));
  assert.ok((await stat(join(hostPath, 'app.conf'))).isDirectory());
});

const hostsMount: ContainerMount = {
  ...plain,
  name: 'k8s-managed-etc-hosts',
  mountPath: '/etc/hosts',
  hostPath: '/pods/u/etc-hosts',
};

test('a pod with an address gets a managed hosts file after its volumes', async () => {
  const { mounts, written } = await build([at], {
    podIPs: ['10.0.0.7'],
    hostname: { name: 'web', domain: 'db.shop.svc.cluster.local' },
    pod: { hostAliases: [{ ip: '192.0.2.9', hostnames: ['a', 'b'] }] },
  });
  assert.deepEqual(mounts[1], hostsMount);
  const text = written.get(uid) ?? '';
  assert.ok(text.startsWith('# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n'));
  assert.ok(text.includes('10.0.0.7\tweb.db.shop.svc.cluster.local\tweb\n'));
  assert.ok(text.endsWith('\n# Entries added by HostAliases.\n192.0.2.9\ta\tb\n'));
});

test("a pod on the host's network gets the node's own hosts file", async () => {
  const { mounts, written } = await build([], { pod: { hostNetwork: true } });
  assert.deepEqual(mounts, [hostsMount]);
  assert.equal(written.get(uid), '# Kubernetes-managed hosts file (host network).\n192.0.2.1 node\n');
});

test('a mount at exactly /etc/hosts replaces the managed hosts file', async () => {
  const { mounts, written } = await build([{ name: 'config', mountPath: '/etc/hosts' }], { podIPs: ['10.0.0.7'] });
  assert.deepEqual(
    mounts.map(({ name }) => name),
    ['config'],
  );
  assert.equal(written.size, 0);
});

test('a mount near /etc/hosts does not replace the managed hosts file', async () => {
  for (const mountPath of ['/etc/hosts/', 'etc/hosts', '/etc/./hosts', '/etc']) {
    const { mounts } = await build([{ name: 'config', mountPath }], { podIPs: ['10.0.0.7'] });
    assert.deepEqual(
      mounts.map(({ name }) => name),
      ['config', 'k8s-managed-etc-hosts'],
      mountPath,
    );
  }
});

test('without an address and without the host network there is no managed hosts file', async () => {
  const { mounts, written } = await build([]);
  assert.deepEqual(mounts, []);
  assert.equal(written.size, 0);
});

test('a hosts file that cannot be written fails the container and keeps the clean-ups', async () => {
  const subPaths = new FakeSubPaths();
  const container = aContainer({ volumeMounts: [{ ...at, subPath: 'a' }] });
  const failing = buildMounts(
    {
      pod: aPod({ containers: [container] }),
      container,
      environment,
      volumes: { get: (name) => volumes[name] },
      podDirectory: '/pods/u',
      podIPs: ['10.0.0.7'],
      hostname: { name: 'web', domain: '' },
      runtimeSupportsRecursiveReadOnly: true,
    },
    {
      subPaths,
      hostsFiles: {
        readNode: () => Promise.resolve(''),
        write: () => Promise.reject(new DiskError('ENOSPC: no space left')),
      },
    },
    signal,
  );
  await assert.rejects(failing, (error) => {
    assert.ok(error instanceof ContainerMountsError);
    assert.equal(error.message, 'ENOSPC: no space left');
    assert.equal(error.cleanUps.length, 1);
    return true;
  });
});
