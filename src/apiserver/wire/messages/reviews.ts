/** Field numbers of tokens and of the reviews that ask who somebody is and what they may do. The notation is explained in `message-notation.ts`. */
export const reviewMessages: Readonly<Record<string, string>> = {
  TokenRequest: '1 metadata ObjectMeta, 2 spec TokenRequestSpec, 3 status TokenRequestStatus',
  TokenRequestSpec: `
    1 audiences [string], 4 expirationSeconds? int, 3 boundObjectRef? BoundObjectReference, 5 attestations {Strings}`,
  BoundObjectReference: '1 kind, 2 apiVersion, 3 name, 4 uid',
  TokenRequestStatus: '1 token!, 2 expirationTimestamp Time',
  TokenReview: '1 metadata ObjectMeta, 2 spec TokenReviewSpec, 3 status TokenReviewStatus',
  TokenReviewSpec: '1 token, 2 audiences [string]',
  TokenReviewStatus: '1 authenticated bool, 2 user UserInfo, 4 audiences [string], 3 error',
  UserInfo: '1 username, 2 uid, 3 groups [string], 4 extra {Strings}',
  SelfSubjectReview: '1 metadata ObjectMeta, 2 status SelfSubjectReviewStatus',
  SelfSubjectReviewStatus: '1 userInfo UserInfo',
  SubjectAccessReview: '1 metadata ObjectMeta, 2 spec SubjectAccessReviewSpec, 3 status SubjectAccessReviewStatus',
  SubjectAccessReviewSpec: `
    1 resourceAttributes? ResourceAttributes, 2 nonResourceAttributes? NonResourceAttributes, 3 user,
    4 groups [string], 5 extra {Strings}, 6 uid`,
  ResourceAttributes: `
    1 namespace, 2 verb, 3 group, 4 version, 5 resource, 6 subresource, 7 name,
    8 fieldSelector? FieldSelectorAttributes, 9 labelSelector? LabelSelectorAttributes`,
  FieldSelectorAttributes: '1 rawSelector, 2 requirements [FieldSelectorRequirement]',
  LabelSelectorAttributes: '1 rawSelector, 2 requirements [LabelSelectorRequirement]',
  NonResourceAttributes: '1 path, 2 verb',
  SubjectAccessReviewStatus: '1 allowed! bool, 4 denied bool, 2 reason, 3 evaluationError',
  SelfSubjectAccessReview: `
    1 metadata ObjectMeta, 2 spec SelfSubjectAccessReviewSpec, 3 status SubjectAccessReviewStatus`,
  SelfSubjectAccessReviewSpec: `
    1 resourceAttributes? ResourceAttributes, 2 nonResourceAttributes? NonResourceAttributes`,
  LocalSubjectAccessReview: '1 metadata ObjectMeta, 2 spec SubjectAccessReviewSpec, 3 status SubjectAccessReviewStatus',
  SelfSubjectRulesReview: '1 metadata ObjectMeta, 2 spec SelfSubjectRulesReviewSpec, 3 status SubjectRulesReviewStatus',
  SelfSubjectRulesReviewSpec: '1 namespace',
  SubjectRulesReviewStatus: `
    1 resourceRules [ResourceRule], 2 nonResourceRules [NonResourceRule], 3 incomplete! bool, 4 evaluationError`,
  ResourceRule: '1 verbs [string], 2 apiGroups [string], 3 resources [string], 4 resourceNames [string]',
  NonResourceRule: '1 verbs [string], 2 nonResourceURLs [string]',
};
