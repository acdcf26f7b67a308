import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createColors } from 'picocolors';
import type { RenderedPod } from '../agent/render/rendered-pod.ts';
import { renderedTree, showPermissions, showSize } from './rendered-tree.ts';
import { showText } from './terminal.ts';

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
  assert.equal(showText('a\u202eb\u2028'), 'a\\u202eb\\u2028');
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
              {
                mountPath: '/g',
                hostPath: '/g',
                readOnly: true,
                recursiveReadOnly: true,
                mountPropagation: 'HostToContainer',
                secretSubPath: false,
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
│       ├── /f <- *** (read-only, subPath ***)
│       └── /g <- /g (recursively read-only, HostToContainer)
└── pull credentials
    └── quay.io as u for quay.io/a
`,
  );
});

const style = { colors: createColors(false), showSecrets: false, userName: String, groupName: String };
const facts = { mode: 0o755, uid: 0, gid: 0 };

function podWith(given: Partial<RenderedPod>): RenderedPod {
  const none = { volumes: [], initContainers: [], containers: [], ephemeralContainers: [], pullCredentials: [] };
  return { namespace: 'shop', name: 'web', uid: 'u1', directory: '/r/pods/u1', ...none, ...given };
}

test('nothing that a user named reaches the terminal as it is', () => {
  const bell = 'a\u0007b';
  const mount = { mountPath: bell, hostPath: bell, readOnly: false, subPath: bell, secretSubPath: false };
  const text = renderedTree(
    [
      podWith({
        directory: bell,
        volumes: [{ name: 'v', plugin: 'kubernetes.io/host-path', path: bell, files: [] }],
        containers: [{ name: 'main', env: [{ name: bell, value: bell, secret: false }], mounts: [mount] }],
        pullCredentials: [{ registry: bell, username: bell, images: [bell] }],
      }),
    ],
    style,
  );
  assert.ok(!text.includes('\u0007'));
  assert.equal(text.split('a\\x07b').length - 1, 10);
});

const subPathCases = [
  { it: 'hides the directory of a subPath made of a Secret', secretSubPath: true, showSecrets: false, shows: false },
  { it: 'shows it to who asks for secrets', secretSubPath: true, showSecrets: true, shows: true },
  { it: 'shows the directory of an ordinary subPath', secretSubPath: false, showSecrets: false, shows: true },
];
for (const { it, secretSubPath, showSecrets, shows } of subPathCases) {
  test(`a tree ${it}`, () => {
    const made = { kind: 'directory', name: 'hunter2', ...facts, entries: [] } as const;
    const file = { kind: 'file', name: 'key', ...facts, sizeBytes: 1, sha256: '' } as const;
    const version = { kind: 'directory', name: '..2026', ...facts, entries: [file] } as const;
    const content = { kind: 'directory', name: '', ...facts, entries: [version, made] } as const;
    const mount = { mountPath: '/m', hostPath: '/r/pods/u1/x', readOnly: true, subPath: 'hunter2', secretSubPath };
    const text = renderedTree(
      [
        podWith({
          volumes: [{ name: 'v', plugin: 'kubernetes.io/configmap', path: '/r/pods/u1/v', content, files: [] }],
          initContainers: [{ name: 'first', env: [], mounts: [mount] }],
        }),
      ],
      { ...style, showSecrets },
    );
    assert.equal(text.includes('hunter2'), shows);
    assert.match(text, /..2026\/[^]* key /);
  });
}
