/**
 * Acting as somebody else, which headers ask for: Impersonate-User, -Group, -Uid and -Extra-KEY. Each of them is a permission of its
 * own: the verb `impersonate` on the user, on each group, on the UID and on each extra value.
 */
import { dnsLabelProblems, dnsSubdomainProblems } from '../../kube/values/names.ts';
import { badRequest } from '../model/status.ts';
import {
  type ResourceAttributes,
  type User,
  anonymousUser,
  serviceAccountGroups,
  serviceAccountUserName,
  wellKnownGroups,
} from './user.ts';

/** Headers as they came, with names in lower case. */
interface Headers {
  headerNames(): readonly string[];
  headerValues(name: string): readonly string[];
}

interface Impersonation {
  readonly user: User;
  /** What whoever asks for it must be allowed. */
  readonly permissions: readonly ResourceAttributes[];
}

const extraPrefix = 'impersonate-extra-';

/** Undefined when the request does not ask for it. Throws a 400 when it asks for parts of nobody. */
export function impersonationOf(headers: Headers): Impersonation | undefined {
  const extraNames = headers.headerNames().filter((name) => name.startsWith(extraPrefix));
  const [name = ''] = headers.headerValues('impersonate-user');
  const groups = headers.headerValues('impersonate-group');
  const [uid = ''] = headers.headerValues('impersonate-uid');
  const extra = extraNames.map((header) => [extraKey(header), headers.headerValues(header)] as const);
  const account = accountOf(name);
  const permissions = [
    ...(account === undefined
      ? [permission('users', name)]
      : [{ ...permission('serviceaccounts', account.name), namespace: account.namespace }]),
    ...groups.map((group) => permission('groups', group)),
    ...extra.flatMap(([key, values]) =>
      values.map((value) => ({ ...permission('userextras', value), group: authentication, subresource: key })),
    ),
    ...(uid === '' ? [] : [{ ...permission('uids', uid), group: authentication }]),
  ];
  if (name === '') {
    const parts = permissions.slice(1);
    if (parts.length === 0 && extraNames.length === 0) return undefined;
    throw badRequest(`requested [${parts.map(shownPart).join(' ')}] without impersonating a user`);
  }
  const own = account !== undefined && groups.length === 0 ? serviceAccountGroups(account.namespace) : groups;
  return { user: { name, uid, groups: withStanding(name, own), extra: Object.fromEntries(extra) }, permissions };
}

const authentication = 'authentication.k8s.io';

function permission(resource: string, name: string): ResourceAttributes {
  const rest = { group: '', version: 'v1', subresource: '', namespace: '', fieldEquals: {} };
  return { kind: 'resource', verb: 'impersonate', resource, name, ...rest };
}

/** A name that only looks like an account's is a user's, and needs the permission for that. */
function accountOf(name: string): { readonly namespace: string; readonly name: string } | undefined {
  const [system, kind, namespace = '', account = '', ...more] = name.split(':');
  const isWell = dnsLabelProblems(namespace).length === 0 && dnsSubdomainProblems(account).length === 0;
  if (!isWell || more.length > 0 || name !== serviceAccountUserName(namespace, account)) return undefined;
  return system === 'system' && kind === 'serviceaccount' ? { namespace, name: account } : undefined;
}

/** Keys come in lower case, as names of headers do, with whatever a header cannot carry percent-encoded. */
function extraKey(header: string): string {
  const key = header.slice(extraPrefix.length);
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}

function withStanding(name: string, groups: readonly string[]): readonly string[] {
  const { authenticated, unauthenticated } = wellKnownGroups;
  const isAnonymous = name === anonymousUser.name;
  const isSaid = groups.includes(unauthenticated) || (!isAnonymous && groups.includes(authenticated));
  return isSaid ? groups : [...groups, isAnonymous ? unauthenticated : authenticated];
}

/** As the API server prints an object reference of which most is empty. */
function shownPart({ resource, name, group, subresource }: ResourceAttributes): string {
  const kind = { groups: 'Group', userextras: 'UserExtra', uids: 'UID' }[resource] ?? resource;
  return `{${kind}  ${name}  ${group === '' ? '' : `${group}/v1`}  ${subresource}}`;
}
