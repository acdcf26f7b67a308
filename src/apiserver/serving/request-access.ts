/** Authentication and authorization of a request, before anything else is done with it. */
import type { Authenticator } from '../identity/authentication.ts';
import type { Authorizer } from '../identity/authorization.ts';
import { impersonationOf } from '../identity/impersonation.ts';
import { type RequestAttributes, type User, forbiddenMessage } from '../identity/user.ts';
import type { ResourceTable } from '../model/resource.ts';
import { parseFieldSelector, requiredName } from '../model/selection.ts';
import { StatusError, unauthorized } from '../model/status.ts';
import type { Exchange } from '../rest/api-request.ts';
import type { RequestInfo, ResourceRequest } from '../rest/request-info.ts';

interface AccessDeps {
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly authorizer: Pick<Authorizer, 'authorize'>;
  readonly resources: ResourceTable;
}

/** Whose credentials they are, and in whose name everything is done: the same, unless it is in the name of somebody else. */
interface Requester {
  readonly authenticated: User;
  readonly user: User;
}

/** Throws a 401. For impersonation that is not allowed a 403: to ignore it would be to act in the wrong name. */
export function authenticateRequest(deps: AccessDeps, exchange: Exchange): Requester {
  const { peer } = exchange;
  const authorization = exchange.header('authorization');
  const result = deps.authenticator.authenticate({
    ...(peer && { peer }),
    ...(authorization !== undefined && { authorization }),
  });
  if (result.kind === 'unauthenticated') throw unauthorized();
  const asked = impersonationOf(exchange);
  if (asked === undefined) return { authenticated: result.user, user: result.user };
  for (const permission of asked.permissions) requirePermission(deps, result.user, permission);
  return { authenticated: result.user, user: asked.user };
}

/** Throws a 403. */
export function authorizeRequest(deps: AccessDeps, user: User, info: RequestInfo, query: URLSearchParams): void {
  requirePermission(deps, user, attributesOf(deps.resources, info, query));
}

function requirePermission({ authorizer }: AccessDeps, user: User, attributes: RequestAttributes): void {
  const { allowed, reason } = authorizer.authorize(user, attributes);
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
