import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Container } from '../../kube/kinds/pod/container.ts';
import { aConfigMap, aContainer, aNode, aPod, aSecret, aService, objectReader } from '../../testing/fakes/builders.ts';
import {
  type EnvironmentWorld,
  noVolumes,
  plainFiles,
  resolveIn,
  showVariables,
} from '../../testing/worlds/container-world.ts';
import { type EnvironmentDeps, resolveEnvironment } from './environment.ts';

const { signal } = new AbortController();

const color = aConfigMap({
  name: 'color',
  data: { b: 'blue', a: 'amber', '9.x-y': 'odd' },
  binaryData: { bin: 'AAAA' },
});
const shape = aConfigMap({ name: 'shape', data: { a: 'round' } });
const login = aSecret({ name: 'login', data: { user: 'ann', password: 'hunter2', '.dot': 'x' } });

interface Good extends EnvironmentWorld {
  readonly it: string;
  readonly container: Partial<Container>;
  readonly expected: Record<string, string>;
}

const keyRef = (name: string, key: string, optional?: boolean) =>
  optional === undefined ? { name, key } : { name, key, optional };

const good: readonly Good[] = [
  { it: 'nothing for a container that asks for nothing', container: {}, expected: {} },
  {
    it: 'every key of a ConfigMap, as it is and sorted, but not binaryData',
    container: { envFrom: [{ configMapRef: { name: 'color' } }] },
    configMaps: [color],
    expected: { '9.x-y': 'odd', a: 'amber', b: 'blue' },
  },
  {
    it: 'every key of a Secret with a prefix that starts with a digit',
    container: { envFrom: [{ prefix: '1_', secretRef: { name: 'login' } }] },
    secrets: [login],
    expected: { '1_.dot': 'x (secret)', '1_password': 'hunter2 (secret)', '1_user': 'ann (secret)' },
  },
  {
    it: 'the later of two envFrom, in the place of the first',
    container: { envFrom: [{ configMapRef: { name: 'color' } }, { configMapRef: { name: 'shape' } }] },
    configMaps: [color, shape],
    expected: { '9.x-y': 'odd', a: 'round', b: 'blue' },
  },
  {
    it: 'the ConfigMap of an envFrom that names both kinds',
    container: { envFrom: [{ configMapRef: { name: 'shape' }, secretRef: { name: 'login' } }] },
    configMaps: [shape],
    secrets: [login],
    expected: { a: 'round' },
  },
  {
    it: 'nothing of optional objects that are missing',
    container: {
      envFrom: [{ configMapRef: { name: 'no', optional: true } }, { secretRef: { name: 'no', optional: true } }],
      env: [
        { name: 'A', valueFrom: { configMapKeyRef: keyRef('no', 'k', true) } },
        { name: 'B', valueFrom: { secretKeyRef: keyRef('no', 'k', true) } },
        { name: 'C', value: 'c' },
      ],
    },
    expected: { C: 'c' },
  },
  {
    it: 'nothing of optional keys that are missing, also when they are binary',
    container: {
      env: [
        { name: 'A', valueFrom: { configMapKeyRef: keyRef('color', 'bin', true) } },
        { name: 'B', valueFrom: { secretKeyRef: keyRef('login', 'constructor', true) } },
      ],
    },
    configMaps: [color],
    secrets: [login],
    expected: {},
  },
  {
    it: 'what an optional key that is missing would have overridden',
    container: {
      envFrom: [{ configMapRef: { name: 'shape' } }],
      env: [{ name: 'a', valueFrom: { configMapKeyRef: keyRef('color', 'no', true) } }],
    },
    configMaps: [color, shape],
    expected: { a: 'round' },
  },
  {
    it: 'env over envFrom, and later env over earlier',
    container: {
      envFrom: [{ configMapRef: { name: 'color' } }],
      env: [
        { name: 'a', value: 'one' },
        { name: 'z', value: 'last' },
        { name: 'a', value: 'two' },
      ],
    },
    configMaps: [color],
    expected: { '9.x-y': 'odd', a: 'two', b: 'blue', z: 'last' },
  },
  {
    it: 'values of keys without expanding them',
    container: {
      env: [
        { name: 'A', value: 'a' },
        { name: 'B', valueFrom: { configMapKeyRef: keyRef('raw', 'k') } },
      ],
    },
    configMaps: [aConfigMap({ name: 'raw', data: { k: '$(A) $$' } })],
    expected: { A: 'a', B: '$(A) $$' },
  },
  {
    it: 'references to variables before and of envFrom, not to later ones',
    container: {
      envFrom: [{ configMapRef: { name: 'color' } }],
      env: [
        { name: 'A', value: '$(a)-$(LATER)-$(EMPTY)' },
        { name: 'EMPTY', value: '' },
        { name: 'LATER', value: '[$(A)][$(EMPTY)]' },
        { name: 'X', value: '$$(A) $(A' },
      ],
    },
    configMaps: [color],
    expected: {
      '9.x-y': 'odd',
      a: 'amber',
      b: 'blue',
      A: 'amber-$(LATER)-$(EMPTY)',
      EMPTY: '',
      LATER: '[amber-$(LATER)-$(EMPTY)][]',
      X: '$(A) $(A',
    },
  },
  {
    it: 'a variable that refers to its own earlier value',
    container: {
      env: [
        { name: 'PATH', value: '/bin' },
        { name: 'PATH', value: '$(PATH):/usr/bin' },
      ],
    },
    expected: { PATH: '/bin:/usr/bin' },
  },
  {
    it: 'valueFrom beside an empty value',
    container: { env: [{ name: 'A', value: '', valueFrom: { configMapKeyRef: keyRef('shape', 'a') } }] },
    configMaps: [shape],
    expected: { A: 'round' },
  },
  {
    it: 'value before valueFrom',
    container: { env: [{ name: 'A', value: 'v', valueFrom: { configMapKeyRef: keyRef('shape', 'a') } }] },
    expected: { A: 'v' },
  },
  {
    it: 'an empty text for an empty valueFrom',
    container: { env: [{ name: 'A', valueFrom: {} }, { name: 'B' }] },
    expected: { A: '', B: '' },
  },
  {
    it: 'keys named like members of objects',
    container: { envFrom: [{ configMapRef: { name: 'odd' } }], env: [{ name: '__proto__', value: '$(constructor)' }] },
    configMaps: [aConfigMap({ name: 'odd', data: { constructor: 'c', toString: 't' } })],
    expected: Object.fromEntries([
      ['constructor', 'c'],
      ['toString', 't'],
      ['__proto__', 'c'],
    ]),
  },
  {
    it: 'the kubernetes service alone without service links',
    container: {},
    pod: { enableServiceLinks: false },
    services: [
      aService({ name: 'kubernetes', namespace: 'default', clusterIP: '10.0.0.1' }),
      aService({ name: 'db' }),
      aService({ name: 'other', namespace: 'default' }),
    ],
    expected: {
      KUBERNETES_PORT: 'tcp://10.0.0.1:80',
      KUBERNETES_PORT_80_TCP: 'tcp://10.0.0.1:80',
      KUBERNETES_PORT_80_TCP_ADDR: '10.0.0.1',
      KUBERNETES_PORT_80_TCP_PORT: '80',
      KUBERNETES_PORT_80_TCP_PROTO: 'tcp',
      KUBERNETES_SERVICE_HOST: '10.0.0.1',
      KUBERNETES_SERVICE_PORT: '80',
    },
  },
  {
    it: "a server on the machine's loopback address where a pod with a network of its own reaches it",
    container: {},
    services: [
      aService({
        name: 'kubernetes',
        namespace: 'default',
        clusterIP: '10.96.0.1',
        ports: [],
        annotations: { 'mountlet.dev/api-server': '127.0.0.1:6443' },
      }),
      aService({ name: 'db', clusterIP: '10.0.0.2', ports: [] }),
    ],
    loopbackIp: '10.96.0.1',
    expected: { DB_SERVICE_HOST: '10.0.0.2', KUBERNETES_SERVICE_HOST: '10.96.0.1' },
  },
  {
    it: "services of the pod's namespace with service links, never those without an address",
    container: {},
    services: [
      aService({ name: 'my-db', clusterIP: '10.0.0.2' }),
      aService({ name: 'headless', clusterIP: 'None' }),
      aService({ name: 'external', clusterIP: '' }),
      aService({ name: 'foreign', namespace: 'bank' }),
    ],
    expected: {
      MY_DB_PORT: 'tcp://10.0.0.2:80',
      MY_DB_PORT_80_TCP: 'tcp://10.0.0.2:80',
      MY_DB_PORT_80_TCP_ADDR: '10.0.0.2',
      MY_DB_PORT_80_TCP_PORT: '80',
      MY_DB_PORT_80_TCP_PROTO: 'tcp',
      MY_DB_SERVICE_HOST: '10.0.0.2',
      MY_DB_SERVICE_PORT: '80',
    },
  },
  {
    it: "no service's variable where env has its name, and references to services",
    container: {
      env: [
        { name: 'URL', value: 'http://$(DB_SERVICE_HOST)' },
        { name: 'DB_SERVICE_HOST', value: 'mine' },
        { name: 'URL2', value: 'http://$(DB_SERVICE_HOST)' },
      ],
    },
    services: [aService({ name: 'db', clusterIP: '10.0.0.2', ports: [] })],
    expected: { URL: 'http://10.0.0.2', DB_SERVICE_HOST: 'mine', URL2: 'http://mine' },
  },
  {
    it: 'a static pod without services',
    container: { env: [{ name: 'A', value: 'a' }] },
    pod: { metadata: { annotations: { 'kubernetes.io/config.source': 'file' } } },
    services: 'unsynced',
    expected: { A: 'a' },
  },
  {
    it: 'fields of the pod and its node',
    container: {
      env: [
        'metadata.name',
        'metadata.namespace',
        "metadata.labels['app']",
        "metadata.annotations['none']",
        'spec.nodeName',
        'spec.host',
        'spec.serviceAccountName',
        'status.hostIP',
        'status.hostIPs',
        'status.podIP',
        'status.podIPs',
      ].map((fieldPath) => ({ name: fieldPath, valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath } } })),
    },
    pod: { metadata: { labels: { app: 'web' } }, nodeName: 'node-1', serviceAccountName: 'robot' },
    podIPs: ['2001:db8::7', '10.0.0.7', '10.0.0.8'],
    expected: {
      'metadata.name': 'web',
      'metadata.namespace': 'shop',
      "metadata.labels['app']": 'web',
      "metadata.annotations['none']": '',
      'spec.nodeName': 'node-1',
      'spec.host': 'node-1',
      'spec.serviceAccountName': 'robot',
      'status.hostIP': '192.0.2.1',
      'status.hostIPs': '192.0.2.1',
      'status.podIP': '10.0.0.7',
      'status.podIPs': '10.0.0.7,2001:db8::7',
    },
  },
  {
    it: 'addresses of pod and node in the order of the node',
    container: {
      env: ['status.hostIPs', 'status.podIP', 'status.podIPs'].map((fieldPath) => ({
        name: fieldPath,
        valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath } },
      })),
    },
    node: aNode({
      addresses: [
        { type: 'InternalIP', address: '2001:db8::1' },
        { type: 'InternalIP', address: '192.0.2.1' },
      ],
    }),
    podIPs: ['10.0.0.7', 'nonsense', '2001:db8::7', '2001:db8::8'],
    expected: {
      'status.hostIPs': '2001:db8::1,192.0.2.1',
      'status.podIP': '2001:db8::7',
      'status.podIPs': '2001:db8::7,10.0.0.7',
    },
  },
  {
    it: 'no pod address before the pod has one',
    container: { env: [{ name: 'IP', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'status.podIP' } } }] },
    expected: { IP: '' },
  },
  {
    it: "resources of the container, or the node's where it has no limit",
    container: {
      resources: { limits: { cpu: '250m' }, requests: { memory: '64Mi' } },
      env: [
        { name: 'CPU', valueFrom: { resourceFieldRef: { resource: 'limits.cpu' } } },
        { name: 'MILLI', valueFrom: { resourceFieldRef: { resource: 'limits.cpu', divisor: '1m' } } },
        { name: 'MEM', valueFrom: { resourceFieldRef: { resource: 'requests.memory', divisor: '1Mi' } } },
        { name: 'MEM_MAX', valueFrom: { resourceFieldRef: { resource: 'limits.memory', divisor: '1Gi' } } },
        { name: 'NONE', valueFrom: { resourceFieldRef: { resource: 'requests.cpu' } } },
      ],
    },
    expected: { CPU: '1', MILLI: '250', MEM: '64', MEM_MAX: '8', NONE: '0' },
  },
];

for (const { it, container, expected, ...world } of good) {
  test(`resolveEnvironment gives ${it}`, async () => {
    assert.deepEqual(Object.entries(showVariables(await resolveIn(container, world))), Object.entries(expected));
  });
}

interface Bad extends EnvironmentWorld {
  readonly it: string;
  readonly container: Partial<Container>;
  readonly message: string;
}
const bad: readonly Bad[] = [
  {
    it: 'a pod whose service links were not defaulted',
    container: {},
    pod: { enableServiceLinks: undefined as never },
    message: 'spec.enableServiceLinks is not set, cannot construct the variables of services',
  },
  {
    it: 'an API pod before services were read',
    container: {},
    pod: { metadata: { annotations: { 'kubernetes.io/config.source': 'api' } } },
    services: 'unsynced',
    message: 'services have not yet been read at least once, cannot construct envvars',
  },
  {
    it: 'a missing ConfigMap in envFrom',
    container: { envFrom: [{ configMapRef: { name: 'no' } }] },
    message: 'configmap "no" not found',
  },
  {
    it: 'a missing Secret in envFrom',
    container: { envFrom: [{ secretRef: { name: 'no', optional: false } }] },
    message: 'secret "no" not found',
  },
  {
    it: 'a missing ConfigMap of a key',
    container: { env: [{ name: 'A', valueFrom: { configMapKeyRef: keyRef('no', 'k') } }] },
    message: 'configmap "no" not found',
  },
  {
    it: 'a missing Secret that an optional reference forgave before',
    container: {
      env: [
        { name: 'A', valueFrom: { secretKeyRef: keyRef('no', 'k', true) } },
        { name: 'B', valueFrom: { secretKeyRef: keyRef('no', 'k') } },
      ],
    },
    message: 'secret "no" not found',
  },
  {
    it: 'a key that is missing in a ConfigMap, though it is in binaryData',
    container: { env: [{ name: 'A', valueFrom: { configMapKeyRef: keyRef('color', 'bin') } }] },
    configMaps: [color],
    message: "couldn't find key bin in ConfigMap shop/color",
  },
  {
    it: 'a key that is missing in a Secret',
    container: { env: [{ name: 'A', valueFrom: { secretKeyRef: keyRef('login', 'toString') } }] },
    secrets: [login],
    message: "couldn't find key toString in Secret shop/login",
  },
  {
    it: "an object of another namespace (a pod reads its own namespace's objects alone)",
    container: { envFrom: [{ secretRef: { name: 'login' } }] },
    secrets: [aSecret({ name: 'login', namespace: 'bank', data: { password: 'hunter2' } })],
    message: 'secret "login" not found',
  },
  {
    it: 'another version of the fields',
    container: { env: [{ name: 'A', valueFrom: { fieldRef: { apiVersion: 'v2', fieldPath: 'metadata.name' } } }] },
    message: 'unsupported pod version: v2',
  },
  ...[
    ['spec.containers', 'field label not supported: spec.containers'],
    ["spec.nodeName['x']", "field label does not support subscript: spec.nodeName['x']"],
    ['status.phase', 'unsupported fieldPath: status.phase'],
    ['spec.restartPolicy', 'unsupported fieldPath: spec.restartPolicy'],
    ['spec.schedulerName', 'unsupported fieldPath: spec.schedulerName'],
  ].map(([fieldPath = '', message = '']) => ({
    it: `the field ${fieldPath}`,
    container: { env: [{ name: 'A', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath } } }] },
    message,
  })),
  {
    it: "the node's address where none is known",
    container: { env: [{ name: 'A', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'status.hostIPs' } } }] },
    node: aNode({ addresses: [{ type: 'Hostname', address: 'node-1' }] }),
    message: 'host IP unknown; known addresses: [{Hostname node-1}]',
  },
  {
    it: 'an unknown resource',
    container: { env: [{ name: 'A', valueFrom: { resourceFieldRef: { resource: 'limits.gold' } } }] },
    message: 'unsupported container resource : limits.gold',
  },
  {
    it: 'resources of an unknown container',
    container: {
      env: [{ name: 'A', valueFrom: { resourceFieldRef: { containerName: 'x', resource: 'limits.cpu' } } }],
    },
    message: 'container x not found',
  },
  {
    it: 'a file of a volume that is not mounted',
    container: {
      env: [{ name: 'A', valueFrom: { fileKeyRef: { volumeName: 'v', path: 'e', key: 'K', optional: true } } }],
    },
    message: 'cannot find the volume "v" referenced by FileKeyRef',
  },
];
for (const { it, container, message, ...world } of bad) {
  test(`resolveEnvironment refuses ${it}`, async () => {
    await assert.rejects(resolveIn(container, world), {
      name: 'ContainerConfigError',
      reason: 'CreateContainerConfigError',
      message,
    });
  });
}

test('a node without an API server has no ConfigMaps or Secrets', async () => {
  const container = aContainer({ envFrom: [{ configMapRef: { name: 'c', optional: true } }] });
  const withSecret = aContainer({ env: [{ name: 'A', valueFrom: { secretKeyRef: keyRef('s', 'k', true) } }] });
  const deps: EnvironmentDeps = {
    configMaps: undefined,
    secrets: undefined,
    services: [],
    node: aNode(),
    envFiles: plainFiles,
  };
  await assert.rejects(resolveEnvironment({ pod: aPod(), container, podIPs: [], volumes: noVolumes }, deps, signal), {
    message: "couldn't get configMap shop/c: the node has no API server",
  });
  await assert.rejects(
    resolveEnvironment({ pod: aPod(), container: withSecret, podIPs: [], volumes: noVolumes }, deps, signal),
    {
      message: "couldn't get secret shop/s: the node has no API server",
    },
  );
});

test('an object that could not be read fails the container even where it is optional', async () => {
  const container = aContainer({ envFrom: [{ configMapRef: { name: 'c', optional: true } }] });
  const deps: EnvironmentDeps = {
    configMaps: { get: () => Promise.reject(new Error('object "shop"/"c" not registered')) },
    secrets: undefined,
    services: [],
    node: aNode(),
    envFiles: plainFiles,
  };
  await assert.rejects(resolveEnvironment({ pod: aPod(), container, podIPs: [], volumes: noVolumes }, deps, signal), {
    name: 'ContainerConfigError',
    message: 'object "shop"/"c" not registered',
  });
});

test('an abort while an object is read is passed on', async () => {
  const abort = new AbortController();
  const container = aContainer({ envFrom: [{ configMapRef: { name: 'c' } }] });
  const deps: EnvironmentDeps = {
    configMaps: {
      get() {
        abort.abort(new Error('stopping'));
        return Promise.reject(new Error('connection closed'));
      },
    },
    secrets: undefined,
    services: [],
    node: aNode(),
    envFiles: plainFiles,
  };
  await assert.rejects(
    resolveEnvironment({ pod: aPod(), container, podIPs: [], volumes: noVolumes }, deps, abort.signal),
    {
      message: 'stopping',
    },
  );
});

test('every object is read once for a container, also one that is missing', async () => {
  const configMaps = objectReader(color);
  const secrets = objectReader(login);
  const container = aContainer({
    envFrom: [
      { configMapRef: { name: 'color' } },
      { secretRef: { name: 'login' } },
      { configMapRef: { name: 'color' }, prefix: 'P_' },
      { configMapRef: { name: 'no', optional: true } },
    ],
    env: [
      { name: 'A', valueFrom: { configMapKeyRef: keyRef('color', 'a') } },
      { name: 'B', valueFrom: { secretKeyRef: keyRef('login', 'user') } },
      { name: 'C', valueFrom: { configMapKeyRef: keyRef('no', 'a', true) } },
    ],
  });
  await resolveEnvironment(
    { pod: aPod(), container, podIPs: [], volumes: noVolumes },
    { configMaps, secrets, services: [], node: aNode(), envFiles: plainFiles },
    signal,
  );
  assert.deepEqual(configMaps.asked, ['shop/color', 'shop/no']);
  assert.deepEqual(secrets.asked, ['shop/login']);
});

test('every variable records where it came from, also through other variables', async () => {
  const variables = await resolveIn(
    {
      envFrom: [{ prefix: 'C_', configMapRef: { name: 'shape' } }],
      env: [
        { name: 'S', valueFrom: { secretKeyRef: keyRef('login', 'user') } },
        { name: 'V', value: '$(C_a) $(S) $(C_a)' },
        { name: 'W', value: '$(V) $(DB_SERVICE_HOST)' },
        { name: 'N', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } } },
        { name: 'R', valueFrom: { resourceFieldRef: { resource: 'limits.cpu' } } },
      ],
    },
    { configMaps: [shape], secrets: [login], services: [aService({ name: 'db', ports: [] })] },
  );
  const ofShape = { kind: 'ConfigMap', name: 'shape', key: 'a', resourceVersion: '1' };
  const ofLogin = { kind: 'Secret', name: 'login', key: 'user', resourceVersion: '1' };
  const ofService = { kind: 'Service', name: 'db' };
  assert.deepEqual(
    variables.map(({ name, source }) => [name, source]),
    [
      ['C_a', ofShape],
      ['S', ofLogin],
      ['V', { kind: 'value', expands: [ofShape, ofLogin] }],
      ['W', { kind: 'value', expands: [ofShape, ofLogin, ofService] }],
      ['N', { kind: 'field', path: 'metadata.name' }],
      ['R', { kind: 'resource', resource: 'limits.cpu', containerName: 'main' }],
      ['DB_SERVICE_HOST', ofService],
    ],
  );
});

test('values a runtime cannot take are marked, also when they come through another', async () => {
  const variables = await resolveIn(
    {
      envFrom: [{ secretRef: { name: 'bytes' } }, { configMapRef: { name: 'nul' } }],
      env: [
        { name: 'T', value: '<$(torn)>' },
        { name: 'U', value: 'fine' },
        { name: 'Z', value: 'a\0b' },
      ],
    },
    {
      secrets: [
        aSecret({
          name: 'bytes',
          data: { torn: Buffer.from([0x61, 0xff]), zero: 'a\0b', bom: '\uFEFFx', wide: 'žluť😀' },
        }),
      ],
      configMaps: [aConfigMap({ name: 'nul', data: { n: '\0' } })],
    },
  );
  assert.deepEqual(
    variables.map(({ name, value, defect }) => [name, value, defect]),
    [
      ['bom', '\uFEFFx', undefined],
      ['torn', 'a\uFFFD', 'NotUtf8'],
      ['wide', 'žluť😀', undefined],
      ['zero', 'a\0b', 'NulByte'],
      ['n', '\0', 'NulByte'],
      ['T', '<a\uFFFD>', 'NotUtf8'],
      ['U', 'fine', undefined],
      ['Z', 'a\0b', 'NulByte'],
    ],
  );
});

const sixMebibytes = {
  reason: 'CreateContainerConfigError',
  message: /^Variables and arguments of container "main" take more than 6 MiB/,
};

test('references that double and double again are stopped before they fill the memory', async () => {
  const env = [{ name: 'V0', value: 'x'.repeat(1000) }];
  for (let i = 1; i <= 40; i += 1) env.push({ name: `V${i}`, value: `$(V${i - 1})$(V${i - 1})` });
  await assert.rejects(resolveIn({ env }), sixMebibytes);
});

test('one object under ever new prefixes is stopped before it fills the memory', async () => {
  const data = Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`key-${i}`, 'v'.repeat(10)]));
  const envFrom = Array.from({ length: 2000 }, (_, i) => ({ prefix: `${i}_`, configMapRef: { name: 'many' } }));
  await assert.rejects(resolveIn({ envFrom }, { configMaps: [aConfigMap({ name: 'many', data })] }), sixMebibytes);
});

test('sources that pile up behind empty values are stopped too', async () => {
  const env = [];
  for (let i = 0; i < 5000; i += 1) {
    env.push({ name: `L${i}`, valueFrom: { configMapKeyRef: keyRef('empty', 'k') } });
    env.push({ name: `V${i}`, value: `$(V${i - 1})$(L${i})` });
  }
  const configMaps = [aConfigMap({ name: 'empty', data: { k: '' } })];
  await assert.rejects(resolveIn({ env: [{ name: 'V-1', value: '' }, ...env] }, { configMaps }), sixMebibytes);
});
