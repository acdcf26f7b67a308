import {
  selfSubjectAccessReview,
  selfSubjectRulesReview,
  subjectAccessReview,
} from '../../kube/objects/access-review.ts';
import { binding } from '../../kube/objects/binding.ts';
import { eviction } from '../../kube/objects/eviction.ts';
import { tokenRequest } from '../../kube/objects/token-request.ts';
import { selfSubjectReview, tokenReview } from '../../kube/objects/token-review.ts';
import type { Definition } from './definition.ts';

const metadata = 'Name, labels and the rest that every object has.';
const spec = 'The question.';
const status = 'The answer. The server fills it in.';

export const reviewDefinitions: readonly Definition[] = [
  { shape: tokenReview, text: 'Whose token is this?', fields: { metadata, spec, status } },
  { shape: selfSubjectReview, text: 'Who am I?', fields: { metadata, status } },
  { shape: subjectAccessReview, text: 'May somebody do something?', fields: { metadata, spec, status } },
  { shape: selfSubjectAccessReview, text: 'May I do something?', fields: { metadata, spec, status } },
  { shape: selfSubjectRulesReview, text: 'What may I do in a namespace?', fields: { metadata, spec, status } },
  {
    shape: tokenRequest,
    text: 'The request for a token of a service account.',
    fields: { metadata, spec: 'What the token is for.', status: 'The token.' },
  },
  { shape: binding, text: 'The order to run a pod on a node.', fields: { metadata, target: 'The node.' } },
  {
    shape: eviction,
    text: 'The request to remove a pod from its node.',
    fields: { metadata, deleteOptions: 'How it is deleted.' },
  },
];
