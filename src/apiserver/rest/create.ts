/** POST to a collection. */
import { apiVersionOf } from '../resources.ts';
import type { KubeObject } from '../resource.ts';
import { badRequest } from '../status.ts';
import type { ApiRequest, Handler } from './api-request.ts';
import { createObject } from './create-object.ts';
import { readObject } from './read-object.ts';
import type { WriteDeps } from './write-context.ts';
import { RequestContext } from './write-context.ts';
import type { FieldValidation } from './write-options.ts';
import { writeOptions } from './write-options.ts';

export function createHandler(deps: WriteDeps): Handler {
  return async (request) => {
    const { resource, served, info, query } = request;
    if (resource.namespaced && info.namespace === '') {
      throw badRequest('an empty namespace may not be set during creation');
    }
    const options = writeOptions('CreateOptions', query, request.exchange.header('user-agent') ?? '');
    const object = await readStorable(request, options.fieldValidation);
    checkNamespace(request, object);
    const context = new RequestContext(request, options);
    const { text } = await createObject(deps, { resource, view: served, namespace: info.namespace, object, context });
    return { kind: 'object', code: 201, text };
  };
}

/** The object in the body, in the form in which it is stored. */
export async function readStorable(request: ApiRequest, validation: FieldValidation): Promise<KubeObject> {
  const { served } = request;
  const expected = { apiVersion: apiVersionOf(served), kind: served.kind, shape: served.shape };
  const object = await readObject(request, expected, validation);
  return served.viewOf === undefined ? object : served.viewOf.toStored(served.complete(object));
}

export function checkNamespace({ resource, info }: Pick<ApiRequest, 'resource' | 'info'>, object: KubeObject): void {
  const { namespace = '' } = object.metadata;
  if (resource.namespaced && namespace !== '' && namespace !== info.namespace) {
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  }
}
