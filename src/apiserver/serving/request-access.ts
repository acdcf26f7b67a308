/** Authentication and authorization of a request, before anything else is done with it. */
import type { Authenticator } from '../identity/authentication.ts';
import type { Authorizer } from '../identity/authorization.ts';
import { type RequestAttributes, type User, forbiddenMessage } from '../identity/user.ts';
import type { ResourceTable } from '../model/resource.ts';
import { parseFieldSelector, requiredName } from '../model/selection.ts';
import { StatusError, badRequest, forbidden, unauthorized } from '../model/status.ts';
import type { Exchange } from '../rest/api-request.ts';
import type { RequestInfo, ResourceRequest } from '../rest/request-info.ts';

interface AccessDeps {
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly authorizer: Pick<Authorizer, 'authorize'>;
  readonly resources: ResourceTable;
}

const impersonation = /^impersonate-(user$|group$|uid$|extra-)/;

/** Throws a 401, or a 403 for impersonation: to ignore that would be to act in the wrong name. A 400 where there is no name. */
export function authenticateRequest({ authenticator }: AccessDeps, exchange: Exchange): User {
  const { peer } = exchange;
  const authorization = exchange.header('authorization');
  const result = authenticator.authenticate({
    ...(peer && { peer }),
    ...(authorization !== undefined && { authorization }),
  });
  if (result.kind === 'unauthenticated') throw unauthorized();
  const asked = exchange.headerNames().filter((name) => impersonation.test(name));
  if (asked.length > 0) {
    if ((exchange.header('impersonate-user') ?? '') === '') {
      throw badRequest(`requested ${asked.join(', ')} without impersonating a user`);
    }
    throw forbidden({ group: '', name: '' }, '', 'this server does not support impersonation');
  }
  return result.user;
}

/** Throws a 403. */
export function authorizeRequest(deps: AccessDeps, user: User, info: RequestInfo, query: URLSearchParams): void {
  const attributes = attributesOf(deps.resources, info, query);
  const { allowed, reason } = deps.authorizer.authorize(user, attributes);
  if (allowed) return;
  const message = forbiddenMessage(user, attributes, reason);
  if (attributes.kind === 'path') throw new StatusError(403, 'Forbidden', message, {});
  const { group, resource: kind, name } = attributes;
  const details = { ...(name !== '' && { name }), ...(group !== '' && { group }), kind };
  throw new StatusError(403, 'Forbidden', message, details);
}

function attributesOf(resources: ResourceTable, info: RequestInfo, query: URLSearchParams): RequestAttributes {
  if (info.kind === 'path') return { kind: 'path', verb: info.verb === 'head' ? 'get' : info.verb, path: info.path };
  const { verb, group, version, resource, subresource, namespace, name } = info;
  const fields = selectedFields(resources, info, query);
  const pinned = requiredName(fields) ?? '';
  return {
    kind: 'resource',
    verb,
    group,
    version,
    resource,
    subresource,
    namespace,
    // A list of what has this one name is a request for that object.
    name: name === '' && !/[/%]/.test(pinned) ? pinned : name,
    fieldEquals: Object.fromEntries(
      fields.filter(({ operator }) => operator === '=').map(({ field, value }) => [field, value]),
    ),
  };
}

/** A selector that cannot be read narrows nothing down; the handler refuses it later. */
function selectedFields(
  resources: ResourceTable,
  info: ResourceRequest,
  query: URLSearchParams,
): ReturnType<typeof parseFieldSelector> {
  const text = query.get('fieldSelector') ?? '';
  const served = resources.byPlural(info, info.resource);
  const selects = info.verb === 'list' || info.verb === 'watch' || info.verb === 'deletecollection';
  if (text === '' || served === undefined || !selects) return [];
  try {
    return parseFieldSelector(text, served);
  } catch {
    return [];
  }
}
