import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decoded } from '../../testing/fakes/builders.ts';
import { resources } from '../resources/resources.ts';
import { type Resource, ResourceTable } from './resource.ts';
import { matchesFields, parseFieldSelector, requiredName } from './selection.ts';
import { badRequest } from './status.ts';

const table = new ResourceTable(resources);

function named(plural: string, apiVersion = 'v1'): Resource {
  const [group = '', version = ''] = apiVersion.includes('/') ? apiVersion.split('/') : ['', apiVersion];
  const found = table.byPlural({ group, version }, plural);
  assert.ok(found, plural);
  return found;
}

const pod = { metadata: { name: 'web', namespace: 'shop' }, spec: { containers: [] } };
const withStatus = {
  ...pod,
  spec: {
    ...pod.spec,
    nodeName: 'n1',
    restartPolicy: 'Never',
    schedulerName: 's',
    serviceAccountName: 'a',
    hostNetwork: true,
  },
  status: { phase: 'Running', podIP: '10.0.0.1', podIPs: [{ ip: '10.0.0.1' }], nominatedNodeName: 'n2' },
};
const event = {
  metadata: { name: 'e', namespace: 'shop' },
  involvedObject: {
    kind: 'Pod',
    namespace: 'shop',
    name: 'web',
    uid: 'u',
    apiVersion: 'v1',
    resourceVersion: '7',
    fieldPath: 'f',
  },
  reason: 'Pulled',
  reportingComponent: 'agent',
  type: 'Normal',
};
const view = {
  metadata: event.metadata,
  regarding: event.involvedObject,
  reason: 'Pulled',
  reportingController: 'agent',
  type: 'Normal',
};
const involved = {
  kind: 'Pod',
  namespace: 'shop',
  name: 'web',
  uid: 'u',
  apiVersion: 'v1',
  resourceVersion: '7',
  fieldPath: 'f',
};
const of = (prefix: string): Record<string, string> =>
  Object.fromEntries(Object.entries(involved).map(([field, value]) => [`${prefix}.${field}`, value]));

/** 8.5: every field that the kinds have, with the value it has for an object; metadata.name is for all. */
const fieldsByKind: readonly { plural: string; apiVersion?: string; object: object; values: Record<string, string> }[] =
  [
    {
      plural: 'pods',
      object: withStatus,
      values: {
        'metadata.namespace': 'shop',
        'spec.nodeName': 'n1',
        'spec.host': 'n1',
        'spec.restartPolicy': 'Never',
        'spec.schedulerName': 's',
        'spec.serviceAccountName': 'a',
        'spec.hostNetwork': 'true',
        'status.phase': 'Running',
        'status.podIP': '10.0.0.1',
        'status.podIPs': '',
        'status.nominatedNodeName': 'n2',
      },
    },
    { plural: 'nodes', object: { metadata: { name: 'n' } }, values: { 'spec.unschedulable': 'false' } },
    {
      plural: 'nodes',
      object: { metadata: { name: 'n' }, spec: { unschedulable: true } },
      values: { 'spec.unschedulable': 'true' },
    },
    {
      plural: 'secrets',
      object: { metadata: pod.metadata, type: 'Opaque' },
      values: { 'metadata.namespace': 'shop', type: 'Opaque' },
    },
    {
      plural: 'namespaces',
      object: { metadata: { name: 'n' }, status: { phase: 'Active' } },
      values: { 'status.phase': 'Active' },
    },
    {
      plural: 'events',
      object: event,
      values: {
        ...of('involvedObject'),
        reason: 'Pulled',
        reportingComponent: 'agent',
        source: 'agent',
        type: 'Normal',
      },
    },
    { plural: 'events', object: { ...event, source: { component: 'kubelet' } }, values: { source: 'kubelet' } },
    {
      plural: 'events',
      apiVersion: 'events.k8s.io/v1',
      object: view,
      values: { ...of('regarding'), reason: 'Pulled', reportingController: 'agent', type: 'Normal' },
    },
    {
      plural: 'services',
      object: { metadata: pod.metadata, spec: { clusterIP: 'None', type: 'ClusterIP' } },
      values: { 'spec.clusterIP': 'None', 'spec.type': 'ClusterIP' },
    },
    {
      plural: 'clustertrustbundles',
      apiVersion: 'certificates.k8s.io/v1',
      object: { metadata: { name: 'b' }, spec: { signerName: 'a/b', trustBundle: '' } },
      values: { 'spec.signerName': 'a/b' },
    },
    ...[
      { plural: 'replicasets', apiVersion: 'apps/v1' },
      { plural: 'replicationcontrollers', apiVersion: 'v1' },
    ].map((kind) => ({
      ...kind,
      object: { metadata: pod.metadata, status: { replicas: 2 } },
      values: { 'status.replicas': '2' },
    })),
    {
      plural: 'certificatesigningrequests',
      apiVersion: 'certificates.k8s.io/v1',
      object: { metadata: { name: 'r' }, spec: { request: '', signerName: 'a/b' } },
      values: { 'spec.signerName': 'a/b' },
    },
    {
      plural: 'jobs',
      apiVersion: 'batch/v1',
      object: { metadata: pod.metadata, status: { succeeded: 3 } },
      values: { 'status.successful': '3' },
    },
    {
      plural: 'configmaps',
      object: { metadata: pod.metadata },
      values: { 'metadata.name': 'web', 'metadata.namespace': 'shop' },
    },
    {
      plural: 'persistentvolumes',
      object: { metadata: { name: 'v' }, spec: {} },
      values: { 'metadata.name': 'v', 'metadata.namespace': '' },
    },
  ];
for (const { plural, apiVersion, object, values } of fieldsByKind) {
  for (const [field, value] of Object.entries(values)) {
    test(`${plural} ${apiVersion ?? ''} are selected by ${field} that is ${value || 'empty'}`, () => {
      const resource = named(plural, apiVersion);
      const typed = decoded(resource.shape, object);
      const matches = (selector: string): boolean =>
        matchesFields(parseFieldSelector(selector, resource), resource, typed);
      assert.equal(matches(`${field}=${value}`), true);
      assert.equal(matches(`${field}==${value}`), true);
      assert.equal(matches(`${field}!=${value}`), false);
      assert.equal(matches(`${field}=${value}x`), false);
    });
  }
}

test('every field of every resource is in the test above', () => {
  const tested = new Set(
    fieldsByKind.flatMap(({ plural, values }) => Object.keys(values).map((field) => `${plural} ${field}`)),
  );
  const missing = resources.flatMap(({ plural, fields }) =>
    Object.keys(fields)
      .filter((field) => !tested.has(`${plural} ${field}`))
      .map((field) => `${plural} ${field}`),
  );
  assert.deepEqual(missing, []);
});

test('a missing value is the empty string', () => {
  const resource = named('events');
  const ofNode = decoded(resource.shape, { metadata: { name: 'e' }, involvedObject: { kind: 'Node' } });
  assert.ok(matchesFields(parseFieldSelector('involvedObject.namespace=', resource), resource, ofNode));
});

test('all terms must hold; empty terms say nothing', () => {
  const resource = named('pods');
  const typed = decoded(resource.shape, withStatus);
  const matches = (selector: string): boolean => matchesFields(parseFieldSelector(selector, resource), resource, typed);
  assert.ok(matches(''));
  assert.ok(matches(',spec.nodeName=n1,,status.phase!=Failed,'));
  assert.ok(!matches('spec.nodeName=n1,status.phase!=Running'));
});

const refusals: readonly (readonly [string, string, string])[] = [
  ['pods', 'spec.image=x', 'field label not supported: spec.image'],
  ['nodes', 'metadata.namespace=x', 'field label not supported: metadata.namespace'],
  ['configmaps', 'data.a=x', '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"'],
  ['pods', 'toString=x', 'field label not supported: toString'],
  ['pods', 'b,a', "invalid selector: 'b,a'; can't understand 'a'"],
  ['pods', 'metadata.name=a=b', 'invalid field selector: unescaped character in value: 61'],
  ['pods', String.raw`metadata.name=a\b`, String.raw`invalid field selector: invalid escape sequence: \b`],
  ['pods', 'metadata.name=a\\', 'invalid field selector: invalid escape sequence: \\'],
];
for (const [plural, selector, message] of refusals) {
  test(`${plural} do not take ${selector}`, () => {
    assert.throws(() => parseFieldSelector(selector, named(plural)), badRequest(message));
  });
}

test('any value comes through its escapes', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('a', ',', '=', '\\', '!', 'ß') }), (value) => {
      const escaped = value.replace(/[\\,=]/g, '\\$&');
      const parsed = parseFieldSelector(`metadata.name!=x,metadata.name=${escaped}`, named('pods'));
      assert.deepEqual(parsed.at(-1), { field: 'metadata.name', operator: '=', value });
    }),
  );
});

test('a pinned name is required, an excluded one is not', () => {
  const parse = (selector: string): string | undefined => requiredName(parseFieldSelector(selector, named('secrets')));
  assert.equal(parse('type=Opaque,metadata.name=tls'), 'tls');
  assert.equal(parse('metadata.name!=tls'), undefined);
  assert.equal(parse(''), undefined);
});
