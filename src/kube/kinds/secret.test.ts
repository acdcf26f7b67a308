import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type Secret, secretKind } from './secret.ts';

const metadata = { name: 'tls', namespace: 'shop', resourceVersion: '1' };
const base64 = (text: string): string => Buffer.from(text).toString('base64');
const redacted = 'Invalid value: "<secret contents redacted>"';

interface Case {
  readonly it: string;
  readonly object: Partial<Secret>;
  readonly errors: readonly string[];
}

const cases: readonly Case[] = [
  { it: 'accepts an opaque Secret without data', object: {}, errors: [] },
  { it: 'accepts any unknown type', object: { type: 'example.com/anything' }, errors: [] },
  { it: 'checks nothing of a bootstrap token', object: { type: 'bootstrap.kubernetes.io/token' }, errors: [] },
  {
    it: 'has the key rules of ConfigMaps',
    object: { data: { '..': '' } },
    errors: [`data[..]: Invalid value: "..": must not be '..'`],
  },
  {
    it: 'accepts exactly 1 MiB',
    object: { data: { a: Buffer.alloc(1048576).toString('base64') } },
    errors: [],
  },
  {
    it: 'refuses one byte more',
    object: { data: { a: Buffer.alloc(1048576).toString('base64'), b: 'AA==' } },
    errors: ['data: Too long: may not be more than 1048576 bytes'],
  },
  {
    it: 'asks a service account token for the name of its account',
    object: { type: 'kubernetes.io/service-account-token', metadata: { ...metadata, annotations: { a: 'b' } } },
    errors: ['metadata.annotations[kubernetes.io/service-account.name]: Required value'],
  },
  {
    it: 'accepts a service account token with the name of its account',
    object: {
      type: 'kubernetes.io/service-account-token',
      metadata: { ...metadata, annotations: { 'kubernetes.io/service-account.name': 'default' } },
    },
    errors: [],
  },
  {
    it: 'asks dockercfg for its key',
    object: { type: 'kubernetes.io/dockercfg' },
    errors: ['data[.dockercfg]: Required value'],
  },
  {
    it: 'asks dockerconfigjson for its key',
    object: { type: 'kubernetes.io/dockerconfigjson', data: { '.dockercfg': base64('{}') } },
    errors: ['data[.dockerconfigjson]: Required value'],
  },
  {
    it: 'refuses an empty docker configuration',
    object: { type: 'kubernetes.io/dockerconfigjson', data: { '.dockerconfigjson': '' } },
    errors: [`data[.dockerconfigjson]: ${redacted}: unexpected end of JSON input`],
  },
  {
    it: 'refuses a docker configuration that is cut off',
    object: { type: 'kubernetes.io/dockercfg', data: { '.dockercfg': base64('{"auths": {"a": 1') } },
    errors: [`data[.dockercfg]: ${redacted}: unexpected end of JSON input`],
  },
  {
    it: 'refuses a docker configuration that is not JSON, without quoting it',
    object: { type: 'kubernetes.io/dockercfg', data: { '.dockercfg': base64('Zpassword') } },
    errors: [`data[.dockercfg]: ${redacted}: invalid character in JSON input`],
  },
  {
    it: 'refuses a docker configuration that is a list',
    object: { type: 'kubernetes.io/dockercfg', data: { '.dockercfg': base64('[1]') } },
    errors: [
      `data[.dockercfg]: ${redacted}: json: cannot unmarshal array into Go value of type map[string]interface {}`,
    ],
  },
  {
    it: 'accepts a docker configuration that is an object, or null as Go does',
    object: { type: 'kubernetes.io/dockercfg', data: { '.dockercfg': base64('null') } },
    errors: [],
  },
  {
    it: 'asks basic-auth for one of two keys',
    object: { type: 'kubernetes.io/basic-auth' },
    errors: ['data[username]: Required value', 'data[password]: Required value'],
  },
  {
    it: 'accepts basic-auth with an empty password alone',
    object: { type: 'kubernetes.io/basic-auth', data: { password: '' } },
    errors: [],
  },
  {
    it: 'asks ssh-auth for a key that is not empty',
    object: { type: 'kubernetes.io/ssh-auth', data: { 'ssh-privatekey': '' } },
    errors: ['data[ssh-privatekey]: Required value'],
  },
  {
    it: 'asks tls for both keys and looks at neither',
    object: { type: 'kubernetes.io/tls', data: { 'tls.crt': '' } },
    errors: ['data[tls.key]: Required value'],
  },
];
for (const { it, object, errors } of cases) {
  test(`validateSecret ${it}`, () => {
    assert.deepEqual(messages(secretKind.validate({ metadata, ...object })), errors);
  });
}

const frozen = (field: string): string => `${field}: Forbidden: field is immutable when \`immutable\` is set`;
const stored: Secret = { metadata, type: 'Opaque', immutable: true, data: { a: base64('1') } };
const updates: readonly (Case & { readonly old: Secret })[] = [
  { it: 'keeps the type when none is given', old: { metadata, type: 'a/b' }, object: {}, errors: [] },
  {
    it: 'refuses another type',
    old: { metadata, type: 'Opaque' },
    object: { type: 'a/b' },
    errors: ['type: Invalid value: "a/b": field is immutable'],
  },
  {
    it: 'refuses a change of data and of the mark itself',
    old: stored,
    object: { data: { a: base64('2') } },
    errors: [frozen('immutable'), frozen('data')],
  },
  { it: 'accepts new metadata', old: stored, object: { ...stored, metadata }, errors: [] },
];
for (const { it, old, object, errors } of updates) {
  test(`validateSecretUpdate ${it}`, () => {
    assert.deepEqual(messages(secretKind.validateUpdate({ metadata, ...object }, old)), errors);
  });
}

test('defaultSecret folds stringData over data and removes it', () => {
  const secret = secretKind.complete({
    metadata,
    data: { a: base64('1'), b: base64('2') },
    stringData: { b: 'ü', c: '' },
  });
  assert.deepEqual({ ...secret.data }, { a: base64('1'), b: base64('ü'), c: '' });
  assert.equal(secret.type, 'Opaque');
  assert.ok(!('stringData' in secret));
});

test('property: a defaulted Secret is valid, its bytes are those given, and no second defaulting changes it', () => {
  const key = fc.stringMatching(/^[-_a-zA-Z0-9][-._a-zA-Z0-9]{0,20}$/);
  fc.assert(
    fc.property(fc.dictionary(key, fc.string()), (stringData) => {
      const once = secretKind.complete({ metadata, stringData });
      assert.deepEqual(secretKind.validate(once), []);
      assert.deepEqual(secretKind.complete(once), once);
      for (const [name, text] of Object.entries(stringData)) assert.equal(once.data?.[name], base64(text));
    }),
  );
});

test('property: whatever a docker configuration holds, no message repeats it', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[A-Z]{12,40}$/), (value) => {
      for (const text of [value, `{"a": ${value}`, `{"${value}`, `["${value}"]`]) {
        const data = { '.dockercfg': base64(text) };
        const errors = secretKind.validate({ metadata, type: 'kubernetes.io/dockercfg', data });
        assert.equal(errors.length, 1);
        assert.ok(!messages(errors).join().includes(value.slice(0, 6)));
      }
    }),
  );
});

function messages(errors: readonly { readonly message: string }[]): string[] {
  return errors.map(({ message }) => message);
}
