/**
 * Answers to those who ask about permissions instead of trying: SubjectAccessReview and its relatives. The decision is
 * that of the same function which guards every request.
 */
import { type Of, list, map, object, string } from '../../kube/schema/schema.ts';
import type { Authorizer } from './authorization.ts';
import type { RequestAttributes } from './request-attributes.ts';
import type { User } from './user.ts';

const selectorRequirement = object({ key: string, operator: string, values: list(string) });
const selector = object({ rawSelector: string, requirements: list(selectorRequirement) });

const reviewedRequest = {
  resourceAttributes: object({
    namespace: string,
    verb: string,
    group: string,
    version: string,
    resource: string,
    subresource: string,
    name: string,
    fieldSelector: selector,
    labelSelector: selector,
  }),
  nonResourceAttributes: object({ path: string, verb: string }),
};
const selfAccessReviewSpec = object(reviewedRequest);
interface SelfAccessReviewSpec extends Of<typeof selfAccessReviewSpec> {}

const accessReviewSpec = object({
  ...reviewedRequest,
  user: string,
  groups: list(string),
  extra: map(list(string)),
  uid: string,
});
interface AccessReviewSpec extends Of<typeof accessReviewSpec> {}

interface AccessReviewStatus {
  readonly allowed: boolean;
  readonly reason?: string;
}

export function reviewAccess(
  authorizer: Pick<Authorizer, 'authorize'>,
  user: User,
  spec: SelfAccessReviewSpec,
): AccessReviewStatus {
  const { allowed, reason } = authorizer.authorize(user, reviewedAttributes(spec));
  return reason === '' ? { allowed } : { allowed, reason };
}

/** The user whom a SubjectAccessReview asks about, taken at its word: groups are not added. */
export function reviewedUser({ user = '', groups = [], uid = '', extra = {} }: AccessReviewSpec): User {
  return { name: user, uid, groups, extra };
}

function reviewedAttributes({ resourceAttributes, nonResourceAttributes }: SelfAccessReviewSpec): RequestAttributes {
  if (resourceAttributes === undefined) {
    return { kind: 'path', verb: nonResourceAttributes?.verb ?? '', path: nonResourceAttributes?.path ?? '' };
  }
  const { namespace = '', verb = '', group = '', version = '', resource = '', subresource = '' } = resourceAttributes;
  const { name = '', fieldSelector } = resourceAttributes;
  const fieldEquals = equalitiesOf(fieldSelector ?? {});
  return { kind: 'resource', verb, group, version, resource, subresource, namespace, name, fieldEquals };
}

/** What is not understood is left out: fewer requirements ask for more, and more is refused sooner. */
function equalitiesOf({ rawSelector = '', requirements = [] }: Of<typeof selector>): Readonly<Record<string, string>> {
  const raw = rawSelector.split(',').flatMap((part) => {
    const [, field = '', value = ''] = /^([^=!\\]+)==?([^=!\\]*)$/.exec(part) ?? [];
    return field === '' ? [] : [[field, value] as const];
  });
  const structured = requirements.flatMap(({ key = '', operator, values = [] }) => {
    const [value, ...more] = values;
    return operator === 'In' && value !== undefined && more.length === 0 ? [[key, value] as const] : [];
  });
  return Object.fromEntries([...raw, ...structured]);
}
