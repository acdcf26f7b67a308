/** Kinds that are questions: posted, answered, and never stored. One answer for each of them. */
import type {
  SelfSubjectAccessReview,
  SelfSubjectRulesReview,
  SubjectAccessReview,
  TokenReview,
  UserInfo,
} from '../../kube/kinds/reviews.ts';
import { timestamp } from '../../kube/values/times.ts';
import type { Authenticator } from '../identity/authentication.ts';
import type { Authorizer } from '../identity/authorization.ts';
import type { RequestAttributes, User } from '../identity/user.ts';
import { type KubeObject, apiVersionOf } from '../model/resource.ts';
import { badRequest, invalid, kindName, unknownResource } from '../model/status.ts';
import type { Handler } from './api-request.ts';
import { checkNamespace, readStorable } from './create.ts';
import { type WriteDeps, writeOptions } from './write-context.ts';

export interface ReviewDeps extends WriteDeps {
  readonly authenticator: Pick<Authenticator, 'authenticateToken'>;
  readonly authorizer: Pick<Authorizer, 'authorize' | 'rulesFor'>;
}

type Answer = (deps: ReviewDeps, object: KubeObject, user: User) => object;

const answers: Readonly<Record<string, Answer>> = {
  TokenReview: ({ authenticator }, object) => {
    const { spec } = object as TokenReview;
    const { token = '', audiences = [] } = spec;
    if (token === '') throw badRequest('token is required for TokenReview in authentication');
    const result = authenticator.authenticateToken(token, audiences.length === 0 ? undefined : audiences);
    if (result.kind === 'unauthenticated') return { authenticated: false, user: {}, error: result.message };
    return { authenticated: true, user: userInfoOf(result.user), audiences: result.audiences };
  },
  SelfSubjectReview: (_deps, _object, user) => ({ userInfo: userInfoOf(user) }),
  SelfSubjectAccessReview: ({ authorizer }, object, user) =>
    reviewAccess(authorizer, user, (object as SelfSubjectAccessReview).spec),
  SubjectAccessReview: subjectAccess,
  LocalSubjectAccessReview: subjectAccess,
  SelfSubjectRulesReview({ authorizer }, object, user) {
    const { namespace = '' } = (object as SelfSubjectRulesReview).spec;
    if (namespace === '') throw badRequest('no namespace on request');
    return authorizer.rulesFor(user, namespace);
  },
};

function subjectAccess({ authorizer }: ReviewDeps, object: KubeObject): object {
  const { spec } = object as SubjectAccessReview;
  return reviewAccess(authorizer, reviewedUser(spec), spec);
}

export function reviewHandler(deps: ReviewDeps): Handler {
  return async (request) => {
    const { resource, info, query, user } = request;
    const answer = Object.hasOwn(answers, resource.kind) ? answers[resource.kind] : undefined;
    if (answer === undefined) throw unknownResource();
    const options = writeOptions('CreateOptions', query, request.exchange.header('user-agent') ?? '');
    const given = await readStorable(request, options.fieldValidation);
    checkNamespace(request, given);
    const home = resource.namespaced ? { namespace: info.namespace } : {};
    const object = { ...given, metadata: { ...given.metadata, ...home } };
    const errors = resource.validate(resource.complete(object));
    if (errors.length > 0) throw invalid(kindName(resource), object.metadata.name, errors);
    const { name, ...metadata } = object.metadata;
    const text = JSON.stringify({
      ...object,
      kind: resource.kind,
      apiVersion: apiVersionOf(resource),
      metadata: { ...(name !== '' && { name }), ...metadata, creationTimestamp: timestamp(deps.clock.now()) },
      status: answer(deps, object, user),
    });
    return { kind: 'object', code: 201, text };
  };
}

function userInfoOf({ name, uid, groups, extra }: User): UserInfo {
  const hasExtra = Object.keys(extra).length > 0;
  return { username: name, ...(uid !== '' && { uid }), groups, ...(hasExtra && { extra }) };
}

type SelfAccessSpec = SelfSubjectAccessReview['spec'];
type FieldSelector = NonNullable<NonNullable<SelfAccessSpec['resourceAttributes']>['fieldSelector']>;

/** The decision is that of the function which guards every request. */
export function reviewAccess(authorizer: Pick<Authorizer, 'authorize'>, user: User, spec: SelfAccessSpec): object {
  const { allowed, reason } = authorizer.authorize(user, reviewedAttributes(spec));
  return reason === '' ? { allowed } : { allowed, reason };
}

/** The user whom a SubjectAccessReview asks about, taken at its word: groups are not added. */
export function reviewedUser({ user = '', groups = [], uid = '', extra = {} }: SubjectAccessReview['spec']): User {
  return { name: user, uid, groups, extra };
}

function reviewedAttributes({ resourceAttributes, nonResourceAttributes }: SelfAccessSpec): RequestAttributes {
  if (resourceAttributes === undefined) {
    return { kind: 'path', verb: nonResourceAttributes?.verb ?? '', path: nonResourceAttributes?.path ?? '' };
  }
  const { namespace = '', verb = '', group = '', version = '', resource = '', subresource = '' } = resourceAttributes;
  const { name = '', fieldSelector } = resourceAttributes;
  const fieldEquals = equalitiesOf(fieldSelector ?? {});
  return { kind: 'resource', verb, group, version, resource, subresource, namespace, name, fieldEquals };
}

/** What is not understood is left out: fewer requirements ask for more, and more is refused sooner. */
function equalitiesOf({ rawSelector = '', requirements = [] }: FieldSelector): Readonly<Record<string, string>> {
  const raw = rawSelector.split(',').flatMap((part) => {
    const [, field = '', value = ''] = /^([^=!\\]+)==?([^=!\\]*)$/.exec(part) ?? [];
    return field === '' ? [] : [[field, value] as const];
  });
  const structured = requirements.flatMap(({ key, operator, values = [] }) => {
    const [value, ...more] = values;
    return operator === 'In' && value !== undefined && more.length === 0 ? [[key, value] as const] : [];
  });
  return Object.fromEntries([...raw, ...structured]);
}
