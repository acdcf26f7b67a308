import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { configMapShape } from '../../kube/kinds/config-map.ts';
import { podShape } from '../../kube/kinds/pod/pod.ts';
import { serviceShape } from '../../kube/kinds/service.ts';
import type { Shape } from '../../kube/schema/schema.ts';
import { FieldSet, type PathElement, fieldElement, keyElement, pathText, valueElement } from './field-set.ts';
import type { Json, JsonObject } from './json-value.ts';
import { compareObjects, extractFieldSet } from './layout.ts';

const texts = (set: FieldSet): string[] => [...set.paths()].map(pathText);
const parse = (text: string): Json => JSON.parse(text) as Json;

test('a field set is written as managed fields spell it', () => {
  const set = FieldSet.of(
    [fieldElement('data')],
    [fieldElement('data'), fieldElement('k')],
    [
      fieldElement('l'),
      keyElement([
        ['protocol', 'TCP'],
        ['containerPort', 80],
      ]),
      fieldElement('name'),
    ],
    [fieldElement('s'), valueElement('<x>')],
  );
  assert.deepEqual(set.toJson(), {
    'f:data': { '.': {}, 'f:k': {} },
    'f:l': { 'k:{"containerPort":80,"protocol":"TCP"}': { 'f:name': {} } },
    'f:s': { 'v:"\\u003cx\\u003e"': {} },
  });
});

test('a field set is read whatever the order of its keys, and what a later version wrote is left out', () => {
  const set = FieldSet.fromJson(
    parse('{"f:l":{"k:{ \\"b\\":1, \\"a\\":2}":{}},"z:new":{"f:x":{}},"f:a":{".":{},"f:b":{}},"f:i":{"i:3":{}}}'),
  );
  assert.deepEqual(texts(set), ['.a', '.a.b', '.i[3]', '.l[a=2,b=1]']);
});

for (const broken of ['{"f":{}}', '{"k:{":{}}', '{"k:1":{}}', '{"v:":{}}', '{"i:x":{}}', '{"f:a":1}', '[]', '1']) {
  test(`a field set refuses ${broken}`, () => {
    assert.throws(() => FieldSet.fromJson(parse(broken)), SyntaxError);
  });
}

test('paths come in the order of the API server: fields, keyed items, values; by byte order and numbers', () => {
  const set = FieldSet.of(
    [valueElement('b')],
    [valueElement(10)],
    [valueElement(9)],
    [valueElement(true)],
    [keyElement([['name', 'b']])],
    [keyElement([['name', 'a']])],
    [
      keyElement([
        ['name', 'a'],
        ['port', 1],
      ]),
    ],
    [fieldElement('\u{1F600}')],
    [fieldElement('\uFFFD')],
    [fieldElement('a'), fieldElement('b')],
    [fieldElement('a')],
  );
  assert.deepEqual(texts(set), [
    '.a',
    '.\uFFFD',
    '.\u{1F600}',
    '[name="a"]',
    '[name="a",port=1]',
    '[name="b"]',
    '[=9]',
    '[=10]',
    '[="b"]',
    '[=true]',
    '.a.b',
  ]);
});

const anyElement: fc.Arbitrary<PathElement> = fc.oneof(
  fc.constantFrom('a', 'b', '.', '', '__proto__', 'constructor').map(fieldElement),
  fc.string().map(fieldElement),
  fc
    .dictionary(fc.constantFrom('name', 'port', '__proto__'), fc.oneof(fc.string(), fc.nat(), fc.boolean()), {
      minKeys: 1,
    })
    .map((keys) => keyElement(Object.entries(keys))),
  fc.oneof(fc.string(), fc.integer(), fc.boolean()).map(valueElement),
);
const anySet = fc.array(fc.array(anyElement, { minLength: 1, maxLength: 4 })).map((paths) => FieldSet.of(...paths));

test('a field set survives being written and read', () => {
  fc.assert(
    fc.property(anySet, (set) => {
      const json = JSON.stringify(set.toJson());
      const read = FieldSet.fromJson(parse(json));
      assert.ok(read.equals(set));
      assert.equal(JSON.stringify(read.toJson()), json);
    }),
  );
});

test('field sets obey the laws of sets', () => {
  const members = (set: FieldSet): Set<string> => new Set([...set.paths()].map((path) => path.join('\0')));
  fc.assert(
    fc.property(anySet, anySet, (a, b) => {
      const [x, y] = [members(a), members(b)];
      assert.deepEqual(members(a.union(b)), new Set([...x, ...y]));
      assert.deepEqual(members(a.intersection(b)), new Set([...x].filter((path) => y.has(path))));
      assert.deepEqual(members(a.difference(b)), new Set([...x].filter((path) => !y.has(path))));
      const gone = (path: string): boolean => [...y].some((other) => path === other || path.startsWith(`${other}\0`));
      assert.deepEqual(members(a.without(b)), new Set([...x].filter((path) => !gone(path))));
      assert.equal(a.isEmpty, x.size === 0);
      assert.ok(a.union(b).difference(b).union(b).equals(a.union(b)));
    }),
  );
});

const extractions: readonly { it: string; shape: Shape<unknown>; object: JsonObject; fields: readonly string[] }[] = [
  {
    it: 'each key of a map',
    shape: configMapShape,
    object: { data: { b: '1', a: '2' }, immutable: true },
    fields: ['.immutable', '.data.a', '.data.b'],
  },
  {
    it: 'an empty map and a null',
    shape: configMapShape,
    object: { data: {}, immutable: null },
    fields: ['.data', '.immutable'],
  },
  {
    it: 'the items of a set',
    shape: configMapShape,
    object: { metadata: { finalizers: ['y', 'x'] } },
    fields: ['.metadata.finalizers[="x"]', '.metadata.finalizers[="y"]'],
  },
  {
    it: 'atomic items as wholes',
    shape: configMapShape,
    object: { metadata: { ownerReferences: [{ uid: 'u', name: 'n' }] } },
    fields: ['.metadata.ownerReferences[uid="u"]'],
  },
  {
    it: 'items and their fields',
    shape: podShape,
    object: { spec: { containers: [{ name: 'a', image: 'i', ports: [{ containerPort: 80 }] }] } },
    fields: [
      '.spec.containers[name="a"]',
      '.spec.containers[name="a"].image',
      '.spec.containers[name="a"].name',
      '.spec.containers[name="a"].ports[containerPort=80,protocol="TCP"]',
      '.spec.containers[name="a"].ports[containerPort=80,protocol="TCP"].containerPort',
    ],
  },
  {
    it: 'atomic lists, maps and objects as leaves',
    shape: podShape,
    object: {
      spec: {
        tolerations: [{}],
        nodeSelector: { a: 'b' },
        hostAliases: [],
        affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [] } } },
      },
      status: { hostIPs: [{ ip: '1' }] },
    },
    fields: [
      '.spec.nodeSelector',
      '.spec.tolerations',
      '.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution',
      '.status.hostIPs',
    ],
  },
  {
    it: 'a free map and each of its fields',
    shape: podShape,
    object: { status: { extendedResourceClaimStatus: { a: { b: [1] } } } },
    fields: ['.status.extendedResourceClaimStatus.a', '.status.extendedResourceClaimStatus.a.b'],
  },
  {
    it: 'doubles as one',
    shape: podShape,
    object: { spec: { containers: [{ name: 'a', image: 'i' }, { name: 'a' }] } },
    fields: ['.spec.containers[name="a"]'],
  },
  {
    it: 'ports of a service by port and protocol',
    shape: serviceShape,
    object: { spec: { selector: { a: 'b' }, ports: [{ port: 53, protocol: 'UDP' }, { port: 53 }] } },
    fields: [
      '.spec.selector',
      '.spec.ports[port=53,protocol="TCP"]',
      '.spec.ports[port=53,protocol="UDP"]',
      '.spec.ports[port=53,protocol="TCP"].port',
      '.spec.ports[port=53,protocol="UDP"].port',
      '.spec.ports[port=53,protocol="UDP"].protocol',
    ],
  },
];
for (const { it, shape, object, fields } of extractions) {
  test(`the field set of an object has ${it}`, () => {
    assert.deepEqual(texts(extractFieldSet(object, shape)), fields);
  });
}

interface Difference {
  readonly it: string;
  readonly before: JsonObject;
  readonly after: JsonObject;
  readonly added?: readonly string[];
  readonly modified?: readonly string[];
  readonly removed?: readonly string[];
}
const container = (...items: JsonObject[]): JsonObject => ({ spec: { containers: items } });
const differences: readonly Difference[] = [
  { it: 'finds nothing in equals', before: { spec: { nodeName: 'n' } }, after: { spec: { nodeName: 'n' } } },
  {
    it: 'reports a changed leaf',
    before: { spec: { nodeName: 'n' } },
    after: { spec: { nodeName: 'm' } },
    modified: ['.spec.nodeName'],
  },
  {
    it: 'reports everything that was added, with its parents',
    before: {},
    after: { metadata: { labels: { a: 'b' } } },
    added: ['.metadata', '.metadata.labels', '.metadata.labels.a'],
  },
  {
    it: 'reports everything that was removed',
    before: { metadata: { labels: { a: 'b' } } },
    after: { metadata: {} },
    removed: ['.metadata.labels', '.metadata.labels.a'],
  },
  {
    it: 'looks at items by key and not by place',
    before: container({ name: 'a' }, { name: 'b', image: 'x' }),
    after: container({ name: 'b', image: 'y' }, { name: 'a' }),
    modified: ['.spec.containers[name="b"].image'],
  },
  {
    it: 'reports a new item and its fields',
    before: container({ name: 'a' }),
    after: container({ name: 'a' }, { name: 'b' }),
    added: ['.spec.containers[name="b"]', '.spec.containers[name="b"].name'],
  },
  {
    it: 'reports an atomic list as one',
    before: { spec: { tolerations: [{ key: 'a' }] } },
    after: { spec: { tolerations: [] } },
    modified: ['.spec.tolerations'],
  },
  {
    it: 'sees items that became doubles',
    before: container({ name: 'a', image: 'x' }),
    after: container({ name: 'a' }, { name: 'a' }),
    added: ['.spec.containers[name="a"]'],
    removed: ['.spec.containers[name="a"]', '.spec.containers[name="a"].image', '.spec.containers[name="a"].name'],
  },
  {
    it: 'sees doubles that changed',
    before: container({ name: 'a' }, { name: 'a' }),
    after: container({ name: 'a' }, { name: 'a', image: 'x' }),
    modified: ['.spec.containers[name="a"]'],
  },
  {
    it: 'sees doubles that became one',
    before: container({ name: 'a' }, { name: 'a' }),
    after: container({ name: 'a' }),
    added: ['.spec.containers[name="a"]', '.spec.containers[name="a"].name'],
    removed: ['.spec.containers[name="a"]'],
  },
  {
    it: 'sees a free value become another kind',
    before: { status: { extendedResourceClaimStatus: 1 } },
    after: { status: { extendedResourceClaimStatus: { a: 1 } } },
    modified: ['.status.extendedResourceClaimStatus'],
    added: ['.status.extendedResourceClaimStatus.a'],
  },
  {
    it: 'distinguishes an empty map from an absent one',
    before: { metadata: {} },
    after: { metadata: { labels: {} } },
    added: ['.metadata.labels'],
  },
];
for (const { it, before, after, added = [], modified = [], removed = [] } of differences) {
  test(`comparing ${it}`, () => {
    const result = compareObjects(before, after, podShape);
    assert.deepEqual([texts(result.added), texts(result.modified), texts(result.removed)], [added, modified, removed]);
  });
}
