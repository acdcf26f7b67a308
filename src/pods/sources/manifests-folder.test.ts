import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configMapKind } from '../../kube/kinds/config-map.ts';
import { secretKind } from '../../kube/kinds/secret.ts';
import { aPod } from '../../testing/fakes/builders.ts';
import { FakeClock, settle } from '../../testing/fakes/fake-clock.ts';
import { MemoryFolder } from '../../testing/fakes/memory-pod-api.ts';
import {
  type FolderContent,
  type FolderNotice,
  ManifestsFolder,
  asStaticPod,
  folderContents,
} from './manifests-folder.ts';

const { signal } = new AbortController();

function manifest(name: string, image = 'nginx', more = ''): string {
  return `apiVersion: v1\nkind: Pod\nmetadata: {name: ${name}}\nspec:\n  containers: [{name: main, image: ${image}}]\n${more}`;
}
const settings = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: "1"}\n`;

function aFolder(files: Record<string, string> | undefined): {
  reader: MemoryFolder;
  folder: ManifestsFolder;
  notices: FolderNotice[];
} {
  const reader = new MemoryFolder(files);
  const notices: FolderNotice[] = [];
  return { reader, notices, folder: new ManifestsFolder(reader, 'node-1', (notice) => notices.push(notice)) };
}

function names({ pods }: FolderContent): string[] {
  return pods.map(({ metadata }) => metadata.name);
}

test('a static pod gets the lower-cased node name, a hashed UID and the defaults of its source', async () => {
  const { folder } = aFolder({ 'web.yaml': manifest('web') });
  const [pod] = (await folder.read(signal)).pods;
  assert.ok(pod);
  assert.match(pod.metadata.uid ?? '', /^[0-9a-f]{32}$/);
  assert.equal(pod.metadata.name, 'web-node-1');
  assert.equal(pod.metadata.namespace, 'default');
  assert.equal(pod.metadata.annotations?.['kubernetes.io/config.hash'], pod.metadata.uid);
  assert.equal(pod.spec.nodeName, 'node-1');
  assert.equal(asStaticPod(aPod(), { nodeName: 'Node-1', file: 'f' }).metadata.name, 'web-node-1');
  assert.deepEqual(pod.spec.tolerations, [{ operator: 'Exists', effect: 'NoExecute' }]);
  assert.equal(pod.status?.phase, 'Pending');
  assert.equal(pod.spec.restartPolicy, 'Always');
});

test('a static pod gets another UID from other content, another file and another node; its own UID is kept', async () => {
  const uidOf = async (files: Record<string, string>, node = 'n'): Promise<string | undefined> =>
    (await new ManifestsFolder(new MemoryFolder(files), node, () => {}).read(signal)).pods[0]?.metadata.uid;
  const uids = [
    await uidOf({ a: manifest('web') }),
    await uidOf({ a: manifest('web', 'nginx:2') }),
    await uidOf({ b: manifest('web') }),
    await uidOf({ a: manifest('web') }, 'm'),
  ];
  assert.equal(new Set(uids).size, 4);
  assert.equal(await uidOf({ a: manifest('web') }), uids[0]);
  assert.equal(await uidOf({ a: manifest('web').replace('{name: web}', '{name: web, uid: fixed}') }), 'fixed');
});

const refused: readonly { it: string; text: string; says: RegExp }[] = [
  { it: 'broken YAML', text: 'a: [', says: /"message":"bad.yaml:1:5: [^;"]+"/ },
  {
    it: 'a ConfigMap with a map for a text',
    text: 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a.yml: {port: 1}\nimmutable: 7\n',
    says: /"message":"bad.yaml:6:1: ConfigMap "c": immutable: [^;]*; bad.yaml:5:3: ConfigMap "c": data\[a.yml\]: [^;]*"/,
  },
  { it: 'a pod without a name', text: manifest('""'), says: /metadata\.name: Required value/ },
  { it: 'an upper-case name', text: manifest('Web'), says: /metadata\.name: Invalid value/ },
  { it: 'an invalid container', text: manifest('web').replace('name: main, ', ''), says: /containers\[0\]\.name/ },
  {
    it: 'a resource claim',
    text: manifest('web', 'nginx', '  resourceClaims: [{name: gpu, resourceClaimName: gpu}]\n'),
    says: /static pods may not reference resourceclaims/,
  },
  {
    it: 'a cluster trust bundle',
    text: manifest(
      'web',
      'nginx',
      '  volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {name: b, path: ca}}]}}]\n',
    ),
    says: /static pods may not reference clustertrustbundles/,
  },
];
for (const { it, text, says } of refused) {
  test(`the manifests folder refuses ${it} and takes the other files`, async () => {
    const { folder, notices } = aFolder({ 'bad.yaml': text, 'good.yaml': manifest('good') });
    assert.deepEqual(names(await folder.read(signal)), ['good-node-1']);
    assert.equal(notices.length, 1);
    assert.match(JSON.stringify(notices[0]).replaceAll('\\"', '"'), says);
    await folder.read(signal);
    assert.equal(notices.length, 1, 'and says so once');
  });
}

test('a negative grace in a manifest becomes 1', async () => {
  const { folder } = aFolder({ a: manifest('web', 'nginx', '  terminationGracePeriodSeconds: -5\n') });
  assert.equal((await folder.read(signal)).pods[0]?.spec.terminationGracePeriodSeconds, 1);
});

test('a missing folder is empty and an error, an empty one is not an error', async () => {
  const missing = aFolder(undefined);
  assert.deepEqual(names(await missing.folder.read(signal)), []);
  assert.deepEqual(missing.notices, [
    { kind: 'ManifestsUnreadable', path: '/manifests', message: 'path does not exist, ignoring' },
  ]);
  const empty = aFolder({});
  assert.deepEqual(names(await empty.folder.read(signal)), []);
  assert.deepEqual(empty.notices, []);
});

const survivals: readonly { it: string; change: (reader: MemoryFolder) => void }[] = [
  { it: 'is broken', change: (reader) => reader.write('web.yaml', 'kind: Pod\nspec: [') },
  { it: 'is truncated', change: (reader) => reader.write('web.yaml', '') },
  { it: 'is not a pod any more', change: (reader) => reader.write('web.yaml', 'hello') },
  { it: 'cannot be read', change: (reader) => reader.write('web.yaml', new Error('EIO: i/o error')) },
  { it: 'is in a folder that vanished', change: (reader) => reader.vanish() },
];
for (const { it, change } of survivals) {
  test(`a pod stays as it was when its file ${it}, and the new content counts when it is good again`, async () => {
    const { folder, reader, notices } = aFolder({ 'web.yaml': manifest('web') });
    const before = await folder.read(signal);
    change(reader);
    assert.deepEqual((await folder.read(signal)).pods, before.pods);
    assert.deepEqual((await folder.read(signal)).pods, before.pods);
    assert.equal(notices.length, 1);
    reader.write('web.yaml', manifest('web', 'nginx:2'));
    assert.equal((await folder.read(signal)).pods[0]?.spec.containers[0]?.image, 'nginx:2');
    const isFolder = notices[0]?.kind === 'ManifestsUnreadable';
    assert.deepEqual(notices.slice(1), isFolder ? [] : [{ kind: 'ManifestAccepted', file: 'web.yaml' }]);
    reader.delete('web.yaml');
    assert.deepEqual(names(await folder.read(signal)), []);
  });
}

test('one file may hold several pods and objects; hidden files and those of editors are left alone', async () => {
  const { folder, notices } = aFolder({
    'all.yaml': [manifest('a'), settings, manifest('b')].join('---\n'),
    '.all.yaml.swp': 'no',
    'all.yaml~': manifest('c'),
    '#all.yaml#': 'no',
    'secret.yaml': 'apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nstringData: {k: v}\n',
  });
  const content = await folder.read(signal);
  assert.deepEqual(names(content), ['a-node-1', 'b-node-1']);
  assert.equal(content.objects.get(configMapKind, 'default', 'settings')?.data?.['a'], '1');
  assert.equal(content.objects.get(secretKind, 'shop', 's')?.data?.['k'], Buffer.from('v').toString('base64'));
  assert.deepEqual(notices, []);
});

test('an object of the folder has a version that changes with its content and with nothing else', async () => {
  const { folder, reader } = aFolder({ a: settings });
  const version = async (): Promise<string | undefined> =>
    (await folder.read(signal)).objects.get(configMapKind, 'default', 'settings')?.metadata.resourceVersion;
  const first = await version();
  reader.write('a', `# said again\n${settings}`);
  assert.equal(await version(), first);
  reader.write('a', settings.replace('"1"', '"2"'));
  assert.notEqual(await version(), first);
});

test('of two files with the same pod the later in the order of names counts, and both are named once', async () => {
  const { folder, reader, notices } = aFolder({ b: manifest('web', 'two'), a: manifest('web', 'one') });
  const images = async (): Promise<readonly unknown[]> =>
    (await folder.read(signal)).pods.map(({ spec }) => spec.containers[0]?.image);
  assert.deepEqual(await images(), ['two']);
  assert.deepEqual(await images(), ['two']);
  const repeated = { kind: 'PodRepeated', pod: 'default/web-node-1', files: ['a', 'b'] } as const;
  assert.deepEqual(notices, [repeated]);
  reader.delete('b');
  assert.deepEqual(await images(), ['one']);
  reader.write('b', manifest('web', 'two'));
  assert.deepEqual(await images(), ['two']);
  assert.deepEqual(notices, [repeated, repeated]);
});

test('folderContents waits until a change has come to rest, and reads again from time to time anyway', async () => {
  const clock = new FakeClock();
  const reader = new MemoryFolder({ a: manifest('a') });
  const stop = new AbortController();
  const seen: string[] = [];
  const running = (async () => {
    const timing = { nodeName: 'n', rereadPeriodMs: 20_000, quietMs: 100 };
    for await (const content of folderContents({ reader, clock, notify: () => {} }, timing, stop.signal)) {
      seen.push(names(content).join(' '));
    }
  })();
  await settle();
  assert.deepEqual(seen, ['a-n']);
  reader.write('b', manifest('b'));
  reader.tell();
  await settle();
  await clock.advance(90);
  reader.write('b', manifest('c'));
  reader.tell();
  await settle();
  await clock.advance(90);
  assert.deepEqual(seen, ['a-n'], 'still being written');
  await clock.advance(10);
  await settle();
  assert.deepEqual(seen, ['a-n', 'a-n c-n']);
  reader.delete('b');
  await clock.advance(20_000);
  await settle();
  assert.deepEqual(seen, ['a-n', 'a-n c-n', 'a-n'], 'nobody told of this change');
  stop.abort();
  await running;
});
