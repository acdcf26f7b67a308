import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvalidPayloadPathError, planTree } from './payload.ts';
import type { Payload } from './payload.ts';

function payloadOf(...paths: string[]): Payload {
  return new Map(paths.map((path) => [path, { data: Buffer.from(path), mode: 0o644 }]));
}

const long = 'x'.repeat(255);
const wide = `${'d/'.repeat(2047)}fi`; // 4096 bytes

const refused = [
  { path: '', because: 'must not be empty: ""' },
  { path: '/etc/passwd', because: 'must be relative path: /etc/passwd' },
  { path: '/'.repeat(5000), because: `must be relative path: ${'/'.repeat(5000)}` },
  { path: `${wide}l`, because: 'must be less than or equal to 4096 characters' },
  { path: 'é'.repeat(2049), because: 'must be less than or equal to 4096 characters' },
  { path: '..', because: "must not contain '..': .." },
  { path: 'a/../b', because: "must not contain '..': a/../b" },
  { path: `../${long}x`, because: `must not contain '..': ../${long}x` },
  { path: `${long}x`, because: 'filenames must be less than or equal to 255 characters' },
  { path: `${long}x/..`, because: 'filenames must be less than or equal to 255 characters' },
  { path: 'é'.repeat(128), because: 'filenames must be less than or equal to 255 characters' },
  { path: '..sneaky.txt', because: "must not start with '..': ..sneaky.txt" },
  { path: '..data/a', because: "must not start with '..': ..data/a" },
  { path: './..data_tmp', because: "must not start with '..': ./..data_tmp" },
  { path: '.', because: 'must name a file: .' },
  { path: './/./', because: 'must name a file: .//./' },
  { path: 'a\0b', because: 'must not contain a null byte' },
  { path: 'a\ud800', because: 'must be valid Unicode' },
];
for (const { path, because } of refused) {
  test(`the path ${JSON.stringify(path.slice(0, 30))} refuses the payload`, () => {
    assert.throws(
      () => planTree(payloadOf('fine', path)),
      (error) => error instanceof InvalidPayloadPathError && error.message === `invalid path: ${because}`,
    );
  });
}

const accepted = [
  { path: 'i/am/well/behaved.txt', as: 'i/am/well/behaved.txt' },
  { path: '.dotfile', as: '.dotfile' },
  { path: '...', as: undefined },
  { path: 'p/..q/r', as: 'p/..q/r' },
  { path: long, as: long },
  { path: wide, as: wide },
  { path: 'foo////bar', as: 'foo/bar' },
  { path: 'bar///bar/zab.txt', as: 'bar/bar/zab.txt' },
  { path: './bar', as: 'bar' },
  { path: 'bar/', as: 'bar' },
  { path: 'a b/ü.txt', as: 'a b/ü.txt' },
];
for (const { path, as } of accepted) {
  const verdict = as === undefined ? 'is refused' : 'is accepted';
  test(`the path ${JSON.stringify(path.slice(0, 30))} ${verdict}`, () => {
    if (as === undefined) assert.throws(() => planTree(payloadOf(path)), /must not start with/);
    else assert.deepEqual([...planTree(payloadOf(path)).files.keys()], [as]);
  });
}

test('two paths that clean to the same one are one file, and the later is kept', () => {
  const { files } = planTree(payloadOf('a/b', 'c', 'a//b', './a/b'));
  assert.deepEqual(
    [...files].map(([path, { data }]) => [path, data.toString()]),
    [
      ['a/b', './a/b'],
      ['c', 'c'],
    ],
  );
});

for (const paths of [
  ['a', 'a/b'],
  ['a/b/c', 'a/b', 'x'],
]) {
  test(`a path that is both a file and a directory refuses the payload: ${paths.join(', ')}`, () => {
    assert.throws(() => planTree(payloadOf(...paths)), /^InvalidPayloadPathError: invalid path: .*not a directory/);
  });
}

test('links are the first elements, directories come parents first', () => {
  const tree = planTree(payloadOf('foo/bar/txt', 'foo/baz', 'bar/txt', 'top'));
  assert.deepEqual([...tree.links.keys()], ['foo', 'bar', 'top']);
  assert.deepEqual(tree.directories, ['foo', 'foo/bar', 'bar']);
});

test('a link is owned by the first file below it', () => {
  const data = Buffer.from('');
  const tree = planTree(
    new Map([
      ['d/a', { data, mode: 0o644, uid: 7 }],
      ['d/b', { data, mode: 0o644, uid: 8 }],
      ['c', { data, mode: 0o644 }],
    ]),
  );
  assert.deepEqual(
    [...tree.links],
    [
      ['d', 7],
      ['c', undefined],
    ],
  );
});

const wrong: readonly { readonly it: string; readonly payload: unknown; readonly message: string }[] = [
  { it: 'an object', payload: { a: 1 }, message: 'payload must be a Map of paths to files, and is an object' },
  {
    it: 'a path that is a number',
    payload: new Map([[1, { data: Buffer.from('x'), mode: 0o644 }]]),
    message: 'a path of a payload must be a string, and is number',
  },
  {
    it: 'a string as data',
    payload: new Map([['a', { data: 'text', mode: 0o644 }]]),
    message: 'payload file "a": data must be a Uint8Array, such as Buffer.from(text), and is string',
  },
  {
    it: 'no mode',
    payload: new Map([['a', { data: Buffer.from('x') }]]),
    message: 'payload file "a": mode must be a number, such as 0o644, and is undefined',
  },
  {
    it: 'a uid that is a text',
    payload: new Map([['a', { data: Buffer.from('x'), mode: 0o644, uid: 'root' }]]),
    message: 'payload file "a": uid must be a number, and is string',
  },
];
for (const { it, payload, message } of wrong) {
  test(`from plain JavaScript: ${it} is refused with the name of the field`, () => {
    assert.throws(() => planTree(payload as Payload), { name: 'TypeError', message });
  });
}
