/** `mountlet render` for a user who may not chown, mount, or read what a mode shuts him out of. */
import assert from 'node:assert/strict';
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { mountlet, rootDirectory } from './mountlet-program.ts';

interface Volume {
  readonly path: string;
  readonly files: readonly { path: string; mode: string; size: number; sha256: string }[];
}
interface Rendered {
  readonly stderr: string;
  readonly volumes: readonly Volume[];
  readonly root: string;
}

const configMap = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: hello}\n---\n';
const pod = (volume: string, spec = ''): string => `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: main, image: busybox, volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, ${volume}}]
${spec}
`;

function render(t: TestContext, manifests: string, root = rootDirectory(t)): Rendered {
  const { code, stdout, stderr } = mountlet(['render', '-f', '-', '--root', root, '-o', 'json'], {
    input: manifests,
    asOrdinaryUser: true,
  });
  assert.equal(code, 0, stderr);
  const { items } = JSON.parse(stdout) as { items: { volumes: Volume[] }[] };
  return { stderr, volumes: items.flatMap(({ volumes }) => volumes), root };
}

const helloDigest = '2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824';

for (const mode of ['0000', '0222']) {
  test(`render lists files of mode ${mode} that their owner cannot read, and renders them again`, (t) => {
    const yaml = configMap + pod(`configMap: {name: c, defaultMode: ${mode}}`);
    const first = render(t, yaml);
    assert.deepEqual(first.volumes[0]?.files, [
      { ...first.volumes[0]?.files[0], path: 'a', mode, size: 5, sha256: helloDigest },
    ]);
    const { path } = first.volumes[0] ?? { path: '' };
    const before = readdirSync(path);
    assert.equal(lstatSync(join(path, '..data', 'a')).mode & 0o7777, Number.parseInt(mode, 8));
    render(t, yaml, first.root);
    assert.deepEqual(readdirSync(path), before);
  });
}

function notesIn(stderr: string, about: RegExp): number {
  return stderr.split('\n').filter((line) => line.startsWith('note:') && about.test(line)).length;
}

const owners = [
  { it: 'a token of a pod with runAsUser', volume: 'projected: {sources: [{serviceAccountToken: {path: a}}]}' },
  { it: 'a file with a user', volume: 'configMap: {name: c, items: [{key: a, path: a, user: 1234, mode: 0600}]}' },
];
for (const { it, volume } of owners) {
  test(`render keeps ${it} it may not give away, and says so once`, (t) => {
    const spec = '  securityContext: {runAsUser: 1234}\n  serviceAccountName: default\n';
    const two = `${pod(volume, spec)}---\n${pod(volume, spec).replace('name: web', 'name: two')}`;
    // On a tmpfs, so that the token's memory goes with the root.
    const { stderr, volumes, root } = render(t, configMap + two, rootDirectory(t, '/dev/shm'));
    assert.equal(notesIn(stderr, /to user 1234: not permitted/), 1, stderr);
    assert.deepEqual(
      volumes.flatMap(({ files }) => files.map(({ mode }) => mode)),
      ['0600', '0600'],
    );
    if (volume.startsWith('configMap')) {
      const before = volumes.map(({ path }) => readdirSync(path));
      render(t, configMap + two, root);
      assert.deepEqual(
        volumes.map(({ path }) => readdirSync(path)),
        before,
      );
    }
  });
}

test('render says once for all pods that it may not change groups, and where memory is', (t) => {
  const one = pod('secret: {secretName: s}', '  securityContext: {fsGroup: 4242}\n');
  const secret = 'apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: x}\n---\n';
  const yaml = `${secret}${one}---\n${one.replace('name: web', 'name: two')}`;
  const { stderr } = render(t, yaml, rootDirectory(t, '/dev/shm'));
  assert.equal(notesIn(stderr, /to group 4242/), 1, stderr);
  assert.equal(notesIn(stderr, /tmpfs/), 1, stderr);
});
