/** Questions that the API answers: who a user is, and what they may do. None of them is stored. Bindings are answered in the same way. */
import { bindingKind } from '../../kube/kinds/pod/pod-requests.ts';
import {
  localSubjectAccessReviewKind,
  selfSubjectAccessReviewKind,
  selfSubjectReviewKind,
  selfSubjectRulesReviewKind,
  subjectAccessReviewKind,
  tokenReviewKind,
} from '../../kube/kinds/reviews.ts';
import type { ResourceKind } from '../../kube/schema/kind.ts';
import { ageColumn, nameColumn } from '../model/columns.ts';
import { type KubeObject, type Resource, resource } from '../model/resource.ts';

function review<T extends KubeObject>(kind: ResourceKind<T>): Resource<T> {
  return resource(kind, { verbs: ['create'], isStored: false, columns: [nameColumn, ageColumn] });
}

export const tokenReviews = review(tokenReviewKind);
export const selfSubjectReviews = review(selfSubjectReviewKind);
export const subjectAccessReviews = review(subjectAccessReviewKind);
export const localSubjectAccessReviews = review(localSubjectAccessReviewKind);
export const selfSubjectAccessReviews = review(selfSubjectAccessReviewKind);
export const selfSubjectRulesReviews = review(selfSubjectRulesReviewKind);
export const bindings = review(bindingKind);
