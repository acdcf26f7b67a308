/** What every write needs: the store, the user, the options, and the books of who owns which field. */
import type { Clock } from '../../base/clock.ts';
import {
  type FieldError,
  forbiddenField,
  invalidField,
  requiredField,
  tooLongField,
  unsupportedField,
} from '../../kube/schema/field-errors.ts';
import type { AdmissionStep } from '../admission/admission.ts';
import type { User } from '../identity/user.ts';
import type { Random } from '../model/random.ts';
import { type KubeObject, type Resource, apiVersionOf } from '../model/resource.ts';
import { entityTooLarge, invalid } from '../model/status.ts';
import { parseStored, storedText } from '../model/stored-objects.ts';
import type { JsonObject } from '../patch/json-value.ts';
import type { Writer } from '../patch/managed-fields.ts';
import { trackUpdate } from '../patch/track-update.ts';
import type { Store } from '../store/store.ts';
import type { ApiRequest } from './api-request.ts';

/** What handlers of requests need of a store; it may be in another thread. */
export type RequestStore = Pick<Store, 'revision' | 'get' | 'list' | 'update' | 'subscribe'>;

export interface WriteDeps {
  readonly store: RequestStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly admission: readonly AdmissionStep[];
}

export interface WriteContext {
  readonly user: User;
  /** Whose fields the changed ones become. */
  readonly manager: string;
  readonly dryRun: boolean;
  /** A write of the server's own, made on the main thread. */
  readonly isController?: boolean;
  readonly signal: AbortSignal;
}

/** The signal is made when something waits for it, which few writes do. */
export function contextOf(request: ApiRequest, { manager, dryRun }: WriteOptions): WriteContext {
  return {
    user: request.user,
    manager,
    dryRun,
    get signal() {
      return request.signal;
    },
  };
}

export interface Written {
  /** JSON, as it is stored. */
  readonly text: string;
  readonly created: boolean;
}

/** What etcd takes of a real server, so that what is written here can go there. */
const objectBytesMax = 1.5 * 1024 * 1024;

/** An object that was larger already may get smaller. */
function checkSize(value: string, before = ''): void {
  const bytes = value.length * 3 > objectBytesMax ? Buffer.byteLength(value) : 0;
  if (bytes <= objectBytesMax || value.length <= before.length) return;
  const { metadata } = parseStored(value);
  const fields = Buffer.byteLength(JSON.stringify(metadata.managedFields ?? []));
  throw entityTooLarge(
    `with its defaults and ${fields} bytes of managedFields the object takes ${bytes} bytes, limit is ${objectBytesMax}`,
  );
}

/** The object's text as it is stored. `before` is what it replaces. */
export function storableText(object: KubeObject, revision: number, before?: string): string {
  const text = storedText(object, revision);
  checkSize(text, before);
  return text;
}

interface Manager {
  readonly name: string;
  readonly subresource: string;
  readonly nowMs: number;
}

type ManagedFields = KubeObject['metadata']['managedFields'];

/** The `metadata.managedFields` that credit the object's changes against `old` to the manager. */
export function trackedFields(
  resource: Resource,
  old: KubeObject | undefined,
  object: KubeObject,
  manager: Manager,
): ManagedFields {
  const update = { ...writerOf(resource, manager), live: old && asJson(old), object: asJson(object) };
  return asObject(trackUpdate(update)).metadata.managedFields;
}

export function withManagedFields(object: KubeObject, managedFields: ManagedFields): KubeObject {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata: managedFields === undefined ? metadata : { ...metadata, managedFields } };
}

export function writerOf(resource: Resource, { name, subresource, nowMs }: Manager): Writer {
  const hasStatus = resource.subresources.some((one) => one.name === 'status');
  const ignored = subresource === '' ? (hasStatus ? ['status'] : []) : subresource === 'status' ? ['spec'] : [];
  return {
    shape: resource.shape,
    manager: name,
    apiVersion: apiVersionOf(resource),
    ...(subresource !== '' && { subresource }),
    ignoredFields: ignored.map((field) => [field]),
    nowMs,
  };
}

/** An object of a decoded shape is JSON, apart from fields that are there but undefined. */
export function asJson(object: KubeObject): JsonObject {
  return object as unknown as JsonObject;
}

export function asObject(json: JsonObject): KubeObject {
  return json as unknown as KubeObject;
}

export type FieldValidation = 'Ignore' | 'Warn' | 'Strict';

export interface WriteOptions {
  readonly dryRun: boolean;
  readonly manager: string;
  readonly fieldValidation: FieldValidation;
  /** Of an apply: take over what others own. */
  readonly force: boolean;
}

const managerLengthMax = 128;

export function writeOptions(
  kind: 'CreateOptions' | 'UpdateOptions' | 'PatchOptions',
  query: URLSearchParams,
  userAgent: string,
  isApply = false,
): WriteOptions {
  const errors: FieldError[] = [];
  const manager = query.get('fieldManager') ?? '';
  const force = query.get('force');
  if (isApply && manager === '') errors.push(requiredField(['fieldManager'], 'is required for apply patch'));
  if (kind === 'PatchOptions' && !isApply && force !== null) {
    errors.push(forbiddenField(['force'], 'may not be specified for non-apply patch'));
  }
  errors.push(...managerErrors(manager), ...dryRunErrors(query.getAll('dryRun')));
  const fieldValidation = query.get('fieldValidation') || 'Warn';
  if (!isFieldValidation(fieldValidation)) {
    errors.push(unsupportedField(['fieldValidation'], fieldValidation, ['', 'Ignore', 'Strict', 'Warn']));
  }
  if (errors.length > 0) throw invalid({ group: 'meta.k8s.io', name: kind }, '', errors);
  return {
    dryRun: query.getAll('dryRun').includes('All'),
    manager: manager === '' ? managerFromUserAgent(userAgent) : manager,
    fieldValidation: isFieldValidation(fieldValidation) ? fieldValidation : 'Warn',
    force: force === 'true' || force === '1',
  };
}

/** Empty values are what clients send that have nothing to say. */
export function dryRunErrors(given: readonly string[]): FieldError[] {
  const values = given.filter((value) => value !== '');
  return values.every((value) => value === 'All') ? [] : [unsupportedField(['dryRun'], values, ['All'])];
}

/** `kubectl/v1.32.0 (linux/amd64)` is kubectl. */
function managerFromUserAgent(userAgent: string): string {
  const name = userAgent
    .split('/', 1)
    .join('')
    .replace(/[^\x20-\x7e]/g, '');
  return name.slice(0, managerLengthMax) || 'unknown';
}

function managerErrors(manager: string): FieldError[] {
  const path = ['fieldManager'];
  if (Buffer.byteLength(manager) > managerLengthMax) return [tooLongField(path, managerLengthMax)];
  let position = 0;
  for (const character of manager) {
    if (!/^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u.test(character)) {
      const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
      return [invalidField(path, manager, `invalid character U+${code} (at position ${position})`)];
    }
    position += Buffer.byteLength(character);
  }
  return [];
}

function isFieldValidation(value: string): value is FieldValidation {
  return value === 'Ignore' || value === 'Warn' || value === 'Strict';
}
