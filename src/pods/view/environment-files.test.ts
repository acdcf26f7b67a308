import assert from 'node:assert/strict';
import { readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { resolveIn, showVariables } from '../../testing/worlds/container-world.ts';
import type { MountedVolume } from './mounts.ts';

const envFile = `# settings\n  USER='ann'\nPASSWORD='two\nlines' # why\nEMPTY=''\nBLANK= 'x'\n`;
const fileCases: readonly {
  readonly it: string;
  readonly content: string | undefined;
  readonly key: string;
  readonly optional?: boolean;
  readonly gives?: string | undefined;
  readonly message?: string;
}[] = [
  { it: 'its value', content: envFile, key: 'USER', gives: 'ann' },
  { it: 'a value of several lines', content: envFile, key: 'PASSWORD', gives: 'two\nlines' },
  { it: 'nothing for a missing key that is optional', content: envFile, key: 'NO', optional: true, gives: undefined },
  {
    it: 'nothing for an empty value that is optional',
    content: envFile,
    key: 'EMPTY',
    optional: true,
    gives: undefined,
  },
  {
    it: 'an error for a missing key',
    content: envFile,
    key: 'NO',
    message: 'environment variable key "NO" not found in file "DIR/e"',
  },
  {
    it: 'an error for an empty value',
    content: envFile,
    key: 'EMPTY',
    message: 'environment variable key "EMPTY" not found in file "DIR/e"',
  },
  {
    it: 'an error for a blank after the equals sign',
    content: envFile,
    key: 'BLANK',
    message: 'environment variable key "BLANK" not found in file "DIR/e"',
  },
  {
    it: 'an error for a line that is not an assignment',
    content: 'oops\n',
    key: 'K',
    message: "couldn't parse env file",
  },
  {
    it: 'an error for a blank before the equals sign',
    content: "K ='v'\n",
    key: 'K',
    message: "couldn't parse env file",
  },
  { it: 'its value before a bad line', content: "K='v'\noops\n", key: 'K', gives: 'v' },
  {
    it: 'an error for a missing file, even if optional',
    content: undefined,
    key: 'K',
    optional: true,
    message: "couldn't parse env file",
  },
];
for (const { it, content, key, optional = false, gives, message } of fileCases) {
  test(`fileKeyRef gives ${it}`, async (t) => {
    const directory = temporaryDirectory(t);
    if (content !== undefined) await writeFile(join(directory, 'e'), content);
    const resolved = resolveIn(
      { env: [{ name: 'V', valueFrom: { fileKeyRef: { volumeName: 'v', path: 'e', key, optional } } }] },
      {
        pod: { volumes: [{ name: 'v', emptyDir: {} }] },
        volumes: { get: (name) => (name === 'v' ? filesystem(directory) : undefined) },
      },
    );
    if (message !== undefined) {
      await assert.rejects(resolved, { name: 'ContainerConfigError', message: message.replace('DIR', directory) });
    } else {
      assert.deepEqual(showVariables(await resolved), gives === undefined ? {} : { V: gives });
    }
  });
}

test('fileKeyRef reads where the injected reader says the file is, and reports that path', async (t) => {
  const directory = temporaryDirectory(t);
  await writeFile(join(directory, 'real'), "A='a'\n");
  await symlink('real', join(directory, 'e'));
  const seen: string[] = [];
  const resolved = resolveIn(
    { env: [{ name: 'V', valueFrom: { fileKeyRef: { volumeName: 'v', path: 'e', key: 'NO' } } }] },
    {
      volumes: { get: () => filesystem(directory) },
      envFiles: {
        async read({ directory: root, path }) {
          seen.push(`${root} ${path}`);
          return { path: join(root, 'real'), content: await readFile(join(root, 'real')) };
        },
      },
    },
  );
  await assert.rejects(resolved, { message: `environment variable key "NO" not found in file "${directory}/real"` });
  assert.deepEqual(seen, [`${directory} e`]);
});

test('fileKeyRef of anything but an emptyDir is taken for a secret', async (t) => {
  const directory = temporaryDirectory(t);
  await writeFile(join(directory, 'e'), "A='hunter2'\n");
  const env = [{ name: 'V', valueFrom: { fileKeyRef: { volumeName: 'v', path: 'e', key: 'A' } } }];
  const world = { volumes: { get: () => filesystem(directory) } };
  const ofEmptyDir = await resolveIn({ env }, { ...world, pod: { volumes: [{ name: 'v', emptyDir: {} }] } });
  assert.equal(ofEmptyDir[0]?.secret, false);
  const ofSecret = await resolveIn(
    { env },
    { ...world, pod: { volumes: [{ name: 'v', secret: { secretName: 's' } }] } },
  );
  assert.equal(ofSecret[0]?.secret, true);
});

function filesystem(hostPath: string): MountedVolume {
  return {
    kind: 'filesystem',
    hostPath,
    specName: 'v',
    readOnly: false,
  };
}
