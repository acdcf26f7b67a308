/** PUT of one object, or of its status. */
import { invalidField } from '../../kube/schema/field-errors.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { objectKey } from '../object-key.ts';
import type { KubeObject, Resource, UpdateRules } from '../resource.ts';
import { badRequest, conflict, invalid, resourceName } from '../status.ts';
import type { ApiRequest, Handler } from './api-request.ts';
import { checkNamespace, readStorable } from './create.ts';
import { updateObject } from './update-object.ts';
import { RequestContext, type WriteDeps } from './write-context.ts';
import { writeOptions } from './write-options.ts';

export function updateHandler(deps: WriteDeps): Handler {
  return async (request) => {
    const { resource, served, info, query } = request;
    const options = writeOptions('UpdateOptions', query, request.exchange.header('user-agent') ?? '');
    const object = withName(request, await readStorable(request, options.fieldValidation));
    checkNamespace(request, object);
    const { namespace, name, subresource } = info;
    const written = await updateObject(deps, {
      resource,
      view: served,
      namespace,
      name,
      subresource,
      context: new RequestContext(request, options),
      change: (current) => replace(resource, current, object),
      ...rulesOf(resource, subresource),
      ...(resource.allowsCreateOnUpdate && subresource === '' && { orCreate: () => object }),
    });
    return { kind: 'object', code: written.created ? 201 : 200, text: written.text };
  };
}

/** A part of the object has its own rules of what counts. */
export function rulesOf(resource: Resource, subresource: string): { readonly rules?: UpdateRules } {
  const rules = resource.subresources.find(({ name }) => name === subresource)?.update;
  return rules === undefined ? {} : { rules };
}

function withName({ info, resource }: ApiRequest, object: KubeObject): KubeObject {
  const { name, namespace } = object.metadata;
  if (name !== '' && name !== info.name) {
    throw badRequest(`the name of the object (${name}) does not match the name on the URL (${info.name})`);
  }
  const home = resource.namespaced && (namespace ?? '') === '' ? { namespace: info.namespace } : {};
  return { ...object, metadata: { ...object.metadata, name: info.name, ...home } };
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
