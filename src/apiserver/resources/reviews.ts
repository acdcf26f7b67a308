/** Questions that the API answers: who somebody is, and what they may do. Nothing of them is kept. Bindings are orders of that sort. */
import {
  type SelfSubjectAccessReview,
  type SelfSubjectRulesReview,
  type SubjectAccessReview,
  localSubjectAccessReview,
  selfSubjectAccessReview,
  selfSubjectRulesReview,
  subjectAccessReview,
} from '../../kube/objects/access-review.ts';
import { type Binding, binding } from '../../kube/objects/binding.ts';
import {
  type SelfSubjectReview,
  type TokenReview,
  selfSubjectReview,
  tokenReview,
} from '../../kube/objects/token-review.ts';
import {
  validateLocalSubjectAccessReview,
  validateSelfSubjectAccessReview,
  validateSubjectAccessReview,
} from '../../kube/validation/validate-access-review.ts';
import { validateBinding } from '../../kube/validation/validate-binding.ts';
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

export const tokenReviews = review<TokenReview>({ ...authentication, kind: 'TokenReview', shape: tokenReview });

export const selfSubjectReviews = review<SelfSubjectReview>({
  ...authentication,
  kind: 'SelfSubjectReview',
  shape: selfSubjectReview,
});

export const subjectAccessReviews = review<SubjectAccessReview>({
  ...authorization,
  kind: 'SubjectAccessReview',
  shape: subjectAccessReview,
  validate: validateSubjectAccessReview,
});

export const localSubjectAccessReviews = review<SubjectAccessReview>({
  ...authorization,
  kind: 'LocalSubjectAccessReview',
  namespaced: true,
  shape: localSubjectAccessReview,
  validate: validateLocalSubjectAccessReview,
});

export const selfSubjectAccessReviews = review<SelfSubjectAccessReview>({
  ...authorization,
  kind: 'SelfSubjectAccessReview',
  shape: selfSubjectAccessReview,
  validate: validateSelfSubjectAccessReview,
});

export const selfSubjectRulesReviews = review<SelfSubjectRulesReview>({
  ...authorization,
  kind: 'SelfSubjectRulesReview',
  shape: selfSubjectRulesReview,
});

export const bindings = review<Binding>({
  kind: 'Binding',
  namespaced: true,
  shape: binding,
  validate: validateBinding,
});
