/**
 * PUT of one object or of its status, and the way of every change: in one step the object is read, changed, admitted, prepared,
 * checked and written. No other write comes in between, so a change never meets a stale object and is never tried again.
 */
import { isRecord } from '../../kube/schema/equality.ts';
import { type FieldError, invalidField } from '../../kube/schema/field-errors.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { admitAll } from '../admission/admission.ts';
import { type KubeObject, type Resource, type UpdateRules, apiVersionOf } from '../model/resource.ts';
import { badRequest, conflict, invalid, kindName, modified, notFound, resourceName } from '../model/status.ts';
import { objectKey, parseStored, storedText } from '../model/stored-objects.ts';
import type { Decision } from '../store/store.ts';
import type { ApiRequest, Handler } from './api-request.ts';
import {
  type Creation,
  checkName,
  checkNamespace,
  decideCreation,
  prepareAdmission,
  readServed,
  storable,
} from './create.ts';
import { isEnded } from './plan-deletion.ts';
import {
  type WriteContext,
  type WriteDeps,
  type Written,
  contextOf,
  storableText,
  trackedFields,
  withManagedFields,
  writeOptions,
} from './write-context.ts';

export function updateHandler(deps: WriteDeps): Handler {
  return async (request) => {
    const { resource, served, info, query } = request;
    const options = writeOptions('UpdateOptions', query, request.exchange.header('user-agent') ?? '');
    const object = withNamespace(request, await readServed(request, options.fieldValidation));
    checkName(request, object);
    checkNamespace(request, object);
    const { namespace, name, subresource } = info;
    const written = await updateObject(deps, {
      resource,
      view: served,
      namespace,
      name,
      subresource,
      context: contextOf(request, options),
      change: (current) => replace(resource, current, storable(request, object, current)),
      ...(resource.allowsCreateOnUpdate && subresource === '' && { orCreate: () => storable(request, object) }),
    });
    return { kind: 'object', code: written.created ? 201 : 200, text: written.text };
  };
}

function withNamespace({ info, resource }: ApiRequest, object: KubeObject): KubeObject {
  if (!resource.namespaced || (object.metadata.namespace ?? '') !== '') return object;
  return { ...object, metadata: { ...object.metadata, namespace: info.namespace } };
}

function replace(resource: Resource, current: KubeObject, object: KubeObject): KubeObject {
  const { uid = '', resourceVersion = '', name, namespace = '' } = object.metadata;
  if (uid !== '' && uid !== current.metadata.uid) {
    const key = objectKey(resource, namespace, name);
    throw conflict(
      resourceName(resource),
      name,
      `StorageError: invalid object, Code: 4, Key: ${key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ${uid}, UID in object meta: ${current.metadata.uid}`,
    );
  }
  if (resourceVersion === '' && !resource.allowsUnconditionalUpdate) {
    const text = 'must be specified for an update';
    // Here the API names the plural, not the kind.
    throw invalid(resourceName(resource), name, [invalidField(['metadata', 'resourceVersion'], 0, text)]);
  }
  if (resourceVersion !== '' && !/^\d+$/.test(resourceVersion)) {
    throw badRequest(`resourceVersion: Invalid value: ${goQuote(resourceVersion)}: must be a whole number`);
  }
  return object;
}

interface Update {
  readonly resource: Resource;
  /** The view it came through, whose rules it must keep; absent: the resource itself. */
  readonly view?: Resource;
  readonly namespace: string;
  readonly name: string;
  readonly subresource: string;
  readonly context: WriteContext;
  /** What the object should be. Throws a StatusError to refuse. */
  change(current: KubeObject): KubeObject;
  /** What to create where nothing is; absent: that is an error. */
  orCreate?(): KubeObject;
  /** What of the change counts, and what it must keep to; absent: the rules of the subresource, or of the resource. */
  readonly rules?: UpdateRules;
  /** The change keeps its own books of `managedFields` (apply). */
  readonly isTracked?: boolean;
}

const trackedLengthMax = 128 * 1024;

export async function updateObject(deps: WriteDeps, update: Update): Promise<Written> {
  const { resource, namespace, name } = update;
  const key = objectKey(resource, namespace, name);
  if (deps.store.get(key) === undefined) await prepareAdmission(deps, creationOf(update));
  return deps.store.update(key, (current, revision) =>
    current === undefined
      ? decideCreation(deps, creationOf(update), name, current, revision)
      : decideUpdate(deps, update, current.value, revision),
  );
}

function creationOf(update: Update): Creation {
  const { resource, namespace, name, context, view = resource, isTracked = false } = update;
  const object = update.orCreate?.();
  if (object === undefined) throw notFound(resourceName(resource), name);
  const { uid = '' } = object.metadata;
  if (uid !== '') {
    // It was there once: who changes it must hear that it is gone.
    const text = `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`;
    throw conflict(resourceName(resource), name, text);
  }
  return { resource, view, namespace, object, context, isTracked };
}

function decideUpdate(deps: WriteDeps, update: Update, current: string, revision: number): Decision<Written> {
  const { resource, namespace, name, subresource, context } = update;
  const old = parseStored(current);
  const wanted = update.change(old);
  // A controller that looked, and found nothing to do.
  if (wanted === old) return { kind: 'keep', result: { text: current, created: false } };
  const { resourceVersion = '' } = wanted.metadata;
  if (resourceVersion !== '' && resourceVersion !== old.metadata.resourceVersion) {
    throw modified(resourceName(resource), name);
  }
  const base = { operation: 'UPDATE', user: context.user, resource, subresource, namespace, name, old } as const;
  const now = deps.clock.now();
  const rules = update.rules ?? resource.subresources.find((one) => one.name === subresource)?.update;
  const prepare = (one: KubeObject): KubeObject =>
    rules === undefined ? resource.prepareForUpdate(one, old, now) : rules.prepare(one, old, now);
  // Completed first: missing defaults are not a change and must not count as a new generation.
  const whole = resource.complete(keepIdentity(resource, wanted, old));
  const asked = prepare(whole);
  const admitted = admitAll(deps.admission, { ...base, object: whole });
  const prepared = admitted === undefined || admitted === whole ? asked : prepare(resource.complete(admitted));
  const errors =
    rules === undefined ? validateAs(update.view ?? resource, prepared, old) : rules.validate(prepared, old);
  if (errors.length > 0) throw invalid(kindName(update.view ?? resource), name, errors);
  const manager = { name: context.manager, subresource, nowMs: now };
  // The books of a large object take longer to keep than the node may wait for; a controller's few fields stay out of them.
  const isTracked = update.isTracked || (context.isController && current.length > trackedLengthMax);
  // What admission changes belongs to no manager.
  const managedFields = isTracked ? wanted.metadata.managedFields : trackedFields(resource, old, asked, manager);
  const object = withManagedFields(prepared, managedFields);
  // A write that changes nothing takes no revision and wakes no watch.
  if (isUnchanged(object, old)) return { kind: 'keep', result: { text: current, created: false } };
  if (context.dryRun) return { kind: 'keep', result: { text: JSON.stringify(object), created: false } };
  if (isEnded(resource, object)) {
    const last = storedText(object, revision);
    return { kind: 'delete', value: last, result: { text: last, created: false } };
  }
  const text = storableText(object, revision, current);
  const ending = object.metadata.deletionTimestamp !== undefined;
  return { kind: 'put', value: text, result: { text, created: false }, ending };
}

function validateAs(resource: Resource, object: KubeObject, old: KubeObject): readonly FieldError[] {
  const view = (one: KubeObject): KubeObject => resource.viewOf?.fromStored(one) ?? one;
  return resource.validateUpdate(view(object), view(old));
}

/** The content first: where that differs, as it does in most updates, metadata need not be looked at. */
function isUnchanged(object: KubeObject, old: KubeObject): boolean {
  const content = { ...object, metadata: undefined };
  return isSameJson(content, { ...old, metadata: undefined }) && isSameJson(withoutTimes(object), withoutTimes(old));
}

/** The time at which a manager last set its fields does not count as a change. */
function withoutTimes({ metadata }: KubeObject): unknown {
  const managedFields = metadata.managedFields?.map((entry) => ({ ...(entry as object), time: undefined }));
  return { ...metadata, managedFields };
}

/** What an update cannot change it need not say; what it says against it, validation refuses. */
function keepIdentity(resource: Resource, object: KubeObject, old: KubeObject): KubeObject {
  const given = object.metadata;
  const metadata = copyWithout(given, notFromClient);
  const kept = (given.uid ?? '') === '' ? ['uid' as const, ...keptFields] : keptFields;
  for (const field of kept) if (old.metadata[field] !== undefined) metadata[field] = old.metadata[field];
  const head = { kind: resource.kind, apiVersion: apiVersionOf(resource), metadata };
  return Object.assign(head, copyWithout(object, headFields)) as unknown as KubeObject;
}

const headFields: readonly string[] = ['kind', 'apiVersion', 'metadata'];
const serverFields = ['generation', 'creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds'] as const;
const keptFields = [...serverFields, 'resourceVersion'] as const;
const notFromClient: readonly string[] = [...serverFields, 'selfLink'];

/** Rest properties do the same, several times slower. */
function copyWithout(object: object, left: readonly string[]): Record<string, unknown> {
  const copy: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(object)) if (!left.includes(key)) copy[key] = value;
  return copy;
}

/** Whether two values print the same JSON, whatever the order of keys; what is undefined is not there. */
export function isSameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => isSameJson(item, b[index]));
  }
  if (!isRecord(a) || !isRecord(b)) return false;
  for (const key of Object.keys(a)) if (!isSameJson(a[key], own(b, key))) return false;
  for (const key of Object.keys(b)) if (!Object.hasOwn(a, key) && b[key] !== undefined) return false;
  return true;
}

function own(record: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}
