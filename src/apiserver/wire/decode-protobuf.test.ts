import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { configMapShape } from '../../kube/kinds/config-map.ts';
import { type Shape, decode } from '../../kube/schema/schema.ts';
import { delimited, encodeProtobuf, envelope, numeric } from '../../testing/servers/protobuf-writer.ts';
import { UnknownProtobufKindError, decodeProtobuf } from './decode-protobuf.ts';
import { apiVersionOf } from '../../kube/schema/kind.ts';
import { resources } from '../resources/resources.ts';
import { type Field, messageNameOf, messages, parseMessage, scalarTypes } from './protobuf-messages.ts';
import { MalformedProtobufError } from './protobuf-reader.ts';

/** Pairs of apiVersion and kind, of everything that is served and has field numbers. */
const protobufKinds: readonly (readonly [string, string])[] = [
  ...resources
    .flatMap(({ subresources, ...kind }) => [kind, ...subresources.flatMap((part) => part.kind ?? [])])
    .filter(({ wire = {} }) => Object.keys(wire).length > 0)
    .map((kind) => [apiVersionOf(kind), kind.kind] as const),
  ['v1', 'DeleteOptions'],
];

/** Maps have no prototype, so that `__proto__` is a key like any other; as JSON they compare like plain objects. */
function decoded(body: Uint8Array): unknown {
  return JSON.parse(JSON.stringify(decodeProtobuf(body).object));
}

function roundTrip(object: {
  readonly apiVersion: string;
  readonly kind: string;
  readonly [key: string]: unknown;
}): unknown {
  return decoded(encodeProtobuf(object));
}

test('every field of every table refers to a scalar or to a message that exists, under a number of its own', () => {
  for (const [name, message] of messages) {
    for (const { type, number } of message.values()) {
      assert.ok(scalarTypes.has(type) || messages.has(type), `${name}: field ${number} is of unknown type ${type}`);
    }
    const names = [...message.values()].flatMap((field) => field.name ?? []);
    assert.equal(new Set(names).size, names.length, name);
  }
  for (const [apiVersion, kind] of protobufKinds) assert.ok(messages.has(messageNameOf(apiVersion, kind) ?? ''), kind);
});

test('a text that is not a field is a syntax error', () => {
  assert.throws(() => parseMessage('1 name, two type'), /not a field: "two type"/);
});

for (const { kind, shape, wire, ...names } of resources) {
  const message = messageNameOf(apiVersionOf(names), kind);
  if (Object.keys(wire).length === 0 || message === undefined) continue;
  test(`the tables know every field of the shape of ${message}, in the same form`, () => {
    assert.deepEqual(missing(message, shape, message), []);
  });
}

function missing(name: string, shape: Shape<unknown>, path: string): string[] {
  const fields = new Map(fieldsOf(name).map((field) => [field.name, field]));
  return Object.entries(shape.fields ?? {}).flatMap(([key, inner]) => {
    const field = fields.get(key);
    // An object says what it is beside its message, also one inside of another, as a template of claims.
    if (key === 'apiVersion' || (key === 'kind' && fields.has('metadata'))) return [];
    if (field === undefined) return [`${path}.${key}`];
    if (!fits(field, inner)) return [`${path}.${key}: ${field.form} ${field.type} is no ${inner.type}`];
    const item = inner.type === 'list' ? inner.item : inner;
    return item?.type === 'object' ? missing(field.type, item, `${path}.${key}`) : [];
  });
}

function fieldsOf(name: string): Field[] {
  return [...(messages.get(name)?.values() ?? [])].flatMap((field) =>
    field.form === 'inline' ? fieldsOf(field.type) : [field],
  );
}

function fits({ form, type }: Field, shape: Shape<unknown>): boolean {
  if (shape.type === 'any') return true;
  if (shape.type === 'list')
    return form === 'list' && fits({ form: 'single', type } as Field, shape.item as Shape<unknown>);
  if (shape.type === 'map')
    return (
      form === 'map' && (type === 'Strings' || fits({ form: 'single', type } as Field, shape.item as Shape<unknown>))
    );
  if (form !== 'single') return false;
  if (shape.type === 'object') return messages.has(type);
  const scalar: Record<string, readonly string[]> = {
    string: ['string'],
    time: ['Time'],
    microTime: ['MicroTime'],
    boolean: ['bool'],
    integer: ['int'],
    quantity: ['Quantity'],
    intOrString: ['IntOrString'],
    bytes: ['bytes'],
  };
  return scalar[shape.type]?.includes(type) ?? false;
}

test('the tables have the field numbers of the reference', () => {
  const numbers = (name: string): Record<string, number> =>
    Object.fromEntries(fieldsOf(name).map((field) => [field.name, field.number]));
  assert.deepEqual(numbers('OwnerReference'), {
    apiVersion: 5,
    kind: 1,
    name: 3,
    uid: 4,
    controller: 6,
    blockOwnerDeletion: 7,
  });
  assert.equal(numbers('ObjectMeta')['managedFields'], 17);
  assert.deepEqual(numbers('ConfigMap'), { metadata: 1, data: 2, binaryData: 3, immutable: 4 });
  assert.deepEqual(numbers('Secret'), { metadata: 1, data: 2, type: 3, stringData: 4, immutable: 5 });
  assert.equal(numbers('DeleteOptions')['gracePeriodSeconds'], 1);
  assert.deepEqual(numbers('TokenRequestSpec'), {
    audiences: 1,
    boundObjectRef: 3,
    expirationSeconds: 4,
    attestations: 5,
  });
});

test('an object of a Go client loses its zero values and keeps what was meant', () => {
  const body = encodeProtobuf({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'web' },
    spec: {
      containers: [
        {
          name: 'main',
          args: [''],
          ports: [{ containerPort: 80 }],
          securityContext: { runAsUser: 0, privileged: false },
        },
      ],
      volumes: [
        { name: 'tmp', emptyDir: {} },
        { name: 'cm', configMap: { name: 'web', optional: false } },
      ],
      securityContext: {},
      terminationGracePeriodSeconds: 0,
    },
  });
  assert.deepEqual(decoded(body), {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'web' },
    spec: {
      containers: [
        {
          name: 'main',
          args: [''],
          ports: [{ containerPort: 80 }],
          securityContext: { runAsUser: 0, privileged: false },
        },
      ],
      volumes: [
        { name: 'tmp', emptyDir: {} },
        { name: 'cm', configMap: { name: 'web', optional: false } },
      ],
      securityContext: {},
      terminationGracePeriodSeconds: 0,
    },
  });
});

test('bytes become base64, every value of them', () => {
  const all = Buffer.from(Array.from({ length: 256 }, (_, index) => index)).toString('base64');
  const object = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 's' },
    data: { all, empty: '' },
    type: 'Opaque',
  };
  assert.deepEqual(roundTrip(object), object);
});

test('a key named __proto__ is a key like any other', () => {
  const object = JSON.parse(
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"__proto__":"a","constructor":"b"}}',
  );
  const { data } = decodeProtobuf(encodeProtobuf(object)).object as { data: object };
  assert.deepEqual(Object.entries(data), [
    ['__proto__', 'a'],
    ['constructor', 'b'],
  ]);
  assert.equal((decode(configMapShape, { data }).value.data as Record<string, string>)['constructor'], 'b');
});

test('times: whole seconds, six digits of a micro time, and an empty time is none', () => {
  const object = {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'n', creationTimestamp: '2026-01-02T03:04:05Z' },
    spec: { holderIdentity: 'n', leaseDurationSeconds: 40, renewTime: '2026-01-02T03:04:05.000006Z' },
  };
  assert.deepEqual(roundTrip(object), object);
  const empty = envelope('v1', 'ConfigMap', delimited(1, Buffer.concat([delimited(1, 'x'), delimited(8, '')])));
  assert.deepEqual(decoded(empty), { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'x' } });
});

test('a time outside of four-digit years and a strange fraction are refused', () => {
  for (const time of [
    numeric(1, 253402300800),
    numeric(1, -62135596801),
    Buffer.concat([numeric(1, 1), numeric(2, 1_000_000_000)]),
  ]) {
    const body = envelope('v1', 'ConfigMap', delimited(1, delimited(8, time)));
    assert.throws(() => decodeProtobuf(body), MalformedProtobufError);
  }
});

test('DeleteOptions come under any version and have no metadata', () => {
  for (const apiVersion of ['v1', 'policy/v1', 'coordination.k8s.io/v1']) {
    const object = {
      apiVersion,
      kind: 'DeleteOptions',
      gracePeriodSeconds: 0,
      preconditions: { uid: 'u' },
      propagationPolicy: 'Background',
    };
    assert.deepEqual(roundTrip(object), object);
  }
});

test('numbers may come packed, and a message that comes twice is merged', () => {
  const context = Buffer.concat([numeric(4, 5), delimited(4, Buffer.from([6, 7]))]);
  const spec = Buffer.concat([delimited(14, context), delimited(14, numeric(5, 9))]);
  const { object } = decodeProtobuf(envelope('v1', 'Pod', delimited(2, spec)));
  assert.deepEqual(object['spec'], { securityContext: { supplementalGroups: [5, 6, 7], fsGroup: 9 } });
});

test('the kind of the envelope may be left to the address of the request', () => {
  const raw = delimited(1, delimited(1, 'x'));
  assert.equal(decodeProtobuf(envelope('', '', raw), { apiVersion: 'v1', kind: 'ConfigMap' }).kind, 'ConfigMap');
});

const refused = [
  { it: 'an empty body', body: Buffer.alloc(0), message: 'empty data' },
  {
    it: 'JSON',
    body: Buffer.from('{}'),
    message: 'provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]',
  },
  { it: 'the magic bytes alone', body: Buffer.from('k8s\0'), message: 'empty body' },
  {
    it: 'a number where a string belongs',
    body: envelope('v1', 'ConfigMap', delimited(1, numeric(1, 5))),
    message: 'wrong wire type 0 for field 1 (name)',
  },
  {
    it: 'JSON that is none',
    body: envelope('v1', 'ConfigMap', delimited(1, delimited(17, delimited(7, delimited(1, '{'))))),
    message: 'a field that holds JSON does not',
  },
  {
    it: 'JSON without a bottom',
    body: envelope(
      'v1',
      'ConfigMap',
      delimited(1, delimited(17, delimited(7, delimited(1, `${'['.repeat(5000)}${']'.repeat(5000)}`)))),
    ),
    message: 'a field that holds JSON is nested too deeply',
  },
];
for (const { it, body, message } of refused) {
  test(`decodeProtobuf refuses ${it}`, () => {
    assert.throws(
      () => decodeProtobuf(body),
      (error) => error instanceof MalformedProtobufError && error.message === message,
    );
  });
}

test('a kind without a table is distinguished from bad bytes', () => {
  assert.throws(
    () => decodeProtobuf(envelope('apps/v1', 'Unheard', Buffer.alloc(0))),
    (error) =>
      error instanceof UnknownProtobufKindError &&
      error.message === 'no kind "Unheard" is registered for version "apps/v1"',
  );
});

const scalars: Record<string, fc.Arbitrary<unknown>> = {
  string: fc.string({ minLength: 1, unit: 'grapheme' }),
  bool: fc.constant(true),
  int: fc.oneof(
    fc.integer({ min: 1 }),
    fc.maxSafeInteger().filter((value) => value !== 0),
  ),
  bytes: fc.uint8Array({ minLength: 1, maxLength: 8 }).map((bytes) => Buffer.from(bytes).toString('base64')),
  Time: fc
    .integer({ min: 1, max: 4_000_000_000 })
    .map((seconds) => new Date(seconds * 1000).toISOString().replace('.000', '')),
  MicroTime: fc
    .integer({ min: 1, max: 4_000_000_000_000 })
    .map((ms) => new Date(ms).toISOString().replace('Z', '123Z')),
  Quantity: fc.constantFrom('1', '500m', '64Mi'),
  IntOrString: fc.oneof(fc.integer({ min: 1 }), fc.constantFrom('http', 'https')),
  RawJson: fc.constantFrom({ 'f:data': { 'f:a': {} } }),
  Strings: fc.array(fc.string(), { maxLength: 2 }),
};

/** Objects as they would come out: nothing that counts as unset is in them. Few fields each, or a Pod would be huge. */
function objectOf(name: string): fc.Arbitrary<Record<string, unknown>> {
  const fields = fieldsOf(name);
  const always = fields.filter(({ presence }) => presence === 'always').map((field) => field.name ?? '');
  const values = Object.fromEntries(fields.map((field) => [field.name ?? '', valueOf(field)]));
  const requireAll = (keys: readonly string[]): fc.Arbitrary<Record<string, unknown>> =>
    fc.record(
      Object.fromEntries([...new Set([...always, ...keys])].map((key) => [key, values[key] ?? fc.constant('')])),
    );
  const optional = Object.keys(values).filter((key) => !always.includes(key));
  return fc.subarray(optional, { maxLength: Math.min(3, optional.length) }).chain(requireAll);
}

function valueOf({ type, form, presence }: Field): fc.Arbitrary<unknown> {
  const single = scalars[type] ?? objectOf(type);
  if (form === 'list') return fc.array(single, { minLength: 1, maxLength: 2 });
  if (form === 'map') return fc.dictionary(fc.string(), single, { minKeys: 1, maxKeys: 2, noNullPrototype: true });
  const filled =
    scalars[type] === undefined && presence !== 'sent'
      ? single.filter((value) => Object.keys(value as object).length > 0)
      : single;
  return filled;
}

/** A message that has only empty messages in it comes back without them; so compare what is left of both. */
function pruned(name: string, object: Record<string, unknown>): Record<string, unknown> {
  const entries = fieldsOf(name).flatMap(({ name: key = '', type, form, presence }): [string, unknown][] => {
    const value = object[key];
    if (value === undefined) return [];
    if (scalars[type] !== undefined) return [[key, value]];
    if (form === 'list') return [[key, (value as Record<string, unknown>[]).map((item) => pruned(type, item))]];
    const inner = pruned(type, value as Record<string, unknown>);
    return presence === 'nonzero' && Object.keys(inner).length === 0 ? [] : [[key, inner]];
  });
  return Object.fromEntries(entries);
}

for (const [apiVersion, kind] of protobufKinds) {
  const name = messageNameOf(apiVersion, kind) ?? '';
  test(`what was written as ${apiVersion} ${kind} is read as it was`, () => {
    fc.assert(
      fc.property(objectOf(name), (parts) => {
        const object = { apiVersion, kind, ...parts };
        const expected = { apiVersion, kind, ...pruned(name, parts) };
        assert.deepEqual(roundTrip(object), JSON.parse(JSON.stringify(expected)));
      }),
      { numRuns: 20 },
    );
  });
}

test('random and damaged bodies are decoded or refused with a typed error, and nothing else', () => {
  const bodies = protobufKinds.map(([apiVersion, kind]) =>
    fc.uint8Array({ maxLength: 60 }).map((raw) => envelope(apiVersion, kind, raw)),
  );
  const whole = encodeProtobuf({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'x', labels: { a: 'b' } },
    spec: { containers: [{ name: 'c', env: [{ name: 'A' }] }] },
  });
  const damaged = fc.tuple(fc.nat(whole.length - 1), fc.nat(255)).map(([at, byte]) => {
    const copy = Buffer.from(whole);
    copy[at] = byte;
    return copy;
  });
  const cut = fc.nat(whole.length).map((length) => whole.subarray(0, length));
  fc.assert(
    fc.property(fc.oneof(...bodies, damaged, cut, fc.uint8Array()), (body) => {
      try {
        JSON.stringify(decodeProtobuf(body));
      } catch (error) {
        assert.ok(error instanceof MalformedProtobufError || error instanceof UnknownProtobufKindError, String(error));
      }
    }),
    { numRuns: 3000 },
  );
});
