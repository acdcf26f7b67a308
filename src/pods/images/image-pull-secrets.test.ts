import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Secret } from '../../kube/kinds/secret.ts';
import { aPod, aSecret, objectReader } from '../../testing/fakes/builders.ts';
import { collectPullSecrets, missingPullSecretsEvent, pullCredentials } from './image-pull-secrets.ts';

const { signal } = new AbortController();

function registrySecret(name: string, registry: string, username: string): Secret {
  const config = JSON.stringify({ auths: { [registry]: { username, password: 'hunter2' } } });
  return aSecret({ name, type: 'kubernetes.io/dockerconfigjson', data: { '.dockerconfigjson': config } });
}
const named = (...names: readonly string[]) => aPod({ imagePullSecrets: names.map((name) => ({ name })) });

test("pull secrets are read in the pod's order, without empty names", async () => {
  const reader = objectReader(registrySecret('a', 'a.example', 'ann'), registrySecret('b', 'b.example', 'bob'));
  const { secrets, missing } = await collectPullSecrets(named('b', '', 'a'), reader, signal);
  assert.deepEqual(
    secrets.map(({ metadata }) => metadata.name),
    ['b', 'a'],
  );
  assert.deepEqual(missing, []);
  assert.deepEqual(reader.asked, ['shop/b', 'shop/a']);
});

test('a secret that is missing or cannot be read is noted, and the rest is read', async () => {
  const found = registrySecret('c', 'c.example', 'cid');
  const reader = {
    get: (_namespace: string, name: string) =>
      name === 'broken' ? Promise.reject(new Error('timeout')) : Promise.resolve(name === 'c' ? found : undefined),
  };
  const { secrets, missing } = await collectPullSecrets(named('gone', 'broken', 'c'), reader, signal);
  assert.deepEqual(secrets, [found]);
  assert.deepEqual(missing, ['gone', 'broken']);
});

test('an abort is not taken for a missing secret', async () => {
  const abort = new AbortController();
  const reader = {
    get() {
      abort.abort(new Error('stopping'));
      return Promise.reject(new Error('closed'));
    },
  };
  await assert.rejects(collectPullSecrets(named('a'), reader, abort.signal), { message: 'stopping' });
});

test('missing secrets are reported in one event, and none when none is missing', () => {
  assert.equal(missingPullSecretsEvent({ secrets: [], missing: [] }), undefined);
  assert.deepEqual(missingPullSecretsEvent({ secrets: [], missing: ['a', 'b'] }), {
    type: 'Warning',
    reason: 'FailedToRetrieveImagePullSecret',
    message: 'Unable to retrieve some image pull secrets (a, b); attempting to pull the image may not succeed.',
  });
});

const ann = registrySecret('ann', 'registry.example', 'ann');
const bob = registrySecret('bob', 'https://registry.example/v2/', 'bob');
const legacy = aSecret({
  name: 'legacy',
  type: 'kubernetes.io/dockercfg',
  data: { '.dockercfg': JSON.stringify({ 'old.example': { auth: Buffer.from('old:pass:word').toString('base64') } }) },
});
const opaque = aSecret({ name: 'opaque', data: { '.dockerconfigjson': '{' } });
const wrongKey = aSecret({ name: 'wrong', type: 'kubernetes.io/dockercfg', data: { '.dockerconfigjson': '{' } });
const empty = aSecret({ name: 'empty', type: 'kubernetes.io/dockercfg', data: { '.dockercfg': '' } });

const cases: readonly {
  readonly it: string;
  readonly secrets: readonly Secret[];
  readonly image: string;
  readonly logins: readonly string[];
}[] = [
  { it: 'none without secrets', secrets: [], image: 'registry.example/web', logins: [] },
  { it: 'none for another registry', secrets: [ann], image: 'other.example/web', logins: [] },
  {
    it: 'all that fit, in the order of the secrets',
    secrets: [bob, ann],
    image: 'registry.example/web:1',
    logins: ['bob:hunter2', 'ann:hunter2'],
  },
  { it: 'those of the old format', secrets: [legacy], image: 'old.example/web', logins: ['old:pass:word'] },
  {
    it: 'none of secrets that do not count',
    secrets: [opaque, wrongKey, empty],
    image: 'registry.example/web',
    logins: [],
  },
];
for (const { it, secrets, image, logins } of cases) {
  test(`pullCredentials gives ${it}`, () => {
    assert.deepEqual(
      pullCredentials({ secrets, missing: [] }, image).map(({ username, password }) => `${username}:${password}`),
      logins,
    );
  });
}

test('a malformed secret for an image fails the image, and its content is not reported', () => {
  const broken = aSecret({
    name: 'broken',
    type: 'kubernetes.io/dockerconfigjson',
    data: { '.dockerconfigjson': '{"auths": hunter2' },
  });
  assert.throws(
    () => pullCredentials({ secrets: [broken], missing: [] }, 'registry.example/web'),
    (error) => error instanceof Error && error.message.includes('"broken"') && !error.message.includes('hunter2'),
  );
});
