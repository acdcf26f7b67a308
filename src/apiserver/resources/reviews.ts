/** Questions that the API answers: who somebody is, and what they may do. Nothing of them is kept. Bindings are orders of that sort. */
import { type Binding, bindingShape, validateBinding } from '../../kube/kinds/pod/pod-requests.ts';
import {
  type SelfSubjectAccessReview,
  type SelfSubjectReview,
  type SelfSubjectRulesReview,
  type SubjectAccessReview,
  type TokenReview,
  localSubjectAccessReviewShape,
  selfSubjectAccessReviewShape,
  selfSubjectReviewShape,
  selfSubjectRulesReviewShape,
  subjectAccessReviewShape,
  tokenReviewShape,
  validateLocalSubjectAccessReview,
  validateSelfSubjectAccessReview,
  validateSubjectAccessReview,
} from '../../kube/kinds/reviews.ts';
import { ageColumn, nameColumn } from '../model/columns.ts';
import { type KubeObject, type Resource, type ResourceParts, resource } from '../model/resource.ts';

type ReviewParts<T extends KubeObject> = Pick<Resource<T>, 'kind' | 'shape'> & Partial<ResourceParts<T>>;

function review<T extends KubeObject>(parts: ReviewParts<T>): Resource<T> {
  const singular = parts.kind.toLowerCase();
  return resource<T>({
    version: 'v1',
    plural: `${singular}s`,
    singular,
    namespaced: false,
    verbs: ['create'],
    isStored: false,
    validate: () => [],
    validateUpdate: () => [],
    columns: [nameColumn, ageColumn],
    ...parts,
  });
}

const authentication = { group: 'authentication.k8s.io' };
const authorization = { group: 'authorization.k8s.io' };

export const tokenReviews = review<TokenReview>({ ...authentication, kind: 'TokenReview', shape: tokenReviewShape });

export const selfSubjectReviews = review<SelfSubjectReview>({
  ...authentication,
  kind: 'SelfSubjectReview',
  shape: selfSubjectReviewShape,
});

export const subjectAccessReviews = review<SubjectAccessReview>({
  ...authorization,
  kind: 'SubjectAccessReview',
  shape: subjectAccessReviewShape,
  validate: validateSubjectAccessReview,
});

export const localSubjectAccessReviews = review<SubjectAccessReview>({
  ...authorization,
  kind: 'LocalSubjectAccessReview',
  namespaced: true,
  shape: localSubjectAccessReviewShape,
  validate: validateLocalSubjectAccessReview,
});

export const selfSubjectAccessReviews = review<SelfSubjectAccessReview>({
  ...authorization,
  kind: 'SelfSubjectAccessReview',
  shape: selfSubjectAccessReviewShape,
  validate: validateSelfSubjectAccessReview,
});

export const selfSubjectRulesReviews = review<SelfSubjectRulesReview>({
  ...authorization,
  kind: 'SelfSubjectRulesReview',
  shape: selfSubjectRulesReviewShape,
});

export const bindings = review<Binding>({
  kind: 'Binding',
  namespaced: true,
  shape: bindingShape,
  validate: validateBinding,
});
