/** ConfigMaps and Secrets as files: the rules they share, each tested with both. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Payload } from '../disk/writer/payload.ts';
import { configMapPayload } from './configmap.ts';
import type { KeyProjection } from './projection.ts';
import { secretPayload } from './secret.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

const kinds = [
  {
    kind: 'configMap',
    payload: (projection: KeyProjection) =>
      configMapPayload({ data: { a: 'A', b: 'B' }, binaryData: { c: base64('\0C') } }, projection),
    missing: 'configmap references non-existent config key: nope',
  },
  {
    kind: 'secret',
    payload: (projection: KeyProjection) =>
      secretPayload({ data: { a: base64('A'), b: base64('B'), c: base64('\0C') } }, projection),
    missing: 'references non-existent secret key: nope',
  },
];

function shown(payload: Payload): Record<string, string> {
  const entries = [...payload].map(([path, { data, mode, uid }]) => {
    const owner = uid === undefined ? '' : ` ${uid}`;
    return [path, `${JSON.stringify(Buffer.from(data).toString())} ${mode.toString(8)}${owner}`] as const;
  });
  return Object.fromEntries(entries);
}

const all = { a: '"A" 644', b: '"B" 644', c: '"\\u0000C" 644' };
const cases: { it: string; projection: KeyProjection; files: Record<string, string> }[] = [
  { it: 'no items means all keys', projection: {}, files: all },
  { it: 'an empty list of items means all keys', projection: { items: [] }, files: all },
  {
    it: 'one listed key is the only file',
    projection: { items: [{ key: 'b', path: 'etc/b.conf' }] },
    files: { 'etc/b.conf': '"B" 644' },
  },
  {
    it: 'an item finds text and binary keys',
    projection: {
      items: [
        { key: 'a', path: 'a' },
        { key: 'c', path: 'c' },
      ],
    },
    files: { a: '"A" 644', c: '"\\u0000C" 644' },
  },
  {
    it: 'a missing key of an optional source is left out, which may leave nothing',
    projection: { optional: true, items: [{ key: 'nope', path: 'x' }] },
    files: {},
  },
  {
    it: 'a mode of the item beats the default mode',
    projection: {
      items: [
        { key: 'a', path: 'a', mode: 0o400 },
        { key: 'b', path: 'b' },
      ],
    },
    files: { a: '"A" 400', b: '"B" 644' },
  },
  {
    it: 'a user of the item beats the default user',
    projection: {
      defaultUser: 7,
      items: [
        { key: 'a', path: 'a', user: 9 },
        { key: 'b', path: 'b' },
      ],
    },
    files: { a: '"A" 644 9', b: '"B" 644 7' },
  },
  {
    it: 'user 0 is a user too',
    projection: { defaultUser: 7, items: [{ key: 'a', path: 'a', user: 0 }] },
    files: { a: '"A" 644 0' },
  },
  {
    it: 'one key may be shown at several paths, and the later of two items with one path wins',
    projection: {
      items: [
        { key: 'a', path: 'x' },
        { key: 'a', path: 'y' },
        { key: 'b', path: 'x' },
      ],
    },
    files: { x: '"B" 644', y: '"A" 644' },
  },
];
for (const { kind, payload, missing } of kinds) {
  for (const { it, projection, files } of cases) {
    test(`${it} (${kind})`, () => {
      assert.deepEqual(shown(payload({ defaultMode: 0o644, ...projection })), files);
    });
  }

  test(`a missing listed key is an error (${kind})`, () => {
    const projection = {
      defaultMode: 0o644,
      items: [
        { key: 'a', path: 'a' },
        { key: 'nope', path: 'x' },
      ],
    };
    assert.throws(() => payload(projection), { reason: 'KeyMissing', message: missing });
  });

  test(`no default mode is an error (${kind})`, () => {
    assert.throws(() => payload({}), { message: 'no defaultMode used, not even the default value for it' });
  });

  test(`a listed key is not found in an object's prototype (${kind})`, () => {
    assert.throws(() => payload({ defaultMode: 0o644, items: [{ key: 'toString', path: 'x' }] }), {
      reason: 'KeyMissing',
    });
  });
}

test('a key in both maps of a ConfigMap shows the binary value, but the text when it is listed', () => {
  const both = { data: { k: 'text' }, binaryData: { k: base64('binary') } };
  assert.deepEqual(shown(configMapPayload(both, { defaultMode: 0o644 })), { k: '"binary" 644' });
  const items = [{ key: 'k', path: 'k' }];
  assert.deepEqual(shown(configMapPayload(both, { defaultMode: 0o644, items })), { k: '"text" 644' });
});

test('the content of a ConfigMap is its UTF-8 bytes, and binary content any bytes', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.uint8Array(), (text, bytes) => {
      const object = { data: { text }, binaryData: { bytes: Buffer.from(bytes).toString('base64') } };
      const payload = configMapPayload(object, { defaultMode: 0o600 });
      assert.deepEqual(Buffer.from(payload.get('text')?.data ?? []), Buffer.from(text, 'utf8'));
      assert.deepEqual(Buffer.from(payload.get('bytes')?.data ?? []), Buffer.from(bytes));
    }),
  );
});

test('no text about a Secret holds what is in it', () => {
  const secret = { data: { password: base64('hunter2') } };
  const projection = { defaultMode: 0o600, items: [{ key: 'passwort', path: 'p' }] };
  assert.throws(
    () => secretPayload(secret, projection),
    (error) => !String(error).includes('hunter2'),
  );
});
