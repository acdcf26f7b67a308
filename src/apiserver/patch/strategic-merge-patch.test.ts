import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { configMapShape } from '../../kube/kinds/config-map.ts';
import { nodeShape } from '../../kube/kinds/node.ts';
import { podShape } from '../../kube/kinds/pod/pod.ts';
import { serviceAccountKind } from '../../kube/kinds/service-account.ts';
import {
  type Shape,
  any,
  integer,
  list,
  map,
  object,
  replacedByPatch,
  setOf,
  string,
} from '../../kube/schema/schema.ts';
import { type Json, type JsonObject, PatchError, isEqual } from './json-value.ts';
import { applyStrategicMergePatch } from './strategic-merge-patch.ts';

const inner = object({ name: integer, value: string, other: string, plain: list(integer), set: setOf(integer) });
const item = object({ name: integer, value: string, other: string, keyed: list(inner, 'name'), plain: list(integer) });
const shape = object({
  name: string,
  value: string,
  map: map(string),
  keyed: list(item, 'name'),
  set: setOf(integer),
  plain: list(integer),
  loose: list(object({ name: integer })),
  free: any,
  whole: replacedByPatch(map(string)),
});

interface Case {
  readonly it: string;
  readonly of: JsonObject;
  readonly patch: JsonObject;
  readonly gives?: JsonObject;
  readonly fails?: string;
}

const maps: readonly Case[] = [
  {
    it: 'replaces a map that is marked so',
    of: { whole: { a: '1' } },
    patch: { whole: { b: '2' } },
    gives: { whole: { b: '2' } },
  },
  {
    it: 'does nothing when empty',
    of: { map: { a: '1' }, keyed: [] },
    patch: {},
    gives: { map: { a: '1' }, keyed: [] },
  },
  { it: 'merges maps', of: { map: { a: '1' } }, patch: { map: { b: '2' } }, gives: { map: { a: '1', b: '2' } } },
  {
    it: 'deletes with null',
    of: { map: { a: '1', b: '2' } },
    patch: { map: { a: null }, value: null },
    gives: { map: { b: '2' } },
  },
  {
    it: 'leaves null out of what it adds',
    of: {},
    patch: { map: { a: null, b: '1' }, free: { x: { y: null } } },
    gives: { map: { b: '1' }, free: { x: {} } },
  },
  {
    it: 'empties a map by $patch: delete',
    of: { map: { a: '1' } },
    patch: { map: { $patch: 'delete' } },
    gives: { map: {} },
  },
  { it: 'adds nothing for $patch: delete of an absent map', of: {}, patch: { map: { $patch: 'delete' } }, gives: {} },
  {
    it: 'replaces a map by $patch: replace',
    of: { map: { a: '1' } },
    patch: { map: { $patch: 'replace', b: '2' } },
    gives: { map: { b: '2' } },
  },
  {
    it: 'keeps what $patch: replace says of an absent map',
    of: {},
    patch: { map: { $patch: 'replace', b: '2' } },
    gives: { map: { b: '2' } },
  },
  {
    it: 'merges with $patch: merge',
    of: { map: { a: '1' } },
    patch: { map: { $patch: 'merge', b: '2' } },
    gives: { map: { a: '1', b: '2' } },
  },
  {
    it: 'replaces the whole object',
    of: { name: 'x', value: 'y' },
    patch: { value: 'a', $patch: 'replace' },
    gives: { value: 'a' },
  },
  { it: 'empties the whole object', of: { name: 'x', value: 'y' }, patch: { $patch: 'delete' }, gives: {} },
  {
    it: 'refuses an unknown $patch',
    of: { map: {} },
    patch: { map: { $patch: 'x', b: 'c' } },
    fails: 'unknown patch type: x in map: map[$patch:x b:c]',
  },
  { it: 'replaces a value of another kind', of: { free: [1] }, patch: { free: { a: 1 } }, gives: { free: { a: 1 } } },
  {
    it: 'merges unknown maps and replaces unknown lists',
    of: { free: { a: { b: 1 }, l: [1] } },
    patch: { free: { a: { c: 2 }, l: [2] } },
    gives: { free: { a: { b: 1, c: 2 }, l: [2] } },
  },
  {
    it: 'keeps only the fields of $retainKeys',
    of: { map: { a: '1', b: '2' } },
    patch: { map: { $retainKeys: ['b', 'c'], c: '3' } },
    gives: { map: { b: '2', c: '3' } },
  },
  {
    it: 'takes null beside $retainKeys',
    of: { map: { a: '1', b: '2' } },
    patch: { map: { $retainKeys: ['b'], a: null } },
    gives: { map: { b: '2' } },
  },
  {
    it: 'refuses a field that $retainKeys does not name',
    of: { map: {} },
    patch: { map: { $retainKeys: ['b'], a: '1' } },
    fails: 'invalid patch format of retainKeys',
  },
  {
    it: 'refuses $retainKeys that is not a list',
    of: { map: {} },
    patch: { map: { $retainKeys: 'b' } },
    fails: 'invalid patch format of retainKeys',
  },
];

const keyedLists: readonly Case[] = [
  {
    it: 'merges items by key',
    of: { keyed: [{ name: 1 }, { name: 2, value: 'a' }] },
    patch: { keyed: [{ name: 2, other: 'b' }] },
    gives: { keyed: [{ name: 1 }, { name: 2, value: 'a', other: 'b' }] },
  },
  {
    it: 'puts new items first',
    of: { keyed: [{ name: 1 }] },
    patch: { keyed: [{ name: 2 }] },
    gives: { keyed: [{ name: 2 }, { name: 1 }] },
  },
  {
    it: 'deletes an item',
    of: { keyed: [{ name: 1 }, { name: 2 }] },
    patch: { keyed: [{ name: 1, $patch: 'delete' }] },
    gives: { keyed: [{ name: 2 }] },
  },
  {
    it: 'deletes every item of a key',
    of: { keyed: [{ name: 1 }, { name: 1 }, { name: 2 }] },
    patch: { keyed: [{ name: 1, $patch: 'delete' }] },
    gives: { keyed: [{ name: 2 }] },
  },
  {
    it: 'deletes what is not there without a word',
    of: { keyed: [{ name: 1 }] },
    patch: { keyed: [{ name: 5, $patch: 'delete' }] },
    gives: { keyed: [{ name: 1 }] },
  },
  {
    it: 'replaces the list',
    of: { keyed: [{ name: 1 }, { name: 2 }] },
    patch: { keyed: [{ name: 3 }, { $patch: 'replace' }] },
    gives: { keyed: [{ name: 3 }] },
  },
  {
    it: 'empties the list',
    of: { keyed: [{ name: 1 }] },
    patch: { keyed: [{ $patch: 'replace' }] },
    gives: { keyed: [] },
  },
  { it: 'deletes the list with null', of: { keyed: [{ name: 1 }] }, patch: { keyed: null }, gives: {} },
  {
    it: 'leaves a list alone that is patched with nothing',
    of: { keyed: [{ name: 1 }] },
    patch: { keyed: [] },
    gives: { keyed: [{ name: 1 }] },
  },
  { it: 'merges empty lists', of: { keyed: [] }, patch: { keyed: [] }, gives: { keyed: [] } },
  {
    it: 'merges lists in lists',
    of: { keyed: [{ name: 1, keyed: [{ name: 1, value: 'a' }] }] },
    patch: { keyed: [{ name: 1, keyed: [{ name: 1, other: 'b' }, { name: 2 }] }] },
    gives: { keyed: [{ name: 1, keyed: [{ name: 1, value: 'a', other: 'b' }, { name: 2 }] }] },
  },
  {
    it: 'replaces plain lists in items',
    of: { keyed: [{ name: 1, plain: [1, 2] }] },
    patch: { keyed: [{ name: 1, plain: [3] }] },
    gives: { keyed: [{ name: 1, plain: [3] }] },
  },
  {
    it: 'applies $retainKeys to an item',
    of: {
      keyed: [
        { name: 1, value: 'a' },
        { name: 2, value: 'b' },
      ],
    },
    patch: { keyed: [{ name: 1, other: 'o', $retainKeys: ['name', 'other'] }] },
    gives: {
      keyed: [
        { name: 1, other: 'o' },
        { name: 2, value: 'b' },
      ],
    },
  },
  {
    it: 'keeps directives out of new items',
    of: { keyed: [{ name: 1 }] },
    patch: {
      keyed: [
        {
          name: 2,
          $retainKeys: ['name'],
          keyed: [{ name: 1, $patch: 'delete' }, { name: 2 }],
          '$setElementOrder/keyed': [{ name: 2 }],
        },
      ],
    },
    gives: { keyed: [{ name: 2, keyed: [{ name: 2 }] }, { name: 1 }] },
  },
  {
    it: 'keeps directives out of new lists',
    of: {},
    patch: {
      keyed: [{ $patch: 'replace' }, { name: 1 }, { name: 2, $patch: 'delete' }],
      '$deleteFromPrimitiveList/set': [1],
    },
    gives: { keyed: [{ name: 1 }] },
  },
  {
    it: 'keeps the order of the patch',
    of: { keyed: [{ name: 1 }, { name: 2, value: 'b' }, { name: 3 }] },
    patch: {
      keyed: [
        { name: 3, value: 'c' },
        { name: 1, value: 'a' },
      ],
    },
    gives: {
      keyed: [
        { name: 2, value: 'b' },
        { name: 3, value: 'c' },
        { name: 1, value: 'a' },
      ],
    },
  },
  {
    it: 'refuses an item without the key',
    of: { keyed: [{ name: 1 }] },
    patch: { keyed: [{ value: 'b', plain: [1, 2] }] },
    fails: 'map: map[plain:[1 2] value:b] does not contain declared merge key: name',
  },
  {
    it: 'refuses to delete without the key',
    of: { keyed: [{ name: 1 }] },
    patch: { keyed: [{ $patch: 'delete' }] },
    fails: 'map: map[$patch:delete] does not contain declared merge key: name',
  },
  {
    it: 'refuses an unknown $patch of an item',
    of: { keyed: [{ name: 1 }] },
    patch: { keyed: [{ name: 1, $patch: 'x' }] },
    fails: 'unknown patch type: x in map: map[$patch:x name:1]',
  },
  {
    it: 'refuses $patch: merge of an item',
    of: { keyed: [{ name: 1 }] },
    patch: { keyed: [{ name: 1, $patch: 'merge' }] },
    fails: 'merging lists cannot yet be specified in the patch',
  },
  {
    it: 'refuses items that are not maps',
    of: { keyed: [{ name: 1 }] },
    patch: { keyed: [1] },
    fails: 'list element types are not identical: [map[name:1] 1]',
  },
  {
    it: 'refuses lists of lists',
    of: { keyed: [{ name: 1 }] },
    patch: { keyed: [[]] },
    fails: 'the server rejected our request due to an error in our request',
  },
  {
    it: 'replaces lists without a key',
    of: { loose: [{ name: 1 }] },
    patch: { loose: [{ name: 2 }] },
    gives: { loose: [{ name: 2 }] },
  },
];

const primitives: readonly Case[] = [
  { it: 'unites sets', of: { set: [1, 2] }, patch: { set: [2, 3] }, gives: { set: [1, 2, 3] } },
  {
    it: 'keeps the order of the patch in sets',
    of: { set: [1, 2, 3] },
    patch: { set: [3, 1] },
    gives: { set: [2, 3, 1] },
  },
  {
    it: 'deletes from a set',
    of: { set: [1, 2, 3] },
    patch: { '$deleteFromPrimitiveList/set': [2] },
    gives: { set: [1, 3] },
  },
  {
    it: 'deletes and adds at once',
    of: { set: [1, 2] },
    patch: { '$deleteFromPrimitiveList/set': [1], set: [3] },
    gives: { set: [3, 2] },
  },
  {
    it: 'deletes from a plain list',
    of: { plain: [1, 2, 2] },
    patch: { '$deleteFromPrimitiveList/plain': [2] },
    gives: { plain: [1] },
  },
  { it: 'deletes nothing from an absent list', of: {}, patch: { '$deleteFromPrimitiveList/set': [1] }, gives: {} },
  {
    it: 'refuses to delete from something else',
    of: { keyed: [{ name: 1 }] },
    patch: { '$deleteFromPrimitiveList/keyed': [{ name: 1 }] },
    fails: 'invalid patch format of primitive list',
  },
  {
    it: 'refuses a deletion list that is none',
    of: { set: [1] },
    patch: { '$deleteFromPrimitiveList/set': 1 },
    fails: 'invalid patch format of primitive list',
  },
  {
    it: 'refuses a deletion list without a name',
    of: { set: [1] },
    patch: { $deleteFromPrimitiveList: [1] },
    fails: 'invalid patch format of primitive list',
  },
  { it: 'replaces plain lists', of: { plain: [1, 2] }, patch: { plain: [3] }, gives: { plain: [3] } },
];

const names = (...numbers: number[]): JsonObject[] => numbers.map((name) => ({ name }));
const orders: readonly Case[] = [
  {
    it: 'sets the order alone',
    of: { keyed: names(1, 2, 3) },
    patch: { '$setElementOrder/keyed': names(3, 1, 2) },
    gives: { keyed: names(3, 1, 2) },
  },
  {
    it: 'puts a new item where the order says',
    of: { keyed: names(1, 2) },
    patch: { '$setElementOrder/keyed': names(1, 3, 2), keyed: names(3) },
    gives: { keyed: names(1, 3, 2) },
  },
  {
    it: 'keeps server-only items behind their neighbours',
    of: { keyed: names(1, 2, 7, 9, 8, 3, 4) },
    patch: { '$setElementOrder/keyed': names(2, 1, 4, 3) },
    gives: { keyed: names(2, 1, 7, 9, 8, 4, 3) },
  },
  {
    it: 'takes an order that names what is not there',
    of: { keyed: names(1, 3) },
    patch: { '$setElementOrder/keyed': names(3, 2, 1) },
    gives: { keyed: names(3, 1) },
  },
  {
    it: 'keeps doubles together',
    of: { keyed: names(1, 2, 3, 2, 4) },
    patch: { '$setElementOrder/keyed': names(2, 1, 4, 3, 2) },
    gives: { keyed: names(2, 2, 1, 4, 3) },
  },
  {
    it: 'deletes and orders',
    of: { keyed: names(1, 2, 3) },
    patch: { '$setElementOrder/keyed': names(3, 1), keyed: [{ name: 2, $patch: 'delete' }] },
    gives: { keyed: names(3, 1) },
  },
  {
    it: 'orders sets',
    of: { set: [1, 2, 3, 9] },
    patch: { '$setElementOrder/set': [3, 4, 1, 2], set: [4] },
    gives: { set: [3, 4, 1, 2, 9] },
  },
  {
    it: 'orders, adds and deletes in a set',
    of: { set: [1, 2, 3] },
    patch: { '$setElementOrder/set': [1, 4, 3], '$deleteFromPrimitiveList/set': [2], set: [4] },
    gives: { set: [1, 4, 3] },
  },
  {
    it: 'orders a list it adds',
    of: {},
    patch: { '$setElementOrder/keyed': names(1, 2), keyed: names(1, 2) },
    gives: { keyed: names(1, 2) },
  },
  { it: 'needs no list to order', of: {}, patch: { '$setElementOrder/keyed': names(1, 2) }, gives: {} },
  {
    it: 'orders nothing in a list it deletes',
    of: { keyed: names(1) },
    patch: { '$setElementOrder/keyed': names(1), keyed: null },
    gives: {},
  },
  {
    it: 'takes an empty order for none',
    of: { keyed: names(1) },
    patch: { '$setElementOrder/keyed': [], keyed: names(2) },
    gives: { keyed: names(2, 1) },
  },
  {
    it: 'refuses an order that the items break',
    of: { keyed: names(1, 3, 2) },
    patch: { '$setElementOrder/keyed': names(1, 2, 3), keyed: names(3, 1) },
    fails:
      "The order in patch list:\n[map[name:3] map[name:1]]\n doesn't match $setElementOrder list:\n[map[name:1] map[name:2] map[name:3]]\n",
  },
  {
    it: 'refuses an order without an item of the patch',
    of: { set: [1] },
    patch: { '$setElementOrder/set': [1], set: [2] },
    fails: "The order in patch list:\n[2]\n doesn't match $setElementOrder list:\n[1]\n",
  },
  {
    it: 'refuses an order that is not a list',
    of: { keyed: [] },
    patch: { '$setElementOrder/keyed': 1 },
    fails: 'invalid patch format of setElementOrder list',
  },
  {
    it: 'refuses an order item without the key',
    of: { keyed: names(1) },
    patch: { '$setElementOrder/keyed': [{ x: 1 }] },
    fails: 'map: map[x:1] does not contain declared merge key: name',
  },
];

for (const { it, of, patch, gives, fails } of [...maps, ...keyedLists, ...primitives, ...orders]) {
  test(`strategic merge patch ${it}`, () => {
    const before = structuredClone([of, patch]);
    if (fails !== undefined) {
      assert.throws(
        () => applyStrategicMergePatch(of, patch, shape),
        (error) => error instanceof PatchError && error.message === fails,
      );
    } else assert.deepEqual(applyStrategicMergePatch(of, patch, shape), gives);
    assert.deepEqual([of, patch], before);
  });
}

/** The table of merge keys: a patch of one item with this key beside a live one leaves two, or one where lists are replaced. */
const merged = (shapeOf: Shape<unknown>, path: string, key: string) => ({ shapeOf, path, key });
const keyTable = [
  merged(podShape, 'metadata.ownerReferences', 'uid'),
  merged(podShape, 'spec.volumes', 'name'),
  merged(podShape, 'spec.containers', 'name'),
  merged(podShape, 'spec.initContainers', 'name'),
  merged(podShape, 'spec.ephemeralContainers', 'name'),
  merged(podShape, 'spec.imagePullSecrets', 'name'),
  merged(podShape, 'spec.schedulingGates', 'name'),
  merged(podShape, 'spec.resourceClaims', 'name'),
  merged(podShape, 'status.resourceClaimStatuses', 'name'),
  merged(podShape, 'spec.hostAliases', 'ip'),
  merged(podShape, 'spec.topologySpreadConstraints', 'topologyKey'),
  merged(podShape, 'status.conditions', 'type'),
  merged(podShape, 'status.podIPs', 'ip'),
  merged(podShape, 'status.hostIPs', 'ip'),
  merged(nodeShape, 'status.conditions', 'type'),
  merged(nodeShape, 'status.addresses', 'type'),
  merged(serviceAccountKind.shape, 'secrets', 'name'),
];
for (const { shapeOf, path, key } of keyTable) {
  test(`strategic merge patch merges ${path} by ${key}`, () => {
    const at = (...values: string[]): JsonObject =>
      path.split('.').reduceRight<Json>(
        (value, name) => ({ [name]: value }),
        values.map((value) => ({ [key]: value })),
      ) as JsonObject;
    assert.deepEqual(applyStrategicMergePatch(at('a', 'b'), at('b'), shapeOf), at('a', 'b'));
  });
}

const replacedWhole: readonly { shapeOf: Shape<unknown>; path: string }[] = [
  ...['spec.tolerations', 'status.containerStatuses', 'status.volumeHealth'].map((path) => ({
    shapeOf: podShape,
    path,
  })),
  ...['spec.taints', 'status.images'].map((path) => ({ shapeOf: nodeShape, path })),
  { shapeOf: serviceAccountKind.shape, path: 'imagePullSecrets' },
];
for (const { shapeOf, path } of replacedWhole) {
  test(`strategic merge patch replaces ${path} as a whole`, () => {
    const at = (name: string): JsonObject =>
      path.split('.').reduceRight<Json>((value, step) => ({ [step]: value }), [{ name, key: name }]) as JsonObject;
    assert.deepEqual(applyStrategicMergePatch(at('a'), at('b'), shapeOf), at('b'));
  });
}

test('strategic merge patch merges what containers carry: ports, env, mounts, devices', () => {
  const container = (fields: JsonObject): JsonObject => ({ spec: { containers: [{ name: 'web', ...fields }] } });
  const live = {
    ports: [{ containerPort: 80 }],
    env: [{ name: 'A', value: '1' }],
    volumeMounts: [{ mountPath: '/a', name: 'a' }],
    volumeDevices: [{ devicePath: '/d', name: 'd' }],
    envFrom: [{ prefix: 'x' }],
    command: ['a'],
  };
  const patch = {
    ports: [{ containerPort: 80, name: 'http' }],
    env: [{ name: 'A', valueFrom: {}, value: null }],
    volumeMounts: [{ mountPath: '/a', readOnly: true }],
    volumeDevices: [{ devicePath: '/d', name: 'e' }],
    envFrom: [{ prefix: 'y' }],
    command: ['b'],
  };
  const result = {
    ports: [{ containerPort: 80, name: 'http' }],
    env: [{ name: 'A', valueFrom: {} }],
    volumeMounts: [{ mountPath: '/a', name: 'a', readOnly: true }],
    volumeDevices: [{ devicePath: '/d', name: 'e' }],
    envFrom: [{ prefix: 'y' }],
    command: ['b'],
  };
  assert.deepEqual(applyStrategicMergePatch(container(live), container(patch), podShape), container(result));
});

test('a node keeps two addresses of one type when the kubelet replaces the list', () => {
  const addresses = [
    { type: 'InternalIP', address: '10.0.0.1' },
    { type: 'InternalIP', address: 'fd00::1' },
  ];
  const patch = { status: { addresses: [...addresses, { $patch: 'replace' }] } };
  const live = { status: { addresses: [{ type: 'Hostname', address: 'n' }] } };
  assert.deepEqual(applyStrategicMergePatch(live, patch, nodeShape), { status: { addresses } });
});

test('a status patch of the kubelet sets pod IPs in order', () => {
  const live = { status: { podIPs: [{ ip: '10.0.0.9' }] } };
  const patch = {
    status: {
      '$setElementOrder/podIPs': [{ ip: '10.0.0.1' }, { ip: 'fd00::1' }],
      podIPs: [{ ip: '10.0.0.1' }, { ip: 'fd00::1' }, { ip: '10.0.0.9', $patch: 'delete' }],
    },
  };
  assert.deepEqual(applyStrategicMergePatch(live, patch, podShape), {
    status: { podIPs: [{ ip: '10.0.0.1' }, { ip: 'fd00::1' }] },
  });
});

test('finalizers are a set for strategic merge patches', () => {
  const live = { metadata: { finalizers: ['a', 'b'] } };
  assert.deepEqual(applyStrategicMergePatch(live, { metadata: { finalizers: ['c'] } }, configMapShape), {
    metadata: { finalizers: ['c', 'a', 'b'] },
  });
  assert.deepEqual(
    applyStrategicMergePatch(live, { metadata: { '$deleteFromPrimitiveList/finalizers': ['a'] } }, configMapShape),
    { metadata: { finalizers: ['b'] } },
  );
});

test('strategic merge patch treats hostile keys as keys', () => {
  const patch = JSON.parse('{"data":{"__proto__":{"polluted":"yes"},"constructor":"c","toString":null}}') as JsonObject;
  const result = applyStrategicMergePatch({ data: {} }, patch, configMapShape);
  assert.equal(JSON.stringify(result), '{"data":{"__proto__":{"polluted":"yes"},"constructor":"c"}}');
  assert.equal(({} as Record<string, unknown>)['polluted'], undefined);
});

test('strategic merge patch refuses what is not an object, and unbounded nesting', () => {
  const message = 'json: cannot unmarshal array into Go value of type map[string]interface {}';
  assert.throws(() => applyStrategicMergePatch({}, [], podShape), { kind: 'malformed', message });
  const deep = JSON.parse(`${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`) as JsonObject;
  assert.throws(() => applyStrategicMergePatch({}, deep, podShape), PatchError);
});

const anyItem = fc.record({ name: fc.nat({ max: 4 }), value: fc.string() }, { requiredKeys: ['name'] });
const uniqueItems = fc.uniqueArray(anyItem, { selector: ({ name }) => name });
const anyObject = fc.record(
  {
    map: fc.dictionary(fc.constantFrom('a', 'b', '__proto__'), fc.string()),
    keyed: uniqueItems,
    set: fc.uniqueArray(fc.nat({ max: 5 })),
    plain: fc.array(fc.nat()),
  },
  { requiredKeys: [] },
) as fc.Arbitrary<JsonObject>;

test('an empty strategic merge patch changes nothing', () => {
  fc.assert(fc.property(anyObject, (document) => isEqual(applyStrategicMergePatch(document, {}, shape), document)));
});

test('a strategic merge patch without directives does the same when applied again', () => {
  fc.assert(
    fc.property(anyObject, anyObject, (document, patch) => {
      const once = applyStrategicMergePatch(document, patch, shape);
      assert.ok(isEqual(applyStrategicMergePatch(once, patch, shape), once));
    }),
  );
});

const directives = fc.record(
  {
    $patch: fc.constantFrom('delete', 'replace', 'merge'),
    $retainKeys: fc.constantFrom(['keyed', 'set'], ['name']),
    '$setElementOrder/keyed': uniqueItems,
    '$deleteFromPrimitiveList/set': fc.array(fc.nat({ max: 5 })),
  },
  { requiredKeys: [] },
);
test('directives never end up in an object', () => {
  fc.assert(
    fc.property(anyObject, anyObject, directives, (document, patch, told) => {
      try {
        const result = applyStrategicMergePatch(
          document,
          { ...patch, ...told, free: { ...told, x: [told, 1] } },
          shape,
        );
        assert.doesNotMatch(JSON.stringify(result), /"\$(patch|retainKeys|setElementOrder|deleteFromPrimitiveList)/);
      } catch (error) {
        assert.ok(error instanceof PatchError, String(error));
      }
    }),
  );
});
