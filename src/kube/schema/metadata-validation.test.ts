import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dnsSubdomainProblems } from '../values/names.ts';
import type { ObjectMeta } from './meta.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from './metadata-validation.ts';

const rules = { name: dnsSubdomainProblems, scope: 'namespace' } as const;
const meta = { name: 'web', namespace: 'shop' };
const qualifiedName =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const subdomain =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'a', uid: '1' };

interface Case {
  readonly it: string;
  readonly object: Partial<ObjectMeta>;
  readonly errors: readonly string[];
}

const cases: readonly Case[] = [
  {
    it: 'accepts all that may be set',
    object: {
      generateName: 'web-',
      labels: { 'example.com/a': 'b', c: '' },
      annotations: { 'Example.com/A': 'anything at all\n' },
      ownerReferences: [{ ...owner, controller: true }],
      finalizers: ['example.com/keep', 'orphan'],
    },
    errors: [],
  },
  {
    it: 'refuses a prefix that can begin no name',
    object: { generateName: '-' },
    errors: [`metadata.generateName: Invalid value: "-": ${subdomain}`],
  },
  {
    it: 'refuses a negative generation',
    object: { generation: -1 },
    errors: ['metadata.generation: Invalid value: -1: must be greater than or equal to 0'],
  },
  {
    it: 'names the map in errors of labels and annotations',
    object: { labels: { 'a b': 'c d' }, annotations: { '/x': '' } },
    errors: [
      `metadata.labels: Invalid value: "a b": name part ${qualifiedName}`,
      `metadata.labels: Invalid value: "c d": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
      'metadata.annotations: Invalid value: "/x": prefix part must be non-empty',
    ],
  },
  { it: 'accepts 256 KiB of annotations', object: { annotations: { a: 'x'.repeat(262143) } }, errors: [] },
  {
    it: 'refuses one byte more than 256 KiB of annotations',
    object: { annotations: { a: 'x'.repeat(262144) } },
    errors: ['metadata.annotations: Too long: may not be more than 262144 bytes'],
  },
  {
    it: 'wants owners complete',
    object: {
      ownerReferences: [
        { apiVersion: '', kind: '', name: '', uid: '' },
        { ...owner, apiVersion: 'a/b/c' },
      ],
    },
    errors: [
      'metadata.ownerReferences[0].apiVersion: Required value: must not be empty',
      'metadata.ownerReferences[0].kind: Required value: must not be empty',
      'metadata.ownerReferences[0].name: Required value: must not be empty',
      'metadata.ownerReferences[0].uid: Required value: must not be empty',
      'metadata.ownerReferences[1].apiVersion: Invalid value: "a/b/c": must be <group>/<version> or <version>',
    ],
  },
  {
    it: 'lets no Event own anything',
    object: { ownerReferences: [{ ...owner, apiVersion: 'v1', kind: 'Event' }] },
    errors: [
      'metadata.ownerReferences[0]: Invalid value: {"apiVersion":"v1","kind":"Event","name":"a","uid":"1"}: /v1, Kind=Event is disallowed from being an owner',
    ],
  },
  {
    it: 'allows one controller',
    object: {
      ownerReferences: [
        { ...owner, controller: true },
        { ...owner, name: 'b', controller: true },
      ],
    },
    errors: [
      'metadata.ownerReferences: Invalid value: [{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"a","uid":"1","controller":true},{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"b","uid":"1","controller":true}]: Only one reference can have Controller set to true. Found "true" in references for ReplicaSet/a and ReplicaSet/b',
    ],
  },
  {
    it: 'wants finalizers qualified, and not two that contradict each other',
    object: { finalizers: ['mine', 'orphan', 'foregroundDeletion'] },
    errors: [
      'metadata.finalizers: Invalid value: ["mine","orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set',
      'metadata.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified',
    ],
  },
];
for (const { it, object, errors } of cases) {
  test(`validateObjectMeta ${it}`, () => {
    assert.deepEqual(messages(validateObjectMeta({ ...meta, ...object }, rules)), errors);
  });
}

test('validateObjectMeta refuses a namespace for a kind of the whole cluster', () => {
  assert.deepEqual(messages(validateObjectMeta(meta, { ...rules, scope: 'cluster' })), [
    'metadata.namespace: Forbidden: not allowed on this type',
  ]);
});

test('validateObjectMetaUpdate keeps identity and time, and adds no finalizer to what is being deleted', () => {
  const old = { ...meta, uid: 'a', resourceVersion: '7', generation: 3, deletionTimestamp: '2026-01-01T00:00:00Z' };
  const changed = { ...old, uid: 'b', generation: 2, finalizers: ['b.com/x', 'a.com/x'], creationTimestamp: 'now' };
  assert.deepEqual(messages(validateObjectMetaUpdate(changed, old)), [
    'metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a.com/x", "b.com/x"}',
    'metadata.generation: Invalid value: 2: must not be decremented',
    'metadata.uid: Invalid value: "b": field is immutable',
    'metadata.creationTimestamp: Invalid value: "now": field is immutable',
  ]);
});

function messages(errors: readonly { readonly message: string }[]): string[] {
  return errors.map(({ message }) => message);
}
