import { bindingShape, evictionShape } from '../../kube/kinds/pod/pod-requests.ts';
import {
  selfSubjectAccessReviewShape,
  selfSubjectReviewShape,
  selfSubjectRulesReviewShape,
  subjectAccessReviewShape,
  tokenReviewShape,
} from '../../kube/kinds/reviews.ts';
import { tokenRequestShape } from '../../kube/kinds/service-account.ts';
import type { Definition } from './definition.ts';

const metadata = 'Name, labels and the rest that every object has.';
const spec = 'The question.';
const status = 'The answer. The server fills it in.';

export const reviewDefinitions: readonly Definition[] = [
  { shape: tokenReviewShape, text: 'Whose token is this?', fields: { metadata, spec, status } },
  { shape: selfSubjectReviewShape, text: 'Who am I?', fields: { metadata, status } },
  { shape: subjectAccessReviewShape, text: 'May somebody do something?', fields: { metadata, spec, status } },
  { shape: selfSubjectAccessReviewShape, text: 'May I do something?', fields: { metadata, spec, status } },
  { shape: selfSubjectRulesReviewShape, text: 'What may I do in a namespace?', fields: { metadata, spec, status } },
  {
    shape: tokenRequestShape,
    text: 'The request for a token of a service account.',
    fields: { metadata, spec: 'What the token is for.', status: 'The token.' },
  },
  { shape: bindingShape, text: 'The order to run a pod on a node.', fields: { metadata, target: 'The node.' } },
  {
    shape: evictionShape,
    text: 'The request to remove a pod from its node.',
    fields: { metadata, deleteOptions: 'How it is deleted.' },
  },
];
