/** Brings a new object into the store: names it, admits, prepares and checks it. Who may do so was decided before. */
import type { FieldError } from '../../kube/schema/field-errors.ts';
import { timestamp } from '../../kube/values/times.ts';
import { type AdmissionRequest, admitAll } from '../admission/admission.ts';
import { objectKey } from '../object-key.ts';
import { generatedName } from '../random.ts';
import type { KubeObject, Resource } from '../resource.ts';
import { apiVersionOf } from '../resources.ts';
import {
  type StatusError,
  alreadyExists,
  badRequest,
  invalid,
  kindName,
  namesExhausted,
  resourceName,
} from '../status.ts';
import type { Decision } from '../store/store.ts';
import { parseStored, storedText } from '../stored-value.ts';
import { pathSegmentErrors } from './path-segment.ts';
import { type WriteContext, type WriteDeps, type Written, decideAndWrite } from './write-context.ts';

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
  return decideAndWrite(deps.store, key, (current, revision) =>
    decideCreation(deps, creation, name, current, revision),
  );
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
  current: string | undefined,
  revision: number,
): Decision<Written> {
  const { resource, context } = creation;
  if ((creation.object.metadata.resourceVersion ?? '') !== '') {
    throw badRequest('resourceVersion should not be set on objects to be created');
  }
  const admitted = admitAll(deps.admission, admissionRequest(creation)) ?? creation.object;
  const now = deps.clock.now();
  const prepared = resource.complete(resource.prepareForCreate(withIdentity(deps, creation, admitted, name), now));
  const errors = validateAs(creation.view ?? resource, prepared);
  const all = errors.length === 0 ? pathSegmentErrors(prepared.metadata.name) : errors;
  if (all.length > 0) throw invalid(kindName(resource), prepared.metadata.name, all);
  if (current !== undefined) {
    throw alreadyExists(resourceName(resource), name, parseStored(current).metadata.deletionTimestamp !== undefined);
  }
  const manager = { name: context.manager, subresource: '', nowMs: now };
  const tracked = creation.isTracked ? prepared : deps.fields.track(resource, undefined, prepared, manager);
  const outcome = { created: true, removed: false };
  if (context.dryRun) return { kind: 'keep', result: { text: JSON.stringify(tracked), ...outcome } };
  const text = storedText(tracked, revision);
  return { kind: 'put', value: text, result: { text, ...outcome } };
}

function validateAs(resource: Resource, object: KubeObject): readonly FieldError[] {
  return resource.validate(resource.viewOf?.fromStored(object) ?? object);
}

function admissionRequest({ resource, namespace, object, context }: Creation): AdmissionRequest {
  const { name } = object.metadata;
  const { user } = context;
  return { operation: 'CREATE', user, resource, subresource: '', namespace, name, object, old: undefined };
}

/** What only the server says of an object. */
function withIdentity(
  deps: WriteDeps,
  { resource, namespace }: Creation,
  object: KubeObject,
  name: string,
): KubeObject {
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
