/** Questions about what a user may do. Answered, never stored. */
import { isEmpty } from '../schema/equality.ts';
import { type FieldError, invalidField, requiredField, showPath } from '../schema/field-errors.ts';
import { resourceKind } from '../schema/kind.ts';
import { type ObjectMeta, objectFields } from '../schema/meta.ts';
import { type FieldPath, type Of, boolean, list, map, object, required, string, described } from '../schema/schema.ts';

const selectorAttributes = object({
  rawSelector: string,
  requirements: list(object({ key: required(string), operator: required(string), values: list(string) })),
});

const attributes = {
  resourceAttributes: object({
    namespace: string,
    verb: string,
    group: string,
    version: string,
    resource: string,
    subresource: string,
    name: string,
    fieldSelector: selectorAttributes,
    labelSelector: selectorAttributes,
  }),
  nonResourceAttributes: object({ path: string, verb: string }),
};
const selfSpec = object(attributes);
const subjectSpec = object({
  ...attributes,
  user: string,
  groups: list(string),
  extra: map(list(string)),
  uid: string,
});
const status = object({ allowed: required(boolean), denied: boolean, reason: string, evaluationError: string });
interface SelfAccessSpec extends Of<typeof selfSpec> {}
interface SubjectAccessSpec extends Of<typeof subjectSpec> {}
type ResourceAttributes = NonNullable<SelfAccessSpec['resourceAttributes']>;
interface SelectorAttributes extends Of<typeof selectorAttributes> {}

export const subjectAccessReviewShape = described(
  {
    text: 'May somebody do something?',
    fields: { spec: 'The question.', status: 'The answer. The server fills it in.' },
  },
  object({ ...objectFields, spec: required(subjectSpec), status }),
);
export interface SubjectAccessReview extends Of<typeof subjectAccessReviewShape> {}

export const subjectAccessReviewKind = resourceKind<SubjectAccessReview>({
  group: 'authorization.k8s.io',
  kind: 'SubjectAccessReview',
  plural: 'subjectaccessreviews',
  namespaced: false,
  shape: subjectAccessReviewShape,
  validate: validateSubjectAccessReview,
  wire: {
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
  },
});

export const localSubjectAccessReviewKind = resourceKind<SubjectAccessReview>({
  group: 'authorization.k8s.io',
  kind: 'LocalSubjectAccessReview',
  plural: 'localsubjectaccessreviews',
  namespaced: true,
  shape: subjectAccessReviewShape,
  validate: validateLocalSubjectAccessReview,
  wire: {
    LocalSubjectAccessReview:
      '1 metadata ObjectMeta, 2 spec SubjectAccessReviewSpec, 3 status SubjectAccessReviewStatus',
  },
});

const selfSubjectAccessReviewShape = described(
  { text: 'May I do something?', fields: { spec: 'The question.', status: 'The answer. The server fills it in.' } },
  object({ ...objectFields, spec: required(selfSpec), status }),
);
export interface SelfSubjectAccessReview extends Of<typeof selfSubjectAccessReviewShape> {}

export const selfSubjectAccessReviewKind = resourceKind<SelfSubjectAccessReview>({
  group: 'authorization.k8s.io',
  kind: 'SelfSubjectAccessReview',
  plural: 'selfsubjectaccessreviews',
  namespaced: false,
  shape: selfSubjectAccessReviewShape,
  validate: validateSelfSubjectAccessReview,
  wire: {
    SelfSubjectAccessReview: `
    1 metadata ObjectMeta, 2 spec SelfSubjectAccessReviewSpec, 3 status SubjectAccessReviewStatus`,
    SelfSubjectAccessReviewSpec: `
    1 resourceAttributes? ResourceAttributes, 2 nonResourceAttributes? NonResourceAttributes`,
  },
});

const selfSubjectRulesReviewShape = described(
  {
    text: 'What may I do in a namespace?',
    fields: { spec: 'The question.', status: 'The answer. The server fills it in.' },
  },
  object({
    ...objectFields,
    spec: required(object({ namespace: string })),
    status: object({
      resourceRules: required(
        list(
          object({
            verbs: required(list(string)),
            apiGroups: list(string),
            resources: list(string),
            resourceNames: list(string),
          }),
        ),
      ),
      nonResourceRules: required(list(object({ verbs: required(list(string)), nonResourceURLs: list(string) }))),
      incomplete: required(boolean),
      evaluationError: string,
    }),
  }),
);
export interface SelfSubjectRulesReview extends Of<typeof selfSubjectRulesReviewShape> {}

export const selfSubjectRulesReviewKind = resourceKind<SelfSubjectRulesReview>({
  group: 'authorization.k8s.io',
  kind: 'SelfSubjectRulesReview',
  plural: 'selfsubjectrulesreviews',
  namespaced: false,
  shape: selfSubjectRulesReviewShape,
  wire: {
    SelfSubjectRulesReview:
      '1 metadata ObjectMeta, 2 spec SelfSubjectRulesReviewSpec, 3 status SubjectRulesReviewStatus',
    SelfSubjectRulesReviewSpec: '1 namespace',
    SubjectRulesReviewStatus: `
    1 resourceRules [ResourceRule], 2 nonResourceRules [NonResourceRule], 3 incomplete! bool, 4 evaluationError`,
    ResourceRule: '1 verbs [string], 2 apiGroups [string], 3 resources [string], 4 resourceNames [string]',
    NonResourceRule: '1 verbs [string], 2 nonResourceURLs [string]',
  },
});

/** Rules for questions about access, which say either a resource or a path, and nothing in their metadata. */
function validateSubjectAccessReview({ metadata, spec }: SubjectAccessReview): FieldError[] {
  return [...subjectErrors(spec), ...emptyMetadataErrors(metadata, 'must be empty')];
}

function validateSelfSubjectAccessReview({ metadata, spec }: SelfSubjectAccessReview): FieldError[] {
  return [...accessErrors(spec), ...emptyMetadataErrors(metadata, 'must be empty')];
}

function validateLocalSubjectAccessReview({ metadata, spec }: SubjectAccessReview): FieldError[] {
  const { namespace = '', ...rest } = metadata;
  const errors = [...subjectErrors(spec), ...emptyMetadataErrors(rest, 'must be empty except for namespace')];
  const asked = spec.resourceAttributes?.namespace ?? '';
  if (spec.resourceAttributes !== undefined && asked !== namespace) {
    errors.push(invalidField(['spec', 'resourceAttributes', 'namespace'], asked, 'must match metadata.namespace'));
  }
  if (spec.nonResourceAttributes !== undefined) {
    const detail = 'disallowed on this kind of request';
    errors.push(invalidField(['spec', 'nonResourceAttributes'], spec.nonResourceAttributes, detail));
  }
  return errors;
}

function subjectErrors(spec: SubjectAccessSpec): FieldError[] {
  const { user = '', groups = [] } = spec;
  const isNobody = user === '' && groups.length === 0;
  return [
    ...accessErrors(spec),
    ...(isNobody ? [invalidField(['spec', 'user'], user, 'at least one of user or group must be specified')] : []),
  ];
}

function accessErrors({ resourceAttributes, nonResourceAttributes }: SelfAccessSpec): FieldError[] {
  const detail = 'exactly one of nonResourceAttributes or resourceAttributes must be specified';
  const isOne = (resourceAttributes === undefined) !== (nonResourceAttributes === undefined);
  return [
    ...(isOne ? [] : [invalidField(['spec'], nonResourceAttributes ?? null, detail)]),
    ...(resourceAttributes === undefined ? [] : selectorErrors(resourceAttributes, ['spec', 'resourceAttributes'])),
  ];
}

function selectorErrors({ fieldSelector, labelSelector }: ResourceAttributes, path: FieldPath): FieldError[] {
  const errorsOf = (selector: SelectorAttributes | undefined, here: FieldPath): FieldError[] => {
    if (selector === undefined) return [];
    const { rawSelector = '', requirements = [] } = selector;
    if (rawSelector !== '' && requirements.length > 0) {
      const detail = 'may not specified at the same time as requirements';
      return [invalidField([...here, 'rawSelector'], rawSelector, detail)];
    }
    if (rawSelector !== '' || requirements.length > 0) return [];
    const detail = `when ${showPath(here)} is specified, requirements or rawSelector is required`;
    return [requiredField([...here, 'requirements'], detail)];
  };
  return [
    ...errorsOf(fieldSelector, [...path, 'fieldSelector']),
    ...errorsOf(labelSelector, [...path, 'labelSelector']),
  ];
}

function emptyMetadataErrors(meta: ObjectMeta, detail: string): FieldError[] {
  const { managedFields: _, ...metadata } = meta;
  return isEmpty(metadata) ? [] : [invalidField(['metadata'], metadata, detail)];
}

/** Questions about identity: the user of a token, or of the request itself. Answered, never stored. */
const userInfo = object({ username: string, uid: string, groups: list(string), extra: map(list(string)) });
export interface UserInfo extends Of<typeof userInfo> {}

export const tokenReviewShape = described(
  { text: 'Whose token is this?', fields: { spec: 'The question.', status: 'The answer. The server fills it in.' } },
  object({
    ...objectFields,
    spec: required(object({ token: string, audiences: list(string) })),
    status: object({ authenticated: boolean, user: userInfo, audiences: list(string), error: string }),
  }),
);
export interface TokenReview extends Of<typeof tokenReviewShape> {}

export const tokenReviewKind = resourceKind<TokenReview>({
  group: 'authentication.k8s.io',
  kind: 'TokenReview',
  plural: 'tokenreviews',
  namespaced: false,
  shape: tokenReviewShape,
  wire: {
    TokenReview: '1 metadata ObjectMeta, 2 spec TokenReviewSpec, 3 status TokenReviewStatus',
    TokenReviewSpec: '1 token, 2 audiences [string]',
    TokenReviewStatus: '1 authenticated bool, 2 user UserInfo, 4 audiences [string], 3 error',
    UserInfo: '1 username, 2 uid, 3 groups [string], 4 extra {Strings}',
  },
});

const selfSubjectReviewShape = described(
  { text: 'Who am I?', fields: { status: 'The answer. The server fills it in.' } },
  object({ ...objectFields, status: object({ userInfo }) }),
);
export interface SelfSubjectReview extends Of<typeof selfSubjectReviewShape> {}

export const selfSubjectReviewKind = resourceKind<SelfSubjectReview>({
  group: 'authentication.k8s.io',
  kind: 'SelfSubjectReview',
  plural: 'selfsubjectreviews',
  namespaced: false,
  shape: selfSubjectReviewShape,
  wire: {
    SelfSubjectReview: '1 metadata ObjectMeta, 2 status SelfSubjectReviewStatus',
    SelfSubjectReviewStatus: '1 userInfo UserInfo',
  },
});
