import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import type { CredentialProviderFailed } from '../../pods/images/credential-providers.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { openNodeLogins } from './node-logins.ts';

const { signal } = new AbortController();
const version = 'credentialprovider.kubelet.k8s.io/v1';

function configuration(name: string): string {
  const one = { name, apiVersion: version, matchImages: ['registry.example'], defaultCacheDuration: '0s' };
  const providers = [{ ...one, args: ['one two'], env: [{ name: 'GREETING', value: 'hello' }] }];
  return JSON.stringify({ apiVersion: 'kubelet.config.k8s.io/v1', kind: 'CredentialProviderConfig', providers });
}

/** With one provider, which is a shell script. */
function nodeWith(t: TestContext, script: string) {
  const directory = temporaryDirectory(t);
  const programs = join(directory, 'bin');
  mkdirSync(programs);
  writeFileSync(join(programs, 'provider'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const path = join(directory, 'providers.json');
  writeFileSync(path, configuration('provider'));
  const notices: CredentialProviderFailed[] = [];
  const deps = {
    clock: systemClock,
    environment: { PATH: '/usr/bin:/bin', DIRECTORY: directory },
    notify: (notice: CredentialProviderFailed) => notices.push(notice),
  };
  const open = (places = { configuration: path, programs }) => openNodeLogins(deps, directory, places, signal);
  const ask = async (): Promise<readonly string[]> => {
    const found = [];
    for (const source of await open()) found.push(...(await source.loginsFor('registry.example/web', signal)));
    return found.map(({ username, password }) => `${username}:${password}`);
  };
  return { directory, programs, path, open, ask, notices };
}

test("a provider gets its question on its input, with its arguments and this program's environment", async (t) => {
  const login = '{"username":"u","password":"p"}';
  const answer = `{"kind":"CredentialProviderResponse","apiVersion":"${version}","cacheKeyType":"Image","auth":{"registry.example":${login}}}`;
  const { ask, directory, notices } = nodeWith(
    t,
    `cat > $DIRECTORY/input; echo "$1 $GREETING" > $DIRECTORY/seen; echo '${answer}'`,
  );
  writeFileSync(join(directory, 'config.json'), '{"auths":{"registry.example":{"auth":"ZmlsZTpw"}}}');
  assert.deepEqual(await ask(), ['file:p', 'u:p'], 'files come before providers');
  assert.deepEqual(JSON.parse(readFileSync(join(directory, 'input'), 'utf8')), {
    kind: 'CredentialProviderRequest',
    apiVersion: version,
    image: 'registry.example/web',
  });
  assert.equal(readFileSync(join(directory, 'seen'), 'utf8'), 'one two hello\n');
  assert.deepEqual(notices, []);
});

const failures = [
  {
    it: 'fails',
    script: 'echo secret-word; echo no metadata service >&2; exit 3',
    says: /^it ended with exit code 3: no metadata service$/,
  },
  { it: 'answers without end', script: 'exec cat /dev/zero', says: /^it printed more than 1048576 bytes$/ },
  { it: 'complains without end', script: 'exec cat /dev/zero >&2', says: /^it printed more than 1048576 bytes/ },
];
for (const { it, script, says } of failures) {
  test(`a provider that ${it} is reported, and gives no login`, async (t) => {
    const { ask, notices } = nodeWith(t, script);
    assert.deepEqual(await ask(), []);
    assert.match(notices.map(({ message }) => message).join(), says);
  });
}

test('providers that cannot be used are found at the start', async (t) => {
  const { open, path, programs } = nodeWith(t, 'exit 0');
  await assert.rejects(
    open({ configuration: `${path}x`, programs }),
    /Cannot read the configuration of credential providers/,
  );
  await assert.rejects(
    open({ configuration: path, programs: `${programs}x` }),
    /plugin binary directory .* did not exist/,
  );
  chmodSync(join(programs, 'provider'), 0o644);
  await assert.rejects(open(), /error inspecting binary executable .*\/provider: /);
  writeFileSync(path, configuration('other'));
  await assert.rejects(open(), /plugin binary executable .*\/other did not exist/);
  writeFileSync(path, 'kind: Pod\n');
  await assert.rejects(open(), /it must have apiVersion: kubelet\.config\.k8s\.io\/v1/);
});

test('a directory of configurations is read in the order of the names', async (t) => {
  const { open, directory, programs } = nodeWith(t, 'exit 0');
  const folder = join(directory, 'all');
  mkdirSync(join(folder, 'x.yaml'), { recursive: true });
  writeFileSync(join(folder, 'notes.txt'), 'a: [');
  await assert.rejects(open({ configuration: folder, programs }), /no provider is configured/);
  writeFileSync(join(folder, 'b.yaml'), configuration('provider'));
  assert.equal((await open({ configuration: folder, programs })).length, 2);
  writeFileSync(join(folder, 'a.json'), configuration('provider'));
  await assert.rejects(open({ configuration: folder, programs }), /"provider" is configured twice/);
});
