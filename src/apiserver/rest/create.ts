/**
 * POST to a collection, and the way of every new object into the store: named, admitted, prepared, checked. Who may create it
 * was decided before.
 */
import { type FieldError, invalidField, requiredField, tooLongField } from '../../kube/schema/field-errors.ts';
import { timestamp } from '../../kube/values/times.ts';
import { type AdmissionRequest, admitAll } from '../admission/admission.ts';
import { generatedName } from '../model/random.ts';
import { type KubeObject, type Resource, apiVersionOf } from '../model/resource.ts';
import {
  type StatusError,
  alreadyExists,
  badRequest,
  invalid,
  kindName,
  namesExhausted,
  resourceName,
} from '../model/status.ts';
import { objectKey, parseStored } from '../model/stored-objects.ts';
import type { Decision, StoredObject } from '../store/store.ts';
import type { ApiRequest, Handler } from './api-request.ts';
import { readObject } from './request-body.ts';
import {
  type FieldValidation,
  type WriteContext,
  type WriteDeps,
  type Written,
  contextOf,
  storableText,
  trackedFields,
  withManagedFields,
  writeOptions,
} from './write-context.ts';

export function createHandler(deps: WriteDeps): Handler {
  return async (request) => {
    const { resource, served, info, query } = request;
    if (resource.namespaced && info.namespace === '') {
      throw badRequest('an empty namespace may not be set during creation');
    }
    const options = writeOptions('CreateOptions', query, request.exchange.header('user-agent') ?? '');
    const object = await readStorable(request, options.fieldValidation);
    checkNamespace(request, object);
    const context = contextOf(request, options);
    const { text } = await createObject(deps, { resource, view: served, namespace: info.namespace, object, context });
    return { kind: 'object', code: 201, text };
  };
}

/** The object in the body, in the form in which it is stored. */
export async function readStorable(request: ApiRequest, validation: FieldValidation): Promise<KubeObject> {
  return storable(request, await readServed(request, validation));
}

/** In the form of what the path shows. */
export async function readServed(request: ApiRequest, validation: FieldValidation): Promise<KubeObject> {
  const { served } = request;
  const expected = { apiVersion: apiVersionOf(served), kind: served.kind, shape: served.shape };
  const object = atHome(request, await readObject(request, expected, validation));
  warnOf(request, object);
  return object;
}

/** As it may stand: without a namespace where its kind has none, and with each owner once. */
export function atHome(request: ApiRequest, object: KubeObject): KubeObject {
  const { ownerReferences = [], namespace, ...rest } = object.metadata;
  const isStray = namespace !== undefined && !request.served.namespaced;
  const owners = new Map(
    ownerReferences.map((owner) => {
      const { apiVersion, kind, name, uid, controller, blockOwnerDeletion } = owner;
      return [JSON.stringify([apiVersion, kind, name, uid, controller, blockOwnerDeletion]), owner];
    }),
  );
  if (owners.size < ownerReferences.length) {
    const once = new Set(owners.values());
    const uids = ownerReferences.filter((owner) => !once.has(owner)).map(({ uid }) => uid);
    const since = 'API server dedups owner references in 1.20+, and may reject such requests as early as 1.24';
    const observed = `please fix your requests; duplicate UID(s) observed: ${uids.join(', ')}`;
    request.warn(`.metadata.ownerReferences contains duplicate entries; ${since}; ${observed}`);
  } else if (!isStray) return object;
  const home = isStray || namespace === undefined ? {} : { namespace };
  const owned = owners.size === 0 ? {} : { ownerReferences: [...owners.values()] };
  return { ...object, metadata: { ...rest, ...home, ...owned } };
}

/** Those who report a status did not write the rest. */
export function warnOf(request: ApiRequest, object: KubeObject): void {
  if (request.info.subresource !== '') return;
  for (const text of request.served.warnings?.(object) ?? []) request.warn(text);
}

export function storable({ served }: ApiRequest, object: KubeObject, current?: KubeObject): KubeObject {
  return served.viewOf === undefined ? object : served.viewOf.toStored(served.complete(object), current);
}

export function checkNamespace({ resource, info }: Pick<ApiRequest, 'resource' | 'info'>, object: KubeObject): void {
  const { namespace = '' } = object.metadata;
  if (resource.namespaced && namespace !== '' && namespace !== info.namespace) {
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  }
}

/** A body must name what its path does. */
export function checkName({ info }: Pick<ApiRequest, 'info'>, { metadata: { name } }: KubeObject): void {
  if (name === info.name) return;
  throw badRequest(
    name === ''
      ? `the name of the object (${info.name} based on URL) was undeterminable: name must be provided`
      : `the name of the object (${name}) does not match the name on the URL (${info.name})`,
  );
}

export interface Creation {
  readonly resource: Resource;
  /** The view it came through, whose rules it must keep; absent: the resource itself. */
  readonly view?: Resource;
  readonly namespace: string;
  readonly object: KubeObject;
  readonly context: WriteContext;
  /** It brings its own books of `managedFields` (apply). */
  readonly isTracked?: boolean;
}

// As many as the API tries: with five random characters a collision is rare, eight in a row mean a full namespace.
const nameTriesMax = 8;

export async function createObject(deps: WriteDeps, creation: Creation): Promise<Written> {
  await prepareAdmission(deps, creation);
  const { name, generateName = '' } = creation.object.metadata;
  if (name !== '' || generateName === '') return createNamed(deps, creation, name);
  for (let tries = 1; ; tries += 1) {
    const candidate = generatedName(generateName, deps.random);
    try {
      return await createNamed(deps, creation, candidate);
    } catch (error) {
      if ((error as StatusError).reason !== 'AlreadyExists') throw error;
      if (tries === nameTriesMax) throw namesExhausted(resourceName(creation.resource), candidate);
    }
  }
}

function createNamed(deps: WriteDeps, creation: Creation, name: string): Promise<Written> {
  const key = objectKey(creation.resource, creation.namespace, name);
  return deps.store.update(key, (current, revision) => decideCreation(deps, creation, name, current, revision));
}

export async function prepareAdmission(deps: WriteDeps, creation: Creation): Promise<void> {
  const request = admissionRequest(creation);
  for (const step of deps.admission) await step.prepare?.(request, creation.context);
}

/** Also for an update that may create. Nothing is looked up that could have changed since. */
export function decideCreation(
  deps: WriteDeps,
  creation: Creation,
  name: string,
  current: StoredObject | undefined,
  revision: number,
): Decision<Written> {
  const { resource, context } = creation;
  if ((creation.object.metadata.resourceVersion ?? '') !== '') {
    throw badRequest('resourceVersion should not be set on objects to be created');
  }
  const now = deps.clock.now();
  // What admission and the server add belongs to no manager: a client that applies less later would remove it.
  const asked = resource.complete(withIdentity(deps, creation, name));
  const manager = { name: context.manager, subresource: '', nowMs: now };
  const managedFields = creation.isTracked
    ? asked.metadata.managedFields
    : trackedFields(resource, undefined, asked, manager);
  const admitted = admitAll(deps.admission, { ...admissionRequest(creation), object: asked }) ?? asked;
  const prepared = resource.complete(resource.prepareForCreate(admitted, now));
  const rules = creation.view ?? resource;
  const errors = rules.validate(rules.viewOf?.fromStored(prepared) ?? prepared);
  const all = errors.length === 0 ? pathSegmentErrors(prepared.metadata.name) : errors;
  if (all.length > 0) throw invalid(kindName(resource), prepared.metadata.name, all);
  if (current !== undefined) {
    const { deletionTimestamp } = parseStored(current.value).metadata;
    throw alreadyExists(resourceName(resource), name, deletionTimestamp !== undefined);
  }
  const object = withManagedFields(prepared, managedFields);
  if (context.dryRun) return { kind: 'keep', result: { text: JSON.stringify(object), created: true } };
  const text = storableText(object, revision);
  return { kind: 'put', value: text, result: { text, created: true } };
}

function admissionRequest({ resource, namespace, object, context }: Creation): AdmissionRequest {
  const { name } = object.metadata;
  const { user } = context;
  return { operation: 'CREATE', user, resource, subresource: '', namespace, name, object, old: undefined };
}

/** What only the server says of an object. */
function withIdentity(deps: WriteDeps, { resource, namespace, object }: Creation, name: string): KubeObject {
  const {
    uid: _uid,
    namespace: _namespace,
    creationTimestamp: _created,
    deletionTimestamp: _deleted,
    deletionGracePeriodSeconds: _grace,
    selfLink: _link,
    generation: _generation,
    resourceVersion: _version,
    ...rest
  } = object.metadata;
  const metadata = {
    ...rest,
    name,
    ...(resource.namespaced && { namespace }),
    uid: deps.random.uuid(),
    creationTimestamp: timestamp(deps.clock.now()),
  };
  const { kind: _kind, apiVersion: _apiVersion, metadata: _metadata, ...content } = object;
  return { kind: resource.kind, apiVersion: apiVersionOf(resource), metadata, ...content };
}

/** What is left of the longest key of the store behind the group, the plural and the namespace. */
const nameBytesMax = 768;

/** What a name must be for an object to have an address, whatever its kind allows besides. */
function pathSegmentErrors(name: string): FieldError[] {
  if (name === '') return [requiredField(['metadata', 'name'], 'name or generateName is required')];
  if (Buffer.byteLength(name) > nameBytesMax) return [tooLongField(['metadata', 'name'], nameBytesMax)];
  const errors: string[] = [];
  if (name === '.' || name === '..') errors.push(`may not be '${name}'`);
  for (const part of ['/', '%']) if (name.includes(part)) errors.push(`may not contain '${part}'`);
  return errors.map((text) => invalidField(['metadata', 'name'], name, text));
}
