/** What a request wants, in the words of authorisation, and the words of its refusal. */
import { goQuote } from '../../kube/values/go-text.ts';
import type { User } from './user.ts';

export interface ResourceAttributes {
  readonly kind: 'resource';
  /** get, list, watch, create, update, patch, delete, deletecollection, and whatever a review asks about. */
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
