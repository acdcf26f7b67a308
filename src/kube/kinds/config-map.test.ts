import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { placeOf } from '../schema/field-errors.ts';
import { decode } from '../schema/schema.ts';
import {
  type ConfigMap,
  base64SizeBytes,
  configMapKind,
  configMapShape,
  decodeBase64,
  defaultConfigMap,
  encodeBase64,
} from './config-map.ts';

const metadata = { name: 'web', namespace: 'shop', resourceVersion: '1' };
const badKey =
  "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

interface Case {
  readonly it: string;
  readonly object: Partial<ConfigMap>;
  readonly errors: readonly string[];
}

const cases: readonly Case[] = [
  { it: 'accepts an empty ConfigMap', object: {}, errors: [] },
  {
    it: 'asks for a name and a namespace',
    object: { metadata: { name: '' } },
    errors: ['metadata.name: Required value: name or generateName is required', 'metadata.namespace: Required value'],
  },
  {
    it: 'takes a name that is a DNS subdomain and a namespace that is a DNS label',
    object: { metadata: { name: 'Web', namespace: 'a.b' } },
    errors: [
      `metadata.name: Invalid value: "Web": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
      'metadata.namespace: Invalid value: "a.b": must not contain dots',
    ],
  },
  { it: 'accepts a key of 253 characters', object: { data: { ['k'.repeat(253)]: '' } }, errors: [] },
  {
    it: 'refuses a key of 254 characters',
    object: { data: { ['k'.repeat(254)]: '' } },
    errors: [`data[${'k'.repeat(254)}]: Invalid value: "${'k'.repeat(254)}": must be no more than 253 characters`],
  },
  { it: 'accepts a key with one dot in front', object: { data: { '.ab': '' } }, errors: [] },
  {
    it: 'refuses the keys that name directories',
    object: { data: { '.': '', '..': '', '..data': '' } },
    errors: [
      `data[.]: Invalid value: ".": must not be '.'`,
      `data[..]: Invalid value: "..": must not be '..'`,
      `data[..data]: Invalid value: "..data": must not start with '..'`,
    ],
  },
  {
    it: 'refuses keys with other characters in both maps',
    object: { data: { 'a/b': '' }, binaryData: { 'ä b': 'AA==' } },
    errors: [`data[a/b]: Invalid value: "a/b": ${badKey}`, `binaryData[ä b]: Invalid value: "ä b": ${badKey}`],
  },
  {
    it: 'refuses the empty key',
    object: { data: { '': 'x' } },
    errors: [`data[]: Invalid value: "": ${badKey}`],
  },
  {
    it: 'refuses a key that is in both maps',
    object: { data: { a: 'x' }, binaryData: { a: 'AA==' } },
    errors: ['data[a]: Invalid value: "a": duplicate of key present in binaryData'],
  },
  {
    it: 'does not take inherited properties for keys',
    object: { data: { constructor: 'x', toString: 'x' }, binaryData: { a: 'AA==' } },
    errors: [],
  },
  { it: 'accepts exactly 1 MiB', object: { data: { a: 'x'.repeat(1048576) } }, errors: [] },
  {
    it: 'refuses one byte more in one key',
    object: { data: { a: 'x'.repeat(1048577) } },
    errors: ['[]: Too long: may not be more than 1048576 bytes'],
  },
  {
    it: 'refuses one byte more in many keys, counting bytes and not characters',
    object: { data: { a: 'ä'.repeat(524287) }, binaryData: { b: 'AAA=', c: 'AA==' } },
    errors: ['[]: Too long: may not be more than 1048576 bytes'],
  },
];
for (const { it, object, errors } of cases) {
  test(`validateConfigMap ${it}`, () => {
    assert.deepEqual(messages(configMapKind.validate({ metadata, ...object })), errors);
  });
}

const stored: ConfigMap = { metadata, immutable: true, data: { a: '1' }, binaryData: { b: 'AAA=' } };
const frozen = (field: string): string => `${field}: Forbidden: field is immutable when \`immutable\` is set`;
const updates: readonly (Case & { readonly old: ConfigMap })[] = [
  { it: 'lets anything change while it is not immutable', old: { metadata, data: { a: '1' } }, object: {}, errors: [] },
  {
    it: 'lets it become immutable together with a change of data',
    old: { metadata, immutable: false, data: { a: '1' } },
    object: { immutable: true, data: { a: '2' } },
    errors: [],
  },
  { it: 'accepts the same again', old: stored, object: { ...stored }, errors: [] },
  {
    it: 'takes base64 of the same bytes for the same',
    old: stored,
    object: { ...stored, binaryData: { b: 'AA\nA=' } },
    errors: [],
  },
  {
    it: 'refuses to be made mutable',
    old: stored,
    object: { ...stored, immutable: false },
    errors: [frozen('immutable')],
  },
  {
    it: 'refuses changed and added data, also with immutable repeated',
    old: stored,
    object: { immutable: true, data: { a: '2' }, binaryData: { b: 'AAA=', c: 'AAA=' } },
    errors: [frozen('data'), frozen('binaryData')],
  },
  {
    it: 'refuses everything at once when all is left out',
    old: stored,
    object: {},
    errors: [frozen('immutable'), frozen('data'), frozen('binaryData')],
  },
  {
    it: 'lets metadata change and keeps its identity',
    old: stored,
    object: { ...stored, metadata: { name: 'other', namespace: 'shop', labels: { a: 'b' } } },
    errors: [
      'metadata.resourceVersion: Invalid value: "": must be specified for an update',
      'metadata.name: Invalid value: "other": field is immutable',
    ],
  },
];
for (const { it, old, object, errors } of updates) {
  test(`validateConfigMapUpdate ${it}`, () => {
    assert.deepEqual(messages(configMapKind.validateUpdate({ metadata, ...object }, old)), errors);
  });
}

test('an error in a map can be found where the decoder found its key', () => {
  const [key] = configMapKind.validate({ metadata, data: { 'a/b': '' } });
  const [size] = configMapKind.validate({ metadata, data: { a: 'x'.repeat(1048577) } });
  assert.deepEqual(key && placeOf(key), ['data', 'a/b']);
  assert.deepEqual(size && placeOf(size), []);
});

test('a key named __proto__ is a key like any other', () => {
  const json: unknown = JSON.parse('{"metadata":{"name":"a","namespace":"b"},"data":{"__proto__":"x"}}');
  const { value } = decode(configMapShape, json);
  assert.deepEqual(messages(configMapKind.validate(value)), []);
  assert.deepEqual(Object.keys(value.data ?? {}), ['__proto__']);
});

test('property: a defaulted ConfigMap with good keys is valid, and a second defaulting changes nothing', () => {
  const key = fc.stringMatching(/^[-_a-zA-Z0-9][-._a-zA-Z0-9]{0,20}$/);
  const configMap = fc.record({ immutable: fc.boolean(), data: fc.dictionary(key, fc.string()) }, { requiredKeys: [] });
  fc.assert(
    fc.property(configMap, (fields) => {
      const once = defaultConfigMap({ metadata, ...fields });
      assert.deepEqual(configMapKind.validate(once), []);
      assert.deepEqual(defaultConfigMap(once), once);
    }),
  );
});

function messages(errors: readonly { readonly message: string }[]): string[] {
  return errors.map(({ message }) => message);
}

test('property: the size of base64 is counted without decoding it, line breaks or not', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      const text = Buffer.from(bytes).toString('base64');
      const broken = text.replace(/.{76}/g, '$&\r\n');
      assert.equal(base64SizeBytes(text), bytes.length);
      assert.equal(base64SizeBytes(broken), bytes.length);
      assert.deepEqual(decodeBase64(broken), Buffer.from(bytes));
    }),
  );
});

test('encodeBase64 writes text as UTF-8', () => {
  assert.equal(encodeBase64('ü'), 'w7w=');
});
