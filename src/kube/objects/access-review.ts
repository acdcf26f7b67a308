/** Questions about what somebody may do. Answered, never stored. */
import { objectFields } from './metadata.ts';
import { boolean, list, map, object, required, string } from './schema.ts';
import type { Of } from './schema.ts';

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

export interface SelfAccessSpec extends Of<typeof selfSpec> {}
export interface SubjectAccessSpec extends Of<typeof subjectSpec> {}
export type ResourceAttributes = NonNullable<SelfAccessSpec['resourceAttributes']>;
export interface SelectorAttributes extends Of<typeof selectorAttributes> {}

export const subjectAccessReview = object({ ...objectFields, spec: required(subjectSpec), status });
export interface SubjectAccessReview extends Of<typeof subjectAccessReview> {}

export const localSubjectAccessReview = subjectAccessReview;

export const selfSubjectAccessReview = object({ ...objectFields, spec: required(selfSpec), status });
export interface SelfSubjectAccessReview extends Of<typeof selfSubjectAccessReview> {}

export const selfSubjectRulesReview = object({
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
});
export interface SelfSubjectRulesReview extends Of<typeof selfSubjectRulesReview> {}
