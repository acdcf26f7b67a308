import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createColors } from 'picocolors';
import { renderedTree, showPermissions, showSize, showText } from './rendered-tree.ts';

const modes = [
  [0o644, 'rw-r--r--'],
  [0o777, 'rwxrwxrwx'],
  [0o000, '---------'],
  [0o2755, 'rwxr-sr-x'],
  [0o2745, 'rwxr-Sr-x'],
  [0o4755, 'rwsr-xr-x'],
  [0o1777, 'rwxrwxrwt'],
  [0o1776, 'rwxrwxrwT'],
] as const;
for (const [mode, shown] of modes) {
  test(`mode ${mode.toString(8)} is shown as ${shown}`, () => assert.equal(showPermissions(mode), shown));
}

const sizes = [
  [0, '0 B'],
  [1023, '1023 B'],
  [1024, '1 KiB'],
  [1536, '1.5 KiB'],
  [1048576, '1 MiB'],
] as const;
for (const [size, shown] of sizes)
  test(`${size} bytes are shown as ${shown}`, () => assert.equal(showSize(size), shown));

test('control characters are shown and not sent to the terminal', () => {
  assert.equal(showText('a\nb\t\u001b[31mred\u0007\u009b'), 'a\\nb\\t\\x1b[31mred\\x07\\x9b');
});

test('a tree has a branch for each volume, container and credential', () => {
  const text = renderedTree(
    [
      {
        namespace: 'shop',
        name: 'web',
        uid: 'u1',
        directory: '/r/pods/u1',
        volumes: [{ name: 'v', plugin: 'kubernetes.io/host-path', path: '/etc', files: [] }],
        initContainers: [{ name: 'first', env: [], mounts: [] }],
        containers: [
          {
            name: 'main',
            env: [{ name: 'A', value: 'b', secret: true }],
            mounts: [
              { mountPath: '/e', hostPath: '/r/pods/u1/x', readOnly: false, subPath: 's', secretSubPath: false },
              {
                mountPath: '/f',
                hostPath: '/r/pods/u1/hunter2',
                readOnly: true,
                subPath: 'hunter2',
                secretSubPath: true,
              },
            ],
          },
        ],
        ephemeralContainers: [],
        pullCredentials: [{ registry: 'quay.io', username: 'u', images: ['quay.io/a'] }],
      },
    ],
    { colors: createColors(false), showSecrets: false, userName: String, groupName: String },
  );
  assert.equal(
    text,
    `pod shop/web /r/pods/u1
├── volume v host-path /etc
├── init container first
├── container main
│   ├── env
│   │   └── A=***
│   └── mounts
│       ├── /e <- x (writable, subPath s)
│       └── /f <- *** (read-only, subPath ***)
└── pull credentials
    └── quay.io as u for quay.io/a
`,
  );
});
