import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ImageReferenceError } from '../values/image-reference.ts';
import {
  type Keyring,
  type PullSecret,
  PullSecretError,
  credentialsFor,
  credentialsForRepository,
  globMatches,
  isOnDefaultRegistry,
  parsePullSecrets,
  registryKey,
  registryMatches,
} from './pull-credentials.ts';

const matches: [key: string, repository: string, expected: boolean][] = [
  ['*.kubernetes.io', 'prefix.kubernetes.io', true],
  ['prefix.*.io', 'prefix.kubernetes.io', true],
  ['prefix.kubernetes.*', 'prefix.kubernetes.io', true],
  ['*-good.kubernetes.io', 'prefix-good.kubernetes.io', true],
  ['*.kubernetes.io/blah', 'prefix.kubernetes.io/blah', true],
  ['prefix.*.io/foo', 'prefix.kubernetes.io/foo/bar', true],
  ['*.kubernetes.io:1111/blah', 'prefix.kubernetes.io:1111/blah', true],
  ['prefix.*.io:1111/foo', 'prefix.kubernetes.io:1111/foo/bar', true],
  ['*.kubernetes.io', 'kubernetes.io', false],
  ['*.*.kubernetes.io', 'prefix.kubernetes.io', false],
  ['*.*.kubernetes.io', 'kubernetes.io', false],
  ['*kubernetes.io', 'a.kubernetes.io', false],
  ['*kubernetes.io', 'kubernetes.io', true],
  ['*.*.*.kubernetes.io', 'a.b.c.kubernetes.io', true],
  ['kubernetes.io', 'kubernetes.com', false],
  ['k*.io', 'quay.io', false],
  ['*.kubernetes.io:1234/blah', 'prefix.kubernetes.io:1111/blah', false],
  ['prefix.*.io/foo', 'prefix.kubernetes.io:1111/foo/bar', false],
  ['[2001:db8::1]:5000', '[2001:db8::1]:5000/a', true],
  ['[2001:db8::1]', '[2001:db8::1]/a', true],
  ['[2001:db8::1]', '[2001:db8::2]/a', false],
  ['[a-z].io', 'a.io', false],
  ['x[a-z].io', 'xa.io', true],
];
for (const [key, repository, expected] of matches) {
  test(`${key} ${expected ? 'fits' : 'does not fit'} ${repository}`, () => {
    assert.equal(registryMatches(key, repository), expected);
  });
}

const hits: [written: string, repository: string][] = [
  ['https://hello.kubernetes.io', 'hello.kubernetes.io'],
  ['https://*.docker.io', 'prefix.docker.io'],
  ['https://prefix.*.io', 'prefix.docker.io'],
  ['https://prefix.docker.*', 'prefix.docker.io'],
  ['https://*.docker.io/path', 'prefix.docker.io/path'],
  ['https://prefix.*.io/path', 'prefix.docker.io/path/subpath'],
  ['https://*.docker.io:8888', 'prefix.docker.io:8888'],
  ['https://*.docker.io/path:1111', 'prefix.docker.io/path:1111'],
  ['https://*.docker.io/v1/', 'prefix.docker.io/path:1111'],
  ['https://*.docker.io/v2/', 'prefix.docker.io/path:1111'],
  ['http://*.docker.io/v2/', 'prefix.docker.io/path:1111'],
  ['prefix.docker.io:1111', 'prefix.docker.io:1111/path'],
  ['*.docker.io:1111', 'prefix.docker.io:1111/path'],
];
for (const [written, repository] of hits) {
  test(`credentials for ${written} serve ${repository}`, () => {
    assert.equal(users(keyring({ [written]: 'foo:bar' }), `${repository}/foo/bar`), 'foo');
  });
}

const misses: [written: string, repository: string][] = [
  ['https://hello.kubernetes.io', 'world.mesos.org/foo/bar'],
  ['https://*.docker.com', 'prefix.docker.io'],
  ['https://suffix.*.io', 'prefix.docker.io'],
  ['https://prefix.docker.c*', 'prefix.docker.io'],
  ['https://prefix.*.io/path:1111', 'prefix.docker.io/path/subpath:1111'],
  ['suffix.*.io', 'prefix.docker.io'],
  ['https://index.docker.io/v1/', 'world.mesos.org/foo/bar'],
];
for (const [written, repository] of misses) {
  test(`credentials for ${written} do not serve ${repository}`, () => {
    assert.equal(users(keyring({ [written]: 'foo:bar' }), `${repository}/foo/bar`), '');
  });
}

const hub: [image: string, expected: boolean][] = [
  ['foo/bar', true],
  ['docker.io/foo/bar', true],
  ['index.docker.io/foo/bar', true],
  ['foo', true],
  ['', false],
  ['registry.tld/foo/bar', false],
  ['registry:5000/foo/bar', false],
  ['myhostdocker.io/foo/bar', false],
];
for (const [image, expected] of hub) {
  test(`${JSON.stringify(image)} is ${expected ? '' : 'not '}on Docker Hub`, () => {
    assert.equal(isOnDefaultRegistry(image), expected);
    const ring = keyring({ 'https://index.docker.io/v1/': 'foo:bar' });
    assert.equal(users(ring, image), expected ? 'foo' : '');
  });
}

test('an image is looked up by its full name without tag and digest', () => {
  const ring = keyring({ 'https://index.docker.io/v1/': 'hub:x', 'quay.io/team': 'quay:x', 'quay.io': 'all:x' });
  assert.deepEqual(names(credentialsFor(ring, 'nginx:1.2')), ['hub']);
  assert.deepEqual(names(credentialsFor(ring, 'quay.io/team/app:1')), ['quay', 'all']);
  assert.deepEqual(names(credentialsFor(ring, 'quay.io/other')), ['all']);
  assert.deepEqual(names(credentialsFor(keyring({ 'docker.io': 'a:x', 'index.docker.io': 'b:x' }), 'nginx')), ['a']);
  assert.throws(() => credentialsFor(ring, 'http://root'), ImageReferenceError);
});

const lookups: [repository: string, found: string][] = [
  ['bar.example.com', 'ada'],
  ['bar.example.com/pong', 'grace ada'],
  ['bar.example.com/ping', 'ada'],
  ['bar.example.com/pongz', 'grace ada'],
  ['bar.example.com/pong/pang', 'grace ada'],
  ['example.com', ''],
  ['foo.example.com', ''],
];
for (const [repository, found] of lookups) {
  test(`for ${repository} the longest key comes first: ${found === '' ? 'none' : found}`, () => {
    const ring = keyring({ 'bar.example.com': 'ada:smash', 'bar.example.com/pong': 'grace:squash' });
    assert.equal(users(ring, repository), found);
  });
}

test('several secrets for one registry are all tried, in the order of the secrets', () => {
  const ring = parsePullSecrets([
    configJson({ 'quay.io': { auth: base64('one:1') } }),
    { type: 'Opaque', data: { '.dockerconfigjson': base64('nonsense') } },
    { type: 'kubernetes.io/dockercfg', data: { '.dockerconfigjson': base64('nonsense') } },
    { type: 'kubernetes.io/dockerconfigjson', data: { '.dockerconfigjson': '' } },
    {
      type: 'kubernetes.io/dockercfg',
      data: { '.dockercfg': base64('{"https://quay.io/v2/": {"auth": "dHdvOjI="}}') },
    },
    {},
  ]);
  assert.deepEqual(credentialsFor(ring, 'quay.io/a'), [
    { registry: 'quay.io', username: 'one', password: '1' },
    { registry: 'quay.io', username: 'two', password: '2' },
  ]);
});

const logins: [entry: unknown, login: string][] = [
  [{ username: 'foo', password: 'bar', email: 'foo@example.com' }, 'foo bar'],
  [{ auth: 'Zm9vOmJhcg==', email: 'foo@example.com' }, 'foo bar'],
  [{ username: 'foo', password: 'bar', auth: 'cGluZzpwb25n' }, 'ping pong'],
  [{ auth: 'Zm9vOmJhcg' }, 'foo bar'],
  [{ auth: 'Zm9vOm\nJhcg==\n' }, 'foo bar'],
  [{ auth: base64('a:b:c') }, 'a b:c'],
  [{ auth: base64(':') }, ' '],
  [{ Username: 'foo', PASSWORD: 'bar' }, 'foo bar'],
  [{ username: 'foo', password: null, identitytoken: 7 }, 'foo '],
  [null, ' '],
];
for (const [entry, login] of logins) {
  test(`the entry ${JSON.stringify(entry)} logs in as ${JSON.stringify(login)}`, () => {
    const [found] = credentialsFor(parsePullSecrets([configJson({ 'r.io': entry })]), 'r.io/a');
    assert.equal(`${found?.username} ${found?.password}`, login);
  });
}

const malformed: [json: string, problem: string | RegExp][] = [
  [
    '{"auths": {"r.io": {"auth": "cGFudHM="}}}',
    /entry 1: unable to parse auth field, must be formatted as base64\(username:password\)$/,
  ],
  [
    '{"auths": {"a.io": {}, "r.io": {"auth": "Zm9vOmJhcg== "}}}',
    '.dockerconfigjson has an invalid entry 2: "auth" is not base64',
  ],
  ['{"auths": {"r.io": {"auth": "pants"}}}', '.dockerconfigjson has an invalid entry 1: "auth" is not base64'],
  ['{"auths": {"r.io": {"auth": "Zm9vOmJhcg="}}}', '.dockerconfigjson has an invalid entry 1: "auth" is not base64'],
  ['{"auths": {"r.io": {"email": false}}}', '.dockerconfigjson has an invalid entry 1: "email" is not a string'],
  ['{"auths": {"r.io": "x"}}', '.dockerconfigjson has an invalid entry 1: it is no object'],
  ['{"auths": []}', '.dockerconfigjson has "auths" that are no object'],
  ['[]', '.dockerconfigjson is not a JSON object'],
  [
    '{"auths": {"r.io": {"auth": "Zm9v"}',
    /^Cannot read pull secret "pull": \.dockerconfigjson is not valid JSON( \(at character \d+\))?$/,
  ],
  ['hunter2', /^Cannot read pull secret "pull": \.dockerconfigjson is not valid JSON( \(at character \d+\))?$/],
];
for (const [json, problem] of malformed) {
  test(`the pull secret ${json} is refused`, () => {
    const secret = { ...configText(json), name: 'pull' };
    const expected =
      typeof problem === 'string' ? { message: `Cannot read pull secret "pull": ${problem}` } : { message: problem };
    assert.throws(() => parsePullSecrets([secret]), PullSecretError);
    assert.throws(() => parsePullSecrets([secret]), expected);
  });
}

test('a config without auths, or with null for them, has no credentials', () => {
  for (const json of ['{}', '{"auths": null}', 'null', '{"credHelpers": {"r.io": "x"}}']) {
    assert.equal(parsePullSecrets([configText(json)]).size, 0, json);
  }
});

const keys: [written: string, key: string | undefined][] = [
  ['quay.io', 'quay.io'],
  ['https://quay.io/', 'quay.io'],
  ['https://quay.io/v1/', 'quay.io'],
  ['http://quay.io/v2/team', 'quay.io/team'],
  ['quay.io/v1', 'quay.io/v1'],
  ['quay.io/v3/', 'quay.io/v3/'],
  ['quay.io:443/a?b#c', 'quay.io:443/a'],
  ['user@quay.io', 'quay.io'],
  ['quay.io/a%20b', 'quay.io/a b'],
  ['quay.io:port', undefined],
  ['quay.io/%zz', undefined],
  ['quay io', undefined],
  ['[::1', undefined],
  ['quay.io\n', undefined],
];
for (const [written, key] of keys) {
  test(`credentials under ${JSON.stringify(written)} are ${key === undefined ? 'left out' : `kept under ${key}`}`, () => {
    assert.equal(registryKey(written), key);
    assert.deepEqual([...keyring({ [written]: 'a:b' }).keys()], key === undefined ? [] : [key]);
  });
}

test('a key named __proto__ is a registry like any other', () => {
  const ring = parsePullSecrets([configText('{"auths": {"__proto__": {"username": "a", "password": "b"}}}')]);
  assert.deepEqual([...ring.keys()], ['__proto__']);
});

test('no error carries a byte of the secret, whatever is wrong with it', () => {
  const secret = 'S3CRET';
  const json = fc.string({
    unit: fc.constantFrom(secret, '{', '}', '"auths"', ':', ',', '"', '[', 'null', '"auth"', '\n'),
  });
  fc.assert(
    fc.property(json, (text) => {
      try {
        parsePullSecrets([configText(text), { type: 'kubernetes.io/dockercfg', data: { '.dockercfg': base64(text) } }]);
      } catch (error) {
        assert.ok(error instanceof PullSecretError, String(error));
        assert.ok(!`${error.message}${String(error.cause)}${error.stack}`.includes(secret));
      }
    }),
    { numRuns: 500 },
  );
});

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

function configText(json: string): PullSecret {
  return { type: 'kubernetes.io/dockerconfigjson', data: { '.dockerconfigjson': base64(json) } };
}

function configJson(auths: Record<string, unknown>): PullSecret {
  return configText(JSON.stringify({ auths }));
}

function keyring(loginOf: Record<string, string>): Keyring {
  const auths = Object.entries(loginOf).map(([registry, login]) => [registry, { auth: base64(login) }]);
  return parsePullSecrets([configJson(Object.fromEntries(auths))]);
}

function names(credentials: readonly { readonly username: string }[]): string[] {
  return credentials.map(({ username }) => username);
}

function users(ring: Keyring, repository: string): string {
  return names(credentialsForRepository(ring, repository)).join(' ');
}

const cases: [pattern: string, text: string, matches: boolean][] = [
  ['abc', 'abc', true],
  ['*', 'abc', true],
  ['*', '', true],
  ['*c', 'abc', true],
  ['a*', 'a', true],
  ['a*', 'abc', true],
  ['a*b*c*d*e*', 'axbxcxdxe', true],
  ['a*b*c*d*e*', 'axbxcxdxexxx', true],
  ['a*b?c*x', 'abxbbxdbxebxczzx', true],
  ['a*b?c*x', 'abxbbxdbxebxczzy', false],
  ['ab[c]', 'abc', true],
  ['ab[b-d]', 'abc', true],
  ['ab[e-g]', 'abc', false],
  ['ab[^c]', 'abc', false],
  ['ab[^b-d]', 'abc', false],
  ['ab[^e-g]', 'abc', true],
  [String.raw`a\*b`, 'a*b', true],
  [String.raw`a\*b`, 'ab', false],
  ['a?b', 'a☺b', true],
  ['a[^a]b', 'a☺b', true],
  ['a???b', 'a☺b', false],
  ['[a-ζ]*', 'α', true],
  ['*[a-ζ]', 'A', false],
  [String.raw`[\]a]`, ']', true],
  [String.raw`[\-]`, '-', true],
  [String.raw`[x\-]`, 'x', true],
  ['[]a]', ']', false],
  ['[-]', '-', false],
  ['[x-]', 'x', false],
  ['[-x]', 'x', false],
  ['\\', 'a', false],
  ['[a-b-c]', 'a', false],
  ['[', 'a', false],
  ['[^', 'a', false],
  ['[^bc', 'a', false],
  ['a[', 'a', false],
  ['a[', 'ab', false],
  ['*x', 'xxx', true],
  ['', '', true],
  ['', 'a', false],
];
for (const [pattern, text, isMatch] of cases) {
  test(`${JSON.stringify(pattern)} ${isMatch ? 'matches' : 'does not match'} ${JSON.stringify(text)}`, () => {
    assert.equal(globMatches(pattern, text), isMatch);
  });
}

test('globMatches agrees with a regular expression on stars and question marks', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 8 });
  const pattern = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), maxLength: 6 });
  fc.assert(
    fc.property(pattern, text, (glob, candidate) => {
      const expression = new RegExp(`^${glob.replaceAll('*', '.*').replaceAll('?', '.')}$`);
      assert.equal(globMatches(glob, candidate), expression.test(candidate));
    }),
  );
});

test('a pattern of many stars does not hang', () => {
  assert.equal(globMatches('*a'.repeat(40) + 'b', 'a'.repeat(5_000)), false);
});
