import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { OperatingError } from '../../base/errors.ts';
import { type FieldSource, environmentFieldValue, formatMap, splitSubscript, volumeFieldValue } from './field-path.ts';

const part =
  "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const subscripts: [fieldPath: string, path?: string, subscript?: string][] = [
  ["metadata.annotations['key']", 'metadata.annotations', 'key'],
  ["metadata.annotations['a[b']c']", 'metadata.annotations', "a[b']c"],
  ["metadata.labels['['key']", 'metadata.labels', "['key"],
  ["metadata.labels['key']']", 'metadata.labels', "key']"],
  ["metadata.labels['']", 'metadata.labels', ''],
  ["metadata.labels[' ']", 'metadata.labels', ' '],
  ["metadata.labels[ 'key' ]"],
  ['metadata.labels[]'],
  ["metadata.labels[']"],
  ["metadata.labels['key']foo"],
  ["['key']"],
  ['metadata.labels'],
];
for (const [fieldPath, path, subscript] of subscripts) {
  test(`${fieldPath} ${path === undefined ? 'has no subscript' : `has the subscript ${JSON.stringify(subscript)}`}`, () => {
    assert.deepEqual(splitSubscript(fieldPath), path === undefined ? undefined : { path, subscript });
  });
}

const pod = {
  metadata: {
    name: 'object-name',
    namespace: 'object-namespace',
    uid: 'b70b3269-858e-12a8-9cf2-1232a194038a',
    labels: { something: 'label value', key: 'value\n' },
    annotations: { builder: 'john-doe', 'spec.pod.beta.kubernetes.io/statefulset-index': '1', 'Www.k8s.io/test': '2' },
  },
  spec: { nodeName: 'node-1', serviceAccountName: 'robot' },
};

const values: [fieldPath: string, value: string][] = [
  ['metadata.namespace', 'object-namespace'],
  ['metadata.name', 'object-name'],
  ['metadata.uid', 'b70b3269-858e-12a8-9cf2-1232a194038a'],
  ['metadata.labels', String.raw`key="value\n"` + '\nsomething="label value"'],
  [
    'metadata.annotations',
    'Www.k8s.io/test="2"\nbuilder="john-doe"\nspec.pod.beta.kubernetes.io/statefulset-index="1"',
  ],
  ["metadata.annotations['spec.pod.beta.kubernetes.io/statefulset-index']", '1'],
  ["metadata.annotations['Www.k8s.io/test']", '2'],
  ["metadata.labels['something']", 'label value'],
  ["metadata.labels['absent']", ''],
  ["metadata.labels['toString']", ''],
  ["metadata.annotations['constructor']", ''],
];
for (const [fieldPath, value] of values) {
  test(`${fieldPath} is ${JSON.stringify(value)} in a volume and in a variable`, () => {
    assert.equal(volumeFieldValue(pod, fieldPath), value);
    assert.equal(environmentFieldValue(pod, { apiVersion: 'v1', fieldPath }, addresses()), value);
  });
}

const volumeErrors: [fieldPath: string, message: string][] = [
  ['metadata.whoops', 'unsupported fieldPath: metadata.whoops'],
  ['status.podIP', 'unsupported fieldPath: status.podIP'],
  ['spec.nodeName', 'unsupported fieldPath: spec.nodeName'],
  ['', 'unsupported fieldPath: '],
  ["metadata.annotations['invalid~key']", `invalid key subscript in metadata.annotations['invalid~key']: ${part}`],
  [
    "metadata.labels['Www.k8s.io/test']",
    "invalid key subscript in metadata.labels['Www.k8s.io/test']: prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
  ],
  ["metadata.notexisting['something']", `fieldPath "metadata.notexisting['something']" does not support subscript`],
];
for (const [fieldPath, message] of volumeErrors) {
  test(`a volume cannot show ${JSON.stringify(fieldPath)}`, () => {
    assert.throws(() => volumeFieldValue(pod, fieldPath), new OperatingError('InvalidFieldPath', message));
  });
}

const environmentValues: [fieldPath: string, value: string][] = [
  ['spec.nodeName', 'node-1'],
  ['spec.host', 'node-1'],
  ['spec.serviceAccountName', 'robot'],
  ['status.hostIP', '192.168.1.1'],
  ['status.hostIPs', '192.168.1.1,fd00::5678'],
  ['status.podIP', '10.0.0.1'],
  ['status.podIPs', '10.0.0.1,fd01::1234'],
];
for (const [fieldPath, value] of environmentValues) {
  test(`${fieldPath} is ${value} in a variable`, () => {
    assert.equal(environmentFieldValue(pod, { apiVersion: 'v1', fieldPath }, addresses()), value);
  });
}

const environmentErrors: [apiVersion: string, fieldPath: string, message: string][] = [
  ['v2', 'metadata.name', 'unsupported pod version: v2'],
  ['', 'metadata.name', 'unsupported pod version: '],
  ['v1', 'metadata.whoops', 'field label not supported: metadata.whoops'],
  ['v1', "status.podIP['a']", "field label does not support subscript: status.podIP['a']"],
  ['v1', 'spec.restartPolicy', 'unsupported fieldPath: spec.restartPolicy'],
  ['v1', 'spec.schedulerName', 'unsupported fieldPath: spec.schedulerName'],
  ['v1', 'status.phase', 'unsupported fieldPath: status.phase'],
  ['v1', "metadata.labels['']", `invalid key subscript in metadata.labels['']: name part must be non-empty;${part}`],
];
for (const [apiVersion, fieldPath, message] of environmentErrors) {
  test(`a variable cannot show ${JSON.stringify(fieldPath)} of ${JSON.stringify(apiVersion)}`, () => {
    const reference = { apiVersion, fieldPath };
    assert.throws(
      () => environmentFieldValue(pod, reference, addresses()),
      new OperatingError('InvalidFieldPath', message),
    );
  });
}

test('a pod without addresses has empty ones, and one with a strange address keeps it', () => {
  const podIp = { apiVersion: 'v1', fieldPath: 'status.podIP' };
  const none = { podIps: [], hostIps: [], nodeFamily: 'IPv4' } as const;
  assert.equal(environmentFieldValue(pod, podIp, none), '');
  assert.equal(environmentFieldValue(pod, { ...podIp, fieldPath: 'status.hostIP' }, none), '');
  assert.equal(environmentFieldValue(pod, podIp, { ...none, podIps: ['local'] }), 'local');
});

test('a map is sorted and quoted, and a value of several lines stays on one line', () => {
  assert.equal(
    formatMap({ b: 'two\nlines', a: 'say "hi"', '\u{10000}': '3', '\uFFFD': '4' }),
    [String.raw`a="say \"hi\""`, String.raw`b="two\nlines"`, '\uFFFD="4"', '\u{10000}="3"'].join('\n'),
  );
  assert.equal(formatMap({}), '');
  assert.equal(formatMap(undefined), '');
});

test("metadata.annotations[''] is an error, an absent but valid key is empty", () => {
  assert.throws(() => volumeFieldValue(pod, "metadata.annotations['']"), OperatingError);
  assert.equal(volumeFieldValue(pod, "metadata.annotations['valid.example/absent']"), '');
  assert.equal(volumeFieldValue({ metadata: {} }, "metadata.labels['a']"), '');
});

test('a formatted map has one line for each key, in order, whatever the values hold', () => {
  const map = fc.dictionary(
    fc.stringMatching(/^[a-z]{1,3}$/),
    fc.string({ unit: fc.constantFrom('a', '\n', '\r', '"', '\\', '\u2028', 'é', '😀') }),
  );
  fc.assert(
    fc.property(map, (labels) => {
      const source: FieldSource = { metadata: { labels } };
      const text = volumeFieldValue(source, 'metadata.labels');
      const keys = text === '' ? [] : text.split('\n').map((line) => line.slice(0, line.indexOf('=')));
      assert.deepEqual(keys, Object.keys(labels).toSorted());
    }),
  );
});

function addresses() {
  return {
    podIps: ['fd01::1234', '10.0.0.1'],
    hostIps: ['192.168.1.1', 'fd00::5678'],
    nodeFamily: 'IPv4',
  } as const;
}
