/** `mountlet render` below roots that are hostile, broken, full or in use. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { temporaryDirectory } from '../src/testing/machine/temporary-directory.ts';
import { type Ran, isRoot, mountlet, program, rootDirectory } from './mountlet-program.ts';

const configMap = (value: string): string => `
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: ${value}}
---`;
const secret = 'apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: x}\n---';
const pod = (...volumes: readonly string[]): string => `
apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-uid}
spec:
  containers:
  - name: main
    image: busybox
    volumeMounts: [${volumes.map((_, index) => `{name: v${index}, mountPath: /v${index}}`).join(', ')}]
  volumes: [${volumes.map((volume, index) => `{name: v${index}, ${volume}}`).join(', ')}]
---`;

function run(root: string, manifests: string, ...args: readonly string[]): Ran {
  return mountlet(['render', '-f', '-', '--root', root, '-o', 'json', ...args], { input: manifests });
}

/** A sentence for a person, never a stack trace. */
function assertRefused({ code, stderr }: Ran, says: RegExp): void {
  assert.equal(code, 1, stderr);
  assert.match(stderr, says);
  assert.doesNotMatch(stderr, /^ +at /m);
}

const yaml = configMap('x') + pod('configMap: {name: c}');

const badRoots = [
  { it: 'a file', plant: (path: string) => writeFileSync(path, ''), says: /not a directory/ },
  { it: 'a link to nowhere', plant: (path: string) => symlinkSync('nowhere', path), says: /file exists/ },
  { it: 'a link to itself', plant: (path: string) => symlinkSync('root', path), says: /symbolic links/ },
];
for (const { it, plant, says } of badRoots) {
  test(`render refuses ${it} as its root`, (t) => {
    const root = join(rootDirectory(t), 'root');
    plant(root);
    assertRefused(run(root, yaml), says);
  });
}

test('render comes back from a root that cannot be made', () => {
  assertRefused(run('/proc/mountlet', yaml), /Cannot mkdir "\/proc\/mountlet"/);
});

const levels = [
  'pods',
  'pods/web-uid/volumes/kubernetes.io~configmap',
  'pods/web-uid/volumes/kubernetes.io~configmap/v0',
];
for (const level of levels) {
  test(`render neither writes nor deletes through a link at ${level}`, (t) => {
    const root = rootDirectory(t);
    const elsewhere = rootDirectory(t);
    mkdirSync(join(elsewhere, 'precious'));
    mkdirSync(dirname(join(root, level)), { recursive: true });
    symlinkSync(elsewhere, join(root, level));
    assertRefused(run(root, yaml), /it is a symbolic link and not a directory/);
    run(root, yaml, '--clean');
    assert.deepEqual(readdirSync(elsewhere), ['precious']);
  });
}

test('render never writes the hosts file through a link', (t) => {
  const root = rootDirectory(t);
  const precious = join(root, 'precious');
  writeFileSync(precious, 'data');
  mkdirSync(join(root, 'pods/web-uid'), { recursive: true });
  symlinkSync(precious, join(root, 'pods/web-uid/etc-hosts'));
  const { code, stderr } = run(root, pod('emptyDir: {}').replace('---', 'status: {podIP: 10.9.8.7}\n---'));
  assert.equal(code, 0, stderr);
  assert.equal(readFileSync(precious, 'utf8'), 'data');
  assert.match(readFileSync(join(root, 'pods/web-uid/etc-hosts'), 'utf8'), /10\.9\.8\.7\tweb/);
});

test('render leaves a volume of an unknown kind alone, --clean removes it', (t) => {
  const root = rootDirectory(t);
  const foreign = join(root, 'pods/web-uid/volumes/example.com~disk/x');
  mkdirSync(foreign, { recursive: true });
  assert.equal(run(root, yaml).code, 0);
  assert.ok(existsSync(foreign));
  assert.equal(run(root, yaml, '--clean').code, 0);
  assert.deepEqual(readdirSync(root), []);
});

test('render that fails leaves no empty directory of a volume kind in a pod that was there', (t) => {
  const root = rootDirectory(t);
  assert.equal(run(root, yaml).code, 0);
  assertRefused(run(root, configMap('z') + pod('configMap: {name: gone}', 'emptyDir: {}')), /"gone" not found/);
  assert.deepEqual(readdirSync(join(root, 'pods/web-uid/volumes')), ['kubernetes.io~configmap']);
});

function mountTmpfs(directory: string, options: string): void {
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', directory]);
  assert.equal(status, 0, String(stderr));
}

test('render on a full disk keeps what was there, and --clean still works', (t) => {
  if (!isRoot) return t.skip('needs root: mounts a small tmpfs');
  const root = rootDirectory(t);
  mountTmpfs(root, 'size=64k');
  assert.equal(run(root, yaml).code, 0);
  const volume = join(root, 'pods/web-uid/volumes/kubernetes.io~configmap/v0');
  const before = readlinkSync(join(volume, '..data'));
  const large = configMap('x'.repeat(300_000)) + pod('configMap: {name: c}');
  assertRefused(run(root, large), /no space left on device/);
  assert.equal(readlinkSync(join(volume, '..data')), before);
  assert.deepEqual(readdirSync(volume).toSorted(), [before, '..data', 'a'].toSorted());
  spawnSync('dd', ['if=/dev/zero', `of=${join(root, 'fill')}`, 'bs=1k']);
  assert.equal(run(root, yaml, '--clean').code, 0);
  assert.deepEqual(readdirSync(root), ['fill']);
  unlinkSync(join(root, 'fill'));
});

test('render says so on a read-only disk', (t) => {
  if (!isRoot) return t.skip('needs root: mounts a small tmpfs');
  const root = rootDirectory(t);
  mountTmpfs(root, 'size=64k,ro');
  assertRefused(run(root, yaml), /read-only file system/);
  assertRefused(run(join(root, 'below'), yaml), /read-only file system/);
});

test('render --clean takes down a volume that was mounted over', (t) => {
  if (!isRoot) return t.skip('needs root: mounts a small tmpfs');
  const root = rootDirectory(t);
  const withSecret = secret + pod('secret: {secretName: s}');
  assert.equal(run(root, withSecret).code, 0);
  mountTmpfs(join(root, 'pods/web-uid/volumes/kubernetes.io~secret/v0'), 'size=4k');
  const { code, stderr } = run(root, withSecret, '--clean');
  assert.equal(code, 0, stderr);
  assert.deepEqual(readdirSync(root), []);
});

test('render that is asked to end stops between two pods', async (t) => {
  const root = rootDirectory(t);
  const pods = Array.from({ length: 2000 }, (_, index) =>
    pod('configMap: {name: c}').replace('name: web, uid: web-uid', `name: web-${index}`),
  );
  const child = spawn(process.execPath, [program, 'render', '-f', '-', '--root', root, '-o', 'json']);
  const closed = once(child, 'close');
  child.stdin.end(configMap('x') + pods.join(''));
  while (!existsSync(join(root, 'pods'))) await setImmediate();
  child.kill('SIGTERM');
  assert.equal((await closed)[0], 130);
  for (const uid of readdirSync(join(root, 'pods'))) {
    assert.equal(readFileSync(join(root, 'pods', uid, 'volumes/kubernetes.io~configmap/v0/a'), 'utf8'), 'x');
  }
});

test('render and --clean take back the subPaths of a hostPath', (t) => {
  if (!isRoot) return t.skip('needs root: binds subPaths');
  const root = rootDirectory(t);
  const data = rootDirectory(t);
  const mounted = pod(`hostPath: {path: ${data}}`).replace('mountPath: /v0', 'mountPath: /v0, subPath: a');
  assert.equal(run(root, mounted).code, 0);
  assert.deepEqual(readdirSync(join(root, 'pods/web-uid/volume-subpaths')), ['v0']);
  assert.equal(run(root, pod('emptyDir: {}').replaceAll('v0', 'other')).code, 0);
  assert.ok(!existsSync(join(root, 'pods/web-uid/volume-subpaths')));
  assert.equal(run(root, mounted).code, 0);
  const { code, stderr } = run(root, mounted, '--clean');
  assert.equal(code, 0, stderr);
  assert.deepEqual([readdirSync(root), readdirSync(data)], [[], ['a']]);
});

const persistentVolume = (spec: string): string => `
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: default, name: data}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}]}}
  ${spec}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---`;
const stages = [
  {
    it: 'a local volume whose path is missing',
    spec: 'local: {path: /nowhere}',
    says: 'MountVolume.NewMounter initialization failed for volume "disk" : path "/nowhere" does not exist',
  },
  {
    it: 'a local volume that is not storage',
    spec: 'local: {path: /dev/null}',
    says: 'MountVolume.NewMounter initialization failed for volume "disk" : only directory and block device are supported',
  },
  {
    it: 'mount options of a kind that has none',
    spec: 'hostPath: {path: /tmp}\n  mountOptions: [noexec]',
    says: 'MountVolume.MountOptionSupport check failed for volume "disk" : mount options are not supported for this volume type',
  },
];

test('render attaches, formats and mounts no device: that is the agent’s part', (t) => {
  const root = rootDirectory(t);
  const file = join(temporaryDirectory(t), 'disk.img');
  writeFileSync(file, Buffer.alloc(1024 * 1024));
  const manifests = persistentVolume(`local: {path: ${file}}`) + pod('persistentVolumeClaim: {claimName: data}');
  const { code, stderr } = run(root, manifests);
  assert.equal(code, 1);
  const stage = 'error: pod default/web: MountVolume.SetUp failed for volume "disk" : ';
  const device = `Cannot set up local volume "disk": "${file}" is a device or the file of one`;
  // An ordinary user is not asked what it is: nothing could be mounted anyway.
  assert.ok(stderr.startsWith(stage + (isRoot ? device : 'Cannot mount local volume "disk"')), stderr);
  assert.deepEqual(readdirSync(root), []);
  assert.ok(readFileSync(file).equals(Buffer.alloc(1024 * 1024)));
});

for (const { it, spec, says } of stages) {
  test(`render reports in the kubelet's words ${it}`, (t) => {
    const root = rootDirectory(t);
    const ran = run(root, persistentVolume(spec) + pod('persistentVolumeClaim: {claimName: data}'));
    assert.equal(ran.code, 1);
    assert.equal(ran.stderr, `error: pod default/web: ${says}\n`);
    assert.deepEqual(readdirSync(root), []);
  });
}
