import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { FakeClock, settle } from '../../testing/fakes/fake-clock.ts';
import { readCredentialProviders } from './credential-provider-config.ts';
import { type CredentialProviderFailed, CredentialProviders } from './credential-providers.ts';
import { NodeLoginFiles } from './node-login-files.ts';

const { signal } = new AbortController();
const directories = { root: '/root-dir', working: '/work-dir', home: '/home/me' };
const auths = (username: string): string =>
  JSON.stringify({ auths: { 'registry.example': { username, password: 'p' } } });
const old = (username: string): string => JSON.stringify({ 'registry.example': { username, password: 'p' } });

function loginFiles(files: Readonly<Record<string, string>>, clock = new FakeClock()) {
  const read: string[] = [];
  const logins = new NodeLoginFiles(
    {
      clock,
      read(path) {
        read.push(path);
        const text = files[path];
        return text === undefined ? Promise.reject(new Error('ENOENT')) : Promise.resolve(text);
      },
    },
    directories,
  );
  return {
    read,
    names: async (repository = 'registry.example/web') =>
      (await logins.loginsFor(repository)).map(({ username }) => username),
  };
}

test('files are looked for where the kubelet looks, config.json first', async () => {
  const { names, read } = loginFiles({});
  assert.deepEqual(await names(), []);
  assert.deepEqual(read, [
    '/root-dir/config.json',
    '/work-dir/config.json',
    '/home/me/.docker/config.json',
    '/.docker/config.json',
    '/root-dir/.dockercfg',
    '/work-dir/.dockercfg',
    '/home/me/.dockercfg',
    '/.dockercfg',
  ]);
});

const found = [
  {
    it: 'the first config.json',
    files: { '/root-dir/config.json': auths('a'), '/.docker/config.json': auths('b') },
    names: ['a'],
  },
  {
    it: 'the next after a broken one',
    files: { '/root-dir/config.json': '{', '/.docker/config.json': auths('b') },
    names: ['b'],
  },
  { it: 'a .dockercfg where there is no config.json', files: { '/.dockercfg': old('c') }, names: ['c'] },
  {
    it: 'a config.json before a .dockercfg',
    files: { '/root-dir/.dockercfg': old('c'), '/.docker/config.json': auths('b') },
    names: ['b'],
  },
  {
    it: 'nothing of an empty entry',
    files: { '/root-dir/config.json': '{"auths":{"registry.example":{}},"credsStore":"x"}' },
    names: [],
  },
];
for (const { it, files, names } of found) {
  test(`logins of the node are of ${it}`, async () => {
    assert.deepEqual(await loginFiles(files).names(), names);
  });
}

test('a file is read again after five minutes and not before', async () => {
  const clock = new FakeClock();
  const files: Record<string, string> = { '/root-dir/config.json': auths('a') };
  const { names, read } = loginFiles(files, clock);
  assert.deepEqual(await names(), ['a']);
  assert.deepEqual(await names('other.example/web'), []);
  files['/root-dir/config.json'] = auths('b');
  await clock.advance(299_999);
  assert.deepEqual(await names(), ['a']);
  await clock.advance(1);
  assert.deepEqual(await names(), ['b']);
  assert.equal(read.length, 2);
});

const version = 'credentialprovider.kubelet.k8s.io/v1';
const head = 'apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n';
const provider = (name: string, ...more: readonly string[]): string =>
  [
    `- name: ${name}`,
    `  apiVersion: ${version}`,
    '  matchImages: ["*.example"]',
    '  defaultCacheDuration: 10m',
    ...more,
    '',
  ].join('\n');

function readAll(...texts: readonly string[]) {
  return readCredentialProviders(texts.map((text, index) => ({ path: `/${index}.yaml`, text })));
}

test('providers of several files are one list', () => {
  const more = ['  args: ["--get", "a b"]', '  env: [{ name: A, value: "1" }]'];
  const { providers, problems } = readAll(head + provider('one', ...more), head + provider('two'));
  assert.deepEqual(problems, []);
  assert.deepEqual(providers, [
    {
      name: 'one',
      apiVersion: version,
      matchImages: ['*.example'],
      cacheMsDefault: 600_000,
      args: ['--get', 'a b'],
      env: { A: '1' },
    },
    { name: 'two', apiVersion: version, matchImages: ['*.example'], cacheMsDefault: 600_000, args: [], env: {} },
  ]);
});

const refused = [
  {
    it: 'none at all',
    texts: ['apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n'],
    says: /no provider is configured/,
  },
  {
    it: 'another kind',
    texts: ['apiVersion: v1\nkind: Pod\n'],
    says: /^\/0\.yaml: .*unknown|it must have apiVersion: kubelet\.config\.k8s\.io\/v1/,
  },
  { it: 'no YAML', texts: ['a: ['], says: /^\/0\.yaml: line 1/ },
  { it: 'a name twice', texts: [head + provider('one'), head + provider('one')], says: /"one" is configured twice/ },
  { it: 'a path for a name', texts: [head + provider('../sh')], says: /providers\[0\]\.name: "\.\.\/sh"/ },
  {
    it: 'an unknown field',
    texts: [head + provider('one', '  timeout: 1s')],
    says: /providers\[0\]\.timeout: unknown field/,
  },
  {
    it: 'another version',
    texts: [head + provider('one').replace(version, 'v2')],
    says: /apiVersion: "v2" must be one of/,
  },
  {
    it: 'no images',
    texts: [head + provider('one').replace('["*.example"]', '[]')],
    says: /matchImages: at least one/,
  },
  {
    it: 'a pattern that is no address',
    texts: [head + provider('one').replace('*.example', 'a b')],
    says: /matchImages: "a b"/,
  },
  { it: 'a negative duration', texts: [head + provider('one').replace('10m', '-1s')], says: /defaultCacheDuration/ },
  {
    it: 'tokens',
    texts: [head + provider('one', '  tokenAttributes: { serviceAccountTokenAudience: x }')],
    says: /tokenAttributes: service account tokens are not given/,
  },
];
for (const { it, texts, says } of refused) {
  test(`a configuration of providers with ${it} is refused`, () => {
    assert.match(readAll(...texts).problems.join('\n'), says);
  });
}

function asking(print: (image: string) => Promise<string>, configured = head + provider('one')) {
  const clock = new FakeClock();
  const notices: CredentialProviderFailed[] = [];
  const inputs: string[] = [];
  const run = (_provider: unknown, input: string): Promise<string> => {
    inputs.push(input);
    return print((JSON.parse(input) as { image: string }).image);
  };
  const logins = new CredentialProviders(
    { clock, run, notify: (notice) => notices.push(notice) },
    readAll(configured).providers,
  );
  const ask = async (image: string): Promise<string[]> =>
    (await logins.loginsFor(image, signal)).map(({ username, password }) => `${username}:${password}`);
  return { clock, notices, inputs, logins, ask };
}

function answer(parts: object): string {
  return JSON.stringify({
    kind: 'CredentialProviderResponse',
    apiVersion: version,
    cacheKeyType: 'Image',
    auth: {},
    ...parts,
  });
}
const auth = (match: string, username = 'u') => ({ [match]: { username, password: 'p' } });

test('a provider is asked about the images it is for, without their tags, and its answer is matched like docker configs', async () => {
  const { ask, inputs } = asking(() =>
    Promise.resolve(answer({ auth: { ...auth('*.example'), ...auth('b.example/x', 'v') } })),
  );
  assert.deepEqual(await ask('a.b.example/web'), [], 'a star stands for one label');
  assert.deepEqual(inputs, []);
  assert.deepEqual(await ask('b.example/x/web'), ['v:p', 'u:p']);
  assert.deepEqual(inputs, [
    `{"kind":"CredentialProviderRequest","apiVersion":"${version}","image":"b.example/x/web"}`,
  ]);
});

test('what several providers answer is one list: the longest path first, whoever gave it', async () => {
  const answers = [{ ...auth('b.example', 'one') }, { ...auth('b.example/x', 'two'), ...auth('b.example', 'three') }];
  const { ask } = asking(
    () => Promise.resolve(answer({ auth: answers.shift() ?? {} })),
    head + provider('one') + provider('two'),
  );
  assert.deepEqual(await ask('b.example/x/web'), ['two:p', 'one:p', 'three:p']);
});

test('a pull that ends leaves nothing on the signal of its pod', async () => {
  const { ask } = asking(() => Promise.resolve(answer({ auth: auth('*.example') })));
  await ask('b.example/web');
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});

const caches = [
  { it: 'for one image', parts: { cacheKeyType: 'Image' }, asked: ['a.example/x', 'a.example/y', 'b.example/z'] },
  { it: 'for a registry', parts: { cacheKeyType: 'Registry' }, asked: ['a.example/x', 'b.example/z'] },
  { it: 'for all images', parts: { cacheKeyType: 'Global' }, asked: ['a.example/x'] },
  {
    it: 'not at all with a duration of zero',
    parts: { cacheKeyType: 'Global', cacheDuration: '0s' },
    asked: ['a.example/x', 'a.example/x', 'a.example/y', 'b.example/z'],
  },
];
for (const { it, parts, asked } of caches) {
  test(`an answer is kept ${it}`, async () => {
    const { ask, inputs } = asking(() => Promise.resolve(answer(parts)));
    for (const image of ['a.example/x', 'a.example/x', 'a.example/y', 'b.example/z']) await ask(image);
    assert.deepEqual(
      inputs.map((input) => (JSON.parse(input) as { image: string }).image),
      asked,
    );
  });
}

const durations = [
  { it: 'as long as it says', parts: { cacheDuration: '1m0s' }, ms: 60_000 },
  { it: 'as long as is configured', parts: {}, ms: 600_000 },
  { it: 'as long as is configured where it says nothing', parts: { cacheDuration: null }, ms: 600_000 },
];
for (const { it, parts, ms } of durations) {
  test(`an answer is kept ${it}`, async () => {
    const { ask, inputs, clock } = asking(() => Promise.resolve(answer(parts)));
    await ask('a.example/x');
    await clock.advance(ms);
    await ask('a.example/x');
    assert.equal(inputs.length, 1);
    await clock.advance(1);
    await ask('a.example/x');
    assert.equal(inputs.length, 2);
  });
}

const bad = [
  {
    it: 'fails',
    output: () => Promise.reject(new Error('it ended with exit code 1')),
    says: 'it ended with exit code 1',
  },
  { it: 'prints no JSON', output: 'secret-word', says: 'it printed something else than JSON' },
  {
    it: 'prints another kind',
    output: answer({ kind: 'secret-word' }),
    says: 'it printed something else than a CredentialProviderResponse',
  },
  {
    it: 'prints an unknown field',
    output: answer({ token: 'secret-word' }),
    says: 'it printed something else than a CredentialProviderResponse',
  },
  {
    it: 'prints a wrong type',
    output: answer({ auth: { a: 'secret-word' } }),
    says: 'it printed something else than a CredentialProviderResponse',
  },
  {
    it: 'answers in another version',
    output: answer({ apiVersion: 'v2' }),
    says: `it answered in another version than ${version}, for which it is configured`,
  },
  {
    it: 'says nothing about images it holds for',
    output: answer({ cacheKeyType: 'secret-word' }),
    says: 'its cacheKeyType is none of Image, Registry and Global',
  },
  {
    it: 'gives no duration',
    output: answer({ cacheDuration: 'secret-word' }),
    says: 'its cacheDuration is not a duration',
  },
];
for (const { it, output, says } of bad) {
  test(`a provider that ${it} is reported and gives no login`, async () => {
    const { ask, notices } = asking(() => (typeof output === 'string' ? Promise.resolve(output) : output()));
    assert.deepEqual(await ask('a.example/x'), []);
    assert.deepEqual(notices, [
      { kind: 'CredentialProviderFailed', provider: 'one', image: 'a.example/x', message: says },
    ]);
  });
}

test('pods that need the same image at once share a run, and one that is deleted does not end it', async () => {
  let give: (text: string) => void = () => {};
  const { logins, inputs, ask } = asking(() => new Promise((resolve) => (give = resolve)));
  const stop = new AbortController();
  const first = assert.rejects(logins.loginsFor('a.example/x', stop.signal), /deleted/);
  const second = ask('a.example/x');
  await settle();
  stop.abort(new Error('deleted'));
  await first;
  give(answer({ auth: auth('a.example') }));
  assert.deepEqual(await second, ['u:p']);
  assert.equal(inputs.length, 1);
});
