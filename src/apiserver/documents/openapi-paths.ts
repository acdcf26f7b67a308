/** The OpenAPI paths of a resource: enough for a client to see what it can send where. */
import type { Resource, Verb } from '../model/resource.ts';
import type { Json } from './openapi-schema.ts';

const reference = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });

function query(name: string, type: string, description: string): Json {
  return { name, in: 'query', description, schema: { type, uniqueItems: true } };
}

const dryRun = query('dryRun', 'string', 'All: everything is checked and nothing is done.');
const fieldManager = query('fieldManager', 'string', 'The name of who makes the change.');
const fieldValidation = query(
  'fieldValidation',
  'string',
  'What to do with unknown and doubled fields: Ignore, Warn or Strict. Warn if absent.',
);
const force = query('force', 'boolean', 'Whether an apply takes fields from other managers.');
const selectors = [
  query('labelSelector', 'string', 'Chooses objects by their labels.'),
  query('fieldSelector', 'string', 'Chooses objects by some of their fields.'),
];
const listing = [
  ...selectors,
  query('limit', 'integer', 'How many objects to answer with at most.'),
  query('continue', 'string', 'Asks for the next page.'),
  query('resourceVersion', 'string', 'The state to answer with, or to watch from.'),
  query('resourceVersionMatch', 'string', 'How exactly resourceVersion is meant.'),
  query('sendInitialEvents', 'boolean', 'Whether a watch begins with what is there.'),
  query('allowWatchBookmarks', 'boolean', 'Whether a watch may tell how far it has come.'),
  query('timeoutSeconds', 'integer', 'How long a watch goes on.'),
  query('watch', 'boolean', 'Whether to go on with the changes.'),
];
const pretty = query('pretty', 'string', 'Whether JSON is indented.');

const patchTypes = [
  'application/apply-patch+yaml',
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/strategic-merge-patch+json',
];

interface Operation {
  readonly method: string;
  readonly verb: Verb;
  readonly parameters: readonly Json[];
  readonly body: 'object' | 'patch' | 'deleteOptions' | 'none';
  readonly answer: 'object' | 'list' | 'status';
}

const writing = [dryRun, fieldManager, fieldValidation];
const deleting = [...listing, dryRun];

const onCollection: readonly Operation[] = [
  { method: 'get', verb: 'list', parameters: listing, body: 'none', answer: 'list' },
  { method: 'post', verb: 'create', parameters: writing, body: 'object', answer: 'object' },
  { method: 'delete', verb: 'deletecollection', parameters: deleting, body: 'deleteOptions', answer: 'status' },
];
const onObject: readonly Operation[] = [
  { method: 'get', verb: 'get', parameters: [], body: 'none', answer: 'object' },
  { method: 'put', verb: 'update', parameters: writing, body: 'object', answer: 'object' },
  { method: 'patch', verb: 'patch', parameters: [...writing, force], body: 'patch', answer: 'object' },
  { method: 'delete', verb: 'delete', parameters: [dryRun], body: 'deleteOptions', answer: 'status' },
];

/** What the operations of a path refer to by name. */
interface SchemaNames {
  readonly object: string;
  readonly list: string;
  readonly deleteOptions: string;
  readonly status: string;
}

export function pathsOf(resource: Resource, names: SchemaNames): Json {
  const { group, version, plural, namespaced } = resource;
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  const collection = namespaced ? `${root}/namespaces/{namespace}/${plural}` : `${root}/${plural}`;
  const everywhere = onCollection.filter(({ verb }) => verb === 'list');
  return Object.fromEntries(
    [
      [collection, pathItem(resource, onCollection, names, namespaced ? ['namespace'] : [])],
      [`${collection}/{name}`, pathItem(resource, onObject, names, namespaced ? ['name', 'namespace'] : ['name'])],
      ...(namespaced ? [[`${root}/${plural}`, pathItem(resource, everywhere, names, [])] as const] : []),
    ].filter(([, item]) => item !== undefined),
  );
}

function pathItem(
  resource: Resource,
  operations: readonly Operation[],
  names: SchemaNames,
  inPath: readonly string[],
): Json | undefined {
  const served = operations.filter(({ verb }) => resource.verbs.includes(verb));
  if (served.length === 0) return undefined;
  const entries = served.map((operation) => [operation.method, operationOf(resource, operation, names)] as const);
  return {
    ...Object.fromEntries(entries),
    parameters: [
      ...inPath.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string', uniqueItems: true } })),
      pretty,
    ],
  };
}

function operationOf(resource: Resource, operation: Operation, names: SchemaNames): Json {
  const { group, version, kind } = resource;
  const body = bodyOf(operation.body, names);
  // Writes of whole objects are named after their methods.
  const action = operation.body === 'object' ? operation.method : operation.verb;
  const list = operation.answer === 'list' ? 'List' : '';
  return {
    tags: [group === '' ? `core_${version}` : `${group.split('.')[0]}_${version}`],
    operationId: `${action}${kind}${version}${group.split('.')[0] ?? ''}${list}`,
    parameters: operation.parameters,
    ...(body && { requestBody: body }),
    responses: {
      '200': { description: 'OK', content: { 'application/json': { schema: reference(names[operation.answer]) } } },
    },
    'x-kubernetes-action': action,
    'x-kubernetes-group-version-kind': { group, version, kind },
  };
}

function bodyOf(body: Operation['body'], names: SchemaNames): Json | undefined {
  switch (body) {
    case 'none':
      return undefined;
    case 'patch': {
      const schema = { type: 'object' };
      return { content: Object.fromEntries(patchTypes.map((type) => [type, { schema }])), required: true };
    }
    default:
      return { content: { '*/*': { schema: reference(names[body]) } } };
  }
}
