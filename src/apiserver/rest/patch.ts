/**
 * PATCH of one object or of a part of it, in all four forms. No other write comes in between, so a patch always meets the
 * newest version and is never tried again.
 */
import { invalidField } from '../../kube/schema/field-errors.ts';
import type { KubeObject } from '../model/resource.ts';
import { StatusError, badRequest, invalid, kindName } from '../model/status.ts';
import { applyJsonPatch, applyMergePatch } from '../patch/json-patch.ts';
import { type Json, type JsonObject, PatchError } from '../patch/json-value.ts';
import { apply } from '../patch/server-side-apply.ts';
import { applyStrategicMergePatch } from '../patch/strategic-merge-patch.ts';
import { type PatchKind, patchKindOf } from '../wire/media-types.ts';
import { type ApiRequest, type Handler, bodyBytesMax } from './api-request.ts';
import { atHome, checkName, checkNamespace, warnOf } from './create.ts';
import {
  type JsonBody,
  JsonError,
  decodeChecked,
  mediaTypeOf,
  parseJsonBody,
  parseYamlBody,
  repeatedKeysText,
} from './request-body.ts';
import { updateObject } from './update.ts';
import {
  type WriteDeps,
  type WriteOptions,
  asJson,
  asObject,
  contextOf,
  writeOptions,
  writerOf,
} from './write-context.ts';

interface Patch {
  readonly kind: PatchKind;
  readonly body: JsonBody;
  readonly options: WriteOptions;
  readonly nowMs: number;
}

export function patchHandler(deps: WriteDeps): Handler {
  return async (request) => {
    const { exchange, resource, served, info, query } = request;
    const kind = mediaTypeOf(() => patchKindOf(exchange.header('content-type')));
    const options = writeOptions('PatchOptions', query, exchange.header('user-agent') ?? '', kind === 'apply');
    const body = parsePatch(kind, await exchange.readBody(bodyBytesMax));
    if (body.repeated?.length && options.fieldValidation === 'Strict') {
      const text = `error converting YAML to JSON: ${repeatedKeysText(body.repeated)}`;
      throw badRequest(`error strict decoding YAML: ${text}`);
    }
    const patch = { kind, body, options, nowMs: deps.clock.now() };
    const { namespace, name, subresource } = info;
    const isPart = resource.subresources.some(({ view }) => view === served);
    const written = await updateObject(deps, {
      resource,
      view: served,
      namespace,
      name,
      subresource,
      context: contextOf(request, options),
      change: (current) => patched(request, patch, current),
      // A view of a part keeps no books of its own.
      ...(kind === 'apply' && !isPart && { isTracked: true }),
      ...(kind === 'apply' && subresource === '' && { orCreate: () => patched(request, patch, undefined) }),
    });
    return { kind: 'object', code: written.created ? 201 : 200, text: written.text };
  };
}

function parsePatch(kind: PatchKind, bytes: Buffer): JsonBody {
  const text = bytes.toString('utf8');
  try {
    return kind === 'apply' ? parseYamlBody(text) : parseJsonBody(text);
  } catch (error) {
    if (error instanceof JsonError) throw badRequest(`error decoding patch: ${error.message}`);
    throw error;
  }
}

/** Throws a StatusError for a patch that does not fit, or whose result is not an object of the kind. */
function patched(request: ApiRequest, patch: Patch, current: KubeObject | undefined): KubeObject {
  const { served } = request;
  const live = current && (served.viewOf?.fromStored(current) ?? current);
  const json = withPatch(request, patch, live && asJson(live));
  const refuse = (text: string): Error =>
    invalid(kindName(served), request.info.name, [invalidField(['patch'], '', text)]);
  const { body, options } = patch;
  const decoded = decodeChecked(served.shape, { ...body, value: json }, options.fieldValidation, refuse, (text) =>
    request.warn(text),
  );
  const value = atHome(request, decoded);
  checkNamespace(request, value);
  checkName(request, value);
  warnOf(request, value);
  return served.viewOf?.toStored(value, current) ?? value;
}

function withPatch({ served, info }: ApiRequest, patch: Patch, live: JsonObject | undefined): JsonObject {
  const json = patch.body.value as Json;
  try {
    switch (patch.kind) {
      case 'json':
        return applyJsonPatch(live ?? {}, json);
      case 'merge':
        return applyMergePatch(live ?? {}, json);
      case 'strategic':
        return applyStrategicMergePatch(live ?? {}, json, served.shape);
      case 'apply': {
        const { options, nowMs } = patch;
        const manager = { name: options.manager, subresource: info.subresource, nowMs };
        const request = { ...writerOf(served, manager), live, applied: json, kind: served.kind, force: options.force };
        const outcome = apply(request);
        if (outcome.kind === 'applied') return asJson(asObject(outcome.object));
        throw new StatusError(409, 'Conflict', outcome.message, { causes: outcome.causes });
      }
    }
  } catch (error) {
    if (error instanceof PatchError) throw statusOf(error);
    throw error;
  }
}

function statusOf({ kind, message }: PatchError): StatusError {
  switch (kind) {
    case 'malformed':
      return badRequest(message);
    case 'invalid':
      return new StatusError(422, 'Invalid', message, {});
    case 'tooLarge':
      return new StatusError(413, 'RequestEntityTooLarge', message);
  }
}
