import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { decoded, messagesOf } from '../../../testing/fakes/builders.ts';
import { validatePod } from './pod-validation.ts';
import { type Pod, defaultPod, defaultPodTemplateSpec, podShape, podTemplateSpec } from './pod.ts';

const metadata = { name: 'web', namespace: 'shop' };

test('defaultPod completes the smallest pod as the API server shows it', () => {
  assert.deepEqual(defaulted({ containers: [{ name: 'main', image: 'nginx' }] }), {
    containers: [
      {
        name: 'main',
        image: 'nginx',
        imagePullPolicy: 'Always',
        terminationMessagePath: '/dev/termination-log',
        terminationMessagePolicy: 'File',
        resources: {},
      },
    ],
    dnsPolicy: 'ClusterFirst',
    enableServiceLinks: true,
    restartPolicy: 'Always',
    schedulerName: 'default-scheduler',
    securityContext: {},
    terminationGracePeriodSeconds: 30,
  });
});

test('defaultPod keeps every choice that the user made', () => {
  const choices = {
    enableServiceLinks: false,
    restartPolicy: 'Never',
    dnsPolicy: 'Default',
    schedulerName: 'mine',
    terminationGracePeriodSeconds: 0,
    securityContext: { runAsUser: 0 },
    serviceAccountName: 'a',
  };
  const container = {
    name: 'main',
    image: 'nginx',
    imagePullPolicy: 'Never',
    terminationMessagePath: '/x',
    terminationMessagePolicy: 'FallbackToLogsOnError',
    resources: { requests: { cpu: '500m' } },
  };
  assert.deepEqual(defaulted({ ...choices, containers: [container] }), {
    ...choices,
    serviceAccount: 'a',
    containers: [container],
  });
});

const policies = [
  { image: 'nginx', policy: 'Always' },
  { image: 'nginx:latest', policy: 'Always' },
  { image: 'nginx:1.27', policy: 'IfNotPresent' },
  { image: `nginx@sha256:${'a'.repeat(64)}`, policy: 'IfNotPresent' },
  { image: `nginx:latest@sha256:${'a'.repeat(64)}`, policy: 'Always' },
  { image: 'localhost:5000/nginx', policy: 'Always' },
  { image: 'Not An Image', policy: 'IfNotPresent' },
  { image: '', policy: 'IfNotPresent' },
];
for (const { image, policy } of policies) {
  test(`defaultPod pulls the image "${image}" ${policy}`, () => {
    const spec = defaulted({
      containers: [{ name: 'main', image }],
      initContainers: [{ name: 'init', image }],
      ephemeralContainers: [{ name: 'debug', image }],
      volumes: [{ name: 'v', image: { reference: image } }],
    });
    assert.equal(spec.containers[0]?.imagePullPolicy, policy);
    assert.equal(spec.initContainers?.[0]?.imagePullPolicy, policy);
    assert.equal(spec.ephemeralContainers?.[0]?.imagePullPolicy, policy);
    assert.equal(spec.volumes?.[0]?.image?.pullPolicy, policy);
  });
}

test('defaultPod completes volumes', () => {
  const field = { path: 'a', fieldRef: { fieldPath: 'metadata.name' } };
  const complete = { path: 'a', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } };
  const { volumes } = defaulted({
    containers: [],
    volumes: [
      { name: 'none' },
      { name: 'host', hostPath: { path: '/a' } },
      { name: 'secret', secret: { secretName: 'a' } },
      { name: 'map', configMap: { name: 'a', defaultMode: 0o400 } },
      { name: 'down', downwardAPI: { items: [field] } },
      {
        name: 'all',
        projected: { sources: [{ serviceAccountToken: { path: 't' } }, { downwardAPI: { items: [field] } }] },
      },
      { name: 'claim', ephemeral: { volumeClaimTemplate: { spec: {} } } },
    ],
  });
  assert.deepEqual(volumes, [
    { name: 'none', emptyDir: {} },
    { name: 'host', hostPath: { path: '/a', type: '' } },
    { name: 'secret', secret: { secretName: 'a', defaultMode: 0o644 } },
    { name: 'map', configMap: { name: 'a', defaultMode: 0o400 } },
    { name: 'down', downwardAPI: { items: [complete], defaultMode: 0o644 } },
    {
      name: 'all',
      projected: {
        sources: [
          { serviceAccountToken: { path: 't', expirationSeconds: 3600 } },
          { downwardAPI: { items: [complete] } },
        ],
        defaultMode: 0o644,
      },
    },
    { name: 'claim', ephemeral: { volumeClaimTemplate: { spec: { volumeMode: 'Filesystem' } } } },
  ]);
});

test('defaultPod completes ports, variables, probes and hooks', () => {
  const { containers } = defaulted({
    hostNetwork: true,
    containers: [
      {
        name: 'main',
        ports: [{ containerPort: 80 }, { containerPort: 53, protocol: 'UDP', hostPort: 53 }],
        env: [
          { name: 'A', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
          { name: 'B', valueFrom: { fileKeyRef: { volumeName: 'v', path: 'p', key: 'k' } } },
          { name: 'C', value: 'x' },
        ],
        livenessProbe: { httpGet: { port: 80 } },
        readinessProbe: { grpc: { port: 80 }, timeoutSeconds: 5 },
        lifecycle: { preStop: { httpGet: { port: 80, path: '/x' } } },
      },
    ],
  });
  const { ports, env, livenessProbe, readinessProbe, lifecycle } = containers[0] ?? {};
  assert.deepEqual(ports, [
    { containerPort: 80, protocol: 'TCP', hostPort: 80 },
    { containerPort: 53, protocol: 'UDP', hostPort: 53 },
  ]);
  assert.deepEqual(env, [
    { name: 'A', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } } },
    { name: 'B', valueFrom: { fileKeyRef: { volumeName: 'v', path: 'p', key: 'k', optional: false } } },
    { name: 'C', value: 'x' },
  ]);
  const times = { timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3 };
  assert.deepEqual(livenessProbe, { httpGet: { port: 80, path: '/', scheme: 'HTTP' }, ...times });
  assert.deepEqual(readinessProbe, { grpc: { port: 80, service: '' }, ...times, timeoutSeconds: 5 });
  assert.deepEqual(lifecycle, { preStop: { httpGet: { port: 80, path: '/x', scheme: 'HTTP' } } });
});

test('defaultPod makes requests of limits and rounds both up to a thousandth', () => {
  const { containers } = defaulted({
    containers: [
      { name: 'main', resources: { limits: { cpu: '1.0001', memory: '1Gi' }, requests: { memory: '1Mi' } } },
    ],
  });
  assert.deepEqual(containers[0]?.resources, {
    limits: { cpu: '1001m', memory: '1Gi' },
    requests: { memory: '1Mi', cpu: '1001m' },
  });
});

test('defaultPod makes the pod’s own requests of its containers’, else of its limits', () => {
  const { resources } = defaulted({
    resources: { limits: { cpu: '4', memory: '1Gi' } },
    containers: [
      { name: 'a', resources: { requests: { cpu: '1' } } },
      { name: 'b', resources: { requests: { cpu: '500m' } } },
    ],
    initContainers: [
      { name: 'sidecar', restartPolicy: 'Always', resources: { requests: { cpu: '100m' } } },
      { name: 'step', resources: { requests: { cpu: '2' } } },
    ],
  });
  assert.deepEqual(resources, { limits: { cpu: '4', memory: '1Gi' }, requests: { memory: '1Gi', cpu: '2100m' } });
});

test('defaultPodTemplate leaves to the pod what is the pod’s', () => {
  const { spec } = defaultPodTemplateSpec(
    decoded(podTemplateSpec, {
      spec: {
        hostNetwork: true,
        terminationGracePeriodSeconds: -1,
        containers: [{ name: 'a', ports: [{ containerPort: 80 }], resources: { limits: { cpu: '1' } } }],
      },
    }),
  );
  assert.equal(spec.enableServiceLinks, undefined);
  assert.equal(spec.terminationGracePeriodSeconds, -1);
  assert.deepEqual(spec.containers[0]?.ports, [{ containerPort: 80, protocol: 'TCP' }]);
  assert.deepEqual(spec.containers[0]?.resources, { limits: { cpu: '1' } });
});

test('defaultPod keeps the pod’s addresses in step', () => {
  assert.deepEqual(status({ podIP: 'a' }), { podIP: 'a', podIPs: [{ ip: 'a' }] });
  assert.deepEqual(status({ podIPs: [{ ip: 'a' }, { ip: 'b' }] }), { podIP: 'a', podIPs: [{ ip: 'a' }, { ip: 'b' }] });
  assert.deepEqual(status({ podIP: 'c', podIPs: [{ ip: 'a' }] }), { podIP: 'c', podIPs: [{ ip: 'c' }] });
});

test('property: a defaulted pod is valid, defaulting again changes nothing, and the pod given is left alone', () => {
  fc.assert(
    fc.property(pods(), (json) => {
      const given = frozen(decoded(podShape, json));
      const once = defaultPod(given);
      assert.deepEqual(messagesOf(validatePod(once)), []);
      assert.deepEqual(defaultPod(once), once);
      assert.deepEqual(given, decoded(podShape, json));
    }),
    { numRuns: 200 },
  );
});

function status(json: object): unknown {
  return defaultPod(decoded(podShape, { metadata, status: json })).status;
}

function defaulted(spec: object): Pod['spec'] {
  return defaultPod(frozen(decoded(podShape, { metadata, spec }))).spec;
}

function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    Object.values(value).forEach(frozen);
    Object.freeze(value);
  }
  return value;
}

function named(prefix: string, list: readonly object[]): object[] {
  return list.map((fields, index) => Object.assign({ name: `${prefix}${index}` }, fields));
}

/** Pods that the API server would take, with few or many of the fields that defaulting looks at. */
function pods(): fc.Arbitrary<object> {
  const optional = { requiredKeys: [] };
  const path = fc.stringMatching(/^[a-z][a-z0-9/]{0,8}$/);
  const mode = fc.integer({ min: 0, max: 0o777 });
  const user = fc.integer({ min: 0, max: 2 ** 31 - 1 });
  const item = fc.record({ key: path, path, mode, user }, { requiredKeys: ['key', 'path'] });
  const items = fc.array(item, { maxLength: 3 });
  const file = fc.record(
    { path, mode, fieldRef: fc.constantFrom({ fieldPath: 'metadata.name' }, { fieldPath: "metadata.labels['a']" }) },
    { requiredKeys: ['path', 'fieldRef'] },
  );
  const shared = { items, defaultMode: mode, defaultUser: user, optional: fc.boolean() };
  const source = fc.oneof(
    fc.constant({}),
    fc.record({ emptyDir: fc.record({ sizeLimit: fc.constantFrom('1Gi', 5), mode }, optional) }),
    fc.record({ secret: fc.record({ secretName: path, ...shared }, { requiredKeys: ['secretName'] }) }),
    fc.record({ configMap: fc.record({ name: path, ...shared }, { requiredKeys: ['name'] }) }),
    fc.record({ downwardAPI: fc.record({ items: fc.array(file, { maxLength: 3 }), defaultMode: mode }, optional) }),
    fc.record({
      projected: fc.record({
        sources: fc.array(
          fc.oneof(
            fc.record({ secret: fc.record({ name: path }) }),
            fc.record({
              serviceAccountToken: fc.record(
                { path, expirationSeconds: fc.integer({ min: 600, max: 2 ** 32 }) },
                { requiredKeys: ['path'] },
              ),
            }),
          ),
          { maxLength: 3 },
        ),
      }),
    }),
    fc.record({ hostPath: fc.record({ path }) }),
    fc.record({ image: fc.record({ reference: path }) }),
  );
  const limits = fc.dictionary(fc.constantFrom('cpu', 'memory', 'example.com/gpu'), fc.constantFrom('1', 2, '3k'));
  const probe = fc.oneof(
    fc.record({ httpGet: fc.record({ port: fc.constantFrom(80, 'web') }) }),
    fc.record({ exec: fc.constant({ command: ['true'] }), timeoutSeconds: fc.nat(10) }),
  );
  const container = fc.record(
    {
      image: fc.constantFrom('nginx', 'nginx:1', 'Strange Image'),
      resources: fc.record({ limits }, optional),
      livenessProbe: probe,
      ports: fc.uniqueArray(fc.record({ containerPort: fc.integer({ min: 1, max: 65535 }) }), {
        selector: ({ containerPort }) => containerPort,
        maxLength: 2,
      }),
      env: fc.array(
        fc.oneof(
          fc.record({ name: fc.constantFrom('A', 'b c'), value: fc.string() }),
          fc.record({ name: path, valueFrom: fc.constant({ fieldRef: { fieldPath: 'spec.nodeName' } }) }),
        ),
        { maxLength: 3 },
      ),
    },
    { requiredKeys: ['image'] },
  );
  const spec = fc.record(
    {
      containers: fc.array(container, { minLength: 1, maxLength: 3 }).map((list) => named('c', list)),
      initContainers: fc
        .array(fc.record({ image: fc.constantFrom('nginx', 'nginx:1') }), { maxLength: 2 })
        .map((list) => named('i', list)),
      volumes: fc.array(source, { maxLength: 4 }).map((list) => named('v', list)),
      serviceAccountName: fc.constant('robot'),
      hostNetwork: fc.boolean(),
      terminationGracePeriodSeconds: fc.integer({ min: -5, max: 100 }),
      restartPolicy: fc.constantFrom('Always', 'Never'),
      enableServiceLinks: fc.boolean(),
    },
    { requiredKeys: ['containers', 'serviceAccountName'] },
  );
  // On the host's network two containers cannot have the same port; such pods are left out.
  return spec
    .filter(({ hostNetwork, containers }) => hostNetwork !== true || containers.length === 1)
    .map((fields) => ({ metadata, spec: fields }));
}
