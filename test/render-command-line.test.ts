/** `mountlet render` and what surrounds it: options, files that cannot be read, a root that cannot be used, signals. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isRoot, mountlet, program, rootDirectory } from './mountlet-program.ts';

const pod = 'apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: nginx}]}\n';

const usage = [
  { it: 'an empty root', args: ['--root', ''], says: "option '--root <dir>' argument '' is invalid" },
  { it: 'an empty namespace', args: ['-n', ''], says: "option '-n, --namespace <name>' argument '' is invalid" },
  { it: 'a namespace that is none', args: ['-n', 'A_b'], says: 'a lowercase RFC 1123 label must consist of' },
];
for (const { it, args, says } of usage) {
  test(`render calls ${it} wrong usage`, () => {
    const { code, stdout, stderr } = mountlet(['render', '-f', '-', ...args], { input: pod });
    assert.equal(code, 2);
    assert.equal(stdout, '');
    assert.ok(stderr.includes(says), stderr);
  });
}

const roots = [
  { it: 'below a file', root: 'file/x', says: 'not a directory' },
  { it: 'that is a file', root: 'file', says: 'not a directory' },
  { it: 'where no directory can be', root: '/proc/mountlet', says: 'no such file or directory' },
];
for (const { it, root, says } of roots) {
  test(`render says that it cannot use a root ${it}`, (t) => {
    const directory = rootDirectory(t);
    writeFileSync(join(directory, 'file'), '');
    const path = root.startsWith('/') ? root : join(directory, root);
    const { code, stderr } = mountlet(['render', '-f', '-', '--root', path], { input: pod });
    assert.equal(code, 1);
    assert.match(stderr, new RegExp(`^error: Cannot \\w+ "${path}[^"]*": ${says}\n$`));
  });
}

test('render says that it may not make its root, and takes back what it made on the way', (t) => {
  if (!isRoot) return t.skip('needs root: it becomes another user');
  const directory = rootDirectory(t);
  mkdirSync(join(directory, 'closed'), { mode: 0o755 });
  const root = join(directory, 'closed', 'x');
  const { code, stderr } = mountlet(['render', '-f', '-', '--root', root], { input: pod, asOrdinaryUser: true });
  assert.equal(code, 1);
  assert.match(stderr, /^error: Cannot mkdir "[^"]+closed\/x": permission denied; run as a user that may/);
});

test('render stops when it is interrupted while it waits for standard input', async (t) => {
  const root = join(rootDirectory(t), 'new');
  const child = spawn(process.execPath, [program, 'render', '-f', '-', '--root', root], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  // It reads once the pipe is drained of more than a pipe holds, and listens to signals by then.
  child.stdin.write(`# ${'x'.repeat(1024 * 1024)}\n`);
  await once(child.stdin, 'drain');
  child.kill('SIGINT');
  const [code] = (await once(child, 'exit')) as [number | null];
  assert.equal(code, 130);
  assert.ok(!existsSync(root));
});

test('render stops when it is interrupted at work, and leaves only whole pods', async (t) => {
  const root = rootDirectory(t);
  const manifest = (name: number): string => `
apiVersion: v1
kind: Pod
metadata: {name: p${name}}
spec:
  volumes: [{name: v, configMap: {name: c}}, {name: w, configMap: {name: c}}]
  containers: [{name: c, image: nginx, volumeMounts: [{name: v, mountPath: /v}, {name: w, mountPath: /w}]}]
---`;
  const pods = Array.from({ length: 4000 }, (_, index) => manifest(index)).join('');
  const child = spawn(process.execPath, [program, 'render', '-f', '-', '--root', root], {
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  const ended = once(child, 'exit') as Promise<[number | null]>;
  child.stdin.end(`${pods}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n`);
  while (!existsSync(join(root, 'pods'))) await sleep(1);
  child.kill('SIGINT');
  assert.deepEqual(await ended, [130, null]);
  const made = existsSync(join(root, 'pods')) ? readdirSync(join(root, 'pods')) : [];
  assert.ok(made.length < 4000);
  for (const uid of made) {
    const volumes = join(root, 'pods', uid, 'volumes', 'kubernetes.io~configmap');
    assert.deepEqual(readdirSync(volumes), ['v', 'w']);
  }
});

test('render -f of a directory passes over directories in it', (t) => {
  const directory = rootDirectory(t);
  mkdirSync(join(directory, 'manifests', 'old.yaml'), { recursive: true });
  writeFileSync(join(directory, 'manifests', 'pod.yaml'), pod);
  const root = join(directory, 'root');
  const { code, stderr } = mountlet(['render', '-f', join(directory, 'manifests'), '--root', root]);
  assert.equal(code, 0, stderr);
});

test('render reports every container whose image has no proper name, as the kubelet does', (t) => {
  const root = join(rootDirectory(t), 'new');
  const input =
    'apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: a, image: "x y"}, {name: b, image: nginx}, {name: c, image: "x:y:z"}]\n';
  const { code, stderr } = mountlet(['render', '-f', '-', '--root', root], { input });
  assert.equal(code, 1);
  const because = (container: string, image: string): string =>
    `error: pod default/p: container "${container}": InvalidImageName: Failed to apply default image tag "${image}": ` +
    `couldn't parse image name "${image}": invalid reference format\n`;
  assert.equal(stderr, because('a', 'x y') + because('c', 'x:y:z'));
  assert.ok(!existsSync(root));
});

test('render says how a mount is made where that is not the usual way', (t) => {
  const input = `
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  volumes: [{name: e, emptyDir: {}}]
  containers:
  - name: a
    image: nginx
    securityContext: {privileged: true}
    volumeMounts:
    - {name: e, mountPath: /a}
    - {name: e, mountPath: /b, mountPropagation: Bidirectional}
    - {name: e, mountPath: /c, readOnly: true, recursiveReadOnly: Enabled, mountPropagation: None}
`;
  const { stdout, stderr } = mountlet(['render', '-f', '-', '-o', 'json', '--root', rootDirectory(t)], { input });
  assert.equal(stderr, '');
  const { items } = JSON.parse(stdout) as { items: { containers: { mounts: { hostPath: string }[] }[] }[] };
  const mounts = items[0]?.containers[0]?.mounts ?? [];
  const hostPath = mounts[0]?.hostPath;
  assert.deepEqual(mounts, [
    { mountPath: '/a', hostPath, readOnly: false },
    { mountPath: '/b', hostPath, readOnly: false, mountPropagation: 'Bidirectional' },
    { mountPath: '/c', hostPath, readOnly: true, recursiveReadOnly: true },
  ]);
});
