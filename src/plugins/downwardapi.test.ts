import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MountletError } from '../base/errors.ts';
import type { DownwardApiFile } from '../kube/kinds/pod/volume.ts';
import { testPod } from '../testing/worlds/volume-node.ts';
import { collectDownwardApi, downwardApiPayload } from './downwardapi.ts';

const { signal } = new AbortController();
const pod = testPod(
  { containers: [{ name: 'app', resources: { requests: { cpu: '1200m' }, limits: { cpu: '0' } } }] },
  { labels: { tier: 'front', app: 'web' }, annotations: { text: 'two\nlines "quoted"\ttab' } },
);
const field = (path: string, fieldPath: string, more: Partial<DownwardApiFile> = {}): DownwardApiFile => ({
  path,
  fieldRef: { fieldPath },
  ...more,
});
const resource = (path: string, name: string, divisor?: string): DownwardApiFile => ({
  path,
  resourceFieldRef: { containerName: 'app', resource: name, ...(divisor === undefined ? {} : { divisor }) },
});

function texts(items: readonly DownwardApiFile[]): Record<string, string> {
  const projection = { pod, items, defaultMode: 0o644, defaultUser: undefined };
  const files = downwardApiPayload(projection, () => ({ cpu: '4', memory: '8Gi' }));
  return Object.fromEntries([...files].map(([path, { data }]) => [path, Buffer.from(data).toString()]));
}

const cases: { it: string; items: DownwardApiFile[]; files: Record<string, string> }[] = [
  {
    it: 'a map is sorted and quoted, one line for each entry',
    items: [field('labels', 'metadata.labels'), field('annotations', 'metadata.annotations')],
    files: { labels: 'app="web"\ntier="front"', annotations: 'text="two\\nlines \\"quoted\\"\\ttab"' },
  },
  {
    it: 'a valid key that is absent gives an empty file',
    items: [field('x', "metadata.labels['gone']"), field('y', "metadata.labels['app']")],
    files: { x: '', y: 'web' },
  },
  {
    it: 'a path is cleaned, and the later of two equal ones wins',
    items: [field('a//b/./c/', 'metadata.name'), field('x/../a/b/c', 'metadata.namespace')],
    files: { 'a/b/c': 'shop' },
  },
  { it: 'an item that names nothing is an empty file', items: [{ path: 'empty' }], files: { empty: '' } },
  {
    it: 'limits that are not set are the node’s, requests are not made up',
    items: [
      resource('limit', 'limits.cpu'),
      resource('memory', 'limits.memory', '1Mi'),
      resource('request', 'requests.cpu', '100m'),
      resource('none', 'requests.memory'),
    ],
    files: { limit: '4', memory: '8192', request: '12', none: '0' },
  },
];
for (const { it, items, files } of cases) {
  test(it, () => {
    assert.deepEqual(texts(items), files);
  });
}

test('mode and user of the item beat the volume’s', () => {
  const items = [field('a', 'metadata.name', { mode: 0o400, user: 0 }), field('b', 'metadata.name')];
  const files = downwardApiPayload({ pod, items, defaultMode: 0o644, defaultUser: 7 }, () => ({}));
  assert.deepEqual(
    [...files].map(([path, { mode, uid }]) => [path, mode, uid]),
    [
      ['a', 0o400, 0],
      ['b', 0o644, 7],
    ],
  );
});

test('no default mode is an error', () => {
  const projection = { pod, items: [], defaultMode: undefined, defaultUser: undefined };
  assert.throws(() => downwardApiPayload(projection, () => ({})), {
    message: 'no defaultMode used, not even the default value for it',
  });
});

test('an empty subscript is an error', () => {
  assert.throws(
    () => texts([field('x', "metadata.annotations['']")]),
    /^OperatingError: invalid key subscript in metadata\.annotations\[''\]: /,
  );
});

test('all problems are reported at once, each text once; a single one is reported as it is', () => {
  const [bad, worse] = [field('a', 'status.podIP'), field('b', 'spec.nodeName')];
  assert.throws(() => texts([bad]), { message: 'unsupported fieldPath: status.podIP' });
  assert.throws(() => texts([bad, field('ok', 'metadata.name'), worse, bad]), {
    message: '[unsupported fieldPath: status.podIP, unsupported fieldPath: spec.nodeName]',
  });
  assert.throws(() => texts([bad, bad]), { message: 'unsupported fieldPath: status.podIP' });
});

class Unreachable extends MountletError {
  readonly reason = 'Unreachable';
}

test('a node that cannot be read is a problem of the items that need it, and of no others', async () => {
  const nodes = {
    get: async () => {
      throw new Unreachable('connection refused');
    },
  };
  const collect = (items: DownwardApiFile[]): ReturnType<typeof collectDownwardApi> =>
    collectDownwardApi(nodes, { pod, items, defaultMode: 0o644, defaultUser: undefined }, signal);
  assert.equal((await collect([field('a', 'metadata.name')])).size, 1);
  await assert.rejects(collect([resource('a', 'limits.cpu'), field('b', 'bad'), resource('c', 'limits.memory')]), {
    message: '[error retrieving node: connection refused, unsupported fieldPath: bad]',
  });
});
