import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'yaml';
import type { RenderedPod } from '../agent/render/rendered-pod.ts';
import { parseYamlDocuments } from '../kube/manifests/yaml-documents.ts';
import { renderedList, showJson, showMode, showYaml } from './rendered-list.ts';

const pod: RenderedPod = {
  namespace: 'shop',
  name: 'web',
  uid: 'u1',
  directory: '/r/pods/u1',
  volumes: [
    {
      name: 'v',
      plugin: 'kubernetes.io/secret',
      path: '/r/pods/u1/v',
      files: [{ kind: 'file', name: 'key', path: 'a/key', mode: 0o400, uid: 1, gid: 2, sizeBytes: 3, sha256: 'abc' }],
    },
  ],
  initContainers: [],
  containers: [
    {
      name: 'main',
      env: [
        { name: 'OPEN', value: 'x', secret: false },
        { name: 'CLOSED', value: 'hunter2', secret: true },
      ],
      mounts: [
        { mountPath: '/a', hostPath: '/r/pods/u1/v', readOnly: true, secretSubPath: false },
        { mountPath: '/b', hostPath: '/r/x/hunter2', readOnly: false, subPath: 'hunter2', secretSubPath: true },
      ],
    },
  ],
  ephemeralContainers: [],
  pullCredentials: [{ registry: 'quay.io', username: 'u', images: [] }],
};

test('the list has an item for each pod, with the facts of its files and containers', () => {
  assert.deepEqual(renderedList([pod], { showSecrets: false }), {
    apiVersion: 'v1',
    kind: 'List',
    metadata: {},
    items: [
      {
        apiVersion: 'mountlet.dev/v1alpha1',
        kind: 'RenderedPod',
        metadata: { namespace: 'shop', name: 'web', uid: 'u1' },
        namespace: 'shop',
        name: 'web',
        uid: 'u1',
        volumes: [
          {
            name: 'v',
            plugin: 'kubernetes.io/secret',
            path: '/r/pods/u1/v',
            files: [{ path: 'a/key', mode: '0400', uid: 1, gid: 2, size: 3, sha256: 'abc' }],
          },
        ],
        containers: [
          {
            name: 'main',
            env: [
              { name: 'OPEN', value: 'x' },
              { name: 'CLOSED', value: '***' },
            ],
            mounts: [
              { mountPath: '/a', hostPath: '/r/pods/u1/v', readOnly: true },
              { mountPath: '/b', hostPath: '***', readOnly: false, subPath: '***' },
            ],
          },
        ],
        pullCredentials: [{ registry: 'quay.io', username: 'u', images: [] }],
      },
    ],
  });
});

test('the list shows secrets to who asks for them', () => {
  const text = JSON.stringify(renderedList([pod], { showSecrets: true }));
  assert.equal(text.split('hunter2').length - 1, 3);
  assert.ok(!text.includes('***'));
});

test('the list names init and ephemeral containers only where there are any', () => {
  const container = { name: 'x', env: [], mounts: [] };
  const { items } = renderedList([{ ...pod, initContainers: [container], ephemeralContainers: [container] }], {
    showSecrets: false,
  }) as { items: { initContainers: unknown; ephemeralContainers: unknown }[] };
  assert.deepEqual(items[0]?.initContainers, [container]);
  assert.deepEqual(items[0]?.ephemeralContainers, [container]);
});

test('JSON carries no control character as it is, and means the same', () => {
  const value = { a: 'x\u001b[31m\u009b31m\u007f' };
  const text = showJson(value);
  assert.match(text, /^[\n\x20-\x7e]*$/);
  assert.deepEqual(JSON.parse(text), value);
});

test('YAML means the same to kubectl and to readers of YAML 1.1 and 1.2', () => {
  const texts = [
    'yes',
    'n',
    '0644',
    '0o644',
    '0X1f',
    '.',
    'e3',
    '08',
    '1:30',
    '2020-01-01',
    '1_0',
    '~',
    '',
    '<<',
    '=',
    'x',
  ];
  const value = {
    texts,
    number: 3,
    fraction: 0.5,
    flag: true,
    long: 'a b '.repeat(100),
    lines: 'a\n\nb\n',
    bell: '\u0007',
  };
  const yaml = showYaml(value);
  assert.deepEqual(parseYamlDocuments(yaml)[0]?.value, value);
  assert.deepEqual(parse(yaml, { version: '1.1' }), value);
  assert.deepEqual(parse(yaml, { version: '1.2' }), value);
});

const modes = [
  [0o644, '0644'],
  [0, '0000'],
  [0o7, '0007'],
  [0o1777, '01777'],
] as const;
for (const [mode, shown] of modes)
  test(`mode ${mode} is listed as ${shown}`, () => assert.equal(showMode(mode), shown));
