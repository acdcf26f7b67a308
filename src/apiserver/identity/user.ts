/** Who a request comes from, what it asks for in the words of authorization, and the words of its refusal. */
import { goQuote } from '../../kube/values/go-text.ts';

export interface User {
  readonly name: string;
  /** Empty where the credentials have none. */
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

export const wellKnownGroups = {
  /** Its members may do anything. */
  masters: 'system:masters',
  nodes: 'system:nodes',
  authenticated: 'system:authenticated',
  unauthenticated: 'system:unauthenticated',
  serviceAccounts: 'system:serviceaccounts',
} as const;

export const anonymousUser: User = {
  name: 'system:anonymous',
  uid: '',
  groups: [wellKnownGroups.unauthenticated],
  extra: {},
};

/** `system:node:` and the node's name, and only together with the nodes' group. The name may turn out empty. */
export function nodeNameOf({ name, groups }: User): string | undefined {
  const prefix = 'system:node:';
  return name.startsWith(prefix) && groups.includes(wellKnownGroups.nodes) ? name.slice(prefix.length) : undefined;
}

export function serviceAccountUserName(namespace: string, name: string): string {
  return `system:serviceaccount:${namespace}:${name}`;
}

export function serviceAccountGroups(namespace: string): readonly string[] {
  return [wellKnownGroups.serviceAccounts, `${wellKnownGroups.serviceAccounts}:${namespace}`];
}

/** A request for a resource, in the words of authorization. */
export interface ResourceAttributes {
  readonly kind: 'resource';
  /** get, list, watch, create, update, patch, delete, deletecollection, and any other verb that a review asks about. */
  readonly verb: string;
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  /** Of one object; for a list or watch the one that `fieldSelector=metadata.name=` pins down. Otherwise empty. */
  readonly name: string;
  /** Requirements of the form `field=value`; others do not narrow anything down. */
  readonly fieldEquals: Readonly<Record<string, string>>;
}

interface PathAttributes {
  readonly kind: 'path';
  readonly verb: string;
  readonly path: string;
}

export type RequestAttributes = ResourceAttributes | PathAttributes;

/** The message of a 403. */
export function forbiddenMessage(user: User, request: RequestAttributes, reason: string): string {
  const because = reason === '' ? '' : `: ${reason}`;
  const sentence = `${escaped(refusal(user, request))}${because}`;
  if (request.kind === 'path' || request.resource === '') return `forbidden: ${sentence}`;
  const resource = request.group === '' ? request.resource : `${request.resource}.${request.group}`;
  const name = request.name === '' ? '' : ` ${goQuote(request.name)}`;
  return `${resource}${name} is forbidden: ${sentence}`;
}

function refusal({ name: user }: User, request: RequestAttributes): string {
  const who = `User ${goQuote(user)} cannot ${request.verb}`;
  if (request.kind === 'path') return `${who} path ${goQuote(request.path)}`;
  const { resource, subresource, group, namespace } = request;
  const full = subresource === '' ? resource : `${resource}/${subresource}`;
  const where = namespace === '' ? 'at the cluster scope' : `in the namespace ${goQuote(namespace)}`;
  return `${who} resource ${goQuote(full)} in API group ${goQuote(group)} ${where}`;
}

/** A browser that takes the answer for a page must find no markup in it. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
