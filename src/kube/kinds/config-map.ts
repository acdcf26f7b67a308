/** The ConfigMap: its shape, its defaults, its rules on creation and update, and the base64 and size rules that Secrets share. */
import {
  type FieldError,
  addErrors,
  forbiddenField,
  invalidField,
  invalidFields,
  placedAt,
  tooLongField,
} from '../schema/field-errors.ts';
import { resourceKind } from '../schema/kind.ts';
import { objectFields } from '../schema/meta.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import { type Of, boolean, bytes, described, map, object, string, keyPart } from '../schema/schema.ts';
import { configMapKeyProblems, dnsSubdomainProblems } from '../values/names.ts';

export const configMapShape = described(
  {
    text: 'Configuration for pods: named texts and bytes. All of it together is at most 1 MiB.',
    fields: {
      immutable: 'Whether the entries can never change. It cannot be taken back.',
      data: 'Entries of text. A key consists of letters, digits, "-", "_" and ".".',
      binaryData: 'Entries of bytes, in base64. No key may also be in data.',
    },
  },
  object({
    ...objectFields,
    immutable: boolean,
    data: map(string),
    binaryData: map(bytes),
  }),
);
export interface ConfigMap extends Of<typeof configMapShape> {}

export const configMapKind = resourceKind<ConfigMap>({
  kind: 'ConfigMap',
  plural: 'configmaps',
  shortNames: ['cm'],
  namespaced: true,
  shape: configMapShape,
  validate: validateConfigMap,
  validateUpdate: validateConfigMapUpdate,
  wire: { ConfigMap: '1 metadata ObjectMeta, 4 immutable? bool, 2 data {string}, 3 binaryData {bytes}' },
});

/** The sum of all values; keys are not counted. The API server has the same limit for ConfigMaps and Secrets. */
export const dataSizeBytesMax = 1024 * 1024;

export const immutableDetail = 'field is immutable when `immutable` is set';

function validateConfigMap(configMap: ConfigMap): FieldError[] {
  const { metadata, data = {}, binaryData = {} } = configMap;
  const errors = validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' });
  let sizeBytes = 0;
  for (const [key, value] of Object.entries(data)) {
    const problems = configMapKeyProblems(key);
    if (problems.length > 0) addErrors(errors, invalidFields(['data', keyPart(key)], key, problems));
    if (Object.hasOwn(binaryData, key)) {
      errors.push(invalidField(['data', keyPart(key)], key, 'duplicate of key present in binaryData'));
    }
    sizeBytes += Buffer.byteLength(value);
  }
  for (const [key, value] of Object.entries(binaryData)) {
    errors.push(...invalidFields(['binaryData', keyPart(key)], key, configMapKeyProblems(key)));
    sizeBytes += base64SizeBytes(value);
  }
  // The API server gives this error the empty field name, which it prints as `[]`.
  if (sizeBytes > dataSizeBytesMax) errors.push(...placedAt([], [tooLongField([keyPart('')], dataSizeBytesMax)]));
  return errors;
}

function validateConfigMapUpdate(configMap: ConfigMap, old: ConfigMap): FieldError[] {
  const errors = validateObjectMetaUpdate(configMap.metadata, old.metadata, ['metadata']);
  if (old.immutable === true) {
    if (configMap.immutable !== true) errors.push(forbiddenField(['immutable'], immutableDetail));
    if (!sameText(configMap.data, old.data)) errors.push(forbiddenField(['data'], immutableDetail));
    if (!sameBytes(configMap.binaryData, old.binaryData)) {
      errors.push(forbiddenField(['binaryData'], immutableDetail));
    }
  }
  return [...errors, ...validateConfigMap(configMap)];
}

type Entries = Readonly<Record<string, string>> | undefined;

/** Base64 of the same bytes may be written in more than one way. */
export function sameBytes(a: Entries, b: Entries): boolean {
  return sameEntries(a, b, (x, y) => x === y || decodeBase64(x).equals(decodeBase64(y)));
}

function sameText(a: Entries, b: Entries): boolean {
  return sameEntries(a, b, (x, y) => x === y);
}

function sameEntries(a: Entries = {}, b: Entries = {}, same: (x: string, y: string) => boolean): boolean {
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && same(a[key] ?? '', b[key] ?? ''));
}

/** The bytes of `data` and `binaryData`, which JSON carries as base64. Line breaks in the text are ignored, as Go does. */
export function decodeBase64(text: string): Buffer {
  return Buffer.from(text, 'base64');
}

export function encodeBase64(text: string): string {
  return Buffer.from(text).toString('base64');
}

/** Counted without decoding: a Secret may hold a mebibyte, and its size is asked for more often than its bytes. */
export function base64SizeBytes(text: string): number {
  const packed = text.replace(/[\r\n]/g, '');
  const padding = packed.endsWith('==') ? 2 : Number(packed.endsWith('='));
  return (packed.length / 4) * 3 - padding;
}

export function defaultConfigMap(configMap: ConfigMap): ConfigMap {
  return configMap.data === undefined ? { ...configMap, data: {} } : configMap;
}
