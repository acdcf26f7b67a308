/** The Secret: its shape, its defaults, and its rules on creation and update. No message here ever carries a byte of a value. */
import {
  type FieldError,
  forbiddenField,
  invalidField,
  invalidFields,
  requiredField,
  tooLongField,
} from '../schema/field-errors.ts';
import { resourceKind } from '../schema/kind.ts';
import { objectFields } from '../schema/meta.ts';
import { immutableErrors, validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import { type FieldPath, type Of, boolean, bytes, described, map, object, string, keyPart } from '../schema/schema.ts';
import { configMapKeyProblems, dnsSubdomainProblems } from '../values/names.ts';
import {
  base64SizeBytes,
  dataSizeBytesMax,
  decodeBase64,
  encodeBase64,
  immutableDetail,
  sameBytes,
} from './config-map.ts';

/** `stringData` is for writing only: defaulting folds it into `data`, and no reader ever sees it. */
export const secretShape = described(
  {
    text: 'Confidential entries for pods. All of it together is at most 1 MiB.',
    fields: {
      immutable: 'Whether the entries can never change. It cannot be taken back.',
      data: 'Entries, in base64. A key consists of letters, digits, "-", "_" and ".".',
      stringData: 'Entries in clear, for writing alone: they are put over data and never shown.',
      type: 'What the entries are for; Opaque if absent. It cannot be changed.',
    },
  },
  object({
    ...objectFields,
    immutable: boolean,
    data: map(bytes),
    stringData: map(string),
    type: string,
  }),
);
export interface Secret extends Of<typeof secretShape> {}

export const secretKind = resourceKind<Secret>({
  kind: 'Secret',
  plural: 'secrets',
  namespaced: true,
  shape: secretShape,
  complete: defaultSecret,
  validate: validateSecret,
  validateUpdate: validateSecretUpdate,
  wire: { Secret: '1 metadata ObjectMeta, 5 immutable? bool, 2 data {bytes}, 4 stringData {string}, 3 type' },
});

type Data = Readonly<Record<string, string>>;

/** Expects a defaulted Secret: `stringData` is already part of `data`. */
function validateSecret(secret: Secret): FieldError[] {
  const { metadata, data = {} } = secret;
  const dataPath = ['data'];
  const errors = validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' });
  let sizeBytes = 0;
  for (const [key, value] of Object.entries(data)) {
    errors.push(...invalidFields([...dataPath, keyPart(key)], key, configMapKeyProblems(key)));
    sizeBytes += base64SizeBytes(value);
  }
  if (sizeBytes > dataSizeBytesMax) errors.push(tooLongField(dataPath, dataSizeBytesMax));
  return [...errors, ...typeErrors(secret, data, [])];
}

function validateSecretUpdate(secret: Secret, old: Secret): FieldError[] {
  const errors = validateObjectMetaUpdate(secret.metadata, old.metadata, ['metadata']);
  const oldType = old.type ?? '';
  // An update that names no type keeps the old one.
  const type = secret.type === undefined || secret.type === '' ? oldType : secret.type;
  errors.push(...immutableErrors(type, oldType, ['type']));
  if (old.immutable === true) {
    if (secret.immutable !== true) errors.push(forbiddenField(['immutable'], immutableDetail));
    if (!sameBytes(secret.data, old.data)) errors.push(forbiddenField(['data'], immutableDetail));
  }
  return [...errors, ...validateSecret({ ...secret, type })];
}

function typeErrors({ metadata, type }: Secret, data: Data, path: FieldPath): FieldError[] {
  const missing = (keys: readonly string[]): FieldError[] =>
    keys.filter((key) => !Object.hasOwn(data, key)).map((key) => requiredField([...path, 'data', keyPart(key)]));
  switch (type) {
    case 'kubernetes.io/service-account-token': {
      const annotation = 'kubernetes.io/service-account.name';
      if ((metadata.annotations?.[annotation] ?? '') !== '') return [];
      return [requiredField([...path, 'metadata', 'annotations', keyPart(annotation)])];
    }
    case 'kubernetes.io/dockercfg':
      return jsonErrors('.dockercfg', data, path);
    case 'kubernetes.io/dockerconfigjson':
      return jsonErrors('.dockerconfigjson', data, path);
    case 'kubernetes.io/basic-auth': {
      const absent = missing(['username', 'password']);
      return absent.length === 2 ? absent : [];
    }
    case 'kubernetes.io/ssh-auth': {
      const key = 'ssh-privatekey';
      return (data[key] ?? '') === '' ? [requiredField([...path, 'data', keyPart(key)])] : [];
    }
    case 'kubernetes.io/tls':
      return missing(['tls.crt', 'tls.key']);
    default:
      return [];
  }
}

function jsonErrors(key: string, data: Data, path: FieldPath): FieldError[] {
  const here = [...path, 'data', keyPart(key)];
  const value = Object.hasOwn(data, key) ? data[key] : undefined;
  if (value === undefined) return [requiredField(here)];
  const problem = jsonObjectProblem(decodeBase64(value).toString('utf8'));
  return problem === undefined ? [] : [invalidField(here, '<secret contents redacted>', problem)];
}

/**
 * In the words of Go's decoder, but for one thing: where Go quotes the character that it did not expect, this says no more
 * than that there is one, for it is a piece of the Secret.
 */
function jsonObjectProblem(text: string): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return endsEarly(text, error) ? 'unexpected end of JSON input' : 'invalid character in JSON input';
  }
  if (value === null) return undefined;
  const kind = Array.isArray(value) ? 'array' : typeof value;
  return kind === 'object'
    ? undefined
    : `json: cannot unmarshal ${kind === 'boolean' ? 'bool' : kind} into Go value of type map[string]interface {}`;
}

function endsEarly(text: string, error: unknown): boolean {
  const message = error instanceof SyntaxError ? error.message : '';
  const position = /at position (\d+)/.exec(message)?.[1];
  return /^(Unexpected end|Unterminated string)/.test(message) || Number(position ?? -1) >= text.length;
}

/** Folds `stringData` into `data`, over what is there, and removes it. */
function defaultSecret(secret: Secret): Secret {
  const { stringData, ...rest } = secret;
  const type = secret.type || 'Opaque';
  if (stringData === undefined) return { ...rest, type };
  const encoded = Object.entries(stringData).map(([key, value]) => [key, encodeBase64(value)] as const);
  return { ...rest, data: { ...secret.data, ...Object.fromEntries(encoded) }, type };
}
