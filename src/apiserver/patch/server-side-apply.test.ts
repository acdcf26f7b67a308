import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { configMapShape } from '../../kube/kinds/config-map.ts';
import { podShape } from '../../kube/kinds/pod/pod.ts';
import { type FieldSet, pathText } from './field-set.ts';
import { type Json, type JsonObject, PatchError, isList, isObject, objectIn } from './json-value.ts';
import { type Owner, managedFieldsOf, readManaged, withManagedFields } from './managed-fields.ts';
import { type Apply, apply } from './server-side-apply.ts';
import { trackUpdate } from './track-update.ts';

const start = Date.parse('2026-08-01T10:00:00.900Z');
const cm = (data: JsonObject, metadata: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'web', namespace: 'shop', ...metadata },
  data,
});
const podWith = (spec: JsonObject): JsonObject => ({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec });

type Options = Partial<Omit<Apply, 'applied' | 'live'>>;
const defaults = { apiVersion: 'v1', kind: 'ConfigMap', force: false, nowMs: start, shape: configMapShape };

function request(live: JsonObject | undefined, configuration: Json, options: Options = {}): Apply {
  return { ...defaults, manager: 'm', ...options, live, applied: configuration };
}
function applied(live: JsonObject | undefined, configuration: Json, options: Options = {}): JsonObject {
  const result = apply(request(live, configuration, options));
  assert.equal(result.kind, 'applied', result.kind === 'conflict' ? result.message : '');
  return result.kind === 'applied' ? result.object : {};
}
function updated(live: JsonObject | undefined, object: JsonObject, options: Options = {}): JsonObject {
  return trackUpdate({
    ...defaults,
    manager: 'u',
    ...options,
    live,
    object: live === undefined ? object : withManagedFields(object, entriesOf(live)),
  });
}
function entriesOf(object: JsonObject): JsonObject[] {
  const entries = managedFieldsOf(object);
  return isList(entries) ? entries.filter(isObject) : [];
}
/** `m Apply: .data.a .data.b` */
function owners(object: JsonObject): string[] {
  const managed = readManaged(managedFieldsOf(object)) ?? new Map<string, Owner>();
  return [...managed.values()].map(
    ({ manager, operation, subresource, fields }) =>
      `${manager} ${operation}${subresource === '' ? '' : `/${subresource}`}: ${texts(fields)}`,
  );
}
const texts = (fields: FieldSet): string => [...fields.paths()].map(pathText).join(' ');
const bare = (object: JsonObject): JsonObject => withManagedFields(object, undefined);

test('apply creates an object and owns what was sent, and nothing the server decides', () => {
  const object = applied(undefined, cm({ b: '2', a: '1' }, { labels: { x: 'y' } }));
  assert.deepEqual(bare(object), cm({ b: '2', a: '1' }, { labels: { x: 'y' } }));
  assert.deepEqual(entriesOf(object), [
    {
      manager: 'm',
      operation: 'Apply',
      apiVersion: 'v1',
      time: '2026-08-01T10:00:00Z',
      fieldsType: 'FieldsV1',
      fieldsV1: { 'f:data': { 'f:a': {}, 'f:b': {} }, 'f:metadata': { 'f:labels': { 'f:x': {} } } },
    },
  ]);
});

test('apply removes what its manager applied before and does not send any more', () => {
  const first = applied(undefined, cm({ a: '1', b: '2' }, { labels: { x: 'y' } }));
  const second = applied(first, cm({ a: '1' }));
  assert.deepEqual(bare(second), cm({ a: '1' }));
  assert.deepEqual(owners(second), ['m Apply: .data.a']);
});

test('apply keeps what another applier wants too, and the other one then owns it alone', () => {
  const both = applied(applied(undefined, cm({ a: '1', b: '2' })), cm({ b: '2' }), { manager: 'n' });
  assert.deepEqual(owners(both), ['n Apply: .data.b', 'm Apply: .data.a .data.b']);
  const left = applied(both, cm({ a: '1' }));
  assert.deepEqual(left['data'], { a: '1', b: '2' });
  assert.deepEqual(owners(left).toSorted(), ['m Apply: .data.a', 'n Apply: .data.b']);
});

test('apply does not remove what an updater has changed since', () => {
  const first = applied(undefined, cm({ a: '1', b: '2' }));
  const edited = updated(first, cm({ a: '1', b: 'edited' }));
  assert.deepEqual(owners(edited), ['m Apply: .data.a', 'u Update: .data.b']);
  assert.deepEqual(applied(edited, cm({ a: '1' }))['data'], { a: '1', b: 'edited' });
});

test('apply refuses to change what another applier owns', () => {
  const live = applied(undefined, cm({ k: '1', x: '1' }), { manager: 'other' });
  const result = apply(request(live, cm({ k: '2' })));
  assert.deepEqual(result, {
    kind: 'conflict',
    message: 'Apply failed with 1 conflict: conflict with "other": .data.k',
    causes: [{ reason: 'FieldManagerConflict', message: 'conflict with "other"', field: '.data.k' }],
    conflicts: [
      {
        manager: 'other',
        operation: 'Apply',
        apiVersion: 'v1',
        subresource: '',
        time: '2026-08-01T10:00:00Z',
        fields: ['.data.k'],
      },
    ],
  });
});

test('apply words one conflict with an updater as the API server does', () => {
  const live = updated(undefined, cm({ k: '1' }), { manager: 'kubectl' });
  const result = apply(request(live, cm({ k: '2' })));
  assert.ok(result.kind === 'conflict');
  assert.equal(result.message, 'Apply failed with 1 conflict: conflict with "kubectl" using v1: .data.k');
  assert.deepEqual(result.causes, [
    { reason: 'FieldManagerConflict', message: 'conflict with "kubectl" using v1', field: '.data.k' },
  ]);
});

test('apply words several conflicts as the API server does', () => {
  const first = updated(undefined, cm({ a: '1', b: '1' }), { manager: 'm1' });
  const live = updated(first, cm({ a: '1', b: '1', c: '1' }), { manager: 'k', subresource: 'status' });
  const result = apply(request(live, cm({ a: '2', b: '2', c: '2' })));
  assert.ok(result.kind === 'conflict');
  assert.equal(
    result.message,
    'Apply failed with 3 conflicts: conflicts with "k" with subresource "status" using v1:\n- .data.c\nconflicts with "m1" using v1:\n- .data.a\n- .data.b',
  );
  assert.equal(result.causes.length, 3);
});

test('apply shows items by their keys in conflicts', () => {
  const options = { shape: podShape, kind: 'Pod' };
  const live = applied(undefined, podWith({ containers: [{ name: 'a"b', image: 'x' }] }), {
    ...options,
    manager: 'other',
  });
  const result = apply(request(live, podWith({ containers: [{ name: 'a"b', image: 'y' }] }), options));
  assert.ok(result.kind === 'conflict');
  assert.match(result.message, /: \.spec\.containers\[name="a\\"b"\]\.image$/);
});

test('apply of the same value is not a conflict and makes co-owners', () => {
  const live = updated(undefined, cm({ a: '1', b: '1' }));
  const both = applied(live, cm({ a: '1' }), { nowMs: start + 60_000 });
  assert.deepEqual(owners(both), ['m Apply: .data.a', 'u Update: .data .data.a .data.b']);
  assert.equal(entriesOf(both)[0]?.['time'], undefined);
});

test('apply with force takes the field over', () => {
  const live = applied(undefined, cm({ k: '1', x: '1' }), { manager: 'other' });
  const object = applied(live, cm({ k: '2' }), { force: true });
  assert.deepEqual(object['data'], { k: '2', x: '1' });
  assert.deepEqual(owners(object).toSorted(), ['m Apply: .data.k', 'other Apply: .data.x']);
});

test('who loses all fields to a forced apply is gone from the list', () => {
  const live = applied(undefined, cm({ k: '1' }), { manager: 'other' });
  assert.deepEqual(owners(applied(live, cm({ k: '2' }), { force: true })), ['m Apply: .data.k']);
});

test('apply of nothing gives everything up', () => {
  const live = applied(undefined, cm({ k: '1' }));
  const object = applied(live, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'web' } });
  assert.equal(object['data'], undefined);
  assert.equal(managedFieldsOf(object), undefined);
});

test('apply merges keyed lists in the order of the applier', () => {
  const options = { shape: podShape, kind: 'Pod' };
  const containers = (...names: string[]): JsonObject =>
    podWith({ containers: names.map((name) => ({ name, image: 'i' })) });
  const live = applied(undefined, containers('a', 'b', 'c'), { ...options, manager: 'other' });
  const namesOf = (object: JsonObject): Json[] =>
    (objectIn(object, 'spec')['containers'] as JsonObject[]).map(({ name = null }) => name);
  assert.deepEqual(namesOf(applied(live, containers('c', 'x', 'a'), options)), ['b', 'c', 'x', 'a']);
  assert.deepEqual(namesOf(applied(live, containers('d'), options)), ['a', 'b', 'c', 'd']);
  const own = applied(undefined, containers('a', 'b', 'c'), options);
  assert.deepEqual(namesOf(applied(own, containers('c', 'a'), options)), ['c', 'a']);
});

test('apply distinguishes ports by number and protocol', () => {
  const options = { shape: podShape, kind: 'Pod' };
  const ports = (...items: JsonObject[]): JsonObject => podWith({ containers: [{ name: 'dns', ports: items }] });
  const live = applied(undefined, ports({ containerPort: 53, protocol: 'UDP' }), { ...options, manager: 'other' });
  const object = applied(live, ports({ containerPort: 53, name: 'tcp' }), options);
  assert.deepEqual(objectIn(object, 'spec')['containers'], [
    {
      name: 'dns',
      ports: [
        { containerPort: 53, protocol: 'UDP' },
        { containerPort: 53, name: 'tcp' },
      ],
    },
  ]);
});

test('apply unites sets and takes its own items out again', () => {
  const live = applied(undefined, cm({}, { finalizers: ['a'] }), { manager: 'other' });
  const both = applied(live, cm({}, { finalizers: ['b', 'a'] }));
  assert.deepEqual(objectIn(both, 'metadata')['finalizers'], ['b', 'a']);
  assert.deepEqual(objectIn(applied(both, cm({})), 'metadata')['finalizers'], ['a']);
});

test('apply owns atomic lists and maps as a whole', () => {
  const options = { shape: podShape, kind: 'Pod' };
  const live = applied(undefined, podWith({ tolerations: [{ key: 'a' }], nodeSelector: { a: 'b' } }), {
    ...options,
    manager: 'other',
  });
  const result = apply(request(live, podWith({ tolerations: [{ key: 'b' }], nodeSelector: { c: 'd' } }), options));
  assert.ok(result.kind === 'conflict');
  assert.deepEqual(result.conflicts[0]?.fields, ['.spec.nodeSelector', '.spec.tolerations']);
  const object = applied(live, podWith({ tolerations: [{ key: 'b' }], nodeSelector: { c: 'd' } }), {
    ...options,
    force: true,
  });
  assert.deepEqual(object['spec'], { tolerations: [{ key: 'b' }], nodeSelector: { c: 'd' } });
});

test('apply removes an item it brought although an updater changed a field in it', () => {
  const options = { shape: podShape, kind: 'Pod' };
  const first = applied(undefined, podWith({ containers: [{ name: 'a' }, { name: 'b', image: 'x' }] }), options);
  const edited = updated(first, podWith({ containers: [{ name: 'a' }, { name: 'b', image: 'y' }] }), options);
  assert.deepEqual(objectIn(applied(edited, podWith({ containers: [{ name: 'a' }] }), options), 'spec')['containers'], [
    { name: 'a' },
  ]);
});

test('what was there before the first apply belongs to a manager of its own', () => {
  const live = bare(cm({ a: '1', b: '2' }, { uid: 'u' }));
  assert.deepEqual(owners(applied(live, cm({ a: '1' }))), [
    'm Apply: .data.a',
    'before-first-apply Update: .data .data.a .data.b',
  ]);
  const result = apply(request(live, cm({ a: '2' })));
  assert.ok(result.kind === 'conflict');
  assert.match(result.message, /conflict with "before-first-apply" using v1: \.data\.a$/);
});

test('null in a configuration is owned like a value', () => {
  const object = applied(applied(undefined, cm({ a: '1' })), { ...cm({ a: '1' }), immutable: null });
  assert.equal(object['immutable'], null);
  assert.deepEqual(owners(object), ['m Apply: .immutable .data.a']);
  const other = applied(undefined, cm({ a: '1' }), { manager: 'other' });
  assert.deepEqual(applied(other, { ...cm({}), data: null })['data'], { a: '1' });
});

test('fields that an endpoint never writes are not owned through it', () => {
  const options = { shape: podShape, kind: 'Pod', ignoredFields: [['status']] };
  const object = applied(undefined, { ...podWith({ nodeName: 'n' }), status: { phase: 'Running' } }, options);
  assert.deepEqual(owners(object), ['m Apply: .spec.nodeName']);
});

test('an applier through a subresource is another manager', () => {
  const options = { shape: podShape, kind: 'Pod' };
  const live = applied(undefined, podWith({ nodeName: 'n' }), options);
  const object = applied(live, { ...podWith({}), status: { phase: 'Running' } }, { ...options, subresource: 'status' });
  assert.deepEqual(owners(object), ['m Apply: .spec.nodeName', 'm Apply/status: .spec .status.phase']);
});

const refusals: readonly { it: string; configuration: Json; message: string }[] = [
  {
    it: 'a list',
    configuration: [],
    message: 'error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}',
  },
  {
    it: 'another kind',
    configuration: { ...cm({}), kind: 'Secret' },
    message: 'invalid object type: /v1, Kind=Secret',
  },
  {
    it: 'another version',
    configuration: { ...cm({}), apiVersion: 'a/v2' },
    message: 'invalid object type: a/v2, Kind=ConfigMap',
  },
  { it: 'managed fields', configuration: cm({}, { managedFields: [] }), message: 'metadata.managedFields must be nil' },
  {
    it: 'an unknown field',
    configuration: { ...cm({}), dta: {} },
    message: 'failed to create typed patch object (shop/web; /v1, Kind=ConfigMap): .dta: field not declared in schema',
  },
  {
    it: 'a number for a text, without showing it',
    configuration: cm({ a: 1234567 }),
    message:
      'failed to create typed patch object (shop/web; /v1, Kind=ConfigMap): .data.a: expected string, got number',
  },
  {
    it: 'a double',
    configuration: cm({}, { finalizers: ['a', 'a'] }),
    message:
      'failed to create typed patch object (shop/web; /v1, Kind=ConfigMap): .metadata.finalizers: duplicate entries for key [="a"]',
  },
  {
    it: 'several problems',
    configuration: { ...cm({ a: 1 }), dta: {} },
    message:
      'failed to create typed patch object (shop/web; /v1, Kind=ConfigMap): errors:\n  .data.a: expected string, got number\n  .dta: field not declared in schema',
  },
  {
    it: 'an item that is null',
    configuration: cm({}, { ownerReferences: [null] }),
    message:
      'failed to create typed patch object (shop/web; /v1, Kind=ConfigMap): .metadata.ownerReferences: element 0: associative list with keys may not have a null element',
  },
];
for (const { it, configuration, message } of refusals) {
  test(`apply refuses ${it}`, () => {
    assert.throws(() => apply(request(undefined, configuration)), { kind: 'malformed', message });
  });
}

test('apply takes null for managed fields as absent', () => {
  assert.deepEqual(owners(applied(undefined, cm({ a: '1' }, { managedFields: null }))), ['m Apply: .data.a']);
});

test('apply refuses nesting without bounds', () => {
  const deep = JSON.parse(`${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`) as Json;
  assert.throws(() => apply(request(undefined, deep)), PatchError);
});

test('apply treats hostile keys as keys', () => {
  const data = JSON.parse('{"__proto__":"p","constructor":"c"}') as JsonObject;
  const first = applied(undefined, cm(data));
  assert.deepEqual(owners(first), ['m Apply: .data.__proto__ .data.constructor']);
  const second = applied(first, cm({ constructor: 'c' }));
  assert.equal(JSON.stringify(second['data']), '{"constructor":"c"}');
});

const annotation = 'kubectl.kubernetes.io/last-applied-configuration';
test('kubectl may change server-side what it applied client-side, and the annotation follows', () => {
  const last = JSON.stringify(cm({ a: '1', b: '1' }));
  const live = updated(undefined, cm({ a: '1', b: '1' }, { annotations: { [annotation]: last, other: 'x' } }), {
    manager: 'kubectl-client-side-apply',
  });
  const object = applied(live, cm({ a: '2', b: '1' }), { manager: 'kubectl' });
  assert.deepEqual(object['data'], { a: '2', b: '1' });
  const text = objectIn(objectIn(object, 'metadata'), 'annotations')[annotation];
  assert.deepEqual(JSON.parse(typeof text === 'string' ? text : ''), cm({ a: '2', b: '1' }));
  assert.equal(apply(request(live, cm({ a: '2' }), { manager: 'somebody' })).kind, 'conflict');
});

test('kubectl still conflicts over what was edited since it applied', () => {
  const last = JSON.stringify(cm({ a: '1', b: '1' }));
  const live = updated(undefined, cm({ a: '1', b: 'edited' }, { annotations: { [annotation]: last } }));
  const result = apply(request(live, cm({ a: '2', b: '2' }), { manager: 'kubectl' }));
  assert.ok(result.kind === 'conflict');
  assert.deepEqual(
    result.conflicts.flatMap(({ fields }) => fields),
    ['.data.b'],
  );
});

test('an annotation that is not what it claims agrees to nothing', () => {
  for (const text of ['', '{', '[]', '{"apiVersion":"v2"}', '{"apiVersion":"v1","x":1}', '['.repeat(5000)]) {
    const live = updated(undefined, cm({ a: '1' }, { annotations: { [annotation]: text } }));
    assert.equal(apply(request(live, cm({ a: '2' }), { manager: 'kubectl' })).kind, 'conflict');
  }
});

const anyData = fc.dictionary(fc.constantFrom('a', 'b', 'c', '__proto__'), fc.constantFrom('1', '2'), {
  noNullPrototype: true,
});
const anyConfiguration = fc
  .record(
    { data: anyData, labels: anyData, finalizers: fc.uniqueArray(fc.constantFrom('x', 'y', 'z')) },
    { requiredKeys: [] },
  )
  .map(({ data, labels, finalizers }) => ({
    ...cm({}, { ...(labels === undefined ? {} : { labels }), ...(finalizers === undefined ? {} : { finalizers }) }),
    ...(data === undefined ? {} : { data }),
  }));

test('apply by one manager is idempotent: the same object, the same owners, the same times', () => {
  fc.assert(
    fc.property(anyConfiguration, anyConfiguration, anyConfiguration, (one, two, three) => {
      const live = applied(applied(undefined, one, { manager: 'n' }), two, { force: true });
      const first = applied(live, three, { force: true, nowMs: start + 1000 });
      assert.deepEqual(applied(first, three, { nowMs: start + 99_000 }), first);
    }),
  );
});

test('apply of keyed lists is idempotent, whatever the orders, and the applier’s order holds', () => {
  const options = { shape: podShape, kind: 'Pod', force: true };
  const anyNames = fc.uniqueArray(fc.constantFrom<string[]>('a', 'b', 'c', 'd', 'e'));
  const containers = (names: readonly string[], image: string): JsonObject =>
    podWith({ containers: names.map((name) => ({ name, image })) });
  const namesIn = (object: JsonObject): Json[] => {
    const list = objectIn(object, 'spec')['containers'];
    return isList(list) ? list.filter(isObject).map(({ name = null }) => name) : [];
  };
  fc.assert(
    fc.property(anyNames, anyNames, anyNames, (theirs, mine, now) => {
      const live = applied(undefined, containers(theirs, 'x'), { ...options, manager: 'n' });
      const first = applied(applied(live, containers(mine, 'x'), options), containers(now, 'y'), options);
      assert.deepEqual(applied(first, containers(now, 'y'), { ...options, nowMs: start + 99_000 }), first);
      assert.deepEqual(
        namesIn(first).filter((name) => typeof name === 'string' && now.includes(name)),
        now,
      );
      assert.deepEqual(namesIn(first).toSorted(), [...new Set([...theirs, ...now])].toSorted());
    }),
  );
});

test('after an apply the object has all that was applied, and its manager owns exactly that', () => {
  fc.assert(
    fc.property(anyConfiguration, anyConfiguration, (one, two) => {
      const object = applied(applied(undefined, one), two);
      assert.deepEqual(objectIn(object, 'data'), objectIn(two, 'data'));
      const { finalizers = [], ...metadata } = objectIn(bare(object), 'metadata');
      assert.deepEqual({ finalizers, ...metadata }, { finalizers: [], ...objectIn(two, 'metadata') });
      if (isList(finalizers))
        assert.equal(Object.hasOwn(objectIn(object, 'metadata'), 'finalizers'), finalizers.length > 0);
    }),
  );
});

test('managers of different fields never conflict, both keep theirs, and one may leave without the other', () => {
  fc.assert(
    fc.property(anyData, anyData, (one, two) => {
      const [mine, theirs] = [prefixed('m', one), prefixed('t', two)];
      const both = applied(applied(undefined, cm(theirs), { manager: 'n' }), cm(mine));
      assert.deepEqual({ ...objectIn(both, 'data') }, { ...theirs, ...mine });
      assert.deepEqual({ ...objectIn(applied(both, cm({})), 'data') }, theirs);
    }),
  );
});

function prefixed(prefix: string, data: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [`${prefix}.${key}`, value]));
}
