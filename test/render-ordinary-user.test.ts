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
