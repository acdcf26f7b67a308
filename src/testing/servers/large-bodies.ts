/**
 * Requests of the largest legal size, and attacks that are larger than they look. Benchmarks measure how long each holds the
 * server, tests what it answers.
 */
export interface LargeRequest {
  readonly name: string;
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'GET';
  readonly path: string;
  readonly contentType?: string;
  readonly accept?: string;
  readonly body?: string;
}

const core = '/api/v1/namespaces/default';
const json = 'application/json';
const yaml = 'application/yaml';
const applyPatch = 'application/apply-patch+yaml';
const table = 'application/json;as=Table;v=v1;g=meta.k8s.io';

const listOf = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));

export function configMapBody(name: string, data: Readonly<Record<string, string>>): object {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'default' }, data };
}

function podBody(name: string, container: object, spec: object = {}): object {
  const containers = [{ name: 'main', image: 'none', command: ['true'], ...container }];
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    // Of no node: what is measured is the request, not the pod.
    spec: { nodeSelector: { nowhere: 'true' }, containers, ...spec },
  };
}

function claimBody(name: string, spec: object): object {
  const resources = { requests: { storage: '1Gi' } };
  const metadata = { name };
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata,
    spec: { accessModes: ['ReadWriteOnce'], resources, ...spec },
  };
}

const create = (name: string, resource: string, body: object | string, contentType = json): LargeRequest => ({
  name,
  method: 'POST',
  path: `${core}/${resource}`,
  contentType,
  body: typeof body === 'string' ? body : JSON.stringify(body),
});

const head = (kind: string, name: string): string =>
  `apiVersion: v1\nkind: ${kind}\nmetadata: {name: ${name}, namespace: default}\n`;

/** What a node gets to do: a pod with many variables, and one whose volumes have a large file and many small ones. */
export function nodeRequests(nodeName: string): readonly LargeRequest[] {
  const keys = Object.fromEntries(listOf(8_000, (index) => [`key-${index}`, 'v']));
  const pod = (name: string, container: object, spec: object = {}): object =>
    podBody(name, { command: ['sleep', 'infinity'], ...container }, { nodeSelector: {}, nodeName, ...spec });
  const volumes = ['file', 'files'].map((name) => ({ name, configMap: { name } }));
  const volumeMounts = volumes.map(({ name }) => ({ name, mountPath: `/${name}` }));
  const patch = (name: string, place: string, data: object): LargeRequest => ({
    name,
    method: 'PATCH',
    path: `${core}/configmaps/${place}`,
    contentType: 'application/merge-patch+json',
    body: JSON.stringify({ data }),
  });
  return [
    create('node, ConfigMap of one file', 'configmaps', configMapBody('file', { file: 'x'.repeat(1_000_000) })),
    create('node, ConfigMap of many files', 'configmaps', configMapBody('files', keys)),
    create('node, pod with volumes', 'pods', pod('volumes', { volumeMounts }, { volumes })),
    create('node, pod with variables', 'pods', pod('variables', { env: variables(10_000) })),
    create(
      'node, pod with its ConfigMap as variables',
      'pods',
      pod('from', { envFrom: [{ configMapRef: { name: 'files' } }] }),
    ),
    patch('node, change of one file', 'file', { file: 'y'.repeat(1_000_000) }),
    patch('node, change of one of many files', 'files', { 'key-1': 'w' }),
  ];
}

/** The six that were seen to hold the process for seconds. */
export function seenAttacks(): readonly LargeRequest[] {
  const anchors = listOf(300, (index) => `  a${index}: &a${index} v${index}\n`).join('');
  const aliases = listOf(9_000, (index) => `  k${index}: *a${index % 300}\n`).join('');
  return [
    create(
      'YAML with aliases, 120 KB',
      'configmaps',
      `${head('ConfigMap', 'aliases')}data:\n${anchors}${aliases}`,
      yaml,
    ),
    create('YAML event, 2.7 MB', 'events', yamlEvent(2_700_000), yaml),
    create(
      'quantity of a million digits',
      'persistentvolumeclaims',
      claimBody('digits', { resources: { requests: { storage: '9'.repeat(1_000_000) } } }),
    ),
    create('40,000 variables', 'pods', podBody('variables', { env: variables(40_000) })),
    {
      name: 'apply of 100,000 keys',
      method: 'PATCH',
      path: `${core}/configmaps/keys?fieldManager=bench`,
      contentType: applyPatch,
      body: JSON.stringify(configMapBody('keys', Object.fromEntries(listOf(100_000, (index) => [`key-${index}`, ''])))),
    },
    {
      name: 'selector of 100,000 values',
      method: 'GET',
      path: `${core}/configmaps?labelSelector=${encodeURIComponent(`a in (${listOf(100_000, (index) => `v${index}`).join()})`)}`,
    },
  ];
}

function yamlEvent(bytes: number): string {
  const start = `${head('Event', 'large')}involvedObject: {kind: Pod, name: a, namespace: default}\nreason: Large\n`;
  const item = (index: number): string => `  field-${index}: [1, 2, {a: b}]\n`;
  return `${start}unknown:\n${listOf(Math.floor(bytes / item(10_000).length), item).join('')}`;
}

const variables = (count: number): object[] =>
  Array.from({ length: count }, (_, index) => ({
    name: `VARIABLE_${index}`,
    value: `$(VARIABLE_${index - 1})x`.slice(-9),
  }));

/** Each as large as `bytes` allows; names end with the size, so that requests of several sizes can be sent to one server. */
export function largeRequests(bytes: number): readonly LargeRequest[] {
  const room = bytes - 1_000;
  const items = <T>(make: (index: number) => T): T[] =>
    listOf(Math.floor(room / (JSON.stringify(make(123_456)).length + 1)), make);
  const fields = <T>(make: (index: number) => readonly [string, T]): Record<string, T> =>
    Object.fromEntries(listOf(Math.floor(room / (JSON.stringify(make(123_456)).length - 1)), make));
  const lines = (text: string, part: (index: number) => string): string =>
    text + listOf(Math.floor(room / part(123_456).length), part).join('');
  const named = (name: string): string => `${name}-${bytes}`;
  const keys = fields((index) => [`key-${index}`, 'v']);
  const configMap = (name: string, data: Record<string, string>, metadata: object = {}): LargeRequest =>
    create(`ConfigMap, ${name}`, 'configmaps', {
      ...configMapBody(named(name), data),
      metadata: { name: named(name), ...metadata },
    });
  const text = (name: string, body: string, contentType = json): LargeRequest =>
    create(name, 'configmaps', body, contentType);
  const pod = (name: string, container: object, spec: object = {}): LargeRequest =>
    create(`pod, ${name}`, 'pods', podBody(named(name), container, spec));
  const claim = (name: string, matchExpressions: object): LargeRequest =>
    create(`claim, ${name}`, 'persistentvolumeclaims', claimBody(named(name), { selector: { matchExpressions } }));
  const patch = (name: string, contentType: string, body: object, place = 'subject'): LargeRequest => {
    const path = `${core}/configmaps/${place}?fieldManager=large`;
    return { name, method: 'PATCH', path, contentType: `application/${contentType}`, body: JSON.stringify(body) };
  };
  const volume = (source: object): object => ({ volumes: [{ name: 'v', ...source }] });
  const half = (list: object[]): object[] => list.slice(0, list.length / 2);
  return [
    configMap('value', { a: 'x'.repeat(Math.min(room, 1_048_000)) }),
    configMap('keys', keys),
    configMap('labels', {}, { labels: fields((index) => [`a.b/l${index}`, 'v']) }),
    configMap(
      'owners',
      {},
      { ownerReferences: items((index) => ({ apiVersion: 'v1', kind: 'Pod', name: `p${index}`, uid: `u${index}` })) },
    ),
    configMap(
      'managers',
      {},
      {
        managedFields: items((index) => ({
          manager: `m${index}`,
          operation: 'Update',
          apiVersion: 'v1',
          fieldsType: 'FieldsV1',
          fieldsV1: { [`f:a${index}`]: {} },
        })),
      },
    ),
    configMap(
      'appliers',
      {},
      {
        managedFields: items((index) => ({
          manager: `m${index}`,
          operation: 'Apply',
          apiVersion: 'v1',
          fieldsType: 'FieldsV1',
          fieldsV1: { [`f:a${index}`]: {} },
        })),
      },
    ),
    patch('apply, small keys', 'apply-patch+yaml', configMapBody(named('applied'), keys), named('applied')),
    patch('apply over small keys', 'apply-patch+yaml', configMapBody(named('keys'), { a: 'b' }), named('keys')),
    patch('merge patch, small keys', 'merge-patch+json', { data: keys }),
    patch('strategic patch of finalizers', 'strategic-merge-patch+json', {
      metadata: { finalizers: items((index) => `a.b/f${index}`) },
    }),
    patch(
      'JSON patch',
      'json-patch+json',
      items((index) => ({ op: 'add', path: `/data/key-${index}`, value: 'v' })).slice(0, 10_000),
    ),
    create('unknown fields', 'configmaps', {
      ...configMapBody(named('unknown'), {}),
      ...fields((index) => [`u${index}`, 1]),
    }),
    text(
      'the same key twice',
      `{"metadata":{"name":"${named('twice')}"},"data":{${items(() => '1234')
        .map(() => '"a":"b"')
        .join()}}}`,
    ),
    text('brackets', `{"metadata":{"name":"deep"},"data":${'['.repeat(room / 2)}${']'.repeat(room / 2)}}`),
    text('backslashes', `{"metadata":{"name":"${named('slash')}"},"data":{"a":"${'\\\\'.repeat(room / 2)}"}}`),
    pod('variables', {
      env: items((index) => ({ name: `VARIABLE_${index}`, value: `$(VARIABLE_${index - 1})x`.slice(-9) })),
    }),
    pod('arguments', { args: items(() => 'a') }),
    pod('containers', {}, { containers: items((index) => ({ name: `c${index}`, image: 'i' })) }),
    pod(
      'volumes',
      { volumeMounts: half(items((index) => ({ name: `v${index}`, mountPath: `/m${index}` }))) },
      { volumes: half(items((index) => ({ name: `v${index}`, emptyDir: {} }))) },
    ),
    pod('ports', { ports: items((index) => ({ containerPort: (index % 65_535) + 1 })) }),
    pod('tolerations', {}, { tolerations: items((index) => ({ key: `k${index}`, operator: 'Exists' })) }),
    pod('sources', {}, volume({ projected: { sources: items((index) => ({ configMap: { name: `c${index}` } })) } })),
    pod(
      'items',
      {},
      volume({ configMap: { name: 'c', items: items((index) => ({ key: `k${index}`, path: `p${index}` })) } }),
    ),
    pod(
      'host-aliases',
      {},
      {
        hostAliases: items((index) => ({
          ip: `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`,
          hostnames: ['a'],
        })),
      },
    ),
    claim('selector', [{ key: 'a', operator: 'In', values: items((index) => `v${index}`) }]),
    claim(
      'wrong-selector',
      items((index) => ({ key: `?${index}`, operator: 'x' })),
    ),
    create('service, ports', 'services', {
      metadata: { name: named('ports') },
      spec: { ports: items((index) => ({ name: `p${index}`, port: (index % 65_535) + 1 })) },
    }),
    text(
      'YAML, small keys',
      lines(`${head('ConfigMap', named('yaml'))}data:\n`, (index) => `  key-${index}: v\n`),
      yaml,
    ),
    text(
      'YAML, one block',
      lines(`${head('ConfigMap', named('block'))}data:\n  a: |\n`, () => '    some line of text\n').slice(0, 1_040_000),
      yaml,
    ),
    text(
      'YAML, anchors',
      lines(`${head('ConfigMap', 'anchors')}data:\n  a: &a [`, () => '*a, '),
      yaml,
    ),
    text('YAML, brackets', '['.repeat(room), yaml),
    text('YAML, question marks', '? '.repeat(room / 2), yaml),
    { name: 'a large object as YAML', method: 'GET', path: `${core}/configmaps/subject`, accept: yaml },
    { name: 'the list as YAML', method: 'GET', path: `${core}/configmaps`, accept: yaml },
    { name: 'the list as a table', method: 'GET', path: `${core}/configmaps?includeObject=Object`, accept: table },
    { name: 'the list, selected', method: 'GET', path: `${core}/configmaps?labelSelector=a` },
    { name: 'the list, pretty', method: 'GET', path: `${core}/configmaps?pretty=true` },
    { name: 'the list', method: 'GET', path: `${core}/configmaps` },
  ];
}
