/** The order to run a pod on a node, as a scheduler gives it. */
import {
  type FieldError,
  forbiddenField,
  invalidField,
  invalidFields,
  requiredField,
  unsupportedText,
} from '../../schema/field-errors.ts';
import { exchangedKind, resourceKind } from '../../schema/kind.ts';
import { deleteOptions, objectFields, objectReference } from '../../schema/meta.ts';
import { type Of, object, required, described } from '../../schema/schema.ts';
import { dnsSubdomainProblems } from '../../values/names.ts';
import { instantOf } from '../../values/times.ts';

const bindingShape = described(
  { text: 'The order to run a pod on a node.', fields: { target: 'The node.' } },
  object({ ...objectFields, target: required(objectReference) }),
);
export interface Binding extends Of<typeof bindingShape> {}

export const bindingKind = resourceKind<Binding>({
  kind: 'Binding',
  plural: 'bindings',
  namespaced: true,
  shape: bindingShape,
  validate: validateBinding,
  wire: {
    Binding: '1 metadata ObjectMeta, 2 target ObjectReference',
  },
});

/** Rules for the binding of a pod to a node. */
function validateBinding({ target: { kind = '', name = '' } }: Binding): FieldError[] {
  const isNode = kind === '' || kind === 'Node';
  const errors = isNode ? [] : [unsupportedText(['target', 'kind'], kind, ['Node', '<empty>'])];
  if (name === '') return [...errors, requiredField(['target', 'name'])];
  return isNode ? [...errors, ...invalidFields(['target', 'name'], name, dnsSubdomainProblems(name))] : errors;
}

/** The request to remove a pod from its node, if its disruption budget allows. */
const evictionShape = described(
  { text: 'The request to remove a pod from its node.', fields: { deleteOptions: 'How it is deleted.' } },
  object({ ...objectFields, deleteOptions }),
);
export interface Eviction extends Of<typeof evictionShape> {}

export const evictionKind = exchangedKind<Eviction>({
  group: 'policy',
  otherVersions: ['v1beta1'],
  kind: 'Eviction',
  shape: evictionShape,
  wire: {
    Eviction: '1 metadata ObjectMeta, 2 deleteOptions? DeleteOptions',
  },
});

/** What a reader of a container's log may ask for, as query parameters. Server and node read them in the same way. */
export interface PodLogOptions {
  readonly follow: boolean;
  readonly previous: boolean;
  readonly timestamps: boolean;
  readonly tailLines?: number | undefined;
  readonly limitBytes?: number | undefined;
  readonly sinceSeconds?: number | undefined;
  /** RFC 3339. */
  readonly sinceTime?: string | undefined;
  /** `All`, `Stdout` or `Stderr`. */
  readonly stream: string;
  readonly insecureSkipTLSVerifyBackend: boolean;
}

/** Answers a text for what cannot even be read. */
export function parsePodLogOptions(query: URLSearchParams): PodLogOptions | string {
  const problems: string[] = [];
  const integer = (name: string): number | undefined => {
    const text = query.get(name) ?? '';
    if (text === '') return undefined;
    const value = /^[+-]?\d{1,15}$/.test(text) ? Number(text) : undefined;
    if (value === undefined) problems.push(`strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`);
    return value;
  };
  const sinceTime = query.get('sinceTime') ?? '';
  if (sinceTime !== '' && instantOf(sinceTime) === undefined) {
    problems.push(`parsing time ${JSON.stringify(sinceTime)} as "2006-01-02T15:04:05Z07:00": cannot parse`);
  }
  const options = {
    follow: isYes(query, 'follow'),
    previous: isYes(query, 'previous'),
    timestamps: isYes(query, 'timestamps'),
    tailLines: integer('tailLines'),
    limitBytes: integer('limitBytes'),
    sinceSeconds: integer('sinceSeconds'),
    sinceTime: sinceTime === '' ? undefined : sinceTime,
    stream: query.get('stream') ?? 'All',
    insecureSkipTLSVerifyBackend: isYes(query, 'insecureSkipTLSVerifyBackend'),
  };
  return problems[0] ?? options;
}

export function podLogOptionErrors(options: PodLogOptions): FieldError[] {
  const { tailLines, limitBytes, sinceSeconds, sinceTime, stream } = options;
  const errors: FieldError[] = [];
  if (tailLines !== undefined && tailLines < 0) {
    errors.push(invalidField(['tailLines'], tailLines, 'must be greater than or equal to 0'));
  }
  if (limitBytes !== undefined && limitBytes < 1) {
    errors.push(invalidField(['limitBytes'], limitBytes, 'must be greater than 0'));
  }
  if (sinceSeconds !== undefined && sinceTime !== undefined) {
    errors.push(forbiddenField([], 'at most one of `sinceTime` or `sinceSeconds` may be specified'));
  } else if (sinceSeconds !== undefined && sinceSeconds < 1) {
    errors.push(invalidField(['sinceSeconds'], sinceSeconds, 'must be greater than 0'));
  }
  const streams = ['All', 'Stderr', 'Stdout'];
  if (!streams.includes(stream)) errors.push(unsupportedText(['stream'], stream, streams));
  if (stream !== 'All' && tailLines !== undefined) {
    errors.push(forbiddenField([], '`tailLines` and specific `stream` are mutually exclusive for now'));
  }
  return errors;
}

/** The same options for a node: what it may not know is left out. */
export function podLogQuery(options: PodLogOptions): URLSearchParams {
  const query = new URLSearchParams();
  for (const name of ['follow', 'previous', 'timestamps'] as const) if (options[name]) query.set(name, 'true');
  for (const name of ['sinceSeconds', 'sinceTime', 'tailLines', 'limitBytes'] as const) {
    if (options[name] !== undefined) query.set(name, String(options[name]));
  }
  if (options.stream !== 'All') query.set('stream', options.stream);
  return query;
}

/** As the API reads booleans: given without a value it is true, and so is anything that is not clearly false. */
export function isYes(query: URLSearchParams, name: string): boolean {
  const value = query.get(name)?.toLowerCase();
  return value !== undefined && value !== 'false' && value !== '0';
}
